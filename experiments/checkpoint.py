"""Checkpoints: everything a run needs to be resumed with the same bits; written atomically, nothing pickled.

``step-00000100/`` holds ``model.safetensors`` (encoder), ``objective.safetensors`` (heads and queues),
``optimizer.safetensors`` and ``state.json`` (counters, and size and digest of each file). The optimizer's file,
the largest, is kept where a run may be resumed: in its newest checkpoints, until it is finished.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
from pydantic import Field, NonNegativeInt, PositiveInt
from safetensors import SafetensorError
from safetensors.torch import load_file, load_model, save_file, save_model
from torch import nn

from data.errors import UserError, readable, reason
from data.files import atomic_folder, read_json, write_json
from data.schema import mismatch
from objectives.base import VOCABULARY_ID

MODEL, OBJECTIVE, OPTIMIZER = "model.safetensors", "objective.safetensors", "optimizer.safetensors"
STATE = "state.json"
# What torch's optimisers keep of each parameter: Adam and AdamW; SGD and Muon.
MOMENTS, MOMENTUM = {"step", "exp_avg", "exp_avg_sq"}, {"momentum_buffer"}


Count = Annotated[int, Field(ge=0, lt=2**53)]
Seconds = Annotated[float, Field(ge=0, lt=2**53)]


@dataclass(frozen=True, kw_only=True)
class Written:
    """Size and digest of a file in a checkpoint."""

    bytes: PositiveInt
    sha256: str


@dataclass(frozen=True, kw_only=True)
class Best:
    """Best dev metric so far, and its step."""

    step: NonNegativeInt
    value: float


@dataclass(frozen=True, kw_only=True)
class Contents:
    """``state.json``: the state of the training loop (``trainer.State``), and the files beside it."""

    step: Count
    files: dict[str, Written]
    tokens: Count = 0
    seconds: Seconds = 0.0
    best: Best | None = None
    accuracy: float | None = None
    drops: NonNegativeInt = 0
    scaler: dict[str, Any] | None = None


def save(
    root: Path,
    step: int,
    *,
    encoder: nn.Module,
    objective: nn.Module,
    optimizer: torch.optim.Optimizer,
    state: dict[str, Any],
) -> Path:
    """Writes the checkpoint of ``step`` under ``root``, under another name until it is complete.

    Raises:
        UserError: if it cannot be written (a full disk, say); nothing of it is left then.
    """
    folder = root / f"step-{step:08d}"
    try:
        for left in root.glob(".step-*"):  # by a killed process
            shutil.rmtree(left, ignore_errors=True)
        with atomic_folder(folder) as unfinished:
            save_model(encoder, str(unfinished / MODEL))  # writes tied weights once
            save_model(objective, str(unfinished / OBJECTIVE))
            save_file(_flat(optimizer), unfinished / OPTIMIZER)
            files = {
                name: {"bytes": (unfinished / name).stat().st_size, "sha256": _digest(unfinished / name)}
                for name in (MODEL, OBJECTIVE, OPTIMIZER)
            }
            (unfinished / STATE).write_text(json.dumps(state | {"step": step, "files": files}, indent=2))
    except (OSError, SafetensorError) as error:
        raise UserError(f"Checkpoint {folder} cannot be written: {_line(error)}.") from None
    return folder


def found(root: Path) -> list[Path]:
    """The checkpoints under ``root``, oldest first.

    Raises:
        UserError: if ``root`` cannot be read.
    """
    if not root.exists():
        return []
    with readable(root):
        return sorted(path for path in root.iterdir() if path.name.startswith("step-"))


def prune(root: Path, keep_last: int, best: int | None) -> None:
    """Removes all but the newest ``keep_last`` checkpoints and that of step ``best``.

    The best one, if it is older, is only exported, and loses its optimizer state.
    """
    for folder in found(root)[:-keep_last]:
        if folder.name == f"step-{best or 0:08d}":
            _drop_optimizer(folder)
        else:
            shutil.rmtree(folder) if folder.is_dir() and not folder.is_symlink() else folder.unlink()


def finish(root: Path) -> None:
    """Removes the optimizer states of a finished run, the newest checkpoint's last."""
    for folder in found(root):
        _drop_optimizer(folder)


def is_finished(root: Path) -> bool:
    """Returns whether the newest checkpoint under ``root`` is that of a finished run, without optimizer state."""
    for newest in found(root)[-1:]:
        with suppress(OSError, ValueError):
            state = read_json(newest / STATE)
            return not mismatch(Contents, state) and state["files"].keys() == {MODEL, OBJECTIVE}
    return False


def _drop_optimizer(folder: Path) -> None:
    with suppress(OSError, ValueError, TypeError, KeyError):  # damaged, and left as it is
        state = read_json(folder / STATE)
        if state["files"].pop(OPTIMIZER, None):
            write_json(folder / STATE, state)
        (folder / OPTIMIZER).unlink(missing_ok=True)


def verify(folder: Path) -> dict[str, Any]:
    """Checks every byte of the checkpoint in ``folder``; returns its state.

    Raises:
        UserError: if a file is missing, too short or changed; it names the checkpoint before.
    """
    try:
        state = read_json(folder / STATE)
        if found_fault := mismatch(Contents, state):
            raise ValueError(" ".join(found_fault))
        files = {MODEL, OBJECTIVE, OPTIMIZER}
        if f"step-{state['step']:08d}" != folder.name or state["files"].keys() | {OPTIMIZER} != files:
            raise ValueError("it is of another checkpoint")
        fault = next(
            (
                f"{name} has {size:,} of {expected['bytes']:,} bytes"
                if (size := (folder / name).stat().st_size) != expected["bytes"]
                else f"{name} is not what was written"
                for name, expected in state["files"].items()
                if (folder / name).stat().st_size != expected["bytes"]
                or _digest(folder / name) != expected["sha256"]
            ),
            None,
        )
    except FileNotFoundError as error:
        fault = f"{Path(error.filename).name} is missing"
    except OSError as error:
        fault = reason(error)
    except ValueError:
        fault = f"{STATE} is damaged"
    if fault is None:
        return state
    raise UserError(f"Checkpoint {folder} is damaged ({fault}): {advice(folder)}.")


def advice(folder: Path) -> str:
    """Returns advice, for messages, on a checkpoint that a run cannot be resumed from."""
    before = [path.name for path in found(folder.parent) if path.name < folder.name]
    return f"delete it to go on from {before[-1]}" if before else "delete it to start from the beginning"


def load(
    folder: Path, *, encoder: nn.Module, objective: nn.Module, optimizer: torch.optim.Optimizer
) -> dict[str, Any]:
    """Loads the checkpoint in ``folder`` into the three; returns its state.

    That of a finished run has no optimizer state, and leaves ``optimizer`` as it is.

    Raises:
        UserError: if it is damaged, or of another model.
    """
    state = verify(folder)
    load_part(folder / MODEL, encoder)
    load_part(folder / OBJECTIVE, objective)
    if OPTIMIZER not in state["files"]:
        return state
    path = folder / OPTIMIZER
    parameters = [
        (parameter, MOMENTS if "betas" in group else MOMENTUM)
        for group in optimizer.param_groups
        for parameter in group["params"]
    ]
    forms = {
        f"{index}.{name}": ((), torch.float32) if name == "step" else (tuple(parameter.shape), parameter.dtype)
        for index, (parameter, names) in enumerate(parameters)
        for name in names
    }
    entries: dict[int, dict[str, Any]] = {}
    for key, value in _tensors(path).items():
        fits = forms.get(key) == (tuple(value.shape), value.dtype)
        # 0: so far the loss scaler of fp16 has skipped every update.
        if not fits or (key.endswith(".step") and not 0 <= value <= state["step"]):
            raise UserError(f"{path} does not fit the optimizer that this configuration builds: {key!r}.")
        index, name = key.split(".", 1)
        entries.setdefault(int(index), {})[name] = value
    moving = any(names == MOMENTS for _, names in parameters) and state["step"] > 0
    if any(entry.keys() != parameters[index][1] for index, entry in entries.items()) or (moving and not entries):
        raise UserError(f"{path} does not fit the optimizer that this configuration builds: it is incomplete.")
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": entries, "param_groups": groups})
    return state


def load_part(path: Path, module: nn.Module) -> None:
    """Loads all weights in ``path`` into ``module``.

    Raises:
        UserError: if names or shapes differ.
    """
    try:
        load_model(module, str(path))
    except (RuntimeError, SafetensorError) as error:
        raise UserError(f"{path} does not fit the model that this configuration builds: {_line(error)}") from None


def load_matching(path: Path, module: nn.Module) -> list[str]:
    """Loads those weights in ``path`` that have a parameter's name and shape in ``module``; returns their names.

    Weights of a sub-module with a ``VOCABULARY_ID`` are loaded only if it is the same.

    Raises:
        UserError: if the file cannot be read.
    """
    saved = _tensors(path)
    others = tuple(
        name.removesuffix(VOCABULARY_ID)
        for name, mark in module.named_buffers()
        if name.split(".")[-1] == VOCABULARY_ID and not (name in saved and torch.equal(saved[name], mark.cpu()))
    )
    fit = {
        name: parameter
        for name, parameter in module.named_parameters()
        if name in saved and saved[name].shape == parameter.shape and not name.startswith(others)
    }
    with torch.no_grad():
        for name, parameter in fit.items():
            parameter.copy_(saved[name])
    return list(fit)


def _flat(optimizer: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    """The optimiser's tensors by "<number of the parameter>.<name>"; its settings come from the configuration."""
    return {
        f"{index}.{name}": value.contiguous()
        for index, entry in optimizer.state_dict()["state"].items()
        for name, value in entry.items()
        if isinstance(value, torch.Tensor)
    }


def _tensors(path: Path) -> dict[str, torch.Tensor]:
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise UserError(f"{path} cannot be read: {_line(error)}.") from None


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
