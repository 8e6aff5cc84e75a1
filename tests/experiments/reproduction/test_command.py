"""``reproduce.py``: runs are trained, reused, resumed, evaluated and drawn; failures are reported."""

from __future__ import annotations

import csv
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis.figures.claims import greater
from analysis.figures.exhibits import Ensemble, Figure, Grid, Value
from analysis.figures.scores import Mark
from analysis.figures.verdicts import Claim
from analysis.senteval.tasks import TASKS
from data.errors import UserError
from experiments import planned_runs
from experiments.jobs import Job
from experiments.planned_runs import Evaluation
from experiments.progress import Display
from experiments.reproduction import command, planning, results, settings
from experiments.reproduction.command import Work
from experiments.reproduction.planning import Run
from tests.experiments import tiny
from tests.experiments.reproduction.test_results import record, write_run

TAUS = (Value("0.05", ["objective.temperature=0.05"]), Value("0.5", ["objective.temperature=0.5"]))
BUNDLED = Value("bundled", ["encoder=transformer"])
# Two runs at both sizes, and at the paper's a third one that cannot be trained.
FIGURE = Figure(
    id="some/fig",
    title="Two temperatures",
    kind="line",
    x="tau",
    y="averaged score, %",
    groups=["bundled"],
    ticks=["0.05", "0.5", "long"],
    point={"group": "model", "x": "tau"},
    printed=[Mark("", "bundled", "0.5", 50.0)],
    claims=[Claim("a", "warmer is worse", "1", lambda scores: greater(scores(x="0.05"), scores(x="0.5")))],
    departures=["The rest of it."],
    base=["objective=contrastive_only"],
    teaching=Grid({"model": [BUNDLED], "tau": TAUS}, flops=1.0e8),
    paper=Grid({"model": [BUNDLED], "tau": [*TAUS, Value("long", ["budget.max_span=900"])]}, flops=1.0e8),
    scores={"": "declutr_downstream_dev"},
)


@pytest.fixture
def figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Replaces the papers' figures by "some/fig", and writes a corpus with enough held-out text."""
    tiny.figure(tmp_path, FIGURE, monkeypatch)
    tiny.corpus(tmp_path, documents=160, words=300)
    return tmp_path


def passed_on(folder: Path) -> list[str]:
    """Returns the overrides that the command passes on to its runs."""
    left_out = ("encoder=", "evaluation=", "budget.max_span=", "budget.steps=")
    return [*(text for text in tiny.overrides(folder) if not text.startswith(left_out)), "budget.steps=6"]


def reproduce(folder: Path, *more: str) -> int:
    arguments = [*passed_on(folder), "figure=some/fig", "runs=runs", "out=out", *more]
    return command.reproduce(*settings.read(arguments))


def planned(folder: Path, **keys: Any) -> list[planning.Run]:
    return planning.plan(FIGURE, settings.Reproduction(figure="some/fig", **keys), passed_on(folder))


def test_a_dry_run_lists_runs_time_and_state_and_does_nothing(
    figure: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert reproduce(figure, "dry_run=true") == 0
    shown = capsys.readouterr().out
    first, second = planned(figure)
    assert first.name in shown
    assert second.name in shown
    assert "2 in runs: 2 missing" in shown
    assert "departure   The rest of it." in shown
    assert "quick evaluation on held-out text" in shown
    assert not (figure / "runs").exists()
    assert not (figure / "out").exists()


def test_a_folder_that_is_not_sentevals_is_refused_at_once(figure: Path) -> None:
    for dry in ("false", "true"):
        with pytest.raises(UserError, match=r"files of no task \(the first one missing is .*MR.* data=<folder>"):
            reproduce(figure, f"data={figure}", f"dry_run={dry}")
    assert not (figure / "runs").exists()


def test_the_list_shows_every_figure_with_its_cost(figure: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.reproduce(*settings.read(["list=true"])) == 0
    shown = capsys.readouterr().out
    assert "some/fig" in shown
    assert "Two temperatures" in shown
    assert "some/fig: The rest of it." in shown


def test_without_a_finished_run_there_is_one_line_and_no_picture(
    figure: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planned_runs, "run_jobs", lambda jobs, **_: {job.name: "it broke" for job in jobs})
    with pytest.raises(UserError, match="No run is finished and evaluated: there is nothing to draw"):
        reproduce(figure)
    assert capsys.readouterr().out.count(": it broke") == 2
    assert not (figure / "out").exists()


def test_the_message_on_interrupt_names_the_command_to_continue(
    figure: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(jobs: object, **settings: object) -> dict[str, str]:
        raise KeyboardInterrupt

    monkeypatch.setattr(planned_runs, "run_jobs", stopped)
    with pytest.raises(KeyboardInterrupt, match="the same command resumes"):
        reproduce(figure)


def test_the_commands_of_a_run_follow_its_state(figure: Path) -> None:
    [run, _] = planned(figure)
    (figure / "senteval").mkdir()
    request = settings.Reproduction(figure="some/fig", data="senteval", runs="runs")
    passed = ["device=cpu", "dev_batches=2"]
    work = Work(FIGURE, request, passed, [run], Evaluation(Path("senteval"), "default"), Display())
    folder = Path("runs") / run.name

    def training() -> list[str] | None:
        return planned_runs.training(folder, run.overrides, work.passed)

    arguments = training()
    assert arguments is not None
    assert arguments[1:] == [*run.overrides, "evaluation=quick", f"run_dir=runs/{run.name}"]
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text("seed: 1\n")
    assert training() == [planned_runs.TRAIN, f"resume=runs/{run.name}", "device=cpu"]
    (folder / "encoder").mkdir()
    assert training() is None
    assert work.state(run) == "not evaluated"


def test_differences_from_the_paper_are_listed_beside_the_picture(figure: Path) -> None:
    for run in planned(figure):
        write_run(figure / "runs", run, 50.0)
    assert reproduce(figure) == 0
    assert "Not as in the paper: The rest of it." in (figure / "out" / "some-fig.md").read_text()


def test_the_note_counts_the_runs_that_are_evaluated(figure: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = planned(figure)
    write_run(figure / "runs", first, 50.0, {"TREC": record(80.0)})
    write_run(figure / "runs", second, 50.0)
    for path in (figure / "senteval" / "downstream" / file for file in TASKS["TREC"].files):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    monkeypatch.setattr(planned_runs, "run_jobs", lambda jobs, **_: {second.name: "it broke"})
    assert reproduce(figure, "data=senteval") == 1
    text = (figure / "out" / "some-fig.md").read_text()
    assert "1 run at teaching sizes" in text
    assert "1 of 2 runs are finished but not evaluated on all tasks." in text


def test_only_tables_with_trees_use_the_treebank(figure: Path) -> None:
    assert settings.read(["figure=some/fig", "data=treebank"])[0].data == "treebank"
    with pytest.raises(
        UserError, match=r"^data=treebank: some/fig is not of trees; data=<folder> names its data\.$"
    ):
        reproduce(figure, "data=treebank")


def test_an_ensemble_joins_the_best_models_on_the_figures_tasks(figure: Path) -> None:
    """Scores on other tasks and earlier ensembles do not matter."""
    ensemble = Ensemble("both", "task", ["D", "R"])
    exhibit = replace(FIGURE, tasks=["TREC", "SST2"], ensemble=ensemble)

    def write_results(run: Run, **dev: float) -> None:
        shutil.rmtree(figure / "runs" / run.name, ignore_errors=True)
        write_run(
            figure / "runs", run, 1.0, {task: record(score + 1, kind="split") for task, score in dev.items()}
        )
        (figure / "runs" / run.name / "predictions").mkdir()
        for task in dev:
            arrays = {"gold": np.array([0, 1]), "predicted": np.full((2, 2), 0.5, np.float32)}
            np.savez(figure / "runs" / run.name / "predictions" / f"{task}.npz", allow_pickle=False, **arrays)

    runs = [Run({"task": name[0]}, 1, (), 1.0, name) for name in ("D1", "D2", "R1")]
    request = settings.Reproduction(figure="some/fig", runs="runs", out="out")
    senteval = Evaluation(Path("senteval"), "default", exhibit.tasks)
    work = Work(exhibit, request, [], runs, senteval, Display())

    def members() -> list[str]:
        result = command._ensembles(work, senteval, ensemble, results.collect(runs, Path("runs"), "default"))[1]
        assert [*result.tasks] == ["TREC"]
        return [member["name"] for member in result.model["members"]]

    write_results(runs[0], TREC=80.0, SST2=90.0, CR=99.0)
    write_results(runs[1], TREC=81.0, CR=50.0)  # CR is another figure's; the evaluation was stopped before SST2
    write_results(runs[2], TREC=70.0, SST2=70.0)
    assert members() == ["D2", "R1"]
    write_results(runs[0], TREC=82.0, SST2=90.0)
    assert members() == ["D1", "R1"]
    out = figure / "out" / f"{exhibit.name}-ensemble-1"
    shutil.move(out, figure / "elsewhere")
    out.symlink_to(figure / "elsewhere")
    collected = results.collect(runs, Path("runs"), "default")
    assert not command._ensembles(work, senteval, ensemble, collected)  # nothing is written through a link


def test_a_run_that_is_evaluated_with_several_poolings_is_one_job(
    figure: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, _ = planned(figure)
    (figure / "senteval").mkdir()
    both = [own, replace(own, pooling="cls", flops=0.0)]
    request = settings.Reproduction(figure="some/fig", data="senteval", runs="runs")
    work = Work(FIGURE, request, [], both, Evaluation(Path("senteval"), "default"), Display())
    jobs = list[Job]()

    def record_jobs(planned: list[Job], **settings: object) -> dict[str, str]:
        jobs.extend(planned)
        return {}

    monkeypatch.setattr(planned_runs, "train_and_evaluate", record_jobs)
    assert command._train_and_evaluate(work) == {}
    training, *evaluations = jobs
    assert (training.command() or [])[0] == planned_runs.TRAIN
    assert training.weight + work.grid.evaluation == planning.core_seconds([own], work.grid)
    assert [job.name for job in evaluations] == [f"SentEval {own.name}", f"SentEval cls {own.name}"]
    assert [job.needs for job in evaluations] == 2 * [(own.name,)]
    assert [job.log.name for job in evaluations] == [f"{own.name}-senteval.log", f"{own.name}-senteval-cls.log"]
    assert [job.command() for job in evaluations] == [None, None]  # of no run that is finished
    monkeypatch.setattr(planned_runs, "state", lambda folder: "finished")
    for job, out in zip(evaluations, ("", "/senteval-default-cls"), strict=True):
        assert {planned_runs.EVALUATE, f"out=runs/{own.name}{out}"} <= {*(job.command() or [])}


@pytest.mark.slow
def test_runs_are_trained_reused_and_resumed_and_a_failed_one_is_reported(
    figure: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # One of three runs cannot be trained: it is reported, and the figure shows the others.
    assert reproduce(figure, "grid=paper", "jobs=2") == 1
    shown = capsys.readouterr().out
    failing = next(run for run in planned(figure, grid="paper") if run.labels["tau"] == "long")
    assert f"failed      {failing.name}: No training document has the " in shown
    out = figure / "out"
    assert {path.name for path in out.iterdir()} == {f"some-fig.{kind}" for kind in ("pdf", "png", "csv", "md")}
    text = (out / "some-fig.md").read_text()
    assert "1 of 3 runs are missing" in text
    assert "teaching sizes, not the paper's" in text
    assert "quick evaluation, not SentEval" in text
    assert "Not as in the paper: The rest of it." in text
    points = list(csv.DictReader((out / "some-fig.csv").open()))
    assert [(point["source"], point["x"], point["run"]) for point in points] == [
        ("ours", run.labels["tau"], run.name) for run in planned(figure)
    ]  # without the printed value, which is of another measure

    # The smaller grid reuses both others, one of which was stopped before its export.
    first, second = (figure / "runs" / run.name for run in planned(figure))
    before = (second / "metrics.jsonl").read_bytes()
    times = {path: path.stat().st_mtime_ns for path in first.rglob("*") if path.is_file()}
    shutil.rmtree(second / "encoder")
    assert reproduce(figure) == 0
    shown = capsys.readouterr().out
    assert "1 finished, 1 begun" in shown
    assert (second / "encoder").is_dir()
    assert (second / "metrics.jsonl").read_bytes() == before
    assert {path: path.stat().st_mtime_ns for path in first.rglob("*") if path.is_file()} == times
    assert json.loads((second / "quick.json").read_text())["trained"]["recall@1"] is not None
