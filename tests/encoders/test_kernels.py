"""Switches of GPU kernels: each sets its option and restores it; attention runs without cuDNN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from encoders import kernels
from tests.encoders.models import SENTENCES, tiny


def float32_settings() -> tuple[bool, str]:
    return torch.backends.cudnn.allow_tf32, torch.get_float32_matmul_precision()


@pytest.mark.parametrize(
    ("context", "flags", "inside"),
    [
        (kernels.without_cudnn_attention(torch.device("cuda")), torch.backends.cuda.cudnn_sdp_enabled, False),
        (kernels.float32_products("fp32"), float32_settings, (False, "highest")),
        (kernels.float32_products("tf32"), float32_settings, (True, "high")),
    ],
)
def test_options_are_set_inside_the_context(context: Any, flags: Callable[[], Any], inside: Any) -> None:
    before = flags()
    with pytest.raises(KeyError), context:
        assert flags() == inside
        raise KeyError
    assert flags() == before


def test_a_lower_precision_changes_vectors_and_fingerprint_until_its_context_ends() -> None:
    encoder = tiny()
    exact, key = encoder.encode(SENTENCES), encoder.fingerprint()
    encoder.precision = "bf16"
    rounded = encoder.encode(SENTENCES)
    assert 1e-5 < np.abs(rounded - exact).max() < 0.1 and rounded.dtype == np.float32
    assert encoder.fingerprint() != key
    encoder.precision = "fp32"
    assert np.array_equal(encoder.encode(SENTENCES), exact) and encoder.fingerprint() == key
