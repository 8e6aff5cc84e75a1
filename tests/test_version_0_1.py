"""Folders of version 0.1 stay usable: runs are listed, exports give the same vectors, results open."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import yaml

import encoders
from analysis import quick, runs
from analysis.senteval.results import read_results
from experiments import compose, experiment
from tests.command_runner import run_command
from tests.real_data import suite_data

FIXTURES = Path(__file__).parent / "fixtures" / "version_0_1"
SENTENCES = json.loads((FIXTURES / "sentences.json").read_text())
VECTORS = np.load(FIXTURES / "vectors.npz")


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns the folder with a copy of all runs; the working directory has their corpus."""
    shutil.copytree(FIXTURES, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(experiment.training, "draw", lambda folder: [folder / "none.png"])
    return tmp_path / "folders"


def test_every_encoder_class_has_a_fixture() -> None:
    classes = {json.loads(path.read_text())["class"] for path in FIXTURES.glob("folders/*/encoder/encoder.json")}
    assert {name.rsplit(".", 1)[-1] for name in classes} == {
        "Transformer", "BiLSTMMax", "GRU", "LSTM", "BagOfWords", "Concatenated"
    }  # fmt: skip


def test_runs_are_listed(folders: Path) -> None:
    rows = {row["run"]: row for row in runs.scan(folders)}
    assert {name: row["state"] for name, row in rows.items()} == {
        **dict.fromkeys(VECTORS, "finished"),
        "unfinished": "unfinished",
    }
    assert rows["transformer"]["loss"] is not None
    assert rows["transformer"]["senteval"]


@pytest.mark.parametrize("name", sorted(VECTORS))
def test_exports_open(name: str) -> None:
    encoder = encoders.load(FIXTURES / "folders" / name / "encoder")
    assert np.allclose(encoder.encode(SENTENCES), VECTORS[name], atol=1e-6)


@pytest.mark.parametrize("name", sorted(VECTORS))
def test_runs_are_continued(name: str, folders: Path, tmp_path: Path) -> None:
    config = yaml.safe_load((folders / name / "config.yaml").read_text())
    kind = name if name != "concatenated" else "bilstm_max"  # ConsSent-MT trains several side by side
    chosen = [f"objective={config['names']['objective']}", f"encoder={kind}", f"warm_start=folders/{name}"]
    if "task" in config["objective"]:
        chosen += [f"objective.task={config['objective']['task']}", f"objective.k={config['objective']['k']}"]
    if "classifier_width" in config["objective"]:
        chosen += ["objective.classifier_width=8"]
    budget = {key: value for key, value in config["budget"].items() if key not in ("_target_", "flops", "steps")}
    chosen += [f"budget.{key}={'null' if value is None else value}" for key, value in budget.items()]
    chosen += ["corpus=text", "corpus.path=corpus.jsonl", "corpus.dev_fraction=0.2", "evaluation=none"]
    chosen += [
        "budget.steps=1",
        "schedule=constant",
        "optimizer.lr=1e-12",
        "dev_batches=1",
        "device=cpu",
        f"cache={tmp_path / 'cache'}",
    ]
    run = experiment.run(compose.check([*chosen, f"run_dir={tmp_path / 'run'}"]))
    assert np.allclose(encoders.load(run / "encoder").encode(SENTENCES), VECTORS[name], atol=1e-6)


def test_an_unfinished_run_is_resumed(folders: Path, tmp_path: Path) -> None:
    run = experiment.run(compose.check(["resume=folders/unfinished", f"cache={tmp_path / 'cache'}"]))
    assert np.isfinite(encoders.load(run / "encoder").encode(SENTENCES)).all()


def test_exports_are_evaluated_to_the_same_scores(folders: Path, tmp_path: Path) -> None:
    data = suite_data("senteval")
    arguments = ["model=folders/transformer", f"data={data}", f"probing={data / 'probing_rebuilt'}"]
    arguments += ["tasks=[MRPC,STS16,Length]", "protocol=prototyping", "out=new", f"cache={tmp_path / 'cache'}"]
    assert run_command("experiments.evaluate", *arguments, folder=tmp_path).status == 0
    before, now = read_results(folders / "transformer").tasks, read_results(tmp_path / "new").tasks
    assert {name: task["test"] for name, task in now.items()} == pytest.approx(
        {name: before[name]["test"] for name in now},
        abs=0.11,  # at most one example of Length
    )


def test_results_can_be_read(folders: Path) -> None:
    results = read_results(folders / "transformer")
    assert results.tasks.keys() == {"TREC", "MRPC", "STS16", "Length"}
    assert results.tasks["TREC"]["test"] == 39.4
    scores = json.loads((folders / "transformer" / "quick.json").read_text())
    assert scores["start"].keys() == scores["trained"].keys()


def test_the_quick_evaluation_is_found_by_its_former_name() -> None:
    config = yaml.safe_load((FIXTURES / "folders" / "transformer" / "config.yaml").read_text())
    assert compose.build(config["evaluation"], "evaluation") is quick.evaluate
