"""Deterministic kernels: switched on for one run, recorded, and switched off afterwards."""

from __future__ import annotations

import os

import pytest
import torch

from experiments.determinism import CUBLAS, deterministic


def flags() -> tuple[int, str | None]:
    return torch.get_deterministic_debug_mode(), os.environ.get(CUBLAS)


def test_deterministic_flags_are_set_and_restored() -> None:
    before = flags()
    with pytest.raises(KeyError), deterministic(True):
        assert flags() == (2, ":4096:8")
        raise KeyError
    assert flags() == before
    with deterministic(False):
        assert flags() == before
