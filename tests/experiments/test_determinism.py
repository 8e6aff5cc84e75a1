"""Deterministic kernels: switched on for one run, recorded, and switched off afterwards."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from data.errors import UserError
from experiments import experiment
from experiments.determinism import CUBLAS, deterministic
from tests.experiments import tiny


def flags() -> tuple[Any, ...]:
    cudnn = torch.backends.cudnn
    return torch.get_deterministic_debug_mode(), cudnn.deterministic, cudnn.benchmark, os.environ.get(CUBLAS)


@pytest.mark.parametrize("workspace", [None, ":16:8"])
def test_deterministic_flags_are_set_and_restored(workspace: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CUBLAS, raising=False)
    if workspace:
        monkeypatch.setenv(CUBLAS, workspace)
    before = flags()
    with pytest.raises(KeyError), deterministic(True):
        assert flags() == (2, True, False, workspace or ":4096:8")
        raise KeyError
    assert flags() == before
    with deterministic(False):
        assert flags() == before


def test_an_operation_without_a_deterministic_kernel_is_named() -> None:
    with pytest.raises(UserError, match=r"^deterministic=true: put_"), deterministic(True):
        raise RuntimeError("put_ does not have a deterministic implementation, but you set ...\nFurther lines.")
    with pytest.raises(RuntimeError, match="another"), deterministic(True):
        raise RuntimeError("another fault")


@pytest.mark.usefixtures("without_plots")
def test_a_run_records_determinism_and_the_next_run_of_a_sweep_is_unaffected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modes: list[int] = []
    original = experiment.run_stages

    def recording(*arguments: Any) -> None:
        assert not torch.backends.cudnn.allow_tf32  # float32 products are exact, in recurrent layers too
        modes.append(torch.get_deterministic_debug_mode())
        original(*arguments)

    monkeypatch.setattr(experiment, "run_stages", recording)
    runs = [
        tiny.run(tmp_path, "budget.steps=2", f"deterministic={on}", f"run_dir={tmp_path / on}")
        for on in ("true", "false")
    ]
    assert modes == [2, 0]
    recorded = [yaml.safe_load((run / "config.yaml").read_text())["deterministic"] for run in runs]
    assert recorded == [True, False]
    assert tiny.metrics(runs[0]) == tiny.metrics(runs[1])  # on a CPU the bits are the same either way
