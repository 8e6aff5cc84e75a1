"""ConsSent: the ensemble's members, places of printed values, examples of training sequences."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from analysis.papers.base import Options
from analysis.papers.conssent import BEST_SIX, ENSEMBLE, FIGURE_1, FIGURE_3, TASKS, add_ensembles
from tests.analysis.senteval.example_results import record


def wide(seeds: Sequence[int]) -> pd.DataFrame:
    """Returns a wide frame in which k=5 is best on dev for C with seed 1, and k=2 for all others."""
    rows = []
    for task in (*TASKS, "ConsSent-MT"):
        for k in ("2", "5"):
            for seed in seeds:
                dev = 90.0 if (k == "5") == (task == "ConsSent-C" and seed == 1) else 60.0
                row = {"task": task, "k": k, "seed": seed, "run": f"{task}-{k}-{seed}"}
                scores = {"TREC.test": dev - 5, "TREC.dev": dev, "CR.test": 70.0, "CR.dev": 70.0}
                rows.append(row | {"results": f"folder/{task}-{k}-{seed}"} | scores)
    frame = pd.DataFrame(rows)
    frame.loc[0, "SUBJ.dev"] = 99.0  # not of all members
    return frame


def test_ensembles_join_the_best_k_of_each_task_and_the_best_six(monkeypatch: pytest.MonkeyPatch) -> None:
    """A seed that lacks a task has no ensemble. C's two encoders are among the best six of seed 2."""
    calls: list[tuple[list[str], list[str]]] = []

    def ensemble(members: list[str], tasks: list[str]) -> Any:
        calls.append((members, tasks))
        return SimpleNamespace(tasks={"TREC": record("TREC", 95.0)})

    monkeypatch.setattr("analysis.ensemble.ensemble", ensemble)
    frame = wide((1, 2, 3))
    frame.loc[(frame["run"] == "ConsSent-C-5-2"), ["TREC.dev", "CR.dev"]] = 80.0
    frame = frame[(frame["task"] != "ConsSent-R") | (frame["seed"] != 3)]
    added = add_ensembles("task", frame, Options())[len(frame) :]
    assert added[["task", "k", "run", "seed", "TREC.test"]].values.tolist() == [
        [name, "", "", seed, 95.0] for seed in (1, 2) for name in (BEST_SIX, ENSEMBLE)
    ]
    assert {"folder/ConsSent-C-2-2", "folder/ConsSent-C-5-2"} <= {*calls[2][0]} and len(calls[2][0]) == 6
    for seed, (members, tasks) in enumerate(calls[1::2], start=1):
        best = {task: "5" if (task, seed) == ("ConsSent-C", 1) else "2" for task in TASKS}
        assert sorted(members) == sorted(f"folder/{task}-{k}-{seed}" for task, k in best.items())
        assert sorted(tasks) == ["CR", "TREC"]


def test_printed_values_stand_at_their_labels() -> None:
    marks = FIGURE_1.marks(pd.DataFrame({"task": [], "k": [], "seed": [], "run": []}))
    trec = marks[marks["panel"] == "TREC"].set_index("task")
    assert trec["k"].to_dict() == dict(zip(TASKS, "325232", strict=True))
    assert trec.loc["ConsSent-C", "score"] == 90.0 and trec.loc["ConsSent-R", "score"] == 92.6
    assert {"ConsSent-MT", "Ensemble"} <= {labels["task"] for labels in FIGURE_3.printed.values()}
