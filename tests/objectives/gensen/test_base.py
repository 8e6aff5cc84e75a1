"""Base of GenSen's tasks: configuration keys in errors, dropout, half precision, processes, surprisals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from data.errors import UserError
from objectives.base import Loss
from objectives.gensen.base import GenSenTask, surprisals
from objectives.gensen.sequences import SkipThought
from tests.objectives.gensen.small_tasks import SIZES, batch_of, build, neighbour_units, nli_pairs, nli_task
from tests.objectives.gensen.test_objective import build_corpus, small_gensen
from tests.objectives.two_processes import Results, backward, check_against_one_process


def test_data_errors_name_the_key_of_the_task(tmp_path: Path) -> None:
    (tmp_path / "a.en").write_text("one\ntwo\n")
    (tmp_path / "a.fr").write_text("un\n")
    files = {"source": str(tmp_path / "a.en"), "target": str(tmp_path / "a.fr")}
    with pytest.raises(UserError) as error:
        list(small_gensen(tasks=["fr"], fr=files).texts())
    assert error.value.key == f"{files['source']}, {files['target']}"
    (tmp_path / "a.fr").write_text("un\ndeux\n")
    objective = small_gensen(tasks=["fr"], fr=files | {"dev_fraction": 0.0})
    with pytest.raises(UserError) as error:
        objective.task_data(build_corpus(tmp_path))
    assert error.value.key == "objective.fr.dev_fraction"
    with pytest.raises(UserError) as error:
        small_gensen(tasks=["fr"], synthetic_pairs=1).task_data(build_corpus(tmp_path))
    assert error.value.key == "objective.synthetic_pairs"
    assert small_gensen(tasks=["fr"], fr=files).tasks["fr"].setting == "objective.fr"
    assert [task.setting for task in small_gensen(tasks=["stn", "fr"]).tasks.values()] == [
        "corpus",
        "objective.synthetic_pairs",
    ]


def test_dropout_is_on_only_in_training() -> None:
    sizes = replace(SIZES, dropout=0.5)
    for task, units in (
        (SkipThought(["stn"], sizes), neighbour_units(neighbours=1)),
        (nli_task(sizes), nli_pairs()),
    ):
        task, encoder = build(task)
        batch = batch_of(task, units)
        values = [float(task.loss(encoder, batch).total.detach()) for _ in range(2)]
        assert values[0] != values[1]
        task.eval()
        values = [float(task.loss(encoder, batch).total.detach()) for _ in range(2)]
        assert values[0] == values[1]


@pytest.mark.parametrize("kind", ["skip_thought", "nli"])
def test_half_precision_gives_losses_in_float32(kind: str) -> None:
    task, units = tasks_and_units()[kind]
    task, encoder = build(task)
    task, encoder = task.float(), encoder.float()
    batch = batch_of(task, units)
    exact = task.loss(encoder, batch).total
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = task.loss(encoder, batch)
    loss.total.backward()
    assert loss.total.dtype == torch.float32
    torch.testing.assert_close(loss.total, exact, rtol=0.02, atol=0.0)


def tasks_and_units() -> dict[str, tuple[GenSenTask, list[Any]]]:
    return {
        "skip_thought": (SkipThought(["stn", "stp"], SIZES), neighbour_units()),
        "nli": (nli_task(), nli_pairs()),
    }


def gradients(rank: int, world: int) -> Results:
    results = {}
    for kind, (task, units) in tasks_and_units().items():
        task, encoder = build(task)
        share = len(units) // world
        loss: Loss = task.loss(encoder, batch_of(task, units, slice(rank * share, (rank + 1) * share)))
        counts = {f"count {name}": value for name, value in loss.counts.items()}
        results[kind] = backward(loss, world, encoder, task) | counts
    return results


def test_two_processes_give_the_gradient_of_one(tmp_path: Path) -> None:
    check_against_one_process(gradients, tmp_path)


def test_surprisals_by_hand() -> None:
    units = [np.array([5, 5, 6]), np.array([5])]
    # Token 5 occurs three times, 6 once and END (2) twice; one is added to each of the 8 counts.
    expected = -np.log(np.array([1, 1, 3, 1, 1, 4, 2, 1]) / 14)
    np.testing.assert_allclose(surprisals(units, np.array([0, 1]), 8, 2), expected, rtol=1e-6)
    classes = [np.array([0]), np.array([1])]
    found = surprisals(classes, np.array([0, 1]), 3)
    np.testing.assert_allclose(found, -np.log(np.array([2, 2, 1]) / 5), rtol=1e-6)
