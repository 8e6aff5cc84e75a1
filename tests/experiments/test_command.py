"""Commands: a table of wrong ones, help, errors, and sweeps."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from omegaconf import OmegaConf

from data.errors import UserError, UserErrors
from experiments import command, config
from tests.command_runner import run_command, run_main, snapshot
from tests.experiments import tiny

OUT_OF_MEMORY = "out of memory. objective.cache_chunk=8192 or a smaller batch_size needs less"
ROOT = config.CONFIGS.parents[1]
WRONG = [
    # not key=value, or no choice
    ("seed", "seed"),
    ("corpus.path=a)", "corpus.path"),
    ("sentences={{split", "sentences"),
    ("objective=declut", "objective=declut"),
    ("encoder=nothing", "encoder=nothing"),
    ("encoder={tmp}/nothing", "encoder="),
    ("evaluation=null", "evaluation=null"),
    ("+experiment=declutr/smal", "experiment=declutr/smal"),
    ("objective=nsp,sop", "objective=nsp"),
    ("seed=${{sead}}", "seed"),
    # unknown keys
    ("sede=3", "sede"),
    ("--sede 3", "sede"),
    ("temperature=1", "temperature"),
    ("objective.temprature=1", "objective.temperature"),
    ("budget.step=1", "budget.steps"),
    ("evaluation=senteval evaluation.dat=a", "evaluation.data"),
    ("objective.projection={{widht:8}}", "objective.projection.widht"),
    # missing keys, types and ranges
    ("corpus=nltk", "corpus.corpus"),
    ("~optimizer", "optimizer"),
    ("objective.temperature=0", "objective.temperature"),
    ("objective.temperature=nan", "objective.temperature"),
    ("objective.max_length=6.5", "objective.max_length"),
    ("seed=-1", "seed"),
    ("seed=1,2", "seed"),
    ("optimizer=sgd optimizer.lr=null", "optimizer.lr"),
    ("objective._target_=os.system", "objective._target_"),
    ("objective=gensen objective.fr={{source:1}}", "objective.fr.source"),
    # settings that contradict each other
    ("objective.min_length=9", "objective.min_length"),
    ("budget.steps=null budget.flops=null", "budget"),
    ("sentences.max_words=0", "sentences.max_words"),
    ("checkpoint.metric=dev_accuracy", "checkpoint.metric"),
    ("objective.batch_size=4 processes=3", "processes"),
    ("precision=fp16", "precision"),
    ("objective.max_length=64 objective.min_length=60", "corpus"),
    ("corpus.path={tmp}/one.txt corpus.document=file", "corpus"),
    ("objective=simcse encoder.dropout=0", "dropout"),
    ("corpus=mixture ~corpus.path +corpus.corpora.a={{kind:none,path:a}}", "corpus.corpora"),
    # files and folders
    ("corpus.path={tmp}/nothing", "corpus.path"),
    ("corpus.path={tmp}/empty.jsonl", "corpus"),
    ("corpus.path={tmp}/cut.jsonl", "cut.jsonl"),
    ("corpus.path={tmp}/bytes.parquet", "bytes.parquet"),
    ("corpus.field=body", "body"),
    ("encoder.path={tmp}/nothing", "encoder.path"),
    ("encoder=bag_of_words encoder.vectors={tmp}/nothing", "encoder.vectors"),
    ("evaluation=senteval evaluation.data={tmp}/nothing", "evaluation.data"),
    ("run_dir={tmp}/run", "run_dir"),
    ("run_dir={tmp}/empty.jsonl", "empty.jsonl"),
    ("warm_start={tmp}/nothing", "{tmp}/nothing"),
    ("--config-dir {tmp}/nothing +experiment=mine", "experiment=mine"),
]  # fmt: skip
# Of commands that read a run's folder: a change of a copy of it, the command, and the key.
RUN, SAFETENSORS = "encoder/model.safetensors", "checkpoints/step-00000004/model.safetensors"
DAMAGED: list[tuple[str, str, str, str]] = [
    ("nothing", "", "resume={run} seed=2", "seed"),
    ("nothing", "", "resume={run} budget.steps=9", "budget.steps"),
    ("nothing", "", "resume={tmp}/nothing", "nothing"),
    ("remove", "config.yaml", "resume={run}", "config.yaml"),
    ("cut", "config.yaml", "resume={run}", "{run}"),
    ("cut", "tokenizer/tokenizer.json", "resume={run}", "tokenizer"),
    ("cut", "checkpoints/step-00000004/state.json", "resume={run}", "step-00000004"),
    ("cut", SAFETENSORS, "resume={run}", "step-00000004"),
    ("nothing", "", "warm_start={run} encoder=gru", "encoder"),
    ("nothing", "", "warm_start={run} weights=random", "weights"),
    ("nothing", "", "warm_start={run} encoder.shape=null", "encoder.shape"),
    ("remove", "encoder", "warm_start={run}", "{run}"),
    ("cut", RUN, "warm_start={run}", "encoder"),
    ("text", RUN, "encoder={run}/encoder", "encoder"),
]


def damage(folder: Path, change: str, name: str) -> None:
    """Changes the file or folder ``name`` of a run's ``folder``."""
    path = folder / name
    if change == "remove":
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    elif change == "cut":
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    elif change == "text":
        path.write_text("not weights\n")


@pytest.fixture(scope="module")
def tmp(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a corpus, an unfinished and a finished run, and files that are empty or cut off."""
    folder = tmp_path_factory.mktemp("commands")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr("analysis.run_figure.draw", lambda folder: [folder / "none.png"])
        tiny.run(folder, f"run_dir={folder / 'run'}", "checkpoint.every=4")
        patch.setattr("experiments.experiment.checkpoint.finish", lambda root: None)
        tiny.run(folder, f"run_dir={folder / 'stopped'}", "checkpoint.every=4", "budget.steps=4")
    shutil.rmtree(folder / "stopped" / "encoder")
    common = [text for text in tiny.overrides(folder, "threads=1") if not text.startswith("objective")]
    write_preset(folder / "presets" / "experiment" / "tiny.yaml", common)
    sizes = [text for text in common if not text.startswith(("encoder", "weights"))]
    write_preset(folder / "presets" / "experiment" / "sizes.yaml", sizes)
    (folder / "empty.jsonl").write_text("")
    (folder / "one.txt").write_text("one two three\n" * 99)
    (folder / "cut.jsonl").write_text('{"text": "one two"}\n{"text": "thr')
    (folder / "bytes.parquet").write_bytes(bytes(range(256)))
    return folder


def write_preset(path: Path, overrides: list[str]) -> None:
    """Writes overrides as a preset, which is read faster than they are parsed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    groups = [text.split("=") for text in overrides if text.partition("=")[0] in config.BASES]
    values = OmegaConf.from_dotlist([text for text in overrides if text.split("=") not in groups])
    defaults = [{f"override /{group}": choice} for group, choice in groups]
    path.write_text("# @package _global_\n" + OmegaConf.to_yaml({"defaults": [*defaults, "_self_"], **values}))


def refuse(tmp: Path, arguments: list[str], key: str) -> None:
    """Checks that ``run.py`` ends with status 2 and a line that names ``key``, and writes nothing."""
    before = snapshot(tmp, without=tmp / "cache")
    outcome = run_command("experiments.run", *arguments, folder=tmp)
    assert outcome.status == 2, outcome.error
    assert key in outcome.error
    assert "Traceback" not in outcome.error
    assert snapshot(tmp, without=tmp / "cache") == before


@pytest.mark.parametrize(("arguments", "key"), WRONG, ids=[arguments for arguments, _ in WRONG])
def test_a_wrong_command_is_refused(arguments: str, key: str, tmp: Path) -> None:
    words = arguments.format(tmp=tmp).split()
    preset = "sizes" if any(word.startswith("encoder=") for word in words) else "tiny"
    refuse(tmp, ["--config-dir", str(tmp / "presets"), f"+experiment={preset}", *words], key.format(tmp=tmp))


@pytest.mark.parametrize(
    ("change", "name", "arguments", "key"), DAMAGED, ids=[" ".join(row[:3]) for row in DAMAGED]
)
def test_a_damaged_run_is_refused(change: str, name: str, arguments: str, key: str, tmp: Path) -> None:
    run, resumed = tmp / "copy", arguments.startswith("resume")
    shutil.copytree(tmp / ("stopped" if resumed else "run"), run)
    try:
        damage(run, change, name)
        preset = ["--config-dir", str(tmp / "presets"), "+experiment=sizes"]
        words = arguments.format(run=run, tmp=tmp).split()
        refuse(tmp, words if resumed else [*preset, *words], key.format(run=run))
    finally:
        shutil.rmtree(run)


def test_a_misspelt_key_and_help_are_answered_without_heavy_imports() -> None:
    """For a misspelt key only the class that it is about is imported, and torch for it."""
    script = "import sys; from tests.command_runner import run_command, run_main; from pathlib import Path\n"
    script += "run = lambda *arguments: run_command('experiments.run', *arguments, folder=Path('.'))\n"
    script += "print(run('objective=simcse', 'schedule=linear', '--help').output, 'torch' in sys.modules)\n"
    script += "print(run('encoder=bundled', 'objective.temprature=1').status, "
    script += "{'transformers', 'pandas', 'scipy'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    for path in ("run", "objective/simcse", "encoder/transformer", "encoder/roberta-base", "schedule/linear"):
        assert (config.CONFIGS / f"{path}.yaml").read_text() in done.stdout
    assert "quick_thoughts" in done.stdout
    assert done.stdout.endswith("False\n2 set()\n")


@pytest.mark.parametrize(
    ("error", "status", "text"),
    [
        (UserError("wrong", key="seed", hint="Write another."), 2, "seed: wrong. Write another."),
        (UserError("possibly out of memory", key="processes"), 2, "processes: possibly out of memory."),
        (UserErrors([UserError("a"), UserError("b")]), 2, "a.\nb."),
        (UserError("bad \x1b[31m"), 2, "bad \\x1b[31m."),
        (KeyboardInterrupt(), 130, "Interrupted."),
        (MemoryError(), 2, f"device: {OUT_OF_MEMORY}."),
        (torch.OutOfMemoryError("CUDA out of memory."), 2, f"device: {OUT_OF_MEMORY}."),
        (OSError(28, "No space left on device", "a/b"), 2, "a/b: No space left on device."),
        (OSError(28, "No space left on device"), 2, "file: No space left on device."),
    ],
)
def test_errors_are_rendered_once(error: BaseException, status: int, text: str) -> None:
    assert command.exit_answer(error) == (status, text)


def test_defects_keep_their_traceback() -> None:
    assert command.exit_answer(KeyError("a")) is None


def test_a_sweep_goes_on_after_a_failure_and_ends_with_a_table(tmp: Path, tmp_path: Path) -> None:
    sizes = tiny.overrides(tmp, "threads=1", "evaluation=quick", "budget.steps=2")
    done = run_command("experiments.run", "-m", *sizes, "seed=1,-1,2", folder=tmp_path)
    assert done.status == 2
    assert len(done.error.splitlines()) == 1
    assert "seed" in done.error
    runs = [path for path in (tmp_path / "runs").iterdir() if path.is_dir()]
    assert len(runs) == 2
    assert all(len(path.name) <= 45 and path.name in done.output for path in runs)


@pytest.mark.parametrize("in_parent", [True, False])
def test_jobs_of_a_sweep_that_fail_are_all_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_parent: bool
) -> None:
    """A launcher's job runs in another process, which prints its error, as Hydra shows the first one's only."""
    seeds: list[int] = []

    def job(values: dict[str, Any]) -> None:
        seeds.append(values["seed"])
        if not in_parent:
            monkeypatch.setattr(os, "getpid", lambda: 0)
        raise OSError(28, "No space left on device", f"file{values['seed']}")

    done = run_main(lambda: command.call_with_hydra(job, "run"), "-m", "seed=1,2", folder=tmp_path)
    assert done.status == 2 and seeds == [1, 2]
    assert "file1" in done.error and "file2" in done.error
