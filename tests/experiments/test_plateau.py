"""Schedules that use the dev metric: the learning rate follows from the accuracies in the journal."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from experiments import experiment
from tests.experiments import tiny

ANNEALED = ("schedule=annealed", "schedule.drop=0.5", "budget.steps=null", "threads=1", "dev_every=100")


pytestmark = pytest.mark.usefixtures("without_plots")


@pytest.fixture(autouse=True)
def resumable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps the optimizer states of finished runs, as a test resumes them."""
    monkeypatch.setattr(experiment.checkpoint, "finish", lambda root: None)


def check_rates(run: Path, epochs: int, peak: float, metric: str) -> list[int]:
    """Compares the rates in the journal with those that follow from the dev metric after each epoch.

    Returns the steps at which the rate dropped.
    """
    lines = tiny.metrics(run)
    rates = [line["lr"] for line in lines if "loss" in line]
    epoch = len(rates) // epochs
    values = {line["step"]: line[metric] for line in lines if metric in line}
    assert set(values) == set(range(0, len(rates) + 1, epoch))
    best, dropped, expected = -float("inf"), [], []
    for step in range(len(rates)):
        if step and step % epoch == 0:
            if values[step] <= best:
                dropped.append(step)
            best = max(best, values[step])
        expected.append(peak * 0.99 ** (step // epoch) * 0.5 ** len(dropped))
    assert rates == pytest.approx(expected)
    assert dropped  # otherwise the test shows nothing
    return dropped


def test_evaluation_is_a_tenth_of_the_compute(tmp_path: Path) -> None:
    """A dev batch costs a third of a training batch; an epoch of 10 batches affords 3, and 8 are the least."""
    run = tiny.train(tiny.check(tiny.conssent(tmp_path, "budget.steps=60", f"run_dir={tmp_path / 'run'}")))
    steps = [
        line["step"] for line in tiny.metrics(run) if "dev_NR" in line or "dev_R" in line or "loss" not in line
    ]
    assert steps[0] == 0 and steps[-1] == 60 and len(steps) <= 8


def test_the_rate_follows_dev_accuracy_in_a_resumed_run(tmp_path: Path) -> None:
    """A resumed run must keep the best accuracy so far and the number of epochs that did not exceed it."""
    task = ("objective.task=R", "objective.k=2", "objective.noise=uniform", "optimizer=adam", "optimizer.lr=2e-2")
    kept = ("checkpoint.every=1", "checkpoint.keep_last=100", "budget.epochs=10", f"run_dir={tmp_path / 'run'}")
    run = tiny.train(tiny.check(tiny.conssent(tmp_path, *ANNEALED, *task, *kept)))
    dropped = check_rates(run, 10, 2e-2, "dev_R_accuracy")
    for step in (dropped[0] + 1, dropped[-1] - 1):  # after a drop; just before the next comparison of accuracy
        shutil.copytree(run, again := tmp_path / f"again-{step}")
        for checkpoint in (again / "checkpoints").iterdir():
            if int(checkpoint.name.removeprefix("step-")) > step:
                shutil.rmtree(checkpoint)
        state = json.loads((again / "checkpoints" / f"step-{step:08d}" / "state.json").read_text())
        assert state["drops"] == sum(end <= step for end in dropped) > 0
        tiny.resume(again, tmp_path / "cache")
        assert (again / "metrics.jsonl").read_bytes() == (run / "metrics.jsonl").read_bytes()
