"""Plans of the papers' figures and tables."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from analysis.figures import catalogue, suite
from analysis.figures.exhibits import Exhibit
from data.errors import UserError
from experiments import compose
from experiments.reproduction.planning import plan
from experiments.reproduction.settings import Reproduction
from tests.tiny_encoder import TinyEncoder

pytestmark = pytest.mark.usefixtures("in_a_small_folder")

TRAINED = [name for name in catalogue.names() if catalogue.EXHIBITS[name].grids]


def only(name: str, budget: Any, **axes: Any) -> Exhibit:
    """Returns the figure or table with one seed and, of the given axes, only the given values."""
    exhibit = catalogue.EXHIBITS[name]
    grid = exhibit.grids[budget]
    chosen = {
        axis: [value for value in grid.axes[axis] if value.label in map(str, labels)]
        for axis, labels in axes.items()
    }
    changes: dict[str, Any] = {budget: replace(grid, axes={**grid.axes, **chosen}, seeds=(1,))}
    return replace(exhibit, **changes)


@pytest.mark.parametrize(("task", "k", "row"), [("R", 2, "R(2)"), ("MT", 2, "MT(3)")])
def test_conssents_tables_and_figures_share_their_runs(task: str, k: int, row: str) -> None:
    """At the paper's sizes each encoder takes days on a GPU. For MT, x = 2 in figure 3 is k = 3 in table 2."""
    plans = [
        plan(only(name, "paper", **axes), Reproduction(figure=name, budget="paper"))
        for name, axes in (
            ("conssent/fig3", {"task": [f"ConsSent-{task}"], "k": [k]}),
            ("conssent/table2", {"row": [f"ConsSent-{row}"]}),
        )
    ]
    [[in_figure], [in_table]] = plans
    assert in_figure.name == in_table.name


def test_the_language_model_is_trained_with_its_preset() -> None:
    [run] = plan(
        only("conssent/table2", "paper", row=["LangMod"]), Reproduction(figure="conssent/table2", budget="paper")
    )
    config, preset = (
        compose.check(list(overrides)) for overrides in (run.overrides, ["+experiment=conssent/langmod"])
    )
    for key in ("budget", "optimizer", "schedule", "encoder", "corpus", "sentences", "dev_batches"):
        assert config[key] == preset[key], key
    for requested_epochs, epochs in (("0.5", 0.5), ("3", 1)):
        reproduction = Reproduction(figure="conssent/table2", budget="paper")
        [run] = plan(
            only("conssent/table2", "paper", row=["LangMod"]), reproduction, [f"budget.epochs={requested_epochs}"]
        )
        assert f"budget.epochs={epochs:g}" in run.overrides


MANY_ROWS = ("conssent/fig2", "conssent/fig3")  # take long to compose


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (name in MANY_ROWS))
        for name in TRAINED
        if not name.startswith("declutr") and "paper" in catalogue.EXHIBITS[name].grids
    ],
)
def test_the_papers_values_are_planned_at_the_suites_sizes(name: str) -> None:
    """``grid=paper`` has the paper's rows, but encoders of teaching size."""

    def sizes(grid: Any) -> set[tuple[Any, str]]:
        found = set()

        def checked(overrides: list[str]) -> dict[str, Any]:
            config = compose.check(overrides)
            found.add((config["encoder"].get("hidden"), config["optimizer"]["_target_"]))
            return config

        assert plan(catalogue.EXHIBITS[name], Reproduction(figure=name, grid=grid, seeds=(1,)), check=checked)
        return found

    assert sizes("paper") <= sizes("teaching")


@pytest.mark.parametrize("name", ["declutr/3", "declutr_v1/3"])
def test_every_run_of_figure_3_is_one_epoch(name: str) -> None:
    exhibit = only(name, "teaching", objective=["contrastive only", "MLM + contrastive"], size=[10, 100])
    lengths = []
    for run in plan(exhibit, Reproduction(figure=name)):
        config = compose.check(list(run.overrides))
        planned = compose.build(config["budget"], "budget").plan(
            step_flops=1e10, step_tokens=1.0, steps_per_epoch=127
        )
        lengths.append((config["corpus"]["fraction"], planned.epochs))
    assert lengths == [(0.1, 1.0), (1.0, 1.0)] * 2


def test_table_4_evaluates_one_run_with_each_pooling_after_equal_tokens() -> None:
    exhibit = catalogue.EXHIBITS["declutr/table4"]
    reproduction = Reproduction(figure="declutr/table4", seeds=(1,))
    runs = [run for run in plan(exhibit, reproduction) if run.labels["row"] != "word vectors"]
    poolings: dict[str, list[str]] = {}
    for run in runs:
        poolings.setdefault(run.name, []).append(run.pooling)
    assert sorted(poolings.values()) == [["cls", ""], ["cls", "", "pooler"], ["cls", "", "pooler"]]
    tokens = {compose.check(list(run.overrides))["budget"]["tokens"] for run in runs}
    assert tokens == {7.5e5}


def test_transformers_learn_nli_as_sentence_bert_does() -> None:
    """Table S5 of DeCLUTR's first version uses the settings of the published program, except for the length."""
    exhibit = only("declutr_v1/table_s5", "teaching", row=["bundled, after"])
    [run] = plan(exhibit, Reproduction(figure="declutr_v1/table_s5"))
    config = compose.check(list(run.overrides))
    preset = compose.check(["+experiment=sentence_bert/allnli", "objective.nli.path=."])
    assert config["objective"]["features"] == "sentence_bert"
    assert config["objective"]["batch_size"] == 16
    for key in ("schedule", "gradient_norm"):
        assert config[key] == preset[key], key
    assert config["optimizer"]["weight_decay"] == preset["optimizer"]["weight_decay"]


@pytest.mark.parametrize("name", ["declutr/3", "declutr_v1/s1a", "declutr/table2"])
def test_a_papers_corpus_is_used_in_full(name: str) -> None:
    """Except for a small share of held-out text for dev losses."""
    exhibit = catalogue.EXHIBITS[name]
    config = compose.check([*exhibit.base, *exhibit.grids["paper"].base, "objective=declutr"])
    assert config["names"]["corpus"] == "openwebtext"
    assert 0 < config["corpus"]["dev_fraction"] <= 1e-3


@pytest.mark.parametrize(("size", "documents"), [("teaching", 16), ("teaching", 6), ("paper", 16)])
def test_one_and_two_anchors_see_equal_spans_in_equal_effective_batches(size: Any, documents: int) -> None:
    """As in section 5.2 of DeCLUTR; checked on the composed configurations of the runs."""
    exhibit = catalogue.EXHIBITS["declutr/2a"]
    axes = exhibit.grids[size].axes
    narrow = {"P": [axes["P"][0], axes["P"][2]], "tau": axes["tau"][-1:], "model": axes["model"][:1]}
    grid = replace(exhibit.grids[size], axes={**axes, **narrow}, without=(), seeds=(1,))
    changes: dict[str, Any] = {size: grid}
    reproduction = Reproduction(figure="declutr/2a", budget=size)
    by_condition: dict[tuple[str, str], dict[str, Any]] = {}
    for run in plan(replace(exhibit, **changes), reproduction, [f"budget.documents={documents}"]):
        config = compose.check(list(run.overrides))
        by_condition.setdefault((run.labels["P"], run.labels["lr"]), {})[run.labels["A"]] = config
    for configs in by_condition.values():
        one, two = configs["1"], configs["2"]
        batches, spans = [], []
        for config in (one, two):
            objective = compose.build(config["objective"], "objective")
            length = compose.build(config["budget"], "budget").plan(
                step_flops=objective.step_flops(TinyEncoder()),
                step_tokens=1.0,
                steps_per_epoch=960 / objective.batch_size,  # the corpus has 960 documents
            )
            batches.append(objective.batch_size * objective.sampler.anchors_per_document)
            spans.append(length.steps * batches[-1])
        assert batches == [2 * documents] * 2  # anchors, and as many mean positives: 4N embeddings
        assert spans[0] == spans[1]
        differing = {key for key in one["objective"] if one["objective"][key] != two["objective"][key]}
        assert differing == {"anchors_per_document", "batch_size"}
    assert len(by_condition) == 2 * len(grid.axes["lr"])


@pytest.mark.parametrize("size", ["teaching", "paper"])
def test_all_objectives_share_optimiser_settings_except_learning_rates(size: Any) -> None:
    """By default each objective has another optimiser, which would decide the comparison."""
    grid = catalogue.EXHIBITS["suite/objectives"].grids[size]
    rows = [row.label for row in grid.axes["row"] if row.label != "the start"]
    runs = plan(only("suite/objectives", size, row=rows), Reproduction(figure="suite/objectives", budget=size))
    configs = [compose.check(list(run.overrides)) for run in runs]
    assert len({config["names"]["objective"] for config in configs}) == len(rows) == 8
    for config in configs:
        config["optimizer"].pop("lr")
        if size == "teaching" and config["names"]["objective"] == "simcse":
            assert config["encoder"]["dropout"] == 0.1  # the only noise of SimCSE
            config["encoder"]["dropout"] = 0.0
    for key in ("optimizer", "schedule", "gradient_norm", "accumulation", "encoder", "weights", "corpus"):
        assert all(config[key] == configs[0][key] for config in configs), key
    for key in ("tokens", "min_span", "max_span", "documents", "sentences"):
        assert len({config["budget"][key] for config in configs}) == 1, key


def test_the_learning_rate_search_uses_the_settings_of_the_comparison() -> None:
    searched, compared = (
        plan(catalogue.EXHIBITS[name], Reproduction(figure=name, seeds=(1,)), ["budget.tokens=1e6"])
        for name in ("suite/learning_rates", "suite/objectives")
    )
    names = {run.name for run in searched}
    assert {run.labels["row"] for run in compared if run.name in names} == {*suite.BEST}


def test_at_equal_compute_no_run_sets_its_tokens() -> None:
    reproduction = Reproduction(figure="suite/compute", seeds=(1,))
    runs = plan(catalogue.EXHIBITS["suite/compute"], reproduction, ["budget.flops=2e13"])
    assert len(runs) == 2 * 8 + 1
    for run in runs:
        budget = compose.check(list(run.overrides))["budget"]
        if run.labels["objective"] == "the start":
            assert run.labels["compute"] == "" and budget["steps"] == 1
        else:
            assert (budget["tokens"], budget["steps"], budget["epochs"]) == (None, None, None)
            assert budget["flops"] == {"1/4": 5e12, "1": 2e13}[run.labels["compute"]]


# The command line


def test_keys_of_an_encoder_are_not_applied_to_rows_of_another(tmp_path: Path) -> None:
    """In table 4, an attention given on the command line applies to transformers, not to word vectors."""
    (tmp_path / "v.txt").write_text("a 1 2\n")
    reproduction = Reproduction(figure="declutr/table4", vectors=str(tmp_path / "v.txt"))
    rows = only("declutr/table4", "teaching", row=["word vectors", "NSP-mean"])
    runs = plan(rows, reproduction, ["encoder.attention=eager"])
    words, transformer = (compose.check(list(run.overrides))["encoder"] for run in runs)
    assert transformer["attention"] == "eager" and "attention" not in words
    with pytest.raises(UserError, match=r"encoder\.attentoin"):
        plan(only("declutr/table4", "teaching", row=["NSP-mean"]), reproduction, ["encoder.attentoin=eager"])
