"""``compare.py``: wrong commands, planned runs, impossible pairs, starts, and a page of real runs."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis.runs import read_run
from experiments import compare
from experiments.command import call_command
from experiments.sweep import Run, run_name
from tests.experiments import tiny

WRONG = [
    ("tokens", "tokens"),
    ("objectivs=[a]", "objectivs"),
    ("objectives=[declutt]", "objective=declutt"),
    ("objectives=[]", "objectives"),
    ("encoders=[{tmp}/nothing]", "encoder={tmp}/nothing"),
    ("encoders=[gruu,lstm]", "encoder=gruu"),
    ("budget=tiny", "budget=tiny"),
    ("equal=time", "equal"),
    ("tokens=0", "tokens"),
    ("tokens=many", "tokens"),
    ("seeds=[]", "seeds"),
    ("seeds=a", "seeds"),
    ("seeds=[-1]", "seeds"),
    ("jobs=0", "jobs"),
    ("threads=x", "threads"),
    ("queries=[]", "queries"),
    ("protocol=fast", "protocol"),
    ("data={tmp}", "data"),
    ("data={tmp} dry_run=true", "data"),
    ("tasks=[CRR] data={tmp}", "tasks"),
    ("dry_run=perhaps", "dry_run"),
    ("settings.grru=[]", "settings.grru"),
    ("settings.gru=encoder.hidden", "encoder.hidden"),
    ("settings.gru=3", "settings.gru"),
    ("settings.gru=['encoder.hiden=8']", "encoder.hiden"),
    ("settings.gru=['encoder.hidden']", "encoder.hidden"),
    ("encoder.hidden=0", "encoder.hidden"),
    ("objective.temprature=1", "objective.temprature"),
    ("objective=nsp", "objective"),
    ("encoder=gru", "encoder"),
    ("seed=3", "seed"),
    ("run_dir={tmp}/a", "run_dir"),
    ("resume={tmp}", "resume"),
    ("evaluation=none", "evaluation"),
    ("budget.steps=-1", "budget.steps"),
    ("corpus.path=a)", "corpus.path"),
    ("-m", "-m"),
    ("--cfg job", "--cfg"),
]


def call(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    monkeypatch.setattr(sys, "argv", ["compare.py", *arguments])
    call_command(compare.compare, "compare", runs=True)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("arguments", "key"), WRONG)
def test_wrong_commands(
    arguments: str, key: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pair = ["objectives=[declutr]"] * ("objectives" not in arguments) + ["encoders=[gru]"] * (
        "encoders" not in arguments
    )
    with pytest.raises(SystemExit) as end:
        call(monkeypatch, *pair, *arguments.format(tmp=folder).split())
    line = capsys.readouterr().err
    assert end.value.code == 2 and line.startswith(key.format(tmp=folder)) and line.count("\n") == 1
    assert not [*folder.iterdir()]


def test_all_wrong_names_of_a_pair_are_reported_together(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        call(monkeypatch, "objectives=[declut]", "encoders=[grru]", "budget=tiny")
    assert len(capsys.readouterr().err.splitlines()) == 3


def dry_run_rows(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str
) -> list[list[str]]:
    monkeypatch.setattr(compare, "find_misfit", lambda _: pytest.fail("It builds an encoder."))
    call(monkeypatch, "dry_run=true", *arguments)
    return [[part.strip() for part in re.split(" {2,}", line)] for line in capsys.readouterr().out.splitlines()]


def test_a_dry_run_shows_every_pair_and_seed_and_writes_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["objectives=[declutr,conssent]", "encoders=[gru,lstm]", "seeds=[1,2]"]
    lines = dry_run_rows(monkeypatch, capsys, *arguments)
    assert len({name for name, *_ in lines}) == 8
    assert all("400,000 tokens" in line for line in lines)
    for more, length in [("budget.steps=7", "7 steps"), ("equal=compute", "2.5e+13 flops")]:
        others = dry_run_rows(monkeypatch, capsys, *arguments, more)
        assert all(length in line for line in others)
        assert not {name for name, *_ in lines} & {name for name, *_ in others}
    assert dry_run_rows(monkeypatch, capsys, *arguments, "device=cpu")[0][0] == lines[0][0]


def test_a_folder_is_an_encoder(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "mybert").mkdir()
    (folder / "mybert" / "config.json").write_text("{}")
    lines = dry_run_rows(monkeypatch, capsys, "objectives=[simcse]", f"encoders=[{folder}/mybert]", "tokens=5")
    assert lines[0][0].startswith("simcse-mybert-1-")


def test_impossible_pairs_have_a_reason() -> None:
    pairs = {"simcse": "dropout", "language_model": "one direction", "conssent": ""}
    for objective, word in pairs.items():
        config = tiny.check([f"objective={objective}", "encoder=bilstm_max", "encoder.hidden=4"])
        assert word in compare.find_misfit(config) and bool(word) == bool(compare.find_misfit(config))
    config = tiny.check(
        ["objective=conssent", "objective.task=P", "encoder=bag_of_words", "encoder.vectors=" + __file__]
    )
    assert "order" in compare.find_misfit(config)


def train(runs: Sequence[Run], folder: Path, **settings: Any) -> pd.DataFrame:
    """Stands for ``complete``: trains in this process; models have a score of SentEval."""
    rows = []
    for run in runs:
        row: dict[str, Any] = {**run.labels, "seed": run.seed, "run": run_name(run)}
        if run.model:
            rows.append(row | {"CR.test": 50.0 + run.seed})
            continue
        if not (folder / row["run"]).exists():
            tiny.train(tiny.check([*run.overrides, f"run_dir={folder / row['run']}"]))
        facts = read_run(folder / row["run"])
        row |= {key: facts[key] for key in ("weights", "tokens")} | facts["trained"]
        rows.append(row | {"CR.test": 60.0 + run.seed})
    frame = pd.DataFrame(rows)
    frame.attrs["failed"] = {}
    return frame


@pytest.mark.usefixtures("without_plots")
def test_a_page_of_real_runs(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A BiLSTM without dropout does not fit SimCSE, and the other pairs are on the page."""
    monkeypatch.setattr(compare, "complete", train)
    text = " ".join(f"{' '.join(tiny.WORDS[i : i + 9])}.".capitalize() for i in range(40))
    (folder / "corpus.jsonl").write_text("".join(json.dumps({"text": text[i:]}) + "\n" for i in range(30)))
    monkeypatch.setattr(
        compare,
        "list_starts",
        lambda runs: [Run({**run.labels, "objective": compare.BEFORE}, model="a", seed=run.seed) for run in runs],
    )
    arguments = [
        "objectives=[conssent,simcse]",
        "encoders=[bilstm_max]",
        "seeds=[1,2]",
        "settings.bilstm_max=['encoder.hidden=4','encoder.word_size=4','encoder.min_count=1']",
        "settings.conssent=['objective.task=P','objective.k=3','objective.classifier_width=4']",
        *(
            text
            for text in tiny.overrides(folder, "threads=1")
            if text.startswith(("corpus", "budget", "device", "cache", "dev"))
        ),
        "budget.steps=2",
        "budget.sentences=8",
        "out=made/page.html",
    ]
    for _ in range(2):
        call(monkeypatch, *arguments)
        output = capsys.readouterr().out
        assert output.count("simcse · bilstm_max is not possible") == 1 and "made/page.csv" in output
    page = (folder / "made" / "page.html").read_text(encoding="utf-8")
    assert "sequence" in page and 'class="token moved"' in page and "is not possible" in page
    table = pd.read_csv(folder / "made" / "page.csv")
    assert table.loc[table["score"] == "CR", "change"].tolist() == [10.0] * 2  # each run's own start, by its seed
    assert {path.name.rpartition("-")[0] for path in (folder / "runs" / "compared").iterdir()} == {
        f"conssent-bilstm_max-{seed}" for seed in (1, 2)
    }  # no start among them


def test_starts_are_models_that_can_be_opened() -> None:
    runs = [
        Run({"objective": "a", "encoder": "b"}, ("objective=simcse", encoder, *more), seed=2)
        for encoder, *more in (
            ["encoder=bundled", "encoder.pooling=cls"],
            ["encoder=gru"],
            ["encoder=bundled", "weights=random"],
        )
    ]
    [start] = compare.list_starts(runs)
    assert (start.model, start.evaluation, start.seed) == ("modernbert-mini-2", ("pooling=cls",), 2)
    assert start.labels == {"objective": compare.BEFORE, "encoder": "b"}
