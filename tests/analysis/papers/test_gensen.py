"""GenSen: joined encoders, other evaluations of them, maps of labelled sentences."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from analysis.papers import CATALOGUE
from analysis.papers.base import Options
from analysis.papers.gensen import BEST, draw_maps, evaluation_table, labelled_sets, map_sets, members, rows
from analysis.probes import PROBES
from encoders.random_vectors import RandomVectors
from tests.analysis.senteval import small_data


@pytest.mark.parametrize("budget", ["teaching", "paper"])
def test_rows_join_encoders_of_one_seed(budget: Any) -> None:
    single, *joined = CATALOGUE["gensen/table2"].runs(Options(budget=budget, seeds=[7]))
    assert not single.members and "seed=7" in single.overrides
    for run in joined:
        assert run.seed == 7 and not run.overrides
        assert tuple(member.labels["row"] for member in run.members) == members(run.labels["row"])
        assert all("seed=7" in member.overrides for member in run.members)
    forward = next(run for run in joined if run.labels["row"] == "+STN +Fr +De").members[1]
    assert "encoder.bidirectional=false" in forward.overrides


def test_joined_encoders_are_named_by_row_and_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "analysis.reports.make_command",
        lambda evaluate: lambda models, **settings: pd.DataFrame([models], ["model"]),
    )
    runs = [run.repeat(seed) for run in rows([BEST, "+STN"], Options()) for seed in (1, 2)]
    members = [member for run in runs for member in run.members or (run,)]
    frame = pd.DataFrame(
        [{**run.labels, "seed": run.seed, "run": str(place)} for place, run in enumerate(members)]
    )
    options, table = (
        Options(runs=Path("runs")),
        evaluation_table(9, "title", "data", [BEST, "+STN"], "quora:evaluate_duplicates").table,
    )
    assert table and table(frame, options).loc["model"].to_dict() == {
        f"{BEST}, seed 1": "runs/0+runs/1",
        f"{BEST}, seed 2": "runs/2+runs/3",
        "+STN, seed 1": "runs/4",
        "+STN, seed 2": "runs/5",
    }
    assert f"{BEST}, seed 1" not in table(frame.drop(index=0), options)  # a member failed


def test_probes_stand_beside_the_majority_class_and_printed_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = {f"{probe}.{name}.test": 50.0 for probe in PROBES for name in ("logistic", "majority")}
    scores["order.mlp.test"] = 80.0
    frame, item = pd.DataFrame([scores] * 3).T, CATALOGUE["gensen/table5"]
    monkeypatch.setattr("analysis.reports.make_command", lambda evaluate: lambda **settings: frame)
    members = [member for run in item.runs(Options(seeds=[1])) for member in run.members or (run,)]
    runs = pd.DataFrame({"row": [member.labels["row"] for member in members], "seed": 1, "run": "x"})
    assert item.table
    table = item.table(runs, Options(data=Path("data"), runs=Path()))
    assert table[["order.mlp.test", "order.majority.test"]].iloc[0].tolist() == ["80.0", "50.0"]
    assert table.loc["Majority Baseline (printed)", "tss.logistic.test"] == "56.0"


def test_maps_are_drawn_beside_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets are SentEval's SUBJ and TREC and files of labelled sentences."""
    data = small_data.folder(tmp_path / "data")
    lines = (f"{'odd' if number % 2 else 'even'}\tsentence {number}\n" for number in range(120))
    (data / "own.tsv").write_text("".join(lines))
    assert {*labelled_sets(data)["SUBJ"]["label"]} == {"subjective", "objective"}

    def place(vectors: np.ndarray, labels: Sequence[str], *, seed: int) -> tuple[np.ndarray, dict[str, float]]:
        return vectors[:, :2], {"vectors": 90.0 + seed, "map": 80.0, "guess": 50.0}

    monkeypatch.setattr("analysis.projection_map.place_sentences", place)
    monkeypatch.setattr("analysis.models.open_encoder", lambda folder: RandomVectors(dimension=8))
    models, sets = ("GenSen", "skip-thought"), ("SUBJ", "TREC", "own")
    runs = [{"tasks": tasks, "seed": seed, "run": tasks} for tasks in models for seed in (1, 2)]
    long = map_sets(pd.DataFrame(runs), Options(data=data))
    assert len(long) == 4 * 3 * 3  # runs, sets, and measures of each
    vectors = long[(long["tasks"] == "GenSen, in the vectors") & (long["panel"] == "own")]
    assert vectors.set_index("seed")["score"].to_dict() == {1: 91.0, 2: 92.0}
    titles = [axes.get_title(loc="left") for axes in draw_maps(long, title="title", note="note").axes]
    assert titles == [f"{model}: {name}" for name in sets for model in models]
