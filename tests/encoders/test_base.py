"""Sub-batches of similar length; saving and loading."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from data.batch import Tokens
from data.errors import UserError
from encoders import base
from encoders.transformer import Transformer
from tests.encoders.models import SENTENCES, tiny, tokens_of


def test_sub_batches_give_the_vectors_of_one_pass_with_less_padding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "LEAST_SAVING", 8)
    encoder = tiny()
    lengths = (5, 20, 3, 4, 20, 6, 11, 3, 12, 21)
    tokens = tokens_of(encoder, lengths)
    weights = list(encoder.parameters())
    expected = encoder(tokens).sentence
    weighting = torch.randn_like(expected)
    expected_gradients = torch.autograd.grad((expected * weighting).sum(), weights, allow_unused=True)
    areas: list[int] = []
    forward = encoder.forward

    def counting(part: Tokens) -> base.Encoding:
        areas.append(part.ids.numel())
        return forward(part)

    monkeypatch.setattr(encoder, "forward", counting)
    vectors = encoder.vectors(tokens)
    torch.testing.assert_close(vectors, expected, atol=1e-6, rtol=0)
    assert len(areas) > 2 and sum(areas) < 0.6 * tokens.ids.numel()
    gradients = torch.autograd.grad((vectors * weighting).sum(), weights, allow_unused=True)
    for gradient, expected_gradient in zip(gradients, expected_gradients, strict=True):
        torch.testing.assert_close(gradient, expected_gradient, atol=1e-5, rtol=1e-4)
    areas.clear()
    encoder.vectors(tokens_of(encoder, (7, 7, 7)))
    assert areas == [21]  # equal lengths: one sub-batch


def test_saving_replaces_only_an_encoders_folder(tmp_path: Path) -> None:
    encoder = tiny()
    encoder.save(tmp_path / "encoder")
    encoder.save(tmp_path / "encoder", card="# A card\n")
    assert (tmp_path / "encoder" / "README.md").read_text() == "# A card\n"
    assert [path.name for path in tmp_path.iterdir()] == ["encoder"]
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "thesis.tex").write_text("years of work")
    with pytest.raises(UserError):
        encoder.save(tmp_path / "thesis")
    assert [path.name for path in (tmp_path / "thesis").iterdir()] == ["thesis.tex"]


def test_a_failed_save_leaves_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = tiny()
    monkeypatch.setattr(
        "encoders.transformer.write_layout", lambda *_: (_ for _ in ()).throw(OSError("disk full"))
    )
    with pytest.raises(OSError, match="disk full"):
        encoder.save(tmp_path / "encoder")
    assert not list(tmp_path.iterdir())


def test_load_is_the_counterpart_of_save(tmp_path: Path) -> None:
    encoder = tiny()
    encoder.save(tmp_path / "encoder")
    assert np.array_equal(Transformer.load(tmp_path / "encoder").encode(SENTENCES), encoder.encode(SENTENCES))
