"""Switches of GPU kernels: each sets its option and restores it; attention runs without cuDNN."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import torch

from data.batch import Tokens
from data.errors import UserError
from encoders import kernels
from encoders.concatenated import Concatenated
from encoders.fingerprint import fingerprint
from objectives.tied_decoder import TiedDecoder
from tests.encoders.models import SENTENCES, tiny

CUDA = torch.device("cuda")


def cudnn_attention() -> bool:
    return torch.backends.cuda.cudnn_sdp_enabled()


@pytest.mark.parametrize("enabled", [True, False])
def test_cudnns_attention_is_off_inside_the_context(enabled: bool) -> None:
    before = cudnn_attention()
    torch.backends.cuda.enable_cudnn_sdp(enabled)
    try:
        with pytest.raises(KeyError), kernels.without_cudnn_attention(CUDA):
            assert not cudnn_attention()
            raise KeyError
        assert cudnn_attention() == enabled
        with kernels.without_cudnn_attention(torch.device("cpu")):
            assert cudnn_attention() == enabled
    finally:
        torch.backends.cuda.enable_cudnn_sdp(before)


@pytest.mark.parametrize(("precision", "tf32", "matmul"), [("fp32", False, "highest"), ("tf32", True, "high")])
def test_tf32_is_used_only_on_request(precision: kernels.Precision, tf32: bool, matmul: str) -> None:
    before = torch.backends.cudnn.allow_tf32, torch.get_float32_matmul_precision()
    with pytest.raises(KeyError), kernels.float32_products(precision):
        assert (torch.backends.cudnn.allow_tf32, torch.get_float32_matmul_precision()) == (tf32, matmul)
        raise KeyError
    assert (torch.backends.cudnn.allow_tf32, torch.get_float32_matmul_precision()) == before


def test_a_lower_precision_changes_vectors_and_fingerprint_until_its_context_ends() -> None:
    encoder = tiny()
    exact, key = encoder.encode(SENTENCES), fingerprint(encoder)
    encoder.encode_in("bf16")
    rounded = encoder.encode(SENTENCES)
    assert 1e-5 < np.abs(rounded - exact).max() < 0.1 and rounded.dtype == np.float32
    assert fingerprint(encoder) != key
    encoder.encode_in("fp32")
    assert np.array_equal(encoder.encode(SENTENCES), exact) and fingerprint(encoder) == key


def test_a_precision_that_the_device_lacks_is_refused() -> None:
    encoder = tiny()
    with pytest.raises(UserError):
        encoder.encode_in("tf32")
    with pytest.raises(UserError):
        encoder.encode_in("fp8")  # type: ignore[arg-type]


def test_members_of_concatenated_encoders_take_the_precision() -> None:
    both = Concatenated([tiny(), tiny()])
    both.encode_in("bf16")
    assert {member.precision for member in both.members} == {"bf16"}


def test_every_transformer_attends_without_cudnn(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = tiny()
    decoder = TiedDecoder(encoder).eval()
    open_contexts: list[torch.device] = []
    open_counts: list[int] = []

    @contextmanager
    def recorded(device: torch.device) -> Iterator[None]:
        open_contexts.append(device)
        yield
        open_contexts.pop()

    monkeypatch.setattr(kernels, "without_cudnn_attention", recorded)
    for layer in (*encoder.backbone.encoder.layer, *decoder._body[0].encoder.layer):
        layer.attention.register_forward_hook(lambda *_: open_counts.append(len(open_contexts)))
    tokens = Tokens.pad([encoder.format.wrap(torch.arange(5, 9).numpy())], encoder.format.pad_id)
    decoder.states(encoder, encoder(tokens).sentence, tokens)
    assert open_counts == [1] * 4 and not open_contexts
