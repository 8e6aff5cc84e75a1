"""The command itself, with what people do wrong: status 2, one line, no traceback, and nothing left behind."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from experiments import checkpoint
from tests.experiments import tiny

ROOT = Path(__file__).resolve().parents[2]


def command(folder: Path, *overrides: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "experiments" / "run.py"), *overrides],
        capture_output=True,
        text=True,
        cwd=folder,
        env=os.environ | {"HF_HUB_OFFLINE": "1", "HF_HOME": str(folder / "none")},
        timeout=120,
    )


def late(overrides: str, line: str) -> Any:
    """A case that is only found out after the configuration, when corpus and encoder are prepared."""
    return pytest.param(overrides, [line])


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A good corpus and bad ones, and the folder of a model without a mask token."""
    from tokenizers import Tokenizer, models
    from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

    folder = tmp_path_factory.mktemp("texts")
    tiny.corpus(folder)
    (folder / "empty.txt").touch()
    (folder / "binary.txt").write_bytes(bytes(range(256)) * 8)
    (folder / "file").touch()
    vocabulary = {"<|endoftext|>": 0, "a": 1}
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.WordLevel(vocabulary, "<|endoftext|>")), eos_token="<|endoftext|>"
    )
    tokenizer.save_pretrained(folder / "gpt2")
    config = GPT2Config(vocab_size=2, n_embd=4, n_layer=1, n_head=1, bos_token_id=0, eos_token_id=0)
    GPT2LMHeadModel(config).save_pretrained(folder / "gpt2")
    return folder


@pytest.mark.parametrize(
    ("overrides", "lines"),
    [
        (
            "objective=declut corpus.path={texts}/none.txt",
            ["objective=declut: no such objective. Did you mean declutr?", "corpus.path: there is no {texts}/no"],
        ),
        (
            "objective.temprature=1 objective.temperature=0",
            ["objective.temprature: no such key. Did you mean", "objective.temperature must be a positive"],
        ),
        (
            "objective.min_length=9 optimizer=sgd optimizer.lr=null",
            ["objective.min_length must not exceed objective.max_length (8)", "optimizer.lr must be a valid"],
        ),
        (
            "checkpoint.metric=accuracy corpus.path={texts}/empty.txt",
            ["checkpoint.metric=accuracy: this run measures dev_", "corpus.path: {texts}/empty.txt is empty."],
        ),
        late("corpus.path={texts}/binary.txt", "{texts}/binary.txt"),
        late("budget.max_span=900", "None of the "),
        late("encoder=roberta-base weights=pretrained", "FacebookAI/roberta-base is not on this machine, and "),
        late("run_dir={texts}/file/run", "The run folder {texts}/file/run cannot be written (Not a directory)"),
        late(
            "encoder=transformer weights=auto encoder.path={texts}/gpt2",
            "objective.mlm_weight needs a mask token, and {texts}/gpt2 has none",
        ),
    ],
)  # fmt: skip
def test_a_wrong_command_ends_in_a_line_a_fault(
    overrides: str, lines: list[str], texts: Path, tmp_path: Path
) -> None:
    given = overrides.format(texts=texts).split()
    keys = {each.split("=")[0] for each in given}
    usual = [each for each in tiny.overrides(texts) if each.split("=")[0] not in keys]
    if "encoder" in keys:
        usual = [each for each in usual if not each.startswith("encoder.")]
    before = set(texts.rglob("*"))
    found = command(tmp_path, *usual, *given, f"cache={tmp_path / 'cache'}")
    assert found.returncode == 2, found.stderr
    shown = found.stderr.splitlines()
    assert len(shown) == len(lines), found.stderr
    assert all(each.startswith(line.format(texts=texts)) for each, line in zip(shown, lines, strict=True)), shown
    left = [path for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".lock"]
    if "budget.max_span" not in keys:  # the tokens of documents that are too short are good for the next try
        assert left == []
    assert {path.name for path in tmp_path.iterdir()} <= {"cache"}
    assert set(texts.rglob("*")) == before


def test_a_run_in_use_or_half_written_is_left_as_it_is(
    texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "finish", lambda root: None)  # the run can be resumed
    run = tiny.run(texts, "budget.steps=2", f"run_dir={tmp_path / 'run'}", f"cache={tmp_path / 'cache'}")
    with (run / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = command(tmp_path, f"resume={run}", f"cache={tmp_path / 'cache'}")
    assert (found.returncode, found.stderr) == (2, f"The run folder {run} is in use by another process.\n")
    newest = checkpoint.found(run / "checkpoints")[-1] / "optimizer.safetensors"
    newest.write_bytes(newest.read_bytes()[:100])
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    found = command(tmp_path, f"resume={run}", f"cache={tmp_path / 'cache'}")
    assert found.returncode == 2
    assert found.stderr.startswith(f"Checkpoint {newest.parent} is damaged (optimizer.safetensors has 100 of")
    assert len(found.stderr.splitlines()) == 1
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before
