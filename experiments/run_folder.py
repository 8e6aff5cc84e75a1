"""The run folder: its lock, its configuration and environment, and its journals."""

from __future__ import annotations

import fcntl
import importlib.metadata
import json
import math
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import torch
from hydra.core.hydra_config import HydraConfig
from omegaconf import OmegaConf

from data.errors import UserError
from data.files import JOURNAL_BYTES, atomic_write, read_text, read_yaml, refuse_links_out, write_json
from encoders.base import Encoder
from experiments.overrides import typed

ROOT = Path(__file__).resolve().parents[1]
LEARNS = "; learns "  # in an encoder's origin, before the tasks that it learns from synthetic pairs
# Files that a run writes before its first step.
FIRST_FILES = (
    "config.yaml", "environment.json", "quick.json", "metrics.jsonl", "timings.jsonl", "tokenizer", "trackers",
)  # fmt: skip
PACKAGES = ("torch", "transformers", "tokenizers", "accelerate", "numpy", "safetensors", "hydra-core")


class RunFolder:
    """A run folder, locked until ``close`` or the end of the process.

    Args:
        path: the folder; None: ``runs/<name>-<time>``, new.
        name: of the run.
        resume: whether the folder holds a run already; otherwise it must not.

    Raises:
        UserError: if the folder cannot be written, is in use, has a link out of it, or wrongly holds a run or
            other files.
    """

    def __init__(self, path: Path | None, *, name: str, resume: bool = False) -> None:
        root = path or Path("runs")
        try:
            self._made = [folder for folder in (root, *root.parents) if not folder.exists()]
            self.path = path or _new(root, name)
            self.path.mkdir(parents=True, exist_ok=True)
            refuse_links_out(self.path)
            # A link is not followed, nothing is cut off, and a pipe is not waited for.
            flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
            self._lock: IO[str] = os.fdopen(os.open(self.path / ".lock", flags, 0o666), "w")
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(f"The run folder {self.path} is in use by another process.") from None
        except OSError as error:
            if path is not None and path.is_file():
                raise UserError(f"{path} is a file, not a folder: run_dir=<folder> names another.") from None
            raise UserError(
                f"The run folder {path or 'runs'} cannot be written ({error.strerror}): "
                "run_dir=<folder> names another."
            ) from None
        self._before = {entry.name for entry in self.path.iterdir()} - {".lock"}
        if not resume and "config.yaml" in self._before:
            self._lock.close()
            raise UserError(
                f"The run folder {self.path} holds a run already: {typed('resume', self.path)} goes on with it, "
                "run_dir=<folder> names another."
            )
        others = sorted(name for name in self._before - {*FIRST_FILES} if not name.startswith("."))
        if not resume and others:
            self.close()
            raise UserError(
                f"The run folder {self.path} must be new or empty. It holds {others[0]}: run_dir=<folder> names "
                "another."
            )

    def close(self) -> None:
        """Unlocks the folder; a run that has not taken a step first removes what it wrote."""
        timings = self.path / "timings.jsonl"  # gets its first line after a step
        if "config.yaml" not in self._before and not (timings.exists() and timings.stat().st_size):
            for name in {*FIRST_FILES, ".lock"} - self._before:
                if (self.path / name).is_dir():
                    shutil.rmtree(self.path / name, ignore_errors=True)
                else:
                    (self.path / name).unlink(missing_ok=True)
            with suppress(OSError):  # until one is not empty
                for folder in dict.fromkeys((self.path, *self._made)):
                    folder.rmdir()
        self._lock.close()

    def describe(self, config: dict[str, Any], environment: dict[str, Any]) -> None:
        """Writes ``config.yaml`` and ``environment.json``."""
        write_json(self.path / "environment.json", environment)
        self._write_config(config)

    def set_steps(self, steps: int | None) -> None:
        """Changes ``budget.steps`` in ``config.yaml``, if it differs."""
        config = read_yaml(self.path / "config.yaml")
        if config["budget"].get("steps") != steps:
            config["budget"]["steps"] = steps
            self._write_config(config)

    def _write_config(self, config: dict[str, Any]) -> None:
        with atomic_write(self.path / "config.yaml") as file:
            OmegaConf.save(OmegaConf.create(config), file)


class Journal:
    """A file with one JSON object a line.

    Args:
        path: of the file.
        until: last step whose lines are kept of an existing file; None: no line is kept.
    """

    def __init__(self, path: Path, until: int | None = None) -> None:
        self.path = path
        self._waiting: list[str] = []
        kept = list(_up_to(until, path)) if until is not None and path.exists() else []
        with atomic_write(path) as file:
            file.writelines(kept)

    def add(self, entry: dict[str, Any]) -> None:
        """Adds ``entry``, which ``flush`` writes; numbers that are not finite become null, as JSON has none."""
        finite = {
            key: None if isinstance(value, float) and not math.isfinite(value) else value
            for key, value in entry.items()
        }
        self._waiting.append(json.dumps(finite, allow_nan=False) + "\n")

    def flush(self) -> None:
        """Writes the entries added since the last call."""
        with self.path.open("a", encoding="utf-8") as file:
            file.writelines(self._waiting)
            file.flush()
            os.fsync(file.fileno())
        self._waiting = []


def _up_to(step: int, path: Path) -> Iterator[str]:
    """Yields the lines of a journal up to those of ``step``, or up to a half-written one."""
    for line in read_text(path, JOURNAL_BYTES).splitlines(keepends=True):
        try:
            if json.loads(line)["step"] <= step:
                yield line
        except ValueError:
            return


def environment(device: torch.device, precision: str, processes: int) -> dict[str, Any]:
    """Returns what results depend on besides the configuration: overrides, versions, commit, device, threads."""
    return {
        "command": " ".join(sys.argv),
        "overrides": overrides(),
        "commit": _commit(),
        "python": platform.python_version(),
        # (torch with its build, for the CPU or a version of CUDA.)
        "packages": {name: importlib.metadata.version(name) for name in PACKAGES}
        | {"torch": str(torch.__version__)},
        "platform": platform.platform(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        "precision": precision,
        "threads": torch.get_num_threads(),
        "processes": processes,
    }


def overrides() -> list[str]:
    """Returns the overrides of the run that Hydra composed, in a sweep those of its job; [] without Hydra."""
    return list(HydraConfig.get().overrides.task) if HydraConfig.initialized() else []


def packing(encoder: Encoder, device: torch.device, precision: str) -> dict[str, Any]:
    """Returns whether the encoder packs every batch into one sequence without padding, and why not."""
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(precision, torch.float32)
    reason = encoder.padding_reason(device, dtype, encoder.format.max_length)
    return {"packing": reason is None, "padded_because": reason}


def _new(root: Path, name: str) -> Path:
    """Creates a new folder of this name and time, and returns it."""
    root.mkdir(parents=True, exist_ok=True)
    stem = f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
    for suffix in ("", *(f"-{number}" for number in range(2, 1000))):
        try:
            (root / (stem + suffix)).mkdir()
        except FileExistsError:
            continue
        return root / (stem + suffix)
    raise UserError(f"{root / stem} and 998 more are there already.")


def _commit() -> str | None:
    """Returns the checkout's commit, with "-dirty" if files differ from it; None outside a repository."""
    try:
        answer = subprocess.run(
            ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip()
