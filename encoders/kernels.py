"""Selects a GPU's kernels: attention for shapes that change at every step, products of a given precision."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Literal

import torch

Precision = Literal["fp32", "tf32", "bf16"]


@contextmanager
def without_cudnn_attention(device: torch.device) -> Iterator[None]:
    """Keeps SDPA on a CUDA ``device`` from cuDNN's kernels, which build a plan for each new shape.

    On Hopper GPUs torch prefers them from 2.11 on. The backward pass takes the kernel of the forward pass. On
    other devices nothing changes.
    """
    enabled = torch.backends.cuda.cudnn_sdp_enabled()
    torch.backends.cuda.enable_cudnn_sdp(enabled and device.type != "cuda")
    try:
        yield
    finally:
        torch.backends.cuda.enable_cudnn_sdp(enabled)


@contextmanager
def float32_products(precision: Precision) -> Iterator[None]:
    """Computes a GPU's float32 products with 10 mantissa bits (TF32) if ``precision`` is "tf32", else with 23.

    By default, torch uses 10 in cuDNN's recurrent kernels and 23 elsewhere.
    """
    cudnn = torch.backends.cudnn
    before = cudnn.allow_tf32, torch.get_float32_matmul_precision()
    cudnn.allow_tf32 = precision == "tf32"
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    try:
        yield
    finally:
        cudnn.allow_tf32 = before[0]
        torch.set_float32_matmul_precision(before[1])


def autocast_dtype(device: torch.device) -> torch.dtype | None:
    """Returns the type of autocast's products on ``device``; None where it is off, and on the meta device."""
    kind = device.type
    return torch.get_autocast_dtype(kind) if kind != "meta" and torch.is_autocast_enabled(kind) else None


def without_autocast(device: torch.device) -> AbstractContextManager[None]:
    """Switches autocast off on ``device``."""
    return nullcontext() if autocast_dtype(device) is None else torch.autocast(device.type, enabled=False)
