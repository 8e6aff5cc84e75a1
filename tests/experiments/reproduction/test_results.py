"""From run folders to points, marks and tables: notes on scores, and where printed scores are shown."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from analysis.figures import catalogue
from analysis.figures.claims import greater
from analysis.figures.exhibits import Figure, Grid, PrintedRows, Table, Value
from analysis.figures.scores import Point
from analysis.figures.verdicts import Claim, decide
from analysis.reporting.rendering import as_markdown
from data.errors import UserError
from encoders import BUNDLED
from encoders.starts import CHECKPOINTS
from experiments.planned_runs import results_folder
from experiments.reproduction import results, tables
from experiments.reproduction.planning import Run
from tests.encoders.models import tiny


def record(score: float, **changes: Any) -> dict[str, Any]:
    """Returns a record of TREC on all of SentEval's data."""
    return {
        "kind": "kfold", "protocol": "default", "dev": score - 1, "test": score, "n_train": 5452, "n_dev": 5452,
        "n_test": 500, "l2": 1e-5, "seconds": 1.0, "files": "f",
    } | changes  # fmt: skip


def write_run(
    folder: Path, run: Run, quick: float, tasks: dict[str, Any] | None = None, synthetic: str = ""
) -> None:
    path = folder / run.name
    (path / "encoder").mkdir(parents=True)
    names = {"objective": "conssent", "encoder": "bilstm_max", "corpus": "text", "budget": "teaching"}
    vectors = {"vectors": "data/glove.txt.gz"} if run.labels.get("lr") == "high" else {}
    (path / "config.yaml").write_text(json.dumps({"names": names, "seed": run.seed, "encoder": vectors}))
    (path / "metrics.jsonl").write_text(json.dumps({"step": 9, "loss": 1.0, "tokens": 1000 * run.seed}) + "\n")
    facts = {"negatives per anchor": 62} | ({"synthetic": synthetic} if synthetic else {})
    scores = {"start": {}, "trained": {"recall@1": quick}, "weights": "random", "facts": facts}
    (path / "quick.json").write_text(json.dumps(scores))
    if tasks is not None:
        places, model = {"downstream": "data/downstream"}, {"name": run.name, "fingerprint": run.name}
        (path / "senteval.json").write_text(
            json.dumps({"tasks": tasks, "model": model, "protocol": "default", "data": places})
        )


@pytest.fixture
def planned() -> list[Run]:
    return [
        Run({"task": group, "row": group, "k": x, "lr": lr}, seed, (), 1.0, f"{group}{x}{lr}{seed}")
        for group in "DR"
        for x in "12"
        for lr in ("low", "high")
        for seed in (1, 2)
    ]


def figure(panel: str = "TREC", metric: str = "TREC.test") -> Figure:
    return Figure(
        id="some/fig", title="t", kind="line", x="k", y="accuracy, %", panels=["TREC"], groups=["D", "R"],
        ticks=["1", "2"], point={"group": "task", "x": "k"}, scores={panel: metric},
        printed_rows=PrintedRows("conssent", {"ConsSent-D(5)": {"group": "D", "x": "1"}}),
    )  # fmt: skip


def test_quick_scores_are_marked_and_never_shown_with_printed_ones(tmp_path: Path, planned: list[Run]) -> None:
    for run in planned[:3]:
        write_run(tmp_path, run, 10.0 + run.seed)
    found = results.collect(planned, tmp_path, None)
    assert [run.name for run in found.facts] == ["D1low1", "D1low2", "D1high1"]
    shown, points, [note], by = results.by_quick(figure(), found)
    assert shown.y == "recall@1 on held-out text, % (quick evaluation, not SentEval)"
    assert shown.printed == ()
    assert "there is no SentEval data here" in note
    assert by == shown.y
    assert [(point.group, point.x, point.seed, point.score, point.setting, point.run) for point in points] == [
        ("D", "1", 1, 11.0, "lr=low", "D1low1"),
        ("D", "1", 2, 12.0, "lr=low", "D1low2"),
        ("D", "1", 1, 11.0, "lr=high", "D1high1"),
    ]
    line = results.sizes(found, "teaching sizes", [*found.facts])
    for part in (
        "3 runs at teaching sizes;",
        "weights random, random with word vectors of glove.txt.gz",
        "1,000 to 2,000",
        "anchor 62",
        "seeds 1, 2",
    ):
        assert part in line
    for seeds, shown_as in (((3, 1, 2), "1 to 3"), ((1, 3, 4), "1, 3, 4"), ((2,), "2"), ((None,), "–")):
        assert results._seeds(seeds) == shown_as


def test_probes_of_two_versions_are_marked_in_figures_and_tables(tmp_path: Path, planned: list[Run]) -> None:
    for version, run in enumerate(planned[:2], start=1):
        write_run(tmp_path, run, 10.0)
        quick = json.loads((tmp_path / run.name / "quick.json").read_text())
        quick["trained"] |= {"probe_word_content": 20.0}
        (tmp_path / run.name / "quick.json").write_text(json.dumps(quick | {"version": version}))
    found = results.collect(planned, tmp_path, None)
    line = "Not comparable: the probes of D1low1 are by an earlier classifier than the others'."
    assert line not in results.by_quick(figure(), found).notes  # it shows recall@1 only
    probed = replace(figure(), quick={"WC": "probe_word_content"})
    assert line in results.by_quick(probed, found).notes
    assert line in tables.quick_grid(table(), found).notes
    of_one_version = results.collect(planned[:1], tmp_path, None)
    assert (
        line not in results.by_quick(probed, of_one_version).notes
        and line not in tables.quick_grid(table(), of_one_version).notes
    )


def test_complete_scores_on_full_data_are_shown_with_the_printed_ones(tmp_path: Path, planned: list[Run]) -> None:
    for run in planned:
        write_run(tmp_path, run, 1.0, {"TREC": record(80.0 + run.seed)})
    found = results.collect(planned, tmp_path, "default")
    shown, points, notes, by = results.by_senteval(figure(), found)
    assert len(points) == len(planned) and not by
    assert {(point.panel, point.score) for point in points} == {("TREC", 81.0), ("TREC", 82.0)}
    assert [(mark.panel, mark.group, mark.x, mark.score) for mark in shown.printed] == [("TREC", "D", "1", 91.2)]
    assert notes == ["Scores: TREC.test, SentEval, protocol default."]


def test_scores_on_other_data_are_marked_and_shown_without_printed_ones(
    tmp_path: Path, planned: list[Run]
) -> None:
    for run in planned[:2]:
        write_run(tmp_path, run, 1.0, {"TREC": record(80.0, n_train=100)})
    found = results.collect(planned, tmp_path, "default")
    shown, _, notes, _ = results.by_senteval(figure(), found)
    assert shown.printed == []
    assert notes[0] == "Scores: TREC.test (not comparable), SentEval, protocol default."
    assert any("is not comparable with printed values" in note for note in notes)


def test_an_average_covers_the_tasks_that_all_runs_have(tmp_path: Path, planned: list[Run]) -> None:
    first, second = planned[:2]
    cr = record(60.0, kind="nested", n_train=3775, n_test=3775)
    write_run(tmp_path, first, 1.0, {"TREC": record(80.0), "CR": cr})
    write_run(tmp_path, second, 1.0, {"TREC": record(90.0)})
    found = results.collect(planned, tmp_path, "default")
    exhibit = figure("", "declutr_downstream")
    shown, points, notes, by = results.by_senteval(exhibit, found)
    assert [point.score for point in points] == [80.0, 90.0]
    assert notes == [
        "Scores: mean of 1 of DeCLUTR's 17 downstream tasks, SentEval, protocol default.",
        "In printed rows, mean of 1 of DeCLUTR's 17 downstream tasks is computed from their cells over the same "
        "tasks.",
    ]
    assert [mark.score for mark in shown.printed] == [91.2]  # ConsSent-D(5)'s TREC
    assert by == "mean of 1 of DeCLUTR's 17 downstream tasks"


def test_runs_without_a_score_are_not_counted_in_a_figure(tmp_path: Path, planned: list[Run]) -> None:
    """One run has two tasks of the figure, one the first of them, one another figure's task, and one none."""
    tasks_of_runs = [
        {"TREC": record(80.0), "SST2": record(80.0)},
        {"TREC": record(80.0)},
        {"SST5": record(80.0)},
        None,
    ]
    for run, tasks in zip(planned, tasks_of_runs, strict=False):
        write_run(tmp_path, run, 1.0, tasks)
    found = results.collect(planned, tmp_path, "default")
    shown, lacking = results.scored(found, ("TREC", "SST2", "CR"))
    assert shown == planned[:2] and lacking == 3
    assert results.sizes(found, "teaching", shown).startswith("2 runs at")
    assert results.scored(found, ("SST5",)) == ([planned[2]], 3)


def test_opposite_differences_do_not_average_to_a_marginal_one() -> None:
    """In figure S1a one head gains as much as the other loses: neither difference is marginal."""
    exhibit = catalogue.EXHIBITS["declutr_v1/s1a"]

    def outcome(difference: float) -> str:
        gains = (("none", "", 0.0), ("linear", "128", -difference), ("non-linear", "128", difference))
        points = [
            Point("", group, x, seed, 50 + gain + 0.01 * (seed * len(group) % 4))
            for group, x, gain in gains
            for seed in range(4)
        ]
        outcomes_by_claim = {
            verdict.claim.id: verdict.outcome for verdict in decide(exhibit.claims, exhibit.over(points))
        }
        return outcomes_by_claim["proj_marginal"]

    assert outcome(0.1) == "held"
    assert outcome(1.5) == "not held"


def outcomes(name: str, panel: str, scores: dict[str, float]) -> dict[str, str]:
    """Returns the outcome of each claim of a table whose rows have three seeds close to the given scores."""
    table = catalogue.EXHIBITS[name]
    assert panel in table.scores
    points = [
        Point(panel, row, "", seed, score + 0.01 * (seed * len(row) % 3))
        for row, score in scores.items()
        for seed in (1, 2, 3)
    ]
    return {verdict.claim.id: verdict.outcome for verdict in decide(table.claims, table.over(points))}


def test_claims_of_table_4_must_hold_for_every_model() -> None:
    rows = {"NSP-CLS": 50.0, "SOP-CLS": 45.0, "MLM-CLS": 55.0}
    rows |= {"NSP-mean": 60.0, "SOP-mean": 61.0, "MLM-mean": 62.0}
    found = outcomes("declutr/table4", "downstream", rows)
    assert (found["mean_above_cls"], found["sentence_losses_no_better"]) == ("held", "held")
    found = outcomes("declutr/table4", "downstream", rows | {"MLM-mean": 50.0})
    assert found["mean_above_cls"] == "not held", "MLM is an exception"
    found = outcomes("declutr/table4", "downstream", rows | {"NSP-CLS": 58.0, "NSP-mean": 60.0})
    assert found["sentence_losses_no_better"] == "not held", (
        "NSP is an exception, though the mean of NSP and SOP is below MLM"
    )


def test_claims_about_the_objectives_are_decided_on_their_rows() -> None:
    rows = {
        "the start": 50.0,
        "MLM only": 55.0,
        "contrastive only": 54.0,
        "NSP": 52.0,
        "SOP": 53.0,
        "TSDAE": 56.0,
        "DeCLUTR": 60.0,
    }
    found = outcomes("suite/objectives", "downstream", rows | {"QuickThoughts": 58.0})
    for statement in ("above_start", "both_losses", "sentence_losses_no_better", "quick_thoughts"):
        assert found[statement] == "held"
    assert found["tsdae_above_mlm"] == "held" and found["simcse_on_sts"] == "not computed here"
    found = outcomes("suite/objectives", "downstream", rows | {"NSP": 58.0, "TSDAE": 54.0, "QuickThoughts": 62.0})
    for statement in ("sentence_losses_no_better", "quick_thoughts", "tsdae_above_mlm"):
        assert found[statement] == "not held"
    found = outcomes("suite/objectives", "downstream", rows | {"contrastive only": 65.0})
    assert found["both_losses"] == "not held", "DeCLUTR is above MLM only, but below contrastive only"
    sts = {"SimCSE": 70.0, "DeCLUTR": 65.0}
    assert outcomes("suite/objectives", "STS12-16 (all)", sts)["simcse_on_sts"] == "held"


def table(**changes: Any) -> Table:
    known = {"id": "some/table", "title": "ConsSent, table 2", "printed_paper": "conssent", "columns": ["TREC"]}
    return Table(**known | changes)


def test_a_table_has_a_row_of_means_for_each_label_above_the_papers(tmp_path: Path, planned: list[Run]) -> None:
    for run in planned[:2]:
        write_run(tmp_path, run, 1.0, {"TREC": record(80.0 + run.seed)})
    found = results.collect(planned, tmp_path, "default")
    grid, notes = tables.senteval_table(table(), found)
    assert [(row.name, row.cells["TREC", "test"].text) for row in grid.ours] == [("D", "81.50 ± 0.71")]
    assert "ConsSent-D(5)" in {row.name for row in grid.printed}
    assert notes == []
    [path, other] = tables.write(table(), grid, tmp_path / "out", ["A note."])
    assert "A note." in path.read_text()
    assert other.read_text().startswith("model,source,protocol,TREC")


def test_a_table_on_other_data_shows_no_printed_rows(tmp_path: Path, planned: list[Run]) -> None:
    cr = record(70.0, kind="nested", n_train=3775, n_dev=3775, n_test=3775)
    tasks = {"TREC": record(80.0), "CR": cr, "Length": record(60.0, kind="split", n_train=100)}
    write_run(tmp_path, planned[0], 1.0, tasks)
    grid, notes = tables.senteval_table(table(columns=["Length"]), results.collect(planned, tmp_path, "default"))
    assert ("Length", "test") in grid.columns and not grid.printed
    assert notes == ["The printed rows are left out: no task of the table was evaluated on SentEval's own data."]


def test_claims_of_a_table_are_decided_on_its_rows(tmp_path: Path) -> None:
    rows = {"D": [80.0, 81.0, 82.5], "R": [84.0, 85.5, 86.0], "LangMod": [84.5, 85.0, 86.5]}
    planned = [Run({"row": row}, seed, (), 1.0, f"{row}{seed}") for row in rows for seed in (1, 2, 3)]
    for run in planned:
        synthetic = {"synthetic": "nli"} if run.labels["row"] == "LangMod" else {}
        write_run(tmp_path, run, 1.0, {"TREC": record(rows[run.labels["row"]][run.seed - 1])}, **synthetic)

    def claim(name: str, left: str, right: str) -> Claim:
        return Claim(
            name, name, "5", lambda scores: greater(scores(panel="TREC", group=left), scores(group=right))
        )

    claims = [claim("r above d", "R", "D"), claim("d above r", "D", "R"), claim("all", "R", "LangMod")]
    grid = Grid({"row": [Value(row) for row in rows]})
    claimed = table(claims=claims, scores={"TREC": "TREC.test"}, teaching=grid)
    found = results.collect(planned, tmp_path, "default")
    text = "\n".join(results.claimed(claimed, found))
    assert re.findall(r"\*\*(.*?)\*\*.*: (.*)", text) == [
        ("held", "r above d"), ("not held", "d above r"), ("undecided at this size", "all")
    ]  # fmt: skip
    # (4.0, 4.5, 3.5): mean 4, standard error 0.5 / sqrt(3), t(2) = 4.303
    assert "R − D: +4.00 points [+2.76, +5.24], 3 seeds" in text.replace("TREC: ", "")
    assert "TREC here" not in text
    assert text.count("LangMod learned nli from synthetic pairs") == 1  # only at the claim about LangMod
    assert results.claimed(table(), found) == []
    text = "\n".join(results.claimed(replace(claimed, scores={"TREC": "conssent_all"}), found))
    assert text.count("TREC here: mean of 1 of ConsSent's 20 tasks") == len(claims)


def test_a_table_by_the_quick_evaluation_has_no_printed_rows(tmp_path: Path, planned: list[Run]) -> None:
    for run in planned[:3]:
        write_run(tmp_path, run, 10.0 + run.seed)
    grid = tables.quick_grid(table(), results.collect(planned, tmp_path, None))
    assert [row.name for row in grid.ours] == ["D"]
    assert grid.printed == []
    assert "not comparable with the paper's scores" in as_markdown(grid)


def test_rows_trained_on_synthetic_text_are_marked(tmp_path: Path, planned: list[Run]) -> None:
    first, last = planned[0], planned[-1]
    write_run(tmp_path, first, 10.0, {"TREC": record(80.0)}, synthetic="nli")
    write_run(tmp_path, last, 20.0, {"TREC": record(90.0)})
    found = results.collect(planned, tmp_path, "default")
    for grid in (tables.quick_grid(table(), found), tables.senteval_table(table(), found)[0]):
        assert [row.name for row in grid.ours] == ["D (synthetic nli)", "R"]
    assert "1 of the runs learned nli from synthetic pairs" in results.sizes(
        found, "teaching sizes", [*found.facts]
    )


def test_each_pooling_has_separate_results(tmp_path: Path) -> None:
    rows = [
        Run({"row": f"NSP-{name}"}, 1, (), 1.0, "nsp", pooling) for name, pooling in (("CLS", "cls"), ("mean", ""))
    ]
    write_run(tmp_path, rows[1], 10.0, {"TREC": record(80.0)})
    cls_results = results_folder(tmp_path / "nsp", "default", "cls")
    assert cls_results != results_folder(tmp_path / "nsp", "default")
    cls_results.mkdir()
    model = {"name": "nsp", "pooling": "cls"}
    content = {
        "tasks": {"TREC": record(60.0)},
        "model": model,
        "protocol": "default",
        "data": {"downstream": "data/downstream"},
    }
    (cls_results / "senteval.json").write_text(json.dumps(content))
    found = results.collect(rows, tmp_path, "default")
    grid, _ = tables.senteval_table(table(), found)
    assert {row.name: row.cells["TREC", "test"].value for row in grid.ours} == {"NSP-CLS": 60.0, "NSP-mean": 80.0}
    quick = tables.quick_grid(table(), found)
    assert [row.name for row in quick.ours] == ["NSP-mean"]
    assert "not their encoder's own pooling: NSP-CLS." in as_markdown(quick)
    assert results.sizes(found, "teaching", results.scored(found, None)[0]).startswith("1 run at")


def test_tables_without_training_are_shown(tmp_path: Path) -> None:
    sizes = catalogue.EXHIBITS["declutr/table1"]
    assert isinstance(sizes, Table)
    shown = as_markdown(tables.untrained(sizes, []))  # type: ignore[arg-type]
    assert "| DeCLUTR-small | 82.2M | 768 |" in shown
    card = (CHECKPOINTS / BUNDLED / "README.md").read_text(encoding="utf-8")
    count = int(re.findall(r"([\d,]+) parameters", card)[0].replace(",", ""))
    assert f"| bundled | {count / 1e6:.1f}M | 320 |" in shown
    assert "| declutr: DeCLUTR-base | 125M | 768 |" in shown


def test_another_evaluation_fills_a_table(tmp_path: Path) -> None:
    (tmp_path / "sentences.txt").write_text("one\ntwo\n")
    request = table(evaluation="neighbours", settings={"sentences": "{data}", "queries": ["a query"]})
    models = {f"a_row, seed {seed}": tmp_path / f"run_{seed}" for seed in (1, 2)}
    for folder in models.values():
        tiny().save(folder / "encoder")
        (folder / "config.yaml").write_text("")
    parts = tables.evaluation_text(request, models, str(tmp_path / "sentences.txt")).split("\n\n")
    assert parts[0] == r"## a\_row, seed 1" and parts[3] == r"## a\_row, seed 2"
    assert parts[1] == parts[4] == "**a query**" and "one" in parts[2] and "two" in parts[2]
    with pytest.raises(UserError, match=r"^neighbours: sentences=none: there is no such file\.$"):
        tables.evaluation_text(request, models, "none")
