"""Deterministic kernels: set for one run, recorded, and gone after it."""

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


@pytest.mark.parametrize("given", [None, ":16:8"])
def test_deterministic_flags_are_set_and_restored(given: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CUBLAS, raising=False)
    if given:
        monkeypatch.setenv(CUBLAS, given)
    before = flags()
    with pytest.raises(KeyError), deterministic(True):
        assert flags() == (2, True, False, given or ":4096:8")
        raise KeyError
    assert flags() == before
    with deterministic(False):
        assert flags() == before


def test_an_operation_without_a_deterministic_kernel_is_named() -> None:
    line = r"^deterministic=true: put_ does not have .* set \.\.\.$"
    with pytest.raises(UserError, match=line), deterministic(True):
        raise RuntimeError("put_ does not have a deterministic implementation, but you set ...\nFurther lines.")
    with pytest.raises(RuntimeError, match="another"), deterministic(True):
        raise RuntimeError("another fault")


def test_a_run_records_determinism_and_the_next_run_of_a_sweep_is_unaffected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    run = experiment._run

    def noted(*arguments: Any) -> None:
        seen.append(torch.get_deterministic_debug_mode())
        run(*arguments)

    monkeypatch.setattr(experiment, "_run", noted)
    monkeypatch.setattr(experiment.training, "draw", lambda _: [Path("none.png")])
    runs = [
        tiny.run(tmp_path, "budget.steps=2", f"deterministic={on}", f"run_dir={tmp_path / on}")
        for on in ("true", "false")
    ]
    assert seen == [2, 0]
    recorded = [yaml.safe_load((run / "config.yaml").read_text())["deterministic"] for run in runs]
    assert recorded == [True, False]
    assert tiny.metrics(runs[0]) == tiny.metrics(runs[1])  # the bits of a CPU stay
