"""The run folder: its lock, its configuration and environment, and its journals."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any

import yaml

from analysis.runs import read_lines
from data.errors import UserError
from data.files import atomic_write, lock_folder
from experiments.config import argument

if TYPE_CHECKING:  # torch takes seconds to import, and the folder is opened first
    from accelerate import Accelerator

    from encoders.base import Encoder

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("torch", "transformers", "tokenizers", "accelerate", "numpy", "safetensors", "hydra-core")
PART = 8  # characters of objective, encoder and corpus in a run folder's name


@contextmanager
def open_run_folder(config: Mapping[str, Any]) -> Iterator[Path]:
    """Locks the folder of a run, a new or empty one if nothing is resumed; prints and yields its path.

    If other programs started several processes, only the first one does, and ``experiment.run`` sends the others
    its path.

    Raises:
        UserError: if the folder is in use, cannot be written, or wrongly has content.
    """
    parts = [str(config["names"][key])[:PART].strip("-") for key in ("objective", "encoder", "corpus")]
    name = "-".join([*parts, str(config["seed"]), time.strftime("%m%d-%H%M"), token_hex(2)])
    path = Path(config["run_dir"] or f"runs/{name}").expanduser()
    if os.environ.get("RANK", "0") != "0":
        yield path
        return
    with lock_folder(path, "run"):
        names = {entry.name for entry in path.iterdir() if not entry.name.startswith(".")}
        # A run that was stopped before its configuration was written leaves these two only.
        if config["resume"] is None and names - {"tokenizer", "environment.json"}:
            hint = f"{argument('resume', path)} continues a run."
            raise UserError("must be new or empty", key=f"run_dir={path}", hint=hint)
        print(f"{'run':<11} {path}", flush=True)
        yield path


def write_config(path: Path, config: Mapping[str, Any]) -> None:
    """Writes ``config.yaml``."""
    with atomic_write(path / "config.yaml") as file:
        yaml.safe_dump(dict(config), file, sort_keys=False, allow_unicode=True)


def resume_hint(path: Path) -> str:
    """Returns the command that resumes the run in ``path``, "" if it has no checkpoint."""
    begun = any(path.glob("checkpoints/step-*"))
    return f"Resume with: python experiments/run.py {argument('resume', path)}" if begun else ""


def cut_journal(path: Path, step: int) -> None:
    """Makes a journal, a file with one JSON object a line, of its lines up to ``step``, empty with 0."""
    lines = [line for line in read_lines(path) if line["step"] <= step] if step else []
    with atomic_write(path) as file:
        file.writelines(f"{json.dumps(line)}\n" for line in lines)


def append_lines(path: Path, entries: Sequence[Mapping[str, Any]]) -> None:
    """Appends entries of finite numbers to a journal on the disk."""
    with path.open("a", encoding="utf-8") as file:
        file.writelines(f"{json.dumps(entry, allow_nan=False)}\n" for entry in entries)
        file.flush()
        os.fsync(file.fileno())


def describe_environment(accelerator: Accelerator, encoder: Encoder) -> dict[str, Any]:
    """Returns what results depend on besides the configuration, such as versions, commit and device.

    "packing" is whether the encoder joins the rows of a batch into one sequence without padding.
    """
    import torch

    from experiments.processes import DTYPES, precision_name

    device, precision = accelerator.device, precision_name(accelerator)
    return {
        "command": " ".join(sys.argv),
        "commit": commit(),
        "python": platform.python_version(),
        "packages": {name: importlib.metadata.version(name) for name in PACKAGES},
        "platform": platform.platform(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        "precision": precision,
        "threads": torch.get_num_threads(),
        "processes": accelerator.num_processes,
        "packing": encoder.can_pack(device, DTYPES[precision], encoder.format.max_length),
    }


def commit() -> str | None:
    """Returns the checkout's commit, with "-dirty" if files differ from it; None outside a repository."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    with suppress(OSError):  # git is not installed
        return subprocess.run(command, capture_output=True, text=True).stdout.strip() or None
    return None
