"""Memory of a training process: its peak, and the release of freed memory."""

from __future__ import annotations

import ctypes
import resource
import sys
from contextlib import suppress

import torch


def peak_gib(device: torch.device) -> float:
    """Returns the peak memory so far, of the GPU or else of this process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**30
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**30 if sys.platform == "darwin" else 2**20)


def release() -> None:
    """Returns freed memory to the system, where the C library is glibc.

    Batches of changing sizes fragment its heap: otherwise a run takes more with every step, gigabytes in the end.
    """
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):  # another C library
            ctypes.CDLL("libc.so.6").malloc_trim(0)
