"""Deterministic kernels of torch, with which equal runs on a GPU give equal bits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from accelerate.utils import patch_environment

CUBLAS = "CUBLAS_WORKSPACE_CONFIG"  # read by cuBLAS when a process' first product is computed


@contextmanager
def deterministic(enabled: bool) -> Iterator[None]:
    """Uses torch's deterministic kernels inside the block, if ``enabled``, and restores the setting.

    cuDNN's kernels and attention's backward pass are among them. A CPU's kernels are deterministic anyway. An
    operation without such a kernel raises torch's RuntimeError.
    """
    mode = torch.get_deterministic_debug_mode()
    torch.use_deterministic_algorithms(enabled)
    try:
        with patch_environment(**({CUBLAS: ":4096:8"} if enabled else {})):
            yield
    finally:
        torch.set_deterministic_debug_mode(mode)
