"""``reproduce.py``: listing, planning, overrides, files of a figure and of a table, and wrong commands."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pandas as pd
import pytest

from analysis.papers import CATALOGUE
from analysis.papers.base import Options, Run
from data.errors import UserErrors
from experiments import reproduce, sweep
from experiments.command import call_command
from experiments.reproduce import override


def call(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    monkeypatch.setattr(sys, "argv", ["reproduce.py", *arguments])
    call_command(reproduce.reproduce, "reproduce", runs=True)


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def finish(runs: list[Run], folder: Path, **settings: object) -> pd.DataFrame:
    """Stands for ``complete``: every run has the scores of the quick evaluation."""
    rows = [
        {
            **run.labels,
            "seed": run.seed,
            "run": f"run{place}",
            "weights": "bundled",
            "tokens": 100,
            "recall@1": place,
        }
        for place, run in enumerate(runs)
    ]
    frame = pd.DataFrame(rows)
    frame.attrs["failed"] = {}
    return frame


def test_a_line_for_each_figure(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    call(monkeypatch, "list=true")
    header, *lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [*CATALOGUE] and max(map(len, lines)) < 140
    assert header.startswith("figure ")


def test_a_dry_run_names_the_runs_and_writes_nothing(
    empty_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started = time.monotonic()
    call(monkeypatch, "figure=declutr/2a", "dry_run=true", "seeds=[1,2]", "budget.steps=7")
    assert time.monotonic() - started < 10  # a few times what it takes
    lines = capsys.readouterr().out.splitlines()
    assert sum("7 steps" in line for line in lines) == 12 and not [*empty_folder.iterdir()]
    assert len({line.split()[0] for line in lines if "7 steps" in line}) == 12


def test_a_figure_has_a_picture_its_numbers_and_a_page(
    empty_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reproduce, "complete", finish)
    call(monkeypatch, "figure=declutr/2a", "out=made")
    assert {path.name for path in (empty_folder / "made").iterdir()} == {
        f"declutr-2a.{kind}" for kind in ("pdf", "png", "csv", "md")
    }
    page = (empty_folder / "made" / "declutr-2a.md").read_text()
    assert page.startswith("# DeCLUTR, figure 2a") and "(declutr-2a.png)" in page and "bundled" in page
    assert any(outcome in page for outcome in ("**held**", "**not held**", "**undecided at this size**"))
    assert len(pd.read_csv(empty_folder / "made" / "declutr-2a.csv")) == 18


@pytest.mark.parametrize("count", [0, 9])
def test_runs_without_the_score_of_a_figure_do_not_count(
    empty_folder: Path, count: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def lack(runs: list[Run], folder: Path, **settings: object) -> pd.DataFrame:
        frame = finish(runs, folder)
        frame["recall@1"] = frame["recall@1"].where(frame.index < count)
        return frame

    monkeypatch.setattr(reproduce, "complete", lack)
    if count:
        call(monkeypatch, "figure=declutr/2a")
        assert "9 of 18 rows" in (empty_folder / "outputs" / "declutr-2a.md").read_text()
    else:
        with pytest.raises(SystemExit):
            call(monkeypatch, "figure=declutr/2a")
        assert capsys.readouterr().err.startswith("runs: ")


def test_a_table_has_its_numbers_and_a_page(empty_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reproduce, "complete", finish)
    call(monkeypatch, "figure=declutr/table2")
    assert {path.suffix for path in (empty_folder / "outputs").iterdir()} == {".csv", ".md"}
    assert "| DeCLUTR |" in (empty_folder / "outputs" / "declutr-table2.md").read_text()


def test_a_failure_is_the_status(empty_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lose(runs: list[Run], folder: Path, **settings: object) -> pd.DataFrame:
        frame = finish(runs[1:], folder)
        frame.attrs["failed"] = {"run": "line"}
        return frame

    monkeypatch.setattr(reproduce, "complete", lose)
    with pytest.raises(SystemExit) as end:
        call(monkeypatch, "figure=declutr/2a")
    assert end.value.code == 1 and (empty_folder / "outputs" / "declutr-2a.png").exists()


def test_a_figure_of_subprocesses(empty_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.experiments.test_sweep import RUN

    (empty_folder / "run.py").write_text(RUN)
    monkeypatch.setattr(sweep, "SCRIPTS", empty_folder)
    (empty_folder / "runs" / "reproduced").mkdir(parents=True)
    (empty_folder / "runs" / "reproduced" / "mended").touch()
    for _ in range(2):
        call(monkeypatch, "figure=declutr/table2", "jobs=2")
    assert len((empty_folder / "runs" / "reproduced" / "calls").read_text().splitlines()) == 3
    assert (empty_folder / "outputs" / "declutr-table2.csv").exists()


ROWS = [
    Run(
        {"model": "a", "A": label},
        ("objective=declutr", "encoder=bundled", f"objective.gap={label}", "budget.flops=9"),
    )
    for label in "12"
]


def test_overrides_reach_every_run() -> None:
    joined = Run({"model": "a", "A": "+"}, members=tuple(ROWS))
    for run in override([*ROWS, joined], ["optimizer.lr=1"])[2].members:
        assert run.overrides[-1] == "optimizer.lr=1"
    assert override([Run({}, model="a")], ["optimizer.lr=1"])[0].overrides == ()


def test_another_length_replaces_the_figures() -> None:
    texts = override(ROWS, ["budget.tokens=5"])[0].overrides
    assert "budget.flops=null" in texts and "budget.flops=9" not in texts and "budget.tokens=5" in texts
    texts = override(ROWS, ["budget.flops=5"])[0].overrides  # scaled by the figure before
    assert "budget.flops=9" in texts and "budget.flops=5" not in texts and "budget.epochs=null" in texts


def test_another_encoder_replaces_the_models() -> None:
    rows = [*ROWS, *(Run({**run.labels, "model": "b"}, (*run.overrides, "encoder=gru")) for run in ROWS)]
    runs = override(rows, ["encoder=lstm"])
    assert [(run.labels["model"], run.labels["A"]) for run in runs] == [("lstm", "1"), ("lstm", "2")]
    assert all("encoder=lstm" in run.overrides and "encoder=gru" not in run.overrides for run in runs)


@pytest.mark.parametrize("text", ["objective.gap=3", "seed=1", "run_dir=a", "resume=a", "evaluation=none"])
def test_keys_of_the_figure_and_the_command_are_refused(text: str) -> None:
    with pytest.raises(UserErrors) as caught:
        override(ROWS, [text])
    assert [error.key for error in caught.value.errors] == [text.partition("=")[0]]


def test_compute_is_scaled() -> None:
    runs = override(CATALOGUE["declutr/2a"].runs(Options(flops=1e6)), ["budget.flops=1e6"])
    amounts = {text for run in runs for text in run.overrides if text.startswith("budget.flops")}
    assert len(amounts) > 1 and "budget.flops=1e+06" in amounts


@pytest.mark.parametrize(
    ("command", "key"),
    [
        ("", "figure"),
        ("figure=declutr/2z", "figure"),
        ("figure=", "figure"),
        ("figure=2", "figure"),
        ("figure=declutr/2a budget=laptop", "budget"),
        ("figure=suite/compute budget=paper", "budget"),
        ("figure=declutr/2a seeds=[]", "seeds"),
        ("figure=declutr/2a seeds=[a]", "seeds"),
        ("figure=declutr/2a seeds=[-1]", "seeds"),
        ("figure=declutr/2a seeds=1.5", "seeds"),
        ("figure=declutr/2a jobs=0", "jobs"),
        ("figure=declutr/2a jobs=many", "jobs"),
        ("figure=declutr/2a threads=0", "threads"),
        ("figure=declutr/2a list=maybe", "list"),
        ("figure=declutr/2a dry_run=2", "dry_run"),
        ("figure=declutr/2a protocol=quick", "protocol"),
        ("figure=declutr/2a tasks=[]", "tasks"),
        ("figure=declutr/2a tasks=[CRR] data=senteval", "tasks"),
        ("figure=declutr/2a data=nowhere", "data"),
        ("figure=declutr/2a data=file", "data"),
        ("figure=declutr/2a probing=nowhere", "probing"),
        ("figure=declutr/table2 vectors=nowhere", "vectors"),
        ("figure=declutr_v1/table_s5 nli={path:nowhere}", "objective.nli.path"),
        ("figure=declutr_v1/table_s5 nli={pth:a}", "nli"),
        ("figure=declutr_v1/table_s5 nli=file", "nli"),
        ("figure=declutr/2a data=nowhere dry_run=true", "data"),
        ("figure=gensen/fig1", "data"),
        ("figure=gensen/fig1 data=nowhere dry_run=true", "data"),
        ("figure=declutr/2a -m", "-m"),
        ("figure=declutr/2a --cfg job", "--cfg"),
        ("figure=declutr/2a seed=2", "seed"),
        ("figure=declutr/2a run_dir=a", "run_dir"),
        ("figure=declutr/2a resume=a", "resume"),
        ("figure=declutr/2a objective.anchors_per_document=3", "objective.anchors_per_document"),
        ("figure=declutr/2a budget.documents=3", "budget.documents"),
        ("figure=declutr/2a objective.temprature=3", "objective.temprature"),
        ("figure=declutr/2a objective.temperature=-1", "objective.temperature"),
        ("figure=declutr/2a encoder=nothing", "encoder"),
        ("figure=declutr/2a budget.flops=many", "budget.flops"),
        ("figure=declutr/2a corpus=text corpus.path=nowhere", "corpus.path"),
        ("figure=declutr/2a gid=paper", "gid"),
        ("figure=declutr/2a nonsense", "nonsense"),
        ("figure=declutr/2a runs=file/runs", "file"),
        ("figure=declutr/1c out=file/made", "file"),
    ],
)
def test_a_wrong_command(
    command: str,
    key: str,
    empty_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (empty_folder / "file").touch()
    (empty_folder / "senteval").mkdir()
    with pytest.raises(SystemExit) as end:
        call(monkeypatch, *command.split())
    lines = capsys.readouterr().err.splitlines()
    assert end.value.code == 2 and any(line.startswith(key) for line in lines) and len(lines) < 4
    assert sorted(path.name for path in empty_folder.iterdir()) == ["file", "senteval"]
