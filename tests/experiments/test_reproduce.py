"""``reproduce.py``: listing, planning, overrides, files of a figure and of a table, and wrong commands."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from analysis.papers import CATALOGUE, suite
from analysis.papers.base import Options, Run
from experiments import reproduce
from experiments.command import call_command
from experiments.sweep import override
from tests.command_runner import Outcome, run_main


def call(folder: Path, *arguments: str) -> Outcome:
    return run_main(lambda: call_command(reproduce.reproduce, "reproduce"), *arguments, folder=folder)


def finish(runs: list[Run], folder: Path, **settings: object) -> pd.DataFrame:
    """Stands for ``complete``: every run has the scores of the quick evaluation."""
    scores = {"weights": "bundled", "tokens": 100}
    rows = [
        {**run.labels, "seed": run.seed, "run": f"run{place}", "recall@1": place} | scores
        for place, run in enumerate(runs)
    ]
    frame = pd.DataFrame(rows)
    frame.attrs["failed"] = {}
    return frame


def test_a_line_for_each_figure(tmp_path: Path) -> None:
    lines = call(tmp_path, "list=true").output.splitlines()
    assert [line.split()[0] for line in lines] == [*CATALOGUE]
    assert lines[[*CATALOGUE].index("declutr/2a")].split()[1] == "18/60"
    claims = call(tmp_path, "list=true", "figure=declutr").output.splitlines()
    assert all(f"- {claim}" in claims for claim in CATALOGUE["declutr_v1/3"].claims)
    assert "    (A == '2') − (A == '1'), each '': 0.00 to inf" in claims


def test_a_dry_run_names_the_runs_and_writes_nothing(tmp_path: Path) -> None:
    started = time.monotonic()
    lines = call(
        tmp_path, "figure=declutr/2a", "dry_run=true", "seeds=[1,2]", "budget.steps=7"
    ).output.splitlines()
    assert time.monotonic() - started < 10  # a few times what it takes
    runs = [line.split()[0] for line in lines if "7 steps" in line]
    assert len(runs) == len({*runs}) == 12 and not [*tmp_path.iterdir()]


def test_a_figure_has_a_picture_its_numbers_and_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reproduce, "complete", finish)
    call(tmp_path, "figure=declutr/2a", "out=made")
    stem = tmp_path / "made" / "declutr-2a.md"
    assert {*stem.parent.iterdir()} == {stem.with_suffix(f".{kind}") for kind in ("pdf", "png", "csv", "md")}
    page = stem.read_text()
    assert page.startswith("# DeCLUTR, figure 2a") and "(declutr-2a.png)" in page and "bundled" in page
    assert any(outcome in page for outcome in ("**held**", "**not held**", "**undecided at this size**"))
    assert len(pd.read_csv(stem.with_suffix(".csv"))) == 18


def test_a_table_has_its_numbers_and_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reproduce, "complete", finish)
    call(tmp_path, "figure=declutr/table2")
    assert {path.suffix for path in (tmp_path / "outputs").iterdir()} == {".csv", ".md"}
    assert "| DeCLUTR |" in (tmp_path / "outputs" / "declutr-table2.md").read_text()


def test_a_search_goes_on_until_the_best_rate_is_inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Made-up scores are highest at 1e-4 for MLM only, and at 1e-2 for NSP, of which seed 2 diverges there."""
    rounds: list[int] = []

    def complete(runs: list[Run], folder: Path, **settings: object) -> pd.DataFrame:
        rounds.append(len(runs))
        if rounds == [12, 4]:
            raise KeyboardInterrupt
        frame = finish(runs, folder)
        places = frame["lr"].map(suite.RATES.index) - frame["objective"].map({"MLM only": 6, "NSP": 10})
        diverged = (frame["lr"] == "1e-2") & (frame["seed"] == 2) & (frame["objective"] == "NSP")
        frame = frame.assign(**{"recall@1": 50.0 - places.abs()})[~diverged]
        frame.attrs["failed"] = {"NSP": "not finite"} if diverged.any() else {}
        return frame

    known = {name: (suite.OBJECTIVES[name][0], rate) for name, rate in (("MLM only", "3e-3"), ("NSP", "1e-4"))}
    monkeypatch.setattr(suite, "OBJECTIVES", known)
    monkeypatch.setattr(reproduce, "complete", complete)
    monkeypatch.setattr(reproduce, "run_name", str)
    costs = {"steps": 1, "tokens": 50, "seconds": 900, "environment.threads": 2, "environment.processes": 1}
    monkeypatch.setattr(reproduce, "read_runs", lambda *folders: pd.DataFrame([costs] * len({*folders})))
    assert [call(tmp_path, "figure=suite/learning_rates").status for _ in range(2)] == [130, 1]
    assert rounds == [12, 4, 12, 4, 4, 4]
    page = (tmp_path / "outputs" / "suite-learning_rates.md").read_text()
    assert "Training: 24 runs, 24 updates, 1,200 tokens, 12 core hours." in page
    rows = [[cell.strip() for cell in line.split("|")[2:-1]] for line in page.splitlines() if line[:2] == "| "]
    assert rows[0] == ["3e-5", "1e-4", "3e-4", "1e-3", "3e-3", "1e-2", "best"]
    assert rows[2] == ["49.00", "50.00", "49.00", "48.00", "47.00", "46.00", "1e-4"]
    assert rows[3] == ["45.00", "46.00", "47.00", "48.00", "49.00", "–", "3e-3"]


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


def test_another_choice_of_a_group_keeps_what_a_figure_varies() -> None:
    rows = [replace(ROWS[0], overrides=(*ROWS[0].overrides, "optimizer.lr=1")), ROWS[1]]
    first, second = override(rows, ["objective=conssent", "optimizer=muon"])
    assert {*first.overrides[-2:]} == {"objective.gap=1", "optimizer.lr=1"}
    assert second.overrides[-2:] == ("optimizer=muon", "objective.gap=2")


def test_another_length_replaces_the_figures() -> None:
    texts = override(ROWS, ["budget.tokens=5"])[0].overrides
    assert "budget.flops=null" in texts and "budget.flops=9" not in texts and "budget.tokens=5" in texts
    texts = override(ROWS, ["budget.flops=5"])[0].overrides  # scaled by the figure before
    assert "budget.flops=9" in texts and "budget.flops=5" not in texts and "budget.epochs=null" in texts


def test_a_length_does_not_train_what_is_not_trained() -> None:
    runs = override(CATALOGUE["suite/capacity"].runs(Options(seeds=[1])), ["budget.tokens=5"])
    starts = [run for run in runs if run.labels["objective"] == "the start"]
    assert len(starts) == 4 and all(run.overrides[-1] == "budget.steps=0" for run in starts)


def test_another_encoder_replaces_the_models() -> None:
    rows = [*ROWS, *(Run({**run.labels, "model": "b"}, (*run.overrides, "encoder=gru")) for run in ROWS)]
    runs = override(rows, ["encoder=lstm"])
    assert [(run.labels["model"], run.labels["A"]) for run in runs] == [("lstm", "1"), ("lstm", "2")]
    assert all("encoder=lstm" in run.overrides and "encoder=gru" not in run.overrides for run in runs)


@pytest.mark.parametrize(
    ("command", "key"),
    [
        ("", "figure"),
        ("figure=declutr/2z", "figure"),
        ("figure=suite/curves budget=paper", "budget"),
        ("figure=declutr/2a seeds=[]", "seeds"),
        ("figure=declutr/2a jobs=0", "jobs"),
        ("figure=declutr/2a protocol=quick", "protocol"),
        ("figure=declutr/2a tasks=[CRR] data=senteval", "tasks"),
        ("figure=declutr/2a data=nowhere", "data"),
        ("figure=declutr/2a models=[declutr-mini]", "models"),
        ("figure=declutr_v1/table_s5 nli={pth:a}", "nli"),
        ("figure=gensen/fig1", "data"),
        ("figure=declutr/2a seed=2", "seed"),
        ("figure=declutr/2a encoder=nothing", "encoder"),
        ("figure=declutr/2a budget.flops=many", "budget.flops"),
        ("figure=declutr/2a nonsense", "nonsense"),
        ("figure=declutr/2a dry_run=true objective.temprature=1", "objective.temprature"),
        ("figure=declutr/2a runs=file/runs", "file"),
        ("figure=declutr/1c out=file/made", "file"),
    ],
)
def test_a_wrong_command(command: str, key: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "senteval").mkdir()
    outcome = call(tmp_path, *command.split())
    lines = outcome.error.splitlines()
    assert outcome.status == 2 and any(line.startswith(key) for line in lines) and len(lines) < 4
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "senteval"]
