"""Schedules that use the dev metric: the learning rate follows from the accuracies in the journal."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from data.batch import Batch
from data.errors import UserError
from data.loader import Loader
from experiments import experiment
from tests.experiments import tiny

PLATEAU = ("schedule=annealed", "schedule.drop=0.5", "threads=1", "dev_every=100", "optimizer.lr=3e-2")


pytestmark = pytest.mark.usefixtures("without_plots")


@pytest.fixture(autouse=True)
def resumable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps the optimizer states of finished runs, as some tests resume them."""
    monkeypatch.setattr(experiment.checkpoint, "finish", lambda root: None)


def test_the_rate_falls_with_epochs_and_on_dev_plateaus(tmp_path: Path) -> None:
    run = tiny.run(tmp_path, *PLATEAU, "budget.epochs=6", "budget.steps=null", f"run_dir={tmp_path / 'run'}")
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
    assert drops  # otherwise the test shows nothing


def test_training_ends_below_the_schedules_minimum_rate(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    more = ("schedule.decay=0.1", "schedule.stop=1e-3", "budget.epochs=9", "budget.steps=null")
    run = tiny.run(tmp_path, *PLATEAU, *more, f"run_dir={folder}")
    steps = [line for line in tiny.metrics(run) if "loss" in line]
    rates = [line["lr"] for line in steps]
    epoch = rates.count(rates[0])
    assert rates == pytest.approx([3e-2] * epoch + [3e-3] * epoch)  # then 3e-4 is too small
    before = (run / "metrics.jsonl").read_bytes()
    tiny.train(tiny.check([f"resume={run}", f"cache={tmp_path / 'cache'}"]))
    assert (run / "metrics.jsonl").read_bytes() == before


def test_the_rate_follows_dev_accuracy_in_a_resumed_run(tmp_path: Path) -> None:
    """A resumed run must keep the best accuracy so far and the number of epochs that did not exceed it."""
    folder = tmp_path / "run"
    task = ("objective.task=R", "objective.k=2", "objective.noise=uniform", "optimizer=adam", "optimizer.lr=2e-2")
    annealed = (*task, "schedule.drop=0.5", "dev_every=100")
    kept = ("checkpoint.every=1", "checkpoint.keep_last=100", "budget.epochs=10", f"run_dir={folder}")
    run = tiny.train(tiny.check(tiny.conssent(tmp_path, *annealed, *kept)))
    lines = tiny.metrics(run)
    rates = [line["lr"] for line in lines if "loss" in line]
    epoch = len(rates) // 10
    accuracy = {line["step"]: line["dev_R_accuracy"] for line in lines if "dev_R_accuracy" in line}
    assert set(accuracy) == set(range(0, len(rates) + 1, epoch))
    best, drops, expected, dropped = -1.0, 0, [], []
    for step in range(len(rates)):
        if step and step % epoch == 0:
            if accuracy[step] > best:
                best = accuracy[step]
            else:
                drops += 1
                dropped.append(step)
        expected.append(2e-2 * 0.99 ** (step // epoch) * 0.5**drops)
    assert rates == pytest.approx(expected)
    assert 1 < len(dropped) < 6  # otherwise the test shows nothing
    for step in (dropped[0] + 1, dropped[-1] - 1):  # after a drop; just before the next comparison of accuracy
        shutil.copytree(run, again := tmp_path / f"again-{step}")
        for checkpoint in (again / "checkpoints").iterdir():
            if int(checkpoint.name.removeprefix("step-")) > step:
                shutil.rmtree(checkpoint)
        state = json.loads((again / "checkpoints" / f"step-{step:08d}" / "state.json").read_text())
        assert state["drops"] == sum(end <= step for end in dropped) > 0
        tiny.train(tiny.check([f"resume={again}", f"cache={tmp_path / 'cache'}"]))
        assert (again / "metrics.jsonl").read_bytes() == (run / "metrics.jsonl").read_bytes()


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        pytest.param((), 64, id="schedule on dev accuracy"),
        pytest.param(("schedule=constant",), 8, id="constant schedule"),
        pytest.param(("dev_batches=3",), 3, id="given number"),
    ],
)
def test_more_batches_are_evaluated_where_the_schedule_uses_the_result(
    overrides: tuple[str, ...], expected: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = []
    fixed: Callable[[Loader, int], list[Batch]] = Loader.fixed

    def recording(loader: Loader, n_batches: int) -> list[Batch]:
        counts.append(n_batches)
        return fixed(loader, n_batches)

    monkeypatch.setattr(Loader, "fixed", recording)
    tiny.train(tiny.check(tiny.conssent(tmp_path, *overrides, "budget.steps=1", f"run_dir={tmp_path / 'run'}")))
    assert counts[-1] == expected  # planning evaluates a few batches before


def test_a_rate_below_the_schedules_minimum_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    same = ("budget.steps=1", "schedule.stop=1e-4", f"run_dir={folder}")
    first = tiny.train(tiny.check(tiny.conssent(tmp_path, "optimizer=adamw", *same)))
    shutil.move(first, warm := tmp_path / "warm")
    lower = tiny.conssent(tmp_path, "optimizer=adamw", "optimizer.lr_bundled=5e-5", f"warm_start={warm}", *same)
    with pytest.raises(UserError, match=r"^optimizer\.lr_bundled: "):
        tiny.train(tiny.check([text for text in lower if not text.startswith("encoder")]))
    with pytest.raises(UserError, match=r"^optimizer\.lr: "):
        tiny.train(tiny.check(tiny.conssent(tmp_path, "optimizer.lr=1e-5", *same)))
    assert not folder.exists()
