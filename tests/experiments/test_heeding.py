"""A schedule that heeds the dev set: the learning rate follows from the journal's own measurements."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments import compose, experiment
from tests.experiments import tiny

HEEDING = ("schedule=annealed", "schedule.drop=0.5", "threads=1", "dev_every=100", "optimizer.lr=3e-2")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiment.training, "draw", lambda folder: [folder / "none.png"])


def test_the_rate_falls_with_epochs_and_where_dev_got_no_better(tmp_path: Path) -> None:
    run = tiny.run(tmp_path, *HEEDING, "budget.epochs=6", "budget.steps=null", f"run_dir={tmp_path / 'run'}")
    lines = tiny.metrics(run)
    steps = [line for line in lines if "loss" in line]
    epoch = len(steps) // 6
    dev = {line["step"]: line["dev_contrastive"] for line in lines if "dev_contrastive" in line}
    assert set(dev) == {0, *range(epoch, len(steps) + 1, epoch)}
    best, drops, expected = float("inf"), 0, []
    for step in range(len(steps)):
        if step and step % epoch == 0:
            if dev[step] < best:
                best = dev[step]
            else:
                drops += 1
        expected.append(3e-2 * 0.99 ** (step // epoch) * 0.5**drops)
    assert [line["lr"] for line in steps] == pytest.approx(expected)
    assert drops  # else this shows nothing


def test_training_ends_below_the_schedules_least_rate_and_goes_on_no_further(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    more = ("schedule.decay=0.1", "schedule.stop=1e-3", "budget.epochs=9", "budget.steps=null")
    run = tiny.run(tmp_path, *HEEDING, *more, f"run_dir={folder}")
    steps = [line for line in tiny.metrics(run) if "loss" in line]
    rates = [line["lr"] for line in steps]
    epoch = rates.count(rates[0])
    assert rates == pytest.approx([3e-2] * epoch + [3e-3] * epoch)  # then 3e-4 is too small
    before = (run / "metrics.jsonl").read_bytes()
    experiment.run(compose.check([f"resume={run}"]))
    assert (run / "metrics.jsonl").read_bytes() == before
