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
from experiments.sweep import configuration
from tests.analysis.senteval import small_data


@pytest.mark.parametrize("budget", ["teaching", "paper"])
def test_rows_join_encoders_of_one_seed(budget: Any) -> None:
    single, *joined, lone = CATALOGUE["gensen/table2"].runs(Options(budget=budget, seeds=[7]))
    assert not single.members and "seed=7" in single.overrides
    [vectors] = CATALOGUE["gensen/table7"].runs(Options(vectors="v.txt", seeds=[7]))[0].evaluation
    assert vectors == "expand=v.txt" and not lone.evaluation
    assert lone.labels["row"] == "InferSent" and configuration(lone)["names"]["encoder"] == "bilstm_max"
    for run in joined:
        assert run.seed == 7 and not run.overrides
        assert tuple(member.labels["row"] for member in run.members) == members(run.labels["row"])
        assert all("seed=7" in member.overrides for member in run.members)
    forward = next(run for run in joined if run.labels["row"] == "+STN +Fr +De").members[1]
    assert "encoder.bidirectional=false" in forward.overrides


def test_joined_encoders_and_word_vectors_are_evaluated_for_each_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "analysis.reports.make_command",
        lambda evaluate: lambda models, **settings: pd.DataFrame([models], ["model"]),
    )
    runs = [run.repeat(seed) for run in rows([BEST, "+STN"], Options()) for seed in (1, 2)]
    members = [member for run in runs for member in run.members or (run,)]
    frame = pd.DataFrame(
        [{**run.labels, "seed": run.seed, "run": str(place)} for place, run in enumerate(members)]
    )
    options = Options(runs=Path("runs"), vectors="v.txt")
    item = evaluation_table(9, "title", "data", [BEST, "+STN"], "quora:evaluate_duplicates", claims={})
    assert item.extend and item.table
    wide = item.extend(frame, options)
    models = {"runs/0+runs/1": BEST, "runs/2+runs/3": BEST, "runs/4": "+STN", "runs/5": "+STN"}
    assert wide["run"].tolist() == wide["model"].tolist() == [*models, "bag_of_words", "bag_of_words"]
    assert wide["row"].tolist() == [*models.values(), *["word vectors"] * 2] and [*wide["seed"]] == [1, 2] * 3
    assert item.table(wide, options).loc["model", f"{BEST}, seed 2"] == "runs/2+runs/3"
    assert len(item.extend(frame.drop(index=0), options)) == len(wide) - 1  # a member failed


def test_probes_stand_beside_the_majority_class_and_printed_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = {f"{probe}.{name}.test": 50.0 for probe in PROBES for name in ("logistic", "majority")}
    scores["order.mlp.test"] = 80.0
    frame, item = pd.DataFrame([scores] * 5).T, CATALOGUE["gensen/table5"]
    monkeypatch.setattr("analysis.reports.make_command", lambda evaluate: lambda **settings: frame)
    members = [member for run in item.runs(Options(seeds=[1])) for member in run.members or (run,)]
    runs = pd.DataFrame({"row": [member.labels["row"] for member in members], "seed": 1, "run": "x"})
    assert item.extend and item.table
    options = Options(data=Path("data"), runs=Path())
    wide = item.extend(runs, options)
    assert {*item.select_compared(wide, options)["panel"]} == {*scores}
    table = item.table(wide, options)
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
