"""ConsSent: the ensemble's members, places of printed values, examples of training sequences."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from analysis.papers.base import Options
from analysis.papers.conssent import FIGURE_1, FIGURE_3, TABLE_2, TASKS, add_ensembles
from tests.analysis.senteval.example_results import record


def wide(seeds: Sequence[int] = (1, 2)) -> pd.DataFrame:
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


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], list[str]]]:
    """Replaces the ensemble of stored predictions; returns the members and tasks of each call."""
    calls: list[tuple[list[str], list[str]]] = []

    def ensemble(members: list[str], tasks: list[str]) -> Any:
        calls.append((members, tasks))
        return SimpleNamespace(tasks={"TREC": record("TREC", 95.0)})

    monkeypatch.setattr("analysis.ensemble.ensemble", ensemble)
    return calls


def test_the_ensemble_has_the_best_k_of_each_task(calls: list[tuple[list[str], list[str]]]) -> None:
    frame = wide()
    extended = add_ensembles("task", frame, Options())
    for seed, (members, tasks) in enumerate(calls, start=1):
        best = {task: "5" if (task, seed) == ("ConsSent-C", 1) else "2" for task in TASKS}
        assert sorted(members) == sorted(f"folder/{task}-{k}-{seed}" for task, k in best.items())
        assert sorted(tasks) == ["CR", "TREC"]
    added = extended[len(frame) :]
    assert added[["task", "k", "run", "seed", "TREC.test"]].values.tolist() == [
        ["Ensemble", "", "", seed, 95.0] for seed in (1, 2)
    ]


def test_a_seed_without_a_task_has_no_ensemble(calls: list[tuple[list[str], list[str]]]) -> None:
    frame = wide()
    frame = frame[(frame["task"] != "ConsSent-R") | (frame["seed"] != 2)]
    assert add_ensembles("task", frame, Options())["seed"].tolist()[len(frame) :] == [1]


def test_without_senteval_there_is_no_ensemble(calls: list[tuple[list[str], list[str]]]) -> None:
    frame = pd.DataFrame({"row": ["ConsSent-C(4)"], "seed": [1], "run": ["a"], "recall@1": [20.0]})
    assert add_ensembles("row", frame, Options()) is frame
    assert not calls


def test_printed_values_stand_at_their_labels() -> None:
    marks = FIGURE_1.marks(pd.DataFrame({"task": [], "k": [], "seed": [], "run": []}))
    trec = marks[marks["panel"] == "TREC"].set_index("task")
    assert trec["k"].to_dict() == dict(zip(TASKS, "325232", strict=True))
    assert trec.loc["ConsSent-C", "score"] == 90.0 and trec.loc["ConsSent-R", "score"] == 92.6
    assert {"ConsSent-MT", "Ensemble"} <= {labels["task"] for labels in FIGURE_3.printed.values()}


def test_rows_that_need_files_are_left_out_without_them() -> None:
    def rows(**settings: Any) -> set[str]:
        return {run.labels["row"] for run in TABLE_2.runs(Options(**settings))}

    files = {"vectors": "words.txt", "nli": "{path: [pairs.tsv]}"}
    assert rows(budget="paper", **files) - rows(budget="paper") == {"FastText BoW", "InferSent"}
    assert rows(**files) - rows() == {"FastText BoW"}  # InferSent learns from generated pairs
