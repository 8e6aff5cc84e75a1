"""Tables of runs: columns, overrides that distinguish a run, selection, order, means."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from analysis import run_tables, runs
from data.errors import UserError
from tests.analysis.runs_on_disk import write


def test_averages_get_columns(tmp_path: Path) -> None:
    folder = write(tmp_path / "run")
    (folder / "senteval.json").write_text(
        json.dumps({"averages": {"probing (9 of 10)": 71.25, "sts_pearson_all": 1}})
    )
    shown = printed_table(runs.scan(tmp_path))
    assert (
        "SentEval, mean of 9 of" in shown
        and "the 10 probing tasks" in shown
        and "71.2" in shown
        and "pearson" not in shown
    )


def test_averages_over_other_tasks_get_columns_of_their_own(tmp_path: Path) -> None:
    label = "declutr_downstream (2 of 17)"
    averages = {"a": (["MR", "CR"], 71.25), "b": (["SST2", "TREC"], 82.5), "c": (["MR", "CR"], 60.5)}
    for name, (tasks, value) in averages.items():
        results = {"averages": {label: value}, "averages_over": {label: {"tasks": tasks}}}
        (write(tmp_path / name) / "senteval.json").write_text(json.dumps(results))
    table = run_tables.table(runs.scan(tmp_path))
    columns = {" ".join(str(column.header).split()): [*column.cells] for column in table.columns}
    title = "mean of 2 of DeCLUTR's 17 downstream tasks"
    assert columns[f"SentEval, {title} #1"] == ["71.2", "–", "60.5"]
    assert columns[f"SentEval, {title} #2"] == ["–", "82.5", "–"]
    assert table.caption == f"{title} #1: MR, CR\n{title} #2: SST2, TREC"


def test_negatives_are_shown_where_known(tmp_path: Path) -> None:
    quick = json.loads((write(tmp_path / "a") / "quick.json").read_text())
    (tmp_path / "a" / "quick.json").write_text(json.dumps(quick | {"facts": {"negatives per anchor": 1062}}))
    assert "negatives" in printed_table(runs.scan(tmp_path)) and "1,062" in printed_table(runs.scan(tmp_path))
    write(tmp_path / "b", finished=False)
    assert [row["facts"] for row in runs.scan(tmp_path)] == [{"negatives per anchor": 1062}, {}]


def varied_runs(root: Path) -> list[dict[str, object]]:
    """Writes four runs: two seeds of the first temperature, a finished and an unfinished run of the second."""
    for name, seed, temperature, average in (
        ("a", 1, 0.1, 60.0), ("b", 2, 0.1, 64.0), ("c", 1, 0.5, 50.0), ("d", 1, 0.5, 0)
    ):  # fmt: skip
        folder = write(root / name, finished=bool(average))
        config = yaml.safe_load((folder / "config.yaml").read_text())
        config |= {"seed": seed, "objective": {"temperature": temperature}}
        (folder / "config.yaml").write_text(yaml.safe_dump(config))
        overrides = ["objective=declutr", f"seed={seed}", f"objective.temperature={temperature}", "device=cpu"]
        (folder / "environment.json").write_text(json.dumps({"overrides": overrides}))
        if average:
            results = {"averages": {"declutr_downstream (2 of 17)": average}}
            (folder / "senteval.json").write_text(json.dumps(results))
    return runs.scan(root)


def test_overrides_that_distinguish_a_run_are_shown(tmp_path: Path) -> None:
    rows = varied_runs(tmp_path)
    assert rows[0]["special"] == ["objective.temperature=0.1"]
    assert "objective.temperature=0.1" in printed_table(rows)
    table = run_tables.table(runs.scan(tmp_path)[2:])
    assert [*map(str, table.columns[-1].cells)] == ["", ""]  # both runs have this override
    assert table.caption == "overrides of all runs: objective.temperature=0.5"
    (tmp_path / "a" / "environment.json").write_text(
        json.dumps({"command": "experiments/run.py seed=1 optimizer=sgd run_dir=x"})
    )
    assert runs.read(tmp_path / "a")["special"] == ["optimizer=sgd"]  # the format of version 0.1


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("", "abcd"), ("seed=2", "b"), ("objective.temperature>0.1", "cd"), ("state=finished,senteval<=60", "ac"),
        ("seed!=1", "b"), ("objective=declutr", "abcd"), ("objective=gensen", ""), ("run<5", ""),
    ],
)  # fmt: skip
def test_runs_are_selected(tmp_path: Path, where: str, expected: str) -> None:
    assert "".join(str(row["run"]) for row in run_tables.select(varied_runs(tmp_path), where)) == expected


def test_a_condition_may_name_a_key_that_only_other_runs_have(tmp_path: Path) -> None:
    for name, objective in (("a", {"k": 2}), ("b", {"temperature": 0.1})):
        config = yaml.safe_load((write(tmp_path / name) / "config.yaml").read_text())
        (tmp_path / name / "config.yaml").write_text(yaml.safe_dump(config | {"objective": objective}))
    assert run_tables.select(runs.scan(tmp_path), "run=a,objective.temperature=0.1") == []


def test_a_selection_without_runs_names_the_values() -> None:
    rows = [
        {"run": f"r{number}", "state": "finished", "loss": number / 4, "objective": "nsp", "config": {"a": [1]}}
        for number in range(1, 10)
    ]
    for where, values in (
        ("loss>9,objective=sop", "loss is from 0.25 to 2.25; objective is nsp"),
        ("run=x", "run is r1, r2, r3, r4, r5, r6, r7, r8, ..."),
        ("seed=1", "seed is null"),
    ):
        assert run_tables.select(rows, where) == []
        assert run_tables.none_selected(rows, where) == f"where={where} selects none of 9 runs: {values}."


def test_runs_are_sorted(tmp_path: Path) -> None:
    rows = varied_runs(tmp_path)
    orders = {"senteval": "cabd", "-senteval": "bacd", "-run": "dcba", "seed": "acdb"}
    assert {by: "".join(str(row["run"]) for row in run_tables.sort(rows, by)) for by in orders} == orders


def test_unknown_keys_and_conditions_are_one_line(tmp_path: Path) -> None:
    rows = varied_runs(tmp_path)
    with pytest.raises(UserError, match=r"^sort=temperatur: no run has such a key\."):
        run_tables.sort(rows, "temperatur")
    with pytest.raises(UserError, match=r"^where=los: no run has such a key\. Did you mean loss\?$"):
        run_tables.select(rows, "los<3")
    with pytest.raises(UserError, match=r"^where=loss: loss is not of the form key=value"):
        run_tables.select(rows, "loss")


def test_means_are_over_runs_that_differ_in_their_seed(tmp_path: Path) -> None:
    table = run_tables.mean_table(varied_runs(tmp_path))
    columns = {str(column.header): [*map(str, column.cells)] for column in table.columns}
    assert columns["configuration"] == [
        f"declutr roberta-base pydocs teaching objective.temperature={value}" for value in (0.1, 0.5)
    ]
    assert columns["runs"] == ["2", "1"]
    assert columns["senteval"] == ["62 ± 2.83", "50"]
    assert "±" in str(table.title)


def test_single_runs_have_no_deviation(tmp_path: Path) -> None:
    table = run_tables.mean_table([row for row in varied_runs(tmp_path) if str(row["run"]) in "bc"])
    texts = [str(table.title), *(str(cell) for column in table.columns for cell in column.cells)]
    assert not any("±" in text for text in texts)


def printed_table(rows: list[dict[str, object]]) -> str:
    console = Console(width=300, record=True, quiet=False)
    with console.capture() as capture:
        console.print(run_tables.table(rows))
    return capture.get()


def test_runs_with_earlier_probes_are_marked(tmp_path: Path) -> None:
    """Runs with an earlier version of the probes are named in the caption and averaged separately."""
    for name in ("a", "b", "c"):
        folder = write(tmp_path / name)
        quick = json.loads((folder / "quick.json").read_text())
        (folder / "quick.json").write_text(json.dumps(quick | ({"version": 2} if name == "c" else {})))
    rows = runs.scan(tmp_path)
    line = "Not comparable: the probes of a, b are by an earlier classifier than the others'."
    assert run_tables.table(rows).caption == line
    means = run_tables.mean_table(rows)
    assert [*means.columns[1].cells] == ["2", "1"]
    assert "(earlier probes)" in str(next(iter(means.columns[0].cells)))
    assert run_tables.table(rows[:2]).caption is None and len([*run_tables.mean_table(rows[:2]).rows]) == 1
