"""Runs from text to an evaluated encoder: interrupted, resumed, continued, and on two processes."""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
import yaml
from accelerate import tracking
from sentence_transformers import SentenceTransformer

import encoders
from data.errors import UserError
from data.files import read_yaml
from experiments import building, checkpoint, experiment, processes, trainer
from objectives.base import Loss
from objectives.declutr import Declutr
from tests.encoders.models import minilm
from tests.experiments import tiny

ROOT = Path(__file__).resolve().parents[2]
# Runs the script of its first argument, and prints whether the encoder is exported when the process ends training.
REPORT_AT_END = """
import runpy, sys
from pathlib import Path
from typing import Any
from accelerate import Accelerator

end = Accelerator.end_training
def end_training(self):
    print(f"ended, exported: {Path(sys.argv[-1].partition('=')[2], 'encoder').is_dir()}")
    end(self)
Accelerator.end_training = end_training
sys.argv.pop(0)
runpy.run_path(sys.argv[0], run_name="__main__")
"""
STATEFUL = ("accumulation=2", "objective.memory_bank=24", "checkpoint.every=3", "log_every=2", "threads=1")


# ``uninterrupted`` is drawn all the same, as it is of module scope.
pytestmark = pytest.mark.usefixtures("without_plots")


@pytest.fixture(autouse=True)
def restored_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


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
    quick = json.loads((uninterrupted / "quick.json").read_text())
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
    assert measured == [*range(0, 24, 2), 24]


def test_the_export_gives_the_vectors_of_the_trained_encoder(uninterrupted: Path) -> None:
    vectors = encoders.load(uninterrupted / "encoder").encode(["bad bif", "ked"])
    assert vectors.shape == (2, 16) and np.isfinite(vectors).all()
    card = (uninterrupted / "encoder" / "README.md").read_text()
    for text in ("weights-random", "| accumulation | 2 |", "| precision | fp32 |", "| encoder.pooling | mean |"):
        assert text in card
    assert Declutr.citation in card


def test_the_same_command_gives_the_same_bits(folder: Path, uninterrupted: Path) -> None:
    again = tiny.run(folder, *STATEFUL, "budget.steps=24", f"run_dir={folder / 'again'}")
    assert (again / "metrics.jsonl").read_bytes() == (uninterrupted / "metrics.jsonl").read_bytes()


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
    assert json.loads((run / "quick.json").read_text()) == json.loads((uninterrupted / "quick.json").read_text())


def test_an_interrupted_run_reports_how_to_resume_and_resumes(
    folder: Path, uninterrupted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = iter(range(1, 100))
    loss = Declutr.loss

    def interrupting(objective: Declutr, *arguments: Any) -> Loss:
        if objective.training and next(steps) == 9:  # the first micro-batch of step 5
            os.kill(os.getpid(), signal.SIGINT)
        return loss(objective, *arguments)

    monkeypatch.setattr(Declutr, "loss", interrupting)
    run = folder / "interrupted"
    with pytest.raises(KeyboardInterrupt, match=rf"Stopped after step 5 of 24. Resume with: .* resume={run}"):
        tiny.run(folder, *STATEFUL, "budget.steps=24", f"run_dir={run}")
    assert (run / "checkpoints" / "step-00000005").is_dir()
    tiny.train(tiny.check([f"resume={run}", f"cache={folder / 'cache'}"]))
    assert (run / "metrics.jsonl").read_bytes() == (uninterrupted / "metrics.jsonl").read_bytes()


def test_a_run_interrupted_while_evaluating_reports_how_to_resume_and_resumes(
    folder: Path, uninterrupted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = experiment._scorer

    def interrupting(*arguments: Any) -> experiment.Scorer:
        def score(name: str) -> dict[str, float | None]:
            if name == "the trained encoder":
                raise KeyboardInterrupt
            return made(*arguments)(name)

        return score

    run = folder / "evaluating"
    with monkeypatch.context() as patch:
        patch.setattr(experiment, "_scorer", interrupting)
        with pytest.raises(KeyboardInterrupt, match=r"^Interrupted. Resume with: .* resume=.*/evaluating "):
            tiny.run(folder, *STATEFUL, "budget.steps=24", f"run_dir={run}")
    tiny.train(tiny.check([f"resume={run}", f"cache={folder / 'cache'}"]))
    assert json.loads((run / "quick.json").read_text()) == json.loads((uninterrupted / "quick.json").read_text())


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
    resume = [f"resume={run}", f"cache={folder / 'cache'}"]
    with pytest.raises(UserError) as error:
        tiny.train(tiny.check([*resume, "budget.steps=5"]))
    assert error.value.key == "budget.steps"
    tiny.train(tiny.check([*resume, "budget.steps=8"]))
    trained = [line for line in tiny.metrics(run) if "loss" in line]
    assert trained == [line for line in tiny.metrics(eight_steps) if "loss" in line] and len(trained) == 8
    assert read_yaml(run / "config.yaml")["budget"]["steps"] == 8


def test_the_length_of_other_runs_cannot_be_changed(folder: Path) -> None:
    run = tiny.run(folder, "budget.steps=2", f"run_dir={folder / 'slanted'}")
    with pytest.raises(UserError) as error:
        tiny.train(tiny.check([f"resume={run}", "budget.steps=4"]))
    assert error.value.key == "budget.steps" and "wsd" in error.value.hint and "linear" not in error.value.hint


def test_the_steps_of_a_finished_run_cannot_be_changed(folder: Path) -> None:
    run = tiny.run(folder, "schedule=constant", "budget.steps=2", f"run_dir={folder / 'constant'}")
    with pytest.raises(UserError) as error:
        tiny.train(tiny.check([f"resume={run}", "budget.steps=4", f"cache={folder / 'cache'}"]))
    assert error.value.key == "budget.steps" and f"warm_start={run}" in error.value.hint


def test_a_finished_run_keeps_no_optimizer_state_and_reports_it_when_resumed(
    folder: Path, uninterrupted: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tiny.run(folder, *STATEFUL, "budget.steps=24", f"run_dir={folder / 'finished'}")
    assert not [*run.rglob("optimizer.safetensors")]
    assert [path.name for path in checkpoint.list_checkpoints(run / "checkpoints")][-1] == "step-00000024"
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    capsys.readouterr()
    assert tiny.train(tiny.check([f"resume={run}", f"cache={folder / 'cache'}"])) == run
    assert "finished" in capsys.readouterr().out
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before
    vectors = encoders.load(run / "encoder").encode(["bad bif"])
    shutil.rmtree(run / "encoder")  # exported again on resuming
    tiny.train(tiny.check([f"resume={run}", f"cache={folder / 'cache'}"]))
    assert (encoders.load(run / "encoder").encode(["bad bif"]) == vectors).all()
    shutil.rmtree(run / "checkpoints" / "step-00000024")
    shutil.rmtree(run / "encoder")
    with pytest.raises(UserError, match=r"step-0000002\d: .* optimizer state"):
        tiny.train(tiny.check([f"resume={run}", f"cache={folder / 'cache'}"]))


def test_a_half_written_checkpoint_is_refused(folder: Path, uninterrupted: Path) -> None:
    run = folder / "half"
    shutil.copytree(uninterrupted, run)
    newest = run / "checkpoints" / "step-00000024" / "objective.safetensors"
    newest.write_bytes(newest.read_bytes()[:100])
    before = (run / "metrics.jsonl").read_bytes()
    with pytest.raises(UserError, match=r"step-00000024"):
        tiny.train(tiny.check([f"resume={run}", f"cache={folder / 'cache'}"]))
    assert (run / "metrics.jsonl").read_bytes() == before


@pytest.mark.parametrize("change", ["text", "tokenizer"])
def test_resuming_with_another_text_or_tokenizer_is_refused(
    folder: Path, uninterrupted: Path, tmp_path: Path, change: str
) -> None:
    shutil.copytree(uninterrupted, run := tmp_path / "run")
    config = yaml.safe_load((run / "config.yaml").read_text())
    tokenizer = json.loads((run / "tokenizer" / "tokenizer.json").read_text())
    if change == "text":
        lines = (folder / "corpus.jsonl").read_text().splitlines(keepends=True)
        (tmp_path / "corpus.jsonl").write_text("".join(lines[:-1]))
        config["corpus"]["path"] = str(tmp_path / "corpus.jsonl")
    else:
        tokenizer["model"]["merges"].pop()
    (run / "config.yaml").write_text(yaml.safe_dump(config))
    (run / "tokenizer" / "tokenizer.json").write_text(json.dumps(tokenizer))
    with pytest.raises(UserError, match=r"^resume: store: "):
        tiny.train(tiny.check([f"resume={run}", f"cache={folder / 'cache'}"]))
    assert (run / "metrics.jsonl").read_bytes() == (uninterrupted / "metrics.jsonl").read_bytes()


def test_a_run_keeps_its_tokenizer(folder: Path, uninterrupted: Path, tmp_path: Path) -> None:
    """A resumed run reads it from its folder: the cache may be empty, and tokenizer training may change."""
    shutil.copytree(uninterrupted, run := tmp_path / "run")
    tiny.train(tiny.check([f"resume={run}", f"cache={tmp_path / 'cache'}"]))
    assert not (tmp_path / "cache" / "tokenizers").exists()


def test_trackers_get_each_number_of_the_journals_once(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    logged: list[tuple[str, int, float]] = []
    purge_steps: list[int] = []

    class Tracker(tracking.GeneralTracker):  # in place of TensorBoard's, which need not be installed
        name, requires_logging_directory, tracker = "tensorboard", True, None

        def __init__(self, run_name: str, logging_dir: str, purge_step: int) -> None:
            super().__init__()
            (Path(logging_dir) / run_name).mkdir(exist_ok=True)
            purge_steps.append(purge_step)

        def store_init_configuration(self, values: dict[str, object]) -> None: ...

        def log(self, values: dict[str, float], step: int) -> None:
            logged.extend((name, step, value) for name, value in values.items())

    def in_journals(run: Path, since: int) -> list[tuple[str, int, float]]:
        lines = [*tiny.metrics(run), *map(json.loads, (run / "timings.jsonl").read_text().splitlines())]
        return [
            (name, line["step"], value)
            for line in lines
            if line["step"] >= since
            for name, value in line.items()
            if name != "step"
        ]

    monkeypatch.setattr(processes, "is_tensorboard_available", lambda: True)
    monkeypatch.setattr(tracking, "get_available_trackers", lambda: [tracking.LoggerType.TENSORBOARD])
    monkeypatch.setitem(tracking.LOGGER_TYPE_TO_CLASS, "tensorboard", Tracker)
    intervals = (
        "budget.steps=6",
        "log_every=2",
        "dev_every=3",
        "checkpoint.every=3",
        f"run_dir={tmp_path / 'run'}",
    )
    with patch.object(checkpoint, "finish"):
        run = tiny.run(folder, "trackers=[tensorboard]", *intervals)
    assert (run / "trackers" / "sentence-objectives").is_dir()
    assert Counter(logged) == Counter(in_journals(run, 0))
    names = {"dev_contrastive", "dev_mlm", "loss", "contrastive", "mlm", "lr", "gradient_norm", "tokens"}
    assert {name for name, *_ in logged} == names | {"steps", "seconds", "tokens_per_second", "memory_gib"}
    assert capsys.readouterr().out.count("\ntraining ") == 1  # for the last step only

    shutil.rmtree(run / "checkpoints" / "step-00000006")
    logged.clear()
    tiny.train(tiny.check([f"resume={run}", f"cache={folder / 'cache'}", "verbose=true"]))
    assert purge_steps == [0, 4]
    assert Counter(logged) == Counter(in_journals(run, 4))
    assert [line.split()[1] for line in capsys.readouterr().out.splitlines() if line.startswith("training ")] == [
        "4", "6"
    ]  # fmt: skip


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
        (folder / "ends.py").write_text(REPORT_AT_END)
        arguments[1:1] = [
            "-m",
            "torch.distributed.run",
            "--standalone",
            "--nproc_per_node=2",
            str(folder / "ends.py"),
        ]
    else:
        arguments.append("processes=2")
    completed = subprocess.run(arguments, capture_output=True, text=True, timeout=300)
    assert completed.returncode == 0, completed.stderr
    if launcher == "torchrun":
        assert completed.stdout.count("ended, exported: True") == 2, completed.stdout  # both wait for the export
    else:
        assert completed.stderr == ""
    for expected, actual in zip(tiny.metrics(one), tiny.metrics(two), strict=True):
        assert actual == pytest.approx(expected, rel=1e-5, abs=1e-7)
    assert json.loads((two / "environment.json").read_text())["processes"] == 2


def test_other_processes_get_the_folder_of_the_first(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders: list[Path] = []
    monkeypatch.setattr(experiment, "broadcast_object_list", lambda paths: [Path("first")])
    monkeypatch.setattr(experiment, "run_stages", lambda *arguments: folders.append(arguments[-1]))
    values = tiny.compose(folder)
    experiment.run(values, Path("second"), building.build_components(values))
    assert folders == [Path("first")]


def test_warm_start_takes_encoder_and_fitting_parts(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    head = "objective.projection={width: 8}"
    first = tiny.run(folder, head, "budget.steps=3", f"run_dir={folder / 'first'}")
    common = [text for text in tiny.overrides(folder, head) if not text.startswith(("encoder", "weights"))]

    def continued(*overrides: str) -> Path:
        return tiny.train(tiny.check([*common, f"warm_start={first}", *overrides]))

    second = continued("budget.steps=1", "optimizer.lr=1e-12", f"run_dir={folder / 'second'}")
    trained = json.loads((first / "quick.json").read_text())["trained"]
    assert json.loads((second / "quick.json").read_text())["start"] == pytest.approx(trained, rel=1e-4)
    card = (second / "encoder" / "README.md").read_text()
    assert f"continued from {first / 'encoder'}" in card and "encoder.vocab_size" not in card
    assert "weights of the objective: head" in capsys.readouterr().out
    newest = first / "checkpoints" / "step-00000003" / "objective.safetensors"
    newest.write_bytes(newest.read_bytes()[:-1])
    with pytest.raises(UserError, match="step-00000003"):
        continued(f"run_dir={folder / 'third'}")


def test_the_best_weights_can_be_exported(folder: Path) -> None:
    """The learning rate is too high, so that the best step is an early one."""
    run = tiny.run(
        folder, "optimizer.lr=0.5", "schedule=constant", "checkpoint.export=best", "checkpoint.keep_last=1",
        f"run_dir={folder / 'best'}",
    )  # fmt: skip
    lines = [line for line in tiny.metrics(run) if "dev_contrastive" in line and line["step"] > 0]
    best = min(lines, key=lambda line: line["dev_contrastive"])
    assert best["step"] < 8
    quick = json.loads((run / "quick.json").read_text())
    assert quick["facts"]["steps"] == best["step"]
    [seen] = [line["tokens"] for line in tiny.metrics(run) if "tokens" in line and line["step"] == best["step"]]
    assert quick["facts"]["tokens seen"] == seen
    assert quick["trained"]["dev_contrastive"] == best["dev_contrastive"]
    kept = {path.name for path in (run / "checkpoints").iterdir()}
    assert kept == {f"step-{best['step']:08d}", "step-00000008"}


@pytest.mark.parametrize(
    ("override", "line"),
    [
        ("objective.batch_size=100", r"^corpus: .* 100"),
        ("budget.max_span=5000", r"^corpus: "),
        ("optimizer.lr=1e30", r"The weights are not finite at step 1: .* optimizer\.lr=1e\+30 or .* may help\.$"),
    ],
)  # fmt: skip
def test_refusals(folder: Path, tmp_path: Path, override: str, line: str) -> None:
    with pytest.raises(UserError, match=line):
        tiny.run(folder, override, f"run_dir={tmp_path / 'run'}")
    took_a_step = override.startswith("optimizer")  # such a run keeps its folder
    assert [path.name for path in tmp_path.iterdir()] == ["run"] * took_a_step


def test_weights_that_are_not_finite_are_neither_saved_nor_exported(folder: Path, tmp_path: Path) -> None:
    """The learning rate is far too large from the fourth step on; the checkpoint of step 2 stays."""
    run = tmp_path / "run"
    steps = ["budget.steps=6", "checkpoint.every=2", "dev_every=6", "schedule=constant", "optimizer.lr=1e-3"]
    with (
        patch.object(trainer.Trainer, "lr", lambda self, step: 1e-3 if step < 3 else 1e38),
        pytest.raises(UserError, match="not finite at step 4") as error,
    ):
        tiny.run(folder, *steps, f"run_dir={run}")
    kept = run / "checkpoints" / "step-00000002"
    assert str(error.value).endswith(f"The last good checkpoint is {kept}.")
    assert [*(run / "checkpoints").iterdir()] == [kept] and not (run / "encoder").exists()
    tiny.train(tiny.check([f"resume={run}", f"cache={folder / 'cache'}"]))
    assert np.isfinite(encoders.load(run / "encoder").encode(["bad bif"])).all()


def test_a_loss_that_is_not_finite_at_first_is_no_matter_of_the_learning_rate(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Declutr, "dev_metrics", lambda *_: {"dev_contrastive": math.nan, "dev_mlm": 0.0})
    with pytest.raises(UserError, match=r"^dev_contrastive is nan before any update: the cause is the loss, "):
        tiny.run(folder, f"run_dir={tmp_path / 'run'}")


def test_no_steps_export_the_untrained_encoder(folder: Path) -> None:
    run = tiny.run(folder, "budget.steps=0", f"run_dir={folder / 'untrained'}")
    again = tiny.run(folder, "budget.steps=0", f"run_dir={folder / 'untrained-again'}")
    assert all("loss" not in line for line in tiny.metrics(run))
    vectors = [encoders.load(path / "encoder").encode(["bad bif."]) for path in (run, again)]
    assert np.array_equal(*vectors)


@pytest.mark.parametrize("objective", ["contrastive_only", "mlm_only"])
def test_the_control_objectives_train(folder: Path, objective: str) -> None:
    run = tiny.run(folder, f"objective={objective}", "budget.steps=2", f"run_dir={folder / objective}")
    (part,) = {"contrastive", "mlm"} & set(tiny.metrics(run)[1])
    assert (part == "mlm") == (objective == "mlm_only")
    state = json.loads((run / "checkpoints" / "step-00000002" / "state.json").read_text())
    assert state["best"]["value"] == tiny.metrics(run)[-1][f"dev_{part}"]
    assert yaml.safe_load((run / "config.yaml").read_text())["names"]["objective"] == objective


def test_bf16_trains(folder: Path) -> None:
    run = tiny.run(folder, "precision=bf16", "budget.steps=2", f"run_dir={folder / 'bf16'}")
    assert json.loads((run / "environment.json").read_text())["precision"] == "bf16"
    assert np.isfinite(tiny.metrics(run)[-2]["loss"])


def test_a_pretrained_encoder_without_an_mlm_head_trains_and_exports(folder: Path) -> None:
    start = minilm()
    common = [text for text in tiny.overrides(folder) if not text.startswith(("encoder", "weights", "budget"))]
    sizes = [
        "budget.steps=2",
        "budget.min_tokens=null",
        "budget.documents=4",
        "budget.min_span=8",
        "budget.max_span=16",
    ]
    encoder = ["encoder=transformer", f"encoder.path={start}", "objective=contrastive_only"]
    run = tiny.train(tiny.check([*encoder, *common, *sizes, f"run_dir={folder / 'minilm'}"]))
    trained, before = encoders.load(run / "encoder"), encoders.load(start)
    vectors = trained.encode(["a cat", "a dog"])
    assert trained.weights == "own" and vectors.shape == (2, 384)
    assert not np.allclose(vectors, before.encode(["a cat", "a dog"]), atol=1e-6)
    np.testing.assert_allclose(
        SentenceTransformer(str(run / "encoder")).encode(["a cat", "a dog"]), vectors, atol=1e-5
    )
