"""Deterministic kernels of torch, with which equal runs on a GPU give equal bits."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from data.environment import environment
from data.errors import UserError, reason

CUBLAS = "CUBLAS_WORKSPACE_CONFIG"  # read by cuBLAS when a process' first product is computed


@contextmanager
def deterministic(enabled: bool) -> Iterator[None]:
    """Uses torch's deterministic kernels inside the block, if ``enabled``, and restores the settings.

    Attention's backward pass is among them. A CPU's kernels are deterministic anyway.

    Raises:
        UserError: if an operation has no such kernel.
    """
    if not enabled:
        yield
        return
    cudnn = torch.backends.cudnn
    mode = torch.get_deterministic_debug_mode()
    torch.use_deterministic_algorithms(True)
    try:
        with (
            environment({CUBLAS: os.environ.get(CUBLAS) or ":4096:8"}),
            cudnn.flags(enabled=cudnn.enabled, benchmark=False, deterministic=True, allow_tf32=cudnn.allow_tf32),
        ):
            yield
    except RuntimeError as error:
        if "deterministic" not in str(error):
            raise
        raise UserError(reason(error), key="deterministic=true") from error
    finally:
        torch.set_deterministic_debug_mode(mode)
