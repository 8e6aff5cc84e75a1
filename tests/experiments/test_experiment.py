"""Runs from text to an evaluated encoder: interrupted, resumed, continued, and on two processes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import encoders
from data.errors import UserError
from data.files import read_json, read_yaml
from experiments import checkpoint, trainer
from objectives.base import Loss
from objectives.declutr import Declutr
from tests.experiments import tiny

ROOT = Path(__file__).resolve().parents[2]
STATEFUL = ("accumulation=2", "objective.memory_bank=24", "checkpoint.every=3", "log_every=2", "threads=1")


# ``uninterrupted`` is drawn all the same, as it is of module scope.
pytestmark = pytest.mark.usefixtures("without_plots")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def uninterrupted(folder: Path) -> Path:
    """A run without interruption that keeps its optimizer states, so that it can be resumed."""
    with patch.object(checkpoint, "finish"):
        return tiny.run(folder, *STATEFUL, "budget.steps=24", f"run_dir={folder / 'whole'}")


def command(*overrides: str) -> list[str]:
    return [sys.executable, str(ROOT / "experiments" / "run.py"), *overrides]


def test_a_run_folder_is_complete(uninterrupted: Path) -> None:
    files = {path.relative_to(uninterrupted).as_posix() for path in uninterrupted.rglob("*") if path.is_file()}
    assert {
        "config.yaml", "environment.json", "metrics.jsonl", "timings.jsonl", "quick.json", "encoder/README.md",
        "encoder/model.safetensors", "encoder/modules.json", "figures/training.png", "tokenizer/tokenizer.json",
    } <= files  # fmt: skip
    quick = read_json(uninterrupted / "quick.json")
    assert quick["weights"] == quick["facts"]["weights"] == "random"
    assert quick["start"].keys() == quick["trained"].keys() == {"dev_contrastive", "dev_mlm"}
    assert quick["trained"]["dev_contrastive"] < quick["start"]["dev_contrastive"]
    assert tiny.check([f"resume={uninterrupted}"])["objective"]["memory_bank"] == 24


def test_metrics_have_one_line_per_step(uninterrupted: Path) -> None:
    lines = tiny.metrics(uninterrupted)
    steps = [line for line in lines if "loss" in line]
    assert [line["step"] for line in steps] == list(range(1, 25))
    assert list(steps[0]) == ["step", "loss", "contrastive", "mlm", "lr", "gradient_norm", "tokens"]
    assert all(line["loss"] == pytest.approx(line["contrastive"] + line["mlm"], rel=1e-5) for line in steps)
    assert all(a["tokens"] < b["tokens"] for a, b in pairwise(steps))
    measured = [line["step"] for line in lines if "dev_contrastive" in line]
    assert measured == [*range(0, 24, 4), 24]


def test_the_export_gives_the_vectors_of_the_trained_encoder(uninterrupted: Path) -> None:
    vectors = encoders.load(uninterrupted).encode(["bad bif", "ked"])
    assert vectors.shape == (2, 16) and np.isfinite(vectors).all()
    card = (uninterrupted / "encoder" / "README.md").read_text()
    assert "weights-random" in card and "| accumulation | 2 |" in card and Declutr.citation in card


def test_a_killed_and_resumed_run_gives_the_same_bits(folder: Path, uninterrupted: Path) -> None:
    run = folder / "killed"
    overrides = tiny.overrides(folder, *STATEFUL, "budget.steps=24", f"run_dir={run}")
    process = subprocess.Popen(command(*overrides), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while not (run / "checkpoints" / "step-00000009").exists():
        assert process.poll() is None and time.monotonic() < deadline, process.stderr and process.stderr.read()
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (run / "encoder").exists()
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"step": 23, "loss": 0.5}\n{"step": 2')  # as a killed process may leave it
    subprocess.run(command(f"resume={run}", f"cache={folder / 'cache'}"), check=True, stdout=subprocess.DEVNULL)
    assert (run / "metrics.jsonl").read_bytes() == (uninterrupted / "metrics.jsonl").read_bytes()
    assert read_json(run / "quick.json") == read_json(uninterrupted / "quick.json")


def test_an_interrupted_run_reports_how_to_resume_and_resumes(
    folder: Path, uninterrupted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = iter(range(1, 100))
    loss = Declutr.loss

    def interrupting(objective: Declutr, *arguments: Any) -> Loss:
        if objective.training and next(steps) == 9:  # the first micro-batch of step 5
            os.kill(os.getpid(), signal.SIGTERM)
        return loss(objective, *arguments)

    monkeypatch.setattr(Declutr, "loss", interrupting)
    run = folder / "interrupted"
    with pytest.raises(KeyboardInterrupt, match=rf"Stopped after step 5 of 24. Resume with: .* resume={run}"):
        tiny.run(folder, *STATEFUL, "budget.steps=24", f"run_dir={run}")
    assert (run / "checkpoints" / "step-00000005").is_dir()
    tiny.resume(run, folder / "cache")
    assert (run / "metrics.jsonl").read_bytes() == (uninterrupted / "metrics.jsonl").read_bytes()


def test_a_run_on_its_plateau_can_be_given_another_length(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plateau = ["schedule=wsd", "schedule.warm_up=2", "schedule.decay=0.25", "optimizer=muon", "optimizer.lr=1e-3"]
    eight_steps = tiny.run(folder, *plateau, "budget.steps=8", f"run_dir={folder / 'eight'}")
    monkeypatch.setattr(checkpoint, "finish", lambda root: None)  # keeps the optimizer states
    run = tiny.run(
        folder,
        *plateau,
        "budget.steps=40",
        f"run_dir={folder / 'forty'}",
        "checkpoint.every=5",
        "checkpoint.keep_last=100",
    )
    for later in checkpoint.list_checkpoints(run / "checkpoints"):
        if later.name != "step-00000005":
            shutil.rmtree(later)
    shutil.rmtree(run / "encoder")
    with pytest.raises(UserError, match=r"^budget.steps: "):  # the decay would have begun
        tiny.resume(run, folder / "cache", "budget.steps=5")
    tiny.resume(run, folder / "cache", "budget.steps=8")
    with pytest.raises(UserError, match=r"^budget.steps: "):  # the decay to another end has begun
        tiny.resume(run, folder / "cache", "budget.steps=9")
    trained = [line for line in tiny.metrics(run) if "loss" in line]
    assert trained == [line for line in tiny.metrics(eight_steps) if "loss" in line] and len(trained) == 8
    assert read_yaml(run / "config.yaml")["budget"]["steps"] == 8


def test_a_finished_run_is_exported_again_without_optimizer_state_and_cache(folder: Path, tmp_path: Path) -> None:
    """It reads the tokenizer from its folder, as tokenizer training may change."""
    run = tiny.run(folder, "budget.steps=2", "precision=bf16", f"run_dir={folder / 'finished'}")
    assert not [*run.rglob("optimizer.pt")]
    assert read_json(run / "environment.json")["precision"] == "bf16"
    vectors = encoders.load(run / "encoder").encode(["bad bif"])
    shutil.rmtree(run / "encoder")
    tiny.resume(run, tmp_path / "cache")
    assert (encoders.load(run / "encoder").encode(["bad bif"]) == vectors).all()
    assert not (tmp_path / "cache" / "tokenizers").exists()
    with pytest.raises(UserError, match=r"^budget.steps: "):  # its learning rate fell to the end at step 2
        tiny.resume(run, tmp_path / "cache", "budget.steps=4")


@pytest.mark.parametrize("launcher", ["processes", pytest.param("torchrun", marks=pytest.mark.slow)])
def test_two_processes_train_like_one(folder: Path, launcher: str) -> None:
    """Global batches are the same and there is no dropout, so losses, gradient norms and tokens are the same, too.

    Only the two processes cache gradients, which changes nothing.
    """
    settings = (
        "accumulation=2", "objective.memory_bank=24", "encoder.dropout=0", "optimizer=sgd", "optimizer.lr=0.05",
        "budget.steps=4", "threads=1",
    )  # fmt: skip
    one = tiny.run(folder, *settings, f"run_dir={folder / 'one' / launcher}")
    two = folder / "two" / launcher
    arguments = command(*tiny.overrides(folder, *settings, "objective.cache_chunk=24", f"run_dir={two}"))
    if launcher == "torchrun":
        arguments[1:1] = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    else:
        arguments.append("processes=2")
    completed = subprocess.run(arguments, capture_output=True, text=True, timeout=300)
    assert completed.returncode == 0, completed.stderr
    for expected, actual in zip(tiny.metrics(one), tiny.metrics(two), strict=True):
        assert actual == pytest.approx(expected, rel=1e-5, abs=1e-7)
    assert read_json(two / "environment.json")["processes"] == 2


def test_warm_start_takes_encoder_and_fitting_parts(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    head = "objective.projection={width: 8}"
    first = tiny.run(folder, head, "budget.steps=3", f"run_dir={folder / 'first'}")
    common = [text for text in tiny.overrides(folder, head) if not text.startswith(("encoder", "weights"))]

    def continued(*overrides: str) -> Path:
        return tiny.train(tiny.check([*common, f"warm_start={first}", *overrides]))

    second = continued("budget.steps=1", "optimizer.lr=1e-12", f"run_dir={folder / 'second'}")
    trained = read_json(first / "quick.json")["trained"]
    assert read_json(second / "quick.json")["start"] == pytest.approx(trained, rel=1e-4)
    card = (second / "encoder" / "README.md").read_text()
    assert f"continued from {first / 'encoder'}" in card and "encoder.vocab_size" not in card
    assert "weights of the objective: head" in capsys.readouterr().out


def test_the_best_weights_can_be_exported(folder: Path) -> None:
    """The learning rate is too high, so that the best step is an early one."""
    run = tiny.run(
        folder, "optimizer.lr=0.5", "schedule=constant", "checkpoint.export=best", "checkpoint.keep_last=1",
        f"run_dir={folder / 'best'}",
    )  # fmt: skip
    lines = [line for line in tiny.metrics(run) if "dev_contrastive" in line and line["step"] > 0]
    best = min(lines, key=lambda line: line["dev_contrastive"])
    assert best["step"] < 8
    quick = read_json(run / "quick.json")
    assert quick["facts"]["steps"] == best["step"]
    [seen] = [line["tokens"] for line in tiny.metrics(run) if "tokens" in line and line["step"] == best["step"]]
    assert quick["facts"]["tokens seen"] == seen
    assert quick["trained"]["dev_contrastive"] == best["dev_contrastive"]
    kept = {path.name for path in (run / "checkpoints").iterdir()}
    assert kept == {f"step-{best['step']:08d}", "step-00000008"}


@pytest.mark.parametrize(
    ("override", "key"),
    [
        ("objective.batch_size=100", "corpus"),
        ("optimizer.lr=1e30", "training"),
    ],
)
def test_refusals(folder: Path, tmp_path: Path, override: str, key: str) -> None:
    with pytest.raises(UserError) as error:
        tiny.run(folder, override, f"run_dir={tmp_path / 'run'}")
    assert error.value.key == key
    took_a_step = override.startswith("optimizer")  # such a run keeps its folder
    assert [path.name for path in tmp_path.iterdir()] == ["run"] * took_a_step


def test_weights_that_are_not_finite_are_neither_saved_nor_exported(folder: Path, tmp_path: Path) -> None:
    """The learning rate is far too large from the fourth step on; the checkpoint of step 2 stays."""
    run = tmp_path / "run"
    steps = ["budget.steps=6", "checkpoint.every=2", "dev_every=6", "schedule=constant", "optimizer.lr=1e-3"]
    with (
        patch.object(trainer.Trainer, "lr", lambda self, step: 1e-3 if step < 3 else 1e38),
        pytest.raises(UserError, match=r"^training: .*step 4"),
    ):
        tiny.run(folder, *steps, f"run_dir={run}")
    kept = run / "checkpoints" / "step-00000002"
    assert [*(run / "checkpoints").iterdir()] == [kept] and not (run / "encoder").exists()
    tiny.resume(run, folder / "cache")
    assert np.isfinite(encoders.load(run / "encoder").encode(["bad bif"])).all()


def test_no_steps_export_the_untrained_encoder(folder: Path) -> None:
    run = tiny.run(folder, "budget.steps=0", f"run_dir={folder / 'untrained'}")
    assert all("loss" not in line for line in tiny.metrics(run))
    quick = read_json(run / "quick.json")
    assert quick["start"] == quick["trained"] and (run / "encoder").is_dir()
