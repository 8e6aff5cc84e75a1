"""The run folder: its lock, its configuration and environment, and its journals."""

from __future__ import annotations

import importlib.metadata
import json
import math
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any

import yaml
from hydra.core.hydra_config import HydraConfig

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
    names = [str(config["names"][key])[:PART].strip("-") for key in ("objective", "encoder", "corpus")]
    name = "-".join([*names, str(config["seed"]), time.strftime("%m%d-%H%M"), token_hex(2)])
    path = Path(config["run_dir"] or f"runs/{name}").expanduser()
    if os.environ.get("RANK", "0") != "0":
        yield path
        return
    with lock_folder(path, "run"):
        entries = [entry.name for entry in path.iterdir() if not entry.name.startswith(".")]
        if entries and config["resume"] is None:
            hint = f"{argument('resume', path)} continues a run." if "config.yaml" in entries else ""
            raise UserError("must be new or empty", key=f"run_dir={path}", hint=hint)
        print(f"{'run':<11} {path}", flush=True)
        yield path


def write_config(path: Path, config: Mapping[str, Any]) -> None:
    """Writes ``config.yaml``."""
    with atomic_write(path / "config.yaml") as file:
        yaml.safe_dump(dict(config), file, sort_keys=False, allow_unicode=True)


class Journal:
    """A file with one JSON object a line.

    Args:
        path: the file.
        until: last step whose lines are kept of an existing file; None keeps none.
    """

    def __init__(self, path: Path, until: int | None = None) -> None:
        self.path = path
        lines = read_lines(path) if until is not None else []
        with atomic_write(path) as file:
            file.writelines(f"{json.dumps(line)}\n" for line in lines if line["step"] <= until)

    def write(self, entries: Sequence[Mapping[str, Any]]) -> None:
        """Writes entries to the disk; numbers that are not finite become null, as JSON has none."""
        with self.path.open("a", encoding="utf-8") as file:
            for entry in entries:
                finite = {
                    key: None if isinstance(value, float) and not math.isfinite(value) else value
                    for key, value in entry.items()
                }
                file.write(json.dumps(finite, allow_nan=False) + "\n")
            file.flush()
            os.fsync(file.fileno())


def environment(accelerator: Accelerator, encoder: Encoder) -> dict[str, Any]:
    """Returns what results depend on besides the configuration, such as overrides, versions, commit and device.

    "packing" is true if the encoder packs every batch into one sequence without padding.
    """
    import torch

    from experiments.processes import DTYPES, precision_of

    overrides = HydraConfig.get().overrides.task if HydraConfig.initialized() else []
    device, precision = accelerator.device, precision_of(accelerator)
    reason = encoder.padding_reason(device, DTYPES[precision], encoder.format.max_length)
    return {
        "command": " ".join(sys.argv),
        "overrides": [text.removeprefix("++") for text in overrides],
        "commit": commit(),
        "python": platform.python_version(),
        # torch with its build, for the CPU or a version of CUDA
        "packages": {name: importlib.metadata.version(name) for name in PACKAGES} | {"torch": torch.__version__},
        "platform": platform.platform(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        "precision": precision,
        "threads": torch.get_num_threads(),
        "processes": accelerator.num_processes,
        "packing": reason is None,
        "padded_because": reason,
    }


def commit() -> str | None:
    """Returns the checkout's commit, with "-dirty" if files differ from it; None outside a repository."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
