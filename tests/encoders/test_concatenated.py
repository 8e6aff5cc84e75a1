"""Concatenated encoders: vectors side by side, training, folders, refusals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import encoders
from data.batch import Tokens
from data.errors import UserError
from encoders.bag_of_words import BagOfWords
from encoders.concatenated import Concatenated
from encoders.fingerprint import fingerprint
from tests.encoders import models
from tests.encoders.bilstms import ROWS, SENTENCES, texts, tiny


def pair() -> Concatenated:
    """Returns two encoders of one vocabulary and different widths, concatenated."""
    return Concatenated([tiny(), tiny(hidden=3, layers=2)])


@pytest.fixture
def folders(tmp_path: Path) -> list[str]:
    """Returns the folders of two encoders with different tokenizers."""
    (tmp_path / "vectors.txt").write_text("the 1 2\ndog 3 4\ncat 5 -6\n")
    BagOfWords(vectors=str(tmp_path / "vectors.txt")).save(tmp_path / "bag")
    tiny().save(tmp_path / "bilstm")
    return [str(tmp_path / "bag"), str(tmp_path / "bilstm")]


def test_states_and_vectors_stand_side_by_side() -> None:
    encoder = pair()
    first, second = encoder.members
    tokens = Tokens.pad(ROWS, encoder.format.pad_id)
    encoding, *parts = (model(tokens) for model in (encoder, first, second))
    assert (encoder.dimension, encoder.state_dimension) == (14, 14)
    assert torch.equal(encoding.states, torch.cat([part.states for part in parts], dim=2))
    assert torch.equal(encoding.sentence, torch.cat([part.sentence for part in parts], dim=1))
    assert torch.equal(encoding.mask, tokens.mask)
    torch.testing.assert_close(encoder.vectors(tokens), encoding.sentence)
    vectors = encoder.encode(SENTENCES)
    assert vectors.shape == (6, 14) and vectors.dtype == np.float32
    np.testing.assert_array_equal(vectors, np.hstack([first.encode(SENTENCES), second.encode(SENTENCES)]))
    normalized = encoder.encode(SENTENCES, normalize_embeddings=True)
    np.testing.assert_allclose(normalized, vectors / np.linalg.norm(vectors, axis=1, keepdims=True), rtol=1e-5)
    assert encoder.encode([]).shape == (0, 14)
    assert encoder.forward_flops(7, 3.5) == first.forward_flops(7, 3.5) + second.forward_flops(7, 3.5)


def test_both_members_are_trained() -> None:
    encoder = pair().train()
    assert all(member.training for member in encoder.members)
    encoder(Tokens.pad(ROWS, 1)).sentence.sum().backward()
    assert all(weight.grad is not None and weight.grad.abs().sum() > 0 for weight in encoder.parameters())
    member = encoder.members[0]
    before = [weight.grad.clone() for weight in member.parameters() if weight.grad is not None]
    member.zero_grad()
    member(Tokens.pad(ROWS, 1)).sentence.sum().backward()
    for weight, gradient in zip(member.parameters(), before, strict=True):
        assert weight.grad is not None
        torch.testing.assert_close(weight.grad, gradient)


def test_a_folder_holds_both_members_and_each_opens_by_itself(tmp_path: Path) -> None:
    encoder = pair()
    vectors, before = encoder.encode(SENTENCES), fingerprint(encoder)
    encoder.save(tmp_path / "both")
    reloaded = encoders.load(tmp_path / "both")
    assert isinstance(reloaded, Concatenated) and not reloaded.training and not reloaded.untrained
    np.testing.assert_array_equal(reloaded.encode(SENTENCES), vectors)
    assert fingerprint(reloaded) == before
    assert reloaded.weights == "random" and reloaded.format == encoder.format
    assert reloaded.origin == f"continued from {tmp_path / 'both'}; before that: {encoder.origin}"
    assert encoder.origin == "; ".join(f"{n} of 2: {m.origin}" for n, m in enumerate(encoder.members, start=1))
    assert encoder.untrained
    single = pytest.importorskip("sentence_transformers").SentenceTransformer(
        str(tmp_path / "both" / "encoder_2"), device="cpu"
    )
    np.testing.assert_allclose(single.encode(SENTENCES), vectors[:, 8:], atol=1e-5)
    np.testing.assert_array_equal(encoders.load(tmp_path / "both" / "encoder_1").encode(SENTENCES), vectors[:, :8])
    card = (tmp_path / "both" / "README.md").read_text()
    assert "Only this suite can open the folder as a whole" in card and "encoders.load(" in card
    assert "SentenceTransformer(" not in card and "library_name" not in card
    reloaded.save(tmp_path / "both", card="# A card\n")
    assert (tmp_path / "both" / "README.md").read_text() == "# A card\n"
    nested = Concatenated([reloaded, tiny()])
    nested.save(tmp_path / "nested")
    assert fingerprint(encoders.load(tmp_path / "nested")) == fingerprint(nested)


def test_encoders_of_different_tokenizers_can_only_encode(folders: list[str], tmp_path: Path) -> None:
    encoder = Concatenated(paths=folders)
    bag, bilstm = (encoders.load(path) for path in folders)
    expected = np.hstack([bag.encode(SENTENCES), bilstm.encode(SENTENCES)])
    np.testing.assert_array_equal(encoder.encode(SENTENCES), expected)
    generator = (text for text in SENTENCES)
    np.testing.assert_array_equal(encoder.encode(generator), expected)  # type: ignore[arg-type]
    assert encoder.weights == "random"  # the BiLSTM's
    with pytest.raises(ValueError):
        encoder(Tokens.pad(ROWS, 1))
    with pytest.raises(UserError):
        Concatenated(paths=folders, texts=texts)
    encoder.save(tmp_path / "both")
    reloaded = Concatenated.load(tmp_path / "both")
    np.testing.assert_array_equal(reloaded.encode(SENTENCES), expected)
    assert fingerprint(reloaded) == fingerprint(encoder)


def test_a_transformer_can_be_joined_with_a_bilstm() -> None:
    encoder = Concatenated([tiny(), models.tiny()])
    assert encoder.encode(SENTENCES).shape == (6, 8 + 32)


def test_tokenizers_of_different_maximum_lengths_are_different(tmp_path: Path) -> None:
    tiny().save(tmp_path / "one")
    tiny(max_length=4).save(tmp_path / "two")
    with pytest.raises(UserError):
        Concatenated(paths=[str(tmp_path / "one"), str(tmp_path / "two")], texts=texts)
    encoder = Concatenated(paths=[str(tmp_path / "one")] * 2, texts=texts)
    assert encoder(Tokens.pad(ROWS, 1)).sentence.shape == (6, 16)
    assert not encoder.untrained and encoder.weights == "random"


def test_every_setting_that_changes_vectors_changes_the_fingerprint() -> None:
    fingerprints = {fingerprint(pair()), fingerprint(Concatenated([tiny(hidden=3, layers=2), tiny()]))}
    changed = pair()
    with torch.no_grad():
        next(iter(changed.members[1].parameters())).view(-1)[3] += 1e-6
    fingerprints |= {
        fingerprint(changed),
        fingerprint(Concatenated([tiny(), tiny(hidden=3, layers=2, max_length=9)])),
    }
    assert len(fingerprints) == 4 and fingerprint(pair()) in fingerprints


def test_the_fallback_of_a_member_is_reported() -> None:
    assert pair().fallback is None
    encoder = pair()
    vars(encoder.members[1])["fallback"] = "other weights"  # an attribute of transformers only
    assert Concatenated([*encoder.members, tiny()]).fallback == "other weights"


def test_impossible_arguments_are_refused(folders: list[str], tmp_path: Path) -> None:
    with pytest.raises(UserError):
        Concatenated()
    with pytest.raises(UserError):
        Concatenated(paths=["a"])
    with pytest.raises(UserError):
        Concatenated([tiny()])
    with pytest.raises(UserError):
        Concatenated(paths=folders, weights="random")
    with pytest.raises(UserError):
        Concatenated(paths=folders, require_mask_token=True)
    with pytest.raises(UserError):
        Concatenated(paths=[*folders, "./nowhere"])
    with pytest.raises(UserError):
        Concatenated.load(tmp_path / "absent")
    encoder = pair()
    assert not encoder.has_mlm_head and encoder.head_flops(3) == 0
    with pytest.raises(ValueError):
        encoder.token_logits(torch.zeros(1, 14))
    encoder.save(tmp_path / "both")
    with pytest.raises(UserError):
        encoders.load(tmp_path / "both", pooling="cls")
