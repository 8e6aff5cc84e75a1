"""Start and end of a command: flags and overrides in any order, and errors in one line."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError

from data.errors import UserError
from experiments import command_line
from experiments.overrides import keys_of
from tests.experiments.ids import joined

ROOT = Path(__file__).resolve().parents[2]
KEYS: dict[str, object] = {
    "seed": 1,
    "run_dir": None,
    "dry_run": False,
    "a": {},
    "a.b": 1,
    "c.lr": 1,
    "d.lr": 2,
    "a.cold": True,
    "+more": None,
}


def split(arguments: list[str]) -> tuple[list[str], list[str]]:
    return command_line.split(arguments, lambda _: KEYS)


def test_flags_and_overrides_in_any_order() -> None:
    assert split(["seed=1", "-m", "encoder=gru"]) == (["-m"], ["seed=1", "encoder=gru"])
    assert split(["--cfg", "job", "seed=1"]) == (["--cfg", "job"], ["seed=1"])
    assert split(["seed=1", "--info", "searchpath"]) == (["--info", "searchpath"], ["seed=1"])
    assert split(["--info", "seed=1"]) == (["--info"], ["seed=1"])
    assert split(["~optimizer"]) == ([], ["~optimizer"])


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--seed", "3"], "--seed 3: write seed=3."),
        (["--run-dir=a b"], "--run-dir a b: write 'run_dir=a b'."),
        (["--b", "3"], "--b 3: write a.b=3."),
        (["--lr", "3"], "--lr 3: write c.lr=3 or d.lr=3."),
        (["--more", "x/y"], "--more x/y: write +more=x/y."),
        (["--cold"], "--cold: write a.cold=true."),
        (["--b"], "--b: write a.b=<value>."),
        (["--seeed=3"], "--seeed 3: no such flag. Did you mean seed?"),
        (["--multirn", "seed=1,2"], "--multirn: no such flag. Did you mean --multirun?"),
        (["-x"], "-x: no such flag."),
        (["--config-name", "mine"], "--config-name: no such flag. Did you mean --config-dir?"),
        (["seed=1", "--cfg"], "--cfg needs a value."),
        (["-m", "--cfg", "job", "seed=1,2"], "--cfg shows one configuration: leave out -m."),
        (["--config-dir", "nowhere"], "--config-dir nowhere: there is no such folder."),
        (["--config-dir", ".", "hydra.searchpath=[a]"], "--config-dir and hydra.searchpath= exclude each other"),
    ],
    ids=joined,
)
def test_a_wrong_flag_is_refused_in_one_line(arguments: list[str], line: str) -> None:
    with pytest.raises(UserError) as error:
        split(arguments)
    assert str(error.value).startswith(line) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            "tasks=[MR, CR] seed=1",
            "tasks=[MR, CR]: the shell splits arguments at spaces; write tasks=[MR,CR] without spaces",
        ),
        ("a={b: [c , d]}", "a={b: [c , d]}: the shell splits arguments at spaces; write 'a={b: [c,d]}'"),
    ],
)
def test_a_list_split_by_the_shell_is_refused_in_one_line(arguments: str, line: str) -> None:
    with pytest.raises(UserError) as error:
        split(arguments.split())
    assert str(error.value) == line


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("steps", "budget.steps"),
        ("seed", "seed"),
        ("batch-size", "objective.batch_size"),
        ("hidden", "encoder.hidden"),
        ("experiment", "+experiment"),
    ],
)
def test_a_flag_is_resolved_to_the_key_of_a_run(name: str, key: str) -> None:
    with pytest.raises(UserError, match=rf"^--{name} 3: write {re.escape(key)}=3\.$"):
        command_line.split([f"--{name}", "3", "encoder=gru"], lambda given: keys_of(given, "run"))


def test_unclosed_brackets_are_left_to_hydra() -> None:
    for arguments in (["tasks=[MR", "seed=1"], ["tasks=[MR,CR]", "CR]"], ["a=b[", "c]"]):
        assert split(arguments) == ([], arguments)


def test_flags_of_other_commands_are_refused() -> None:
    def split_with_help_only(*arguments: str) -> object:
        return command_line.split(arguments, lambda _: KEYS, command_line.HELP)

    assert split_with_help_only("seeds=3", "-h") == (["-h"], ["seeds=3"])
    with pytest.raises(UserError, match=r"^--dry-run: write dry_run=true\.\n-x: no such flag\.$"):
        split_with_help_only("--dry-run", "jobs=2", "-x")
    with pytest.raises(UserError, match=r"^--config-dir: only run.py and evaluate.py take this flag\.$"):
        split_with_help_only("--config-dir", "nowhere")


@pytest.mark.parametrize(
    ("error", "status", "line"),
    [
        (UserError("No."), 2, "No."),
        (KeyboardInterrupt(), 130, "Interrupted."),
        (KeyboardInterrupt("Stopped."), 130, "Stopped."),
        (
            torch.OutOfMemoryError("CUDA out of memory. Tried ..."),
            2,
            "Out of memory. In training, objective.cache_",
        ),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"), 2, "Out of memory."),
        (OSError(28, "No space left on device", "x"), 2, "Cannot read or write x: No space left on device."),
        (
            SafetensorError("I/O error: No space left on device (os error 28)"),
            2,
            "Cannot write a file: No space left on device.",
        ),
        (
            RuntimeError("Could not determine home directory."),
            2,
            "There is no home folder of the user that ~name names",
        ),
    ],
    ids=[
        "error",
        "interrupt",
        "interrupt with a message",
        "CUDA out of memory",
        "CPU out of memory",
        "full disk",
        "full disk in Rust",
        "unknown home",
    ],
)
def test_errors_that_a_user_can_fix_end_in_one_line(
    error: BaseException, status: int, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end, command_line.one_line_errors():
        raise error
    assert end.value.code == status
    assert capsys.readouterr().err.startswith(line)


@pytest.mark.parametrize(
    ("error", "status", "shown"),
    [(UserError("No."), 2, "No.\n"), (KeyboardInterrupt("Stopped."), 130, "")],
    ids=["error", "interrupt"],
)
def test_other_processes_leave_the_message_to_the_first(
    error: BaseException,
    status: int,
    shown: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They print an error only if the first has not ended them after a while, and never an interrupt."""
    waits: list[float] = []
    monkeypatch.setattr(command_line.time, "sleep", lambda seconds: waits.append(seconds))
    monkeypatch.setenv("RANK", "1")
    with pytest.raises(SystemExit) as end, command_line.one_line_errors():
        raise error
    assert (end.value.code, capsys.readouterr().err) == (status, shown)
    assert waits == [command_line.ALONE_SECONDS] * bool(shown)


def test_other_errors_keep_their_traceback() -> None:
    for error in (RuntimeError("shapes differ"), ValueError("shapes differ")):
        with pytest.raises(type(error), match="shapes"), command_line.one_line_errors():
            raise error


def test_a_closed_output_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    with command_line.one_line_errors():
        pass


def test_a_terminal_without_arrows_is_no_error() -> None:
    script = "from experiments.command_line import one_line_errors\nwith one_line_errors(): print('\u2193 \u2500')"
    found = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env=os.environ | {"PYTHONIOENCODING": "latin-1"},
        stdout=subprocess.PIPE,
    )
    assert found.returncode == 0 and found.stdout.split() == [b"?", b"?"]


@pytest.mark.parametrize("name", ["run", "run -u", "evaluate", "compare", "reproduce", "runs"])
def test_help_into_a_closed_pipe_ends_without_a_traceback(name: str, tmp_path: Path) -> None:
    name, *unbuffered = name.split()
    file = ROOT / "experiments" / f"{name}.py"
    command = f"{shlex.join([sys.executable, *unbuffered, str(file)])} --help | true; exit ${{PIPESTATUS[0]}}"
    completed = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=tmp_path)
    assert (completed.stderr, completed.returncode) == ("", 141)


def test_a_broken_pipe_between_processes_keeps_its_traceback() -> None:
    with pytest.raises(BrokenPipeError), command_line.one_line_errors():
        raise BrokenPipeError
