"""Switches of GPU kernels: each sets its option and restores it; attention runs without cuDNN."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from encoders import kernels
from tests.encoders.models import SENTENCES, tiny

CUDA = torch.device("cuda")


@pytest.mark.parametrize("enabled", [True, False])
def test_cudnns_attention_is_off_inside_the_context(enabled: bool) -> None:
    before = torch.backends.cuda.cudnn_sdp_enabled()
    torch.backends.cuda.enable_cudnn_sdp(enabled)
    for device, inside in (("cuda", False), ("cpu", enabled)):
        with pytest.raises(KeyError), kernels.without_cudnn_attention(torch.device(device)):
            assert torch.backends.cuda.cudnn_sdp_enabled() == inside
            raise KeyError
        assert torch.backends.cuda.cudnn_sdp_enabled() == enabled
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
    exact, key = encoder.encode(SENTENCES), encoder.fingerprint()
    encoder.precision = "bf16"
    rounded = encoder.encode(SENTENCES)
    assert 1e-5 < np.abs(rounded - exact).max() < 0.1 and rounded.dtype == np.float32
    assert encoder.fingerprint() != key
    encoder.precision = "fp32"
    assert np.array_equal(encoder.encode(SENTENCES), exact) and encoder.fingerprint() == key
