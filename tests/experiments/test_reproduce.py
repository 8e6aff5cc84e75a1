"""Planning of runs, their cost, and refusals of wrong commands."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from analysis.figures import catalogue
from analysis.figures.exhibits import NLI, VECTORS, Exhibit, Figure, Grid, Table, Value
from analysis.senteval.averages import RULES
from analysis.senteval.tasks import TASKS
from data.errors import UserError
from experiments import compose
from experiments.overrides import file_of, key_of
from experiments.reproduction import planning, settings
from experiments.reproduction.planning import core_seconds, plan
from experiments.reproduction.settings import Reproduction
from tests.experiments.ids import joined

pytestmark = pytest.mark.usefixtures("in_a_small_folder")

NAMES = catalogue.names()
TRAINED = [name for name in NAMES if catalogue.EXHIBITS[name].grids]
# Data that all figures and tables of a paper need at its sizes.
NEEDED = {"gensen": ["corpus.path=.", "objective.parse.gold=.", "objective.nli.path=."]}


def fake_check(overrides: list[str]) -> dict[str, Any]:
    """Stands in for composing: the overrides as a configuration, where the last one of a key counts."""
    names = {"objective": "o", "encoder": "e", "corpus": "c"}
    values: dict[str, Any] = {key_of(text): text.partition("=")[2] for text in overrides}
    objective = {"_target_": "objectives.declutr.Declutr", "chosen": values.get("objective")}
    return values | {"objective": objective, "encoder": {"chosen": values.get("encoder")}, "names": names}


A = (Value("1", ["objective.a=1"], documents=2, epochs=2), Value("2", ["objective.a=2"]))
B = (
    Value("x", ["objective.b=1"], by={"A": {"1": ["objective.c=7"]}}),
    Value("y", ["objective.b=2"], share=0.5),
)


def small_table(teaching: Grid | None = None, paper: Grid | None = None, **changes: Any) -> Table:
    """Returns a table with two axes of two values each and two seeds."""
    grid = teaching or Grid({"A": A, "B": B}, seeds=(1, 2), flops=1e12)
    known = {"id": "paper/1", "title": "t", "base": ["objective=declutr"]} | changes
    return Table(teaching=grid, paper=paper or grid, **known)


def reproduction(**keys: Any) -> Reproduction:
    return Reproduction(figure="paper/1", **keys)


def test_planning_is_a_pure_function_of_its_arguments() -> None:
    once, again = (plan(small_table(), reproduction(), check=fake_check) for _ in range(2))
    assert once == again
    assert len({run.name for run in once}) == len(once) == 2 * 2 * 2
    assert [run.labels for run in once[:3]] == [{"A": "1", "B": "x"}] * 2 + [{"A": "1", "B": "y"}]
    assert [run.seed for run in once[:3]] == [1, 2, 1]


def test_a_run_gets_its_share_of_compute_and_settings_of_combined_values() -> None:
    full, _, half, *_ = plan(small_table(), reproduction(), check=fake_check)
    assert {"objective.a=1", "objective.b=1", "objective.c=7", "budget.flops=1e+12", "budget.documents=32"} <= {
        *full.overrides
    }
    assert (full.flops, half.flops) == (1e12, 5e11)
    assert "objective.c=7" not in plan(small_table(), reproduction(), check=fake_check)[-1].overrides


def test_compute_that_the_user_gives_is_scaled_as_the_figure_needs_it() -> None:
    passed = ["budget.documents=4", "budget.epochs=3", "budget.flops=2e12"]
    runs = plan(small_table(), reproduction(), passed, fake_check)
    assert {"budget.documents=8", "budget.epochs=6", "budget.flops=2e+12"} <= {*runs[0].overrides}
    assert {"budget.documents=4", "budget.epochs=3", "budget.flops=1e+12"} <= {*runs[-1].overrides}
    assert all(sum(text.startswith("budget.epochs") for text in run.overrides) == 1 for run in runs)


def test_added_seeds_and_settings_keep_the_existing_runs() -> None:
    before = {run.name for run in plan(small_table(), reproduction(), check=fake_check)}
    more = plan(small_table(), reproduction(seeds=(1, 2, 3)), check=fake_check)
    assert before < {run.name for run in more}
    table = small_table(Grid({"A": A[1:], "B": B[:1]}, flops=1e12), small_table().paper)
    paper = plan(table, reproduction(grid="paper"), check=fake_check)
    teaching = plan(table, reproduction(), check=fake_check)
    assert {run.name for run in teaching} < {run.name for run in paper}
    assert len(paper) == 4


def test_keys_outside_the_experiment_do_not_change_a_runs_name() -> None:
    plain, *_ = plan(small_table(), reproduction(), check=fake_check)
    other, *_ = plan(small_table(), reproduction(), ["device=cpu", "cache=elsewhere", "workers=2"], fake_check)
    changed, *_ = plan(small_table(), reproduction(), ["corpus=text"], fake_check)
    assert plain.name == other.name != changed.name


def test_equal_settings_share_one_run() -> None:
    grid = Grid({"A": A, "B": [Value("x"), Value("y")]}, seeds=(1, 2))
    assert len(plan(small_table(grid), reproduction(), check=fake_check)) == 2 * 2


def test_left_out_combinations_are_not_run() -> None:
    grid = Grid({"A": A, "B": B}, without=({"A": ("1",), "B": ("x", "y")},), flops=1.0)
    runs = plan(small_table(grid), reproduction(), check=fake_check)
    assert [run.labels for run in runs] == [{"A": "2", "B": "x"}, {"A": "2", "B": "y"}]


def test_a_part_of_a_figure_plans_a_subset_of_its_runs() -> None:
    all_runs = {run.name: run for run in plan(small_table(), reproduction(), check=fake_check)}
    for labels in (["x"], "x"):
        part = plan(small_table(), reproduction(only={"B": labels}), check=fake_check)
        assert [run.labels["B"] for run in part] == ["x"] * 2 * 2
        assert all(all_runs[run.name] == run for run in part)
    assert len(plan(small_table(), reproduction(only={"A": [1], "B": ["y", "x"]}), check=fake_check)) == 1 * 2 * 2


@pytest.mark.parametrize(
    ("only", "message"),
    [
        pytest.param({"C": ["1"]}, r"only\.C: paper/1 has no such axis\. It has A, B\.", id="unknown axis"),
        pytest.param({"A": ["1", "3"]}, r"only\.A must be of 1 \| 2\. Got 3 instead\.", id="unknown value"),
        pytest.param({"A": []}, r"only\.A must be of 1 \| 2\. Got none instead\.", id="no values"),
    ],
)
def test_a_part_that_a_figure_lacks_is_refused(only: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        plan(small_table(), reproduction(only=only), check=fake_check)


@pytest.mark.parametrize("key", ["budget", "grid"])
def test_a_size_that_a_figure_lacks_is_refused(key: str) -> None:
    with pytest.raises(UserError, match=rf"^{key}=paper: paper/1 has {key}=teaching only\.$"):
        plan(replace(small_table(), paper=None), reproduction(**{key: "paper"}), check=fake_check)


def test_a_given_encoder_takes_the_place_of_the_figures() -> None:
    models = [Value("large", ["encoder=roberta-base", "weights=pretrained"]), Value("two")]
    grid = Grid({"model": models}, base=["encoder.vocab_size=9", "corpus=lm1b", "corpus.fraction=0.1"])
    [run] = plan(small_table(grid), reproduction(), ["encoder=gru", "corpus=text"], fake_check)
    assert run.labels == {"model": "gru"}
    assert run.overrides == ("objective=declutr", "budget=teaching", "encoder=gru", "corpus=text", "seed=1")


def test_keys_that_the_figure_varies_cannot_be_overridden() -> None:
    with pytest.raises(UserError, match=r"objective\.b: paper/1 sets it itself \(B: x, y\)\."):
        plan(small_table(), reproduction(), ["objective.b=3"], fake_check)


def test_rows_that_need_a_file_wait_for_it(tmp_path: Path) -> None:
    table = small_table(Grid({"row": [Value("bag", [f"encoder.vectors={VECTORS}"]), Value("other")]}))
    assert [run.labels["row"] for run in plan(table, reproduction(), check=fake_check)] == ["other"]
    assert planning.left_out(table, reproduction()) == ["bag: needs vectors=<file of word vectors>"]
    (tmp_path / "v.txt").touch()
    vectors = str(tmp_path / "v.txt")
    found = plan(table, reproduction(vectors=vectors), check=fake_check)
    assert f"encoder.vectors={vectors}" in found[0].overrides
    assert planning.left_out(table, reproduction(vectors=vectors)) == []
    (tmp_path / "a.jsonl").write_text("{}\n")
    nli = {"path": [str(tmp_path / "a.jsonl")]}
    assert planning.not_taken(table, reproduction(vectors=vectors, nli=nli)) == ["nli"]
    assert planning.not_taken(small_table(), reproduction(vectors=vectors)) == ["vectors"]


def test_nli_is_trained_on_data_or_at_teaching_size_on_generated_pairs(tmp_path: Path) -> None:
    table = small_table(Grid({"row": [Value("NLI", ["objective=nli", f"objective.nli={NLI}"]), Value("other")]}))
    generated, _ = plan(table, reproduction(), check=fake_check)
    assert "objective=nli" in generated.overrides
    assert not any(text.startswith("objective.nli=") for text in generated.overrides)
    assert planning.left_out(table, reproduction()) == []
    assert [run.labels["row"] for run in plan(table, reproduction(budget="paper"), check=fake_check)] == ["other"]
    assert planning.left_out(table, reproduction(budget="paper")) == [
        "NLI: needs nli='{path: [<SNLI and MultiNLI train>]}'"
    ]
    (tmp_path / "a b.jsonl").write_text("{}\n")
    data = {"path": [str(tmp_path / "a b.jsonl")], "dev_fraction": 0.1}
    for size in ("teaching", "paper"):
        on_data, _ = plan(table, reproduction(budget=size, nli=data), check=fake_check)
        [text] = [text for text in on_data.overrides if text.startswith("objective.nli=")]
        assert compose.check(["objective=nli", "encoder=bilstm_max", text])["objective"]["nli"] == data


def test_a_run_that_is_evaluated_with_several_poolings_is_trained_once() -> None:
    rows = [Value(pooling, ["encoder=bundled"], pooling=pooling) for pooling in ("cls", "mean")]
    grid = Grid({"row": rows}, seeds=(1, 2), flops=1e12)
    table = small_table(grid, base=["objective=nsp"])
    runs = plan(table, reproduction())
    assert len({run.name for run in runs}) == 2
    own = compose.check(["objective=nsp", "encoder=bundled"])["encoder"]["pooling"]
    assert own == "mean"
    assert [(run.seed, run.pooling, run.flops) for run in runs] == [
        (1, "cls", 1e12), (2, "cls", 1e12), (1, "", 0.0), (2, "", 0.0),
    ]  # fmt: skip
    assert planning.cost(table, reproduction()) == (2, core_seconds(runs, grid))


def test_a_length_that_the_user_gives_takes_the_place_of_the_grids() -> None:
    table = small_table(Grid({"A": A[1:]}, base=["budget.epochs=1", "encoder.layers=2"], flops=1e12))
    [run] = plan(table, reproduction(), check=fake_check)
    assert {"budget.epochs=1", "encoder.layers=2"} <= {*run.overrides}
    for text in ("budget.flops=2e12", "budget.steps=5", "budget.tokens=9"):
        [run] = plan(table, reproduction(), [text], fake_check)
        assert "encoder.layers=2" in run.overrides
        assert not any(other.startswith("budget.epochs") for other in run.overrides)


# All figures and tables of the catalogue


@pytest.mark.parametrize("name", NAMES)
def test_the_parts_of_every_figure_are_consistent(name: str) -> None:
    exhibit: Exhibit = catalogue.EXHIBITS[name]
    assert exhibit.id == name and exhibit.title
    for grid in exhibit.grids.values():
        assert {*exhibit.point.values()} <= {*grid.axes}
        for values in planning.combinations(exhibit, grid):
            assert {other for value in values for other in value.by} <= {*grid.axes}
        labels = {axis: [value.label for value in values] for axis, values in grid.axes.items()}
        assert all(len({*names}) == len(names) for names in labels.values())
        for part in grid.without:
            assert all({*names} & {*labels[axis]} for axis, names in part.items())
        for value in (value for values in grid.axes.values() for value in values if value.joins):
            assert len(value.joins) > 1 and not value.overrides and not any(part.joins for part in value.joins)
        if isinstance(exhibit, Figure):
            places = {"panel": exhibit.panels, "group": exhibit.groups, "x": exhibit.ticks}
            for key, axis in exhibit.point.items():
                assert {*labels[axis]} - {""} <= {*places[key]}, f"{key} of a point must have a place"
    for metric in exhibit.scores.values():
        assert metric in RULES or metric.partition(".")[0] in TASKS


@pytest.mark.parametrize("name", TRAINED)
def test_at_teaching_size_a_figure_takes_at_most_an_hour_on_two_cores(name: str) -> None:
    exhibit = catalogue.EXHIBITS[name]
    runs, seconds = planning.cost(exhibit, Reproduction(figure=name))
    assert seconds <= 2 * 3600
    assert runs <= 60


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "size"), [(name, size) for name in TRAINED for size in catalogue.EXHIBITS[name].grids]
)
def test_all_runs_of_every_figure_can_be_composed(
    name: str, size: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for file in ("v.txt", "n.tsv"):
        (tmp_path / file).write_text("not empty\n")
    keys: dict[str, Any] = {"figure": name, "budget": size, "vectors": "v.txt", "nli": {"path": "n.tsv"}}
    passed = NEEDED.get(name.split("/")[0], []) if size == "paper" else []
    runs = plan(catalogue.EXHIBITS[name], Reproduction(**keys), passed)
    assert len({(run.name, run.pooling) for run in runs}) == len(runs) > 0


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("declutr/s1b", "declutr_v1/s1b"),
        ("DeCLUTR/S1a", "declutr_v1/s1a"),
        ("declutr/fig2a", "declutr/2a"),
        ("conssent/1", "conssent/fig1"),
        ("conssent/figure_3", "conssent/fig3"),
        ("gensen/table3", "gensen/table3"),
    ],
)
def test_common_spellings_of_a_figures_name_are_found(spelling: str, name: str) -> None:
    assert catalogue.find(spelling).id == name


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ([], "figure is not set: figure=<paper>/<name>; list=true names all."),
        (["figur=declutr/2a"], "figur: no such key. Did you mean figure?"),
        (["figure=declutr/2a", "budget=laptop"], "budget must be 'teaching' or 'paper'. Got 'laptop' instead."),
        (["figure=declutr/2a", "seed=3"], "seed: the command sets it for each run; seeds=[..] gives all of them."),
        (
            ["figure=declutr/2a", "evaluation.data=x"],
            "evaluation.data: the command sets it for each run; data=<SentEval",
        ),
        (["figure=declutr/2a", "seeds=[-1]"], "seeds must be at least 0. Got [-1] instead."),
        (["figure=declutr/2a", "jobs=0"], "jobs must be at least 1. Got 0 instead."),
        (["figure=declutr/2a", "data=nowhere"], "data=nowhere: there is no such file or folder."),
        (["figure=declutr/2a", "nli={pth: x}"], "nli.pth: no such key. Did you mean nli.path?"),
        (["figure=declutr/2a", "nli={path: nowhere.jsonl}"], "nli.path: there is no nowhere.jsonl"),
        (["figure=declutr/2a", "tasks=[TREK]"], "tasks: there is no task 'TREK'; did you mean TREC?"),
        (["figure=declutr/2a", "protocol=x"], "protocol=x: no such protocol. Available: default,"),
        (["declutr/2a"], "declutr/2a: not of the form key=value."),
    ],
    ids=joined,
)
def test_refusals_are_one_line_each(arguments: list[str], line: str) -> None:
    with pytest.raises(UserError) as refusal:
        settings.read(arguments)
    assert str(refusal.value).splitlines()[0].startswith(line)
    assert len(str(refusal.value).splitlines()) == 1


def test_all_faults_are_reported_at_once() -> None:
    with pytest.raises(UserError) as refusal:
        settings.read(["figur=1", "jobs=none", "run_dir=x"])
    assert len(str(refusal.value).splitlines()) == 3


def test_an_unknown_figure_is_reported_with_the_nearest_name() -> None:
    with pytest.raises(UserError, match=r"figure=declutr/2d: no such figure or table\. Did you mean declutr/2"):
        catalogue.find("declutr/2d")


@pytest.mark.parametrize(
    ("name", "line"),
    [
        (
            "declutr_v1",
            "figure=declutr_v1: a paper, not one of its figures. Available: declutr_v1/2a, ",
        ),
        ("suite", "figure=suite: this suite, not one of its figures. Available: suite/compute, "),
    ],
)
def test_a_paper_in_place_of_a_figure_lists_its_figures(name: str, line: str) -> None:
    with pytest.raises(UserError, match=f"^{line}"):
        catalogue.find(name)


def test_keys_of_runs_are_passed_on() -> None:
    requested, passed = settings.read(
        ["figure=declutr/2a", "seeds=[3]", "encoder=gru", "+clipping=norm_5", "dry_run=true"]
    )
    assert (requested.seeds, requested.dry_run) == ((3,), True)
    assert passed == ["encoder=gru", "+clipping=norm_5"]


def test_help_names_every_key() -> None:
    text = file_of("reproduce").read_text(encoding="utf-8")
    assert all(re.search(rf"^{key}: ", text, re.MULTILINE) for key in Reproduction.__dataclass_fields__)
