"""``compare.py``: wrong commands, planned runs, and a page of real runs."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis.runs import read_run
from experiments import compare
from experiments.command import call_command
from experiments.sweep import Run, run_name
from tests.command_runner import Outcome, run_main
from tests.experiments import tiny

WRONG = [
    ("objectivs=[a]", "objectivs"),
    ("objectives=[declutt]", "objective=declutt"),
    ("objectives=[]", "objectives"),
    ("encoders=[{tmp}/nothing]", "encoder={tmp}/nothing"),
    ("encoders=[gruu,lstm]", "encoder=gruu"),
    ("encoders=[a/bert,b/bert]", "encoders"),
    ("budget=tiny", "budget=tiny"),
    ("equal=time", "equal"),
    ("seeds=[]", "seeds"),
    ("protocol=fast", "protocol"),
    ("data={tmp}", "data"),
    ("tasks=[CRR] data={tmp}", "tasks"),
    ("dry_run=perhaps", "dry_run"),
    ("settings.gru=encoder.hidden", "settings.gru"),
    ("settings.gru=['encoder.hiden=8']", "encoder.hiden"),
    ("encoder.hidden=0", "encoder.hidden"),
    ("dry_run=true objective.temprature=1", "objective.temprature"),
    ("objective=nsp", "objective"),
    ("seed=3", "seed"),
    ("evaluation=none", "evaluation"),
    ("budget.steps=-1", "budget.steps"),
    ("corpus.path=a)", "corpus.path"),
    ("-m", "-m"),
]


def call(folder: Path, *arguments: str) -> Outcome:
    return run_main(lambda: call_command(compare.compare, "compare"), *arguments, folder=folder)


@pytest.mark.parametrize(("arguments", "key"), WRONG)
def test_wrong_commands(arguments: str, key: str, tmp_path: Path) -> None:
    pair = ["objectives=[declutr]"] * ("objectives" not in arguments)
    pair += ["encoders=[gru]"] * ("encoders" not in arguments)
    outcome = call(tmp_path, *pair, *arguments.format(tmp=tmp_path).split())
    assert outcome.refused() and outcome.error.startswith(key.format(tmp=tmp_path))
    assert not [*tmp_path.iterdir()]


def dry_run_rows(folder: Path, *arguments: str) -> list[list[str]]:
    lines = call(folder, "dry_run=true", *arguments).output.splitlines()
    return [[part.strip() for part in re.split(" {2,}", line)] for line in lines]


def test_a_dry_run_shows_every_pair_and_seed_and_writes_nothing(tmp_path: Path) -> None:
    arguments = ["objectives=[declutr,conssent]", "encoders=[gru,lstm]", "seeds=[1,2]"]
    lines = dry_run_rows(tmp_path, *arguments)
    assert len({name for name, *_ in lines}) == 8
    assert all("400,000 tokens" in line for line in lines)
    for more, length in [("budget.steps=7", "7 steps"), ("equal=compute", "2.5e+13 flops")]:
        others = dry_run_rows(tmp_path, *arguments, more)
        assert all(length in line for line in others)
        assert not {name for name, *_ in lines} & {name for name, *_ in others}
    assert dry_run_rows(tmp_path, *arguments, "device=cpu")[0][0] == lines[0][0]
    assert not [*tmp_path.iterdir()]


def train(runs: Sequence[Run], folder: Path, **settings: Any) -> pd.DataFrame:
    """Stands for ``complete``: trains in this process; models have a score of SentEval."""
    rows = []
    for run in runs:
        row: dict[str, Any] = {**run.labels, "seed": run.seed, "run": run_name(run)}
        if run.model:
            rows.append(row | {"weights": "", "CR.test": 50.0 + run.seed})
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
def test_a_page_of_real_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare, "complete", train)
    text = " ".join(f"{' '.join(tiny.WORDS[i : i + 9])}.".capitalize() for i in range(40))
    (tmp_path / "corpus.jsonl").write_text("".join(json.dumps({"text": text[i:]}) + "\n" for i in range(30)))
    monkeypatch.setattr(
        compare,
        "list_starts",
        lambda runs: [Run(run.labels, model="a", seed=run.seed) for run in runs],
    )
    arguments = [
        "objectives=[conssent]",
        "encoders=[bilstm_max]",
        "seeds=[1,2]",
        "settings.bilstm_max=['encoder.hidden=4','encoder.word_size=4','encoder.min_count=1']",
        "settings.conssent=['objective.task=P','objective.k=3','objective.classifier_width=4']",
        *(
            text
            for text in tiny.overrides(tmp_path, "threads=1")
            if text.startswith(("corpus", "budget", "device", "cache", "dev"))
        ),
        "budget.steps=2",
        "budget.sentences=8",
        "out=made/page.html",
    ]
    assert "made/page.csv" in call(tmp_path, *arguments).output
    page = (tmp_path / "made" / "page.html").read_text(encoding="utf-8")
    assert "sequence" in page and 'class="token moved"' in page
    table = pd.read_csv(tmp_path / "made" / "page.csv")
    assert table.loc[table["score"] == "CR", "change"].tolist() == [10.0] * 2  # each run's own start, by its seed
    assert {path.name.rpartition("-")[0] for path in (tmp_path / "runs" / "compared").iterdir()} == {
        f"conssent-bilstm_max-{seed}" for seed in (1, 2)
    }  # no start among them


def test_a_start_is_evaluated_as_its_run_reads_it() -> None:
    run = Run(
        {"objective": "simcse"}, ("objective=simcse", "encoder=bundled", "encoder.pooling=cls", "encoder.layers=2")
    )
    (start,) = compare.list_starts([run])
    assert (start.model, start.labels, start.evaluation) == (
        "modernbert-mini-2",
        run.labels,
        ("pooling=cls", "layers=2"),
    )
