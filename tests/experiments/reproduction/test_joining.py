"""Rows that join encoders: planning, training each once, joining, evaluation and reports."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import encoders
from analysis.figures import catalogue
from analysis.figures.exhibits import VECTORS, Grid, Table, Value
from data.errors import UserError
from encoders.concatenated import Concatenated
from experiments import compose, planned_runs
from experiments.reproduction import command, joining, planning, results, settings
from experiments.reproduction.planning import plan
from experiments.reproduction.settings import Reproduction
from tests.encoders.bilstms import tiny as bilstm
from tests.experiments import tiny
from tests.experiments.ids import joined
from tests.experiments.reproduction.test_results import record, write_run
from tests.experiments.test_reproduce import fake_check, reproduction, small_table

pytestmark = pytest.mark.usefixtures("in_a_small_folder")


def table(*rows: str, b: str = "objective.b=1") -> Table:
    """Returns a table with the given rows: "a", "b", "c", or "ab", which joins the encoders of "a" and "b"."""
    single = {"a": Value("a", ["objective.a=1"]), "b": Value("b", [b]), "c": Value("c", ["objective.c=1"])}
    values = [single.get(row) or Value(row, joins=[single[part] for part in row]) for row in rows]
    return small_table(Grid({"row": values}, seeds=(1, 2), flops=1e12, evaluation=10.0))


def summary(runs: list[planning.Run]) -> list[tuple[str, int, bool]]:
    return [(run.labels["row"], run.seed, run.evaluated) for run in runs]


def test_an_encoder_joined_by_several_rows_is_trained_once() -> None:
    runs = plan(table("ab", "bc"), reproduction(seeds=(1,)), check=fake_check)
    assert summary(runs) == [("a", 1, False), ("b", 1, False), ("ab", 1, True), ("c", 1, False), ("bc", 1, True)]
    a, b, ab, c, bc = runs
    assert (ab.members, bc.members) == ((a.name, b.name), (b.name, c.name))
    assert ab.name != bc.name
    assert (ab.overrides, ab.flops) == ((), 0.0)
    grid = table("ab", "bc").grids["teaching"]
    seconds = 3 * (1 + planning.STARTED) + 2 * 10
    assert planning.core_seconds(runs, grid, 1e12) == seconds
    assert planning.cost(table("ab", "bc"), reproduction(), 1e12) == (6, 2 * seconds)


def test_encoders_of_a_row_are_of_one_seed() -> None:
    runs = {run.name: run for run in plan(table("ab"), reproduction(), check=fake_check)}
    joined = [run for run in runs.values() if run.members]
    assert [run.seed for run in joined] == [1, 2]
    assert all(runs[name].seed == run.seed for run in joined for name in run.members)


@pytest.mark.parametrize("rows", [("ab", "a"), ("a", "ab")], ids=joined)
def test_a_row_may_join_another_one(rows: tuple[str, ...]) -> None:
    runs = plan(table(*rows), reproduction(seeds=(1,)), check=fake_check)
    assert {label: evaluated for label, _, evaluated in summary(runs)} == {"a": True, "b": False, "ab": True}
    assert sum(run.flops for run in runs) == 2e12


def test_a_joined_encoder_may_be_requested_by_itself() -> None:
    runs = plan(table("ab", "bc"), reproduction(seeds=(1,), only={"row": ["bc", "a"]}), check=fake_check)
    assert summary(runs) == [("b", 1, False), ("c", 1, False), ("bc", 1, True), ("a", 1, True)]
    with pytest.raises(UserError, match=r"^only\.row must be of ab \| a \| b\. Got c instead\.$"):
        plan(table("ab"), reproduction(only={"row": "c"}), check=fake_check)


def test_joining_two_equal_encoders_gives_one() -> None:
    """With encoder= on the command line, encoders that differ only in width become equal."""
    [run] = plan(table("ab", b="objective.a=1"), reproduction(seeds=(1,)), check=fake_check)
    assert (run.labels, run.members, run.evaluated) == ({"row": "ab"}, (), True)


def test_encoders_that_cannot_be_joined_get_separate_rows() -> None:
    runs = plan(table("ab", "bc"), reproduction(seeds=(1,)), check=fake_check, joined=False)
    assert summary(runs) == [("a", 1, True), ("b", 1, True), ("c", 1, True)]


def test_keys_set_by_a_joined_encoder_cannot_be_overridden() -> None:
    with pytest.raises(UserError, match=r"^objective\.b: paper/1 sets it itself \(row: ab\)\.$"):
        plan(table("ab"), reproduction(), ["objective.b=3"], check=fake_check)


def test_a_row_waits_for_the_files_of_all_that_it_joins() -> None:
    rows = table("ab", "c", b=f"encoder.vectors={VECTORS}")
    assert summary(plan(rows, reproduction(seeds=(1,)), check=fake_check)) == [("c", 1, True)]
    assert planning.left_out(rows, reproduction()) == ["ab: needs vectors=<file of word vectors>"]


@pytest.mark.parametrize(
    ("size", "widths"), [("paper", (750, 1024, 1500)), ("teaching", (128, 192, 256))], ids=["paper", "teaching"]
)
def test_gensens_rows_join_as_in_its_section_9(size: Any, widths: tuple[int, int, int]) -> None:
    """Both encoders of a row have the paper's tasks, units per direction, directions and layers."""
    small, large, forward = widths
    data = ["corpus.path=.", "objective.parse.gold=.", "objective.nli.path=."] if size == "paper" else []
    request = Reproduction(figure="gensen/table2", budget=size, seeds=(1,))
    runs = plan(catalogue.EXHIBITS["gensen/table2"], request, data)
    encoders_by_run = {}
    for run in runs:
        if not run.members:
            config = compose.check(list(run.overrides))
            encoder = config["encoder"]
            shape = encoder["hidden"], 2 if encoder["bidirectional"] else 1, encoder["layers"]
            encoders_by_run[run.name] = (frozenset(config["objective"]["tasks"]), *shape)
    rows = {
        run.labels["row"]: [encoders_by_run[name] for name in run.members or (run.name,)]
        for run in runs
        if run.evaluated
    }
    translation = frozenset({"stn", "fr", "de"})
    inference, previous = translation | {"nli"}, translation | {"nli", "stp"}
    assert rows == {
        "+STN": [(frozenset({"stn"}), small, 2, 1)],
        "+STN +Fr +De": [(translation, forward, 1, 1), (translation, small, 2, 1)],
        "+STN +Fr +De +NLI": [(inference, small, 2, 1), (translation, small, 2, 1)],
        "+STN +Fr +De +NLI +L": [(inference, large, 2, 1), (translation, large, 2, 1)],
        "+STN +Fr +De +NLI +L +STP": [(previous, large, 2, 1), (inference, large, 2, 1)],
        "+STN +Fr +De +NLI +2L +STP": [(previous, large, 2, 2), (inference, large, 2, 1)],
        "+STN +Fr +De +NLI +L +STP +Par": [(previous | {"parse"}, large, 2, 1), (previous, large, 2, 1)],
    }


@pytest.mark.parametrize("number", range(2, 9))
def test_gensens_other_tables_share_these_runs(number: int) -> None:
    """All rows join encoders, except in tables 3 and 5 (section 9)."""

    def names(table: str) -> dict[str, bool]:
        runs = plan(catalogue.EXHIBITS[table], Reproduction(figure=table, seeds=(1,)))
        assert all(run.members for run in runs if run.evaluated) == (table not in ("gensen/table2", *not_joined))
        return {run.name: bool(run.members) for run in runs}

    not_joined = ("gensen/table3", "gensen/table5")
    table = names(f"gensen/table{number}")
    assert table.items() <= names("gensen/table2").items()
    assert any(table.values()) == (f"gensen/table{number}" not in not_joined)


# Folders


def run_folder(folder: Path, name: str, scale: float = 1.0, **shape: Any) -> Path:
    path, encoder = folder / name, bilstm(**shape)
    for parameter in encoder.parameters():
        parameter.data *= scale
    encoder.save(path / "encoder")
    (path / "config.yaml").write_text(f"seed: 1\nnames: {{objective: gensen, encoder: gru}}\nname: {name}\n")
    return path


def test_joined_encoders_are_saved_and_evaluated_like_a_run(tmp_path: Path) -> None:
    members = [run_folder(tmp_path, "one"), run_folder(tmp_path, "two", hidden=3)]
    folder = tmp_path / "both"
    joining.join(folder, members)
    texts = ["a b", "c"]
    expected = np.hstack([encoders.load(member / "encoder").encode(texts) for member in members])
    both = encoders.load(folder / "encoder")
    assert isinstance(both, Concatenated)
    np.testing.assert_array_equal(both.encode(texts), expected)
    assert planned_runs.state(folder) == "finished"
    config = yaml.safe_load((folder / "config.yaml").read_text())
    assert list(config["joins"]) == ["one", "two"]
    assert (config["seed"], config["weights"]) == (1, both.weights)
    assert config["names"]["objective"] == "gensen"
    assert config["names"]["origin"].startswith("1 of 2: ")

    times = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    joining.join(folder, members)
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == times
    (folder / "config.yaml").unlink()  # as if the process was killed before the end
    joining.join(folder, members)
    assert planned_runs.state(folder) == "finished"

    (folder / "senteval.json").write_text("{}")
    shutil.rmtree(members[0])
    run_folder(tmp_path, "one", scale=2.0)  # trained again
    joining.join(folder, members)
    assert not (folder / "senteval.json").exists()
    assert not np.array_equal(encoders.load(folder / "encoder").encode(texts), expected)


def test_encoders_that_fail_to_join_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk is an error of this row, so that the other runs continue."""
    member = run_folder(tmp_path, "one")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Concatenated, "save", full)
    with pytest.raises(UserError, match=r"both could not be joined: .*No space left"):
        joining.join(tmp_path / "both", [member, run_folder(tmp_path, "two")])


def test_a_missing_encoder_is_reported(tmp_path: Path) -> None:
    member = run_folder(tmp_path, "one")
    (tmp_path / "two").mkdir()
    with pytest.raises(UserError, match=r"^It joins the encoder of two, which is not finished\.$"):
        joining.join(tmp_path / "both", [member, tmp_path / "two"])
    assert not (tmp_path / "both").exists()


def test_synthetic_text_of_one_encoder_is_reported_for_the_joined_row(tmp_path: Path) -> None:
    a, b, ab, c, bc = plan(table("ab", "bc"), reproduction(seeds=(1,)), check=fake_check)
    for run, synthetic in ((a, "fr, de"), (b, "de, nli"), (c, "")):
        write_run(tmp_path, run, 10.0, synthetic=synthetic)
    write_run(tmp_path, ab, 0.0, {"TREC": record(80.0)})
    found = results.collect([a, b, ab, c, bc], tmp_path, "default")
    assert [*found.facts] == [ab]
    assert results.synthetic(found.facts[ab]) == "fr, de, nli"
    assert found.quick == {}
    assert [*found.senteval] == [ab]
    line = results.sizes(found, "teaching sizes", [*found.facts])
    assert line.startswith("2 runs at teaching sizes")


# The complete command

WARM, COLD = Value("warm", ["objective.temperature=0.5"]), Value("cold", ["objective.temperature=0.05"])
FIGURE = Table(
    id="some/fig",
    title="Joined",
    printed_paper="gensen",
    evaluation="neighbours",
    settings={"sentences": "{data}", "queries": ["a b"]},
    needs="a file of sentences, one a line",
    base=["objective=contrastive_only"],
    teaching=Grid({"row": [Value("both", joins=[WARM, COLD])]}, flops=1.0e8),
    tasks=["TREC"],
)


@pytest.fixture
def figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    tiny.figure(tmp_path, FIGURE, monkeypatch)
    (tmp_path / "sentences.txt").write_text("ba ke li\nmo nu\nra ba\n")
    return tmp_path


def reproduce(folder: Path, *more: str) -> int:
    left_out = ("evaluation=", "budget.steps=")
    passed = [text for text in tiny.overrides(folder) if not text.startswith(left_out)]
    arguments = [*passed, "figure=some/fig", "budget.steps=4", "runs=runs", "out=out", *more]
    return command.reproduce(*settings.read(arguments))


def test_a_row_whose_encoder_failed_is_reported(
    figure: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(jobs: list[Any], **_: Any) -> dict[str, str]:
        *members, joined = jobs
        assert set(joined.after) == {job.name for job in members}
        with pytest.raises(UserError, match="It joins the encoder of"):
            joined.command()
        return {jobs[0].name: "it broke", joined.name: "a part is missing"}

    monkeypatch.setattr(planned_runs, "run_jobs", broken)
    with pytest.raises(UserError, match="None of the encoders is there: there is nothing to tabulate"):
        reproduce(figure, "data=sentences.txt")
    output = capsys.readouterr().out
    assert "2 in runs: 2 missing" in output
    assert "joined      1 of two or more of these" in output
    assert output.count(": it broke") == 1
    assert output.count("a part is missing") == 1


@pytest.mark.slow
def test_encoders_are_trained_joined_and_evaluated(figure: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert reproduce(figure, "data=sentences.txt", "jobs=2") == 0
    [joined] = (figure / "runs").glob("joined-*")
    text = (figure / "out" / "some-fig.md").read_text()
    assert "both, seed 1" in text
    assert "2 runs at teaching sizes" in text
    warm, cold = (
        encoders.load(figure / "runs" / name / "encoder")
        for name in yaml.safe_load((joined / "config.yaml").read_text())["joins"]
    )
    texts = ["ba ke", "mo"]
    expected = np.hstack([warm.encode(texts), cold.encode(texts)])
    np.testing.assert_array_equal(encoders.load(joined / "encoder").encode(texts), expected)
    capsys.readouterr()
    before = {path: path.stat().st_mtime_ns for path in joined.rglob("*") if path.is_file()}
    assert reproduce(figure, "data=sentences.txt") == 0
    assert "2 in runs: 2 finished" in capsys.readouterr().out
    assert {path: path.stat().st_mtime_ns for path in joined.rglob("*") if path.is_file()} == before
    with pytest.raises(UserError, match=r"joins the encoders of finished runs, and was not trained itself\.$"):
        compose.check([f"resume={joined}"])
