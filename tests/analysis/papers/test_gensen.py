"""GenSen: joined encoders, other evaluations of them, maps of labelled sentences."""

from __future__ import annotations

import shutil
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
from data.errors import UserError
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


def frame_of_members(names: list[str], seeds: tuple[int, ...] = (1, 2)) -> pd.DataFrame:
    runs = [run.repeat(seed) for run in rows(names, Options()) for seed in seeds]
    singles = [run for joined in runs for run in joined.members or (joined,)]
    return pd.DataFrame(
        [{**run.labels, "seed": run.seed, "run": f"run-{place}"} for place, run in enumerate(singles)]
    )


def test_joined_encoders_are_named_by_row_and_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    def command(models: list[str], **settings: Any) -> pd.DataFrame:
        return pd.DataFrame([models], ["model"])

    monkeypatch.setattr("analysis.reports.make_command", lambda evaluate: command)
    frame, options = frame_of_members([BEST, "+STN"]), Options(runs=Path("runs"))
    table = evaluation_table(9, "title", "data", [BEST, "+STN"], "quora:evaluate_duplicates").table
    assert table and table(frame, options).loc["model"].to_dict() == {
        f"{BEST}, seed 1": "runs/run-0+runs/run-1",
        f"{BEST}, seed 2": "runs/run-2+runs/run-3",
        "+STN, seed 1": "runs/run-4",
        "+STN, seed 2": "runs/run-5",
    }
    assert f"{BEST}, seed 1" not in table(frame.drop(index=0), options)  # a member failed


def make_table(number: int, data: Path = Path("data")) -> pd.DataFrame:
    item = CATALOGUE[f"gensen/table{number}"]
    assert item.table
    names = [run.labels["row"] for joined in item.runs(Options(seeds=[1])) for run in joined.members or (joined,)]
    frame = pd.DataFrame({"row": names, "seed": 1, "run": "random_vectors"})
    return item.table(frame, Options(data=data, runs=Path()))


def test_word_similarity_shows_coverage_and_printed_rows(tmp_path: Path) -> None:
    pairs = "".join(f"word{number} other{number} {number}\n" for number in range(12))
    (tmp_path / "EN-RG-65.txt").write_text(pairs)
    table = make_table(3, tmp_path)
    assert table["RG-65.covered"].iloc[0] == table["RG-65.pairs"].iloc[0] == "12"
    assert table.loc["GloVe6B (printed)", "RG-65.spearman"] == "0.77"


def test_duplicate_questions_have_a_column_a_classifier_and_size(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = pd.Series({"logistic.1000.accuracy": 60.0, "mlp.1000.accuracy": 70.0})
    monkeypatch.setattr("analysis.reports.make_command", lambda evaluate: lambda **settings: scores.to_frame())
    table = make_table(4)
    assert table[f"{BEST}, seed 1"].to_dict() == {key: str(value) for key, value in scores.items()}


def test_probes_stand_beside_the_majority_class(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = {f"{probe}.{name}.test": 50.0 for probe in PROBES for name in ("logistic", "majority")}
    scores["order.mlp.test"] = 80.0
    frame = pd.DataFrame([scores] * 3).T
    monkeypatch.setattr("analysis.reports.make_command", lambda evaluate: lambda **settings: frame)
    table = make_table(5)
    assert table[["order.mlp.test", "order.majority.test"]].iloc[0].tolist() == ["80.0", "50.0"]
    assert table.loc["Majority Baseline (printed)", "tss.logistic.test"] == "56.0"


def test_nearest_sentences_have_a_row_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("analysis.models.open_encoder", lambda *names, **options: RandomVectors(dimension=8))
    file = tmp_path / "sentences.txt"
    file.write_text("".join(f"sentence {number} .\n" for number in range(9)))
    [cosines] = make_table(8, file).astype(float).T.values
    assert len(cosines) == 8 and all((np.diff(each) <= 0).all() for each in (cosines[:4], cosines[4:]))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Returns a folder of SentEval's SUBJ and TREC with a file of labelled sentences."""
    folder = small_data.folder(tmp_path / "data")
    lines = (f"{'even' if number % 2 == 0 else 'odd'}\tsentence {number}\n" for number in range(120))
    (folder / "own.tsv").write_text("".join(lines))
    return folder


def test_labelled_sets_are_of_senteval_and_files(data: Path) -> None:
    sets = labelled_sets(data)
    assert {*sets} == {"SUBJ", "TREC", "own"}
    assert {*sets["SUBJ"]["label"]} == {"subjective", "objective"}
    shutil.rmtree(data / "downstream")
    assert [*labelled_sets(data)] == ["own"]


def test_data_without_labelled_sentences_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError) as error:
        labelled_sets(tmp_path)
    assert error.value.key == "data"


def test_maps_are_drawn_beside_each_other(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def place(vectors: np.ndarray, labels: Sequence[str], *, seed: int) -> tuple[np.ndarray, dict[str, float]]:
        return vectors[:, :2], {"vectors": 90.0 + seed, "map": 80.0, "guess": 50.0}

    monkeypatch.setattr("analysis.projection_map.place_sentences", place)
    monkeypatch.setattr("analysis.models.open_encoder", lambda folder: RandomVectors(dimension=8))
    models = ("GenSen", "skip-thought")
    runs = [{"tasks": tasks, "seed": seed, "run": tasks} for tasks in models for seed in (1, 2)]
    long = map_sets(pd.DataFrame(runs), Options(data=data))
    assert len(long) == 4 * 3 * 3  # runs, sets, and measures of each
    vectors = long[(long["tasks"] == "GenSen, in the vectors") & (long["panel"] == "own")]
    assert vectors.set_index("seed")["score"].to_dict() == {1: 91.0, 2: 92.0}
    axes = draw_maps(long, title="title", note="note").axes
    sets = ("SUBJ", "TREC", "own")
    assert [each.get_title(loc="left") for each in axes] == [
        f"{model}: {name}" for name in sets for model in models
    ]
    assert all("80 % (by guessing 50 %)" in each.get_xlabel() for each in axes)
