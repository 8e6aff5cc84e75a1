"""Checkpoints: everything that a run needs to be resumed with the same bits, under another name until complete.

``step-00000100/`` holds ``model.safetensors`` (encoder), ``objective.safetensors`` (heads and queues),
``optimizer.pt`` and ``state.json`` (counters). The optimiser's file, the largest, is removed when the run is
finished.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, load_model, save_model
from torch import nn

from data.errors import UserError, reading, reason
from data.files import atomic_folder, read_json, write_json

MODEL, OBJECTIVE, OPTIMIZER = "model.safetensors", "objective.safetensors", "optimizer.pt"
STATE = "state.json"
EXTRA_STATE = "_extra_state"  # end of the names under which modules save their extra state


@dataclass
class State:
    """Counters of the training loop.

    Attributes:
        step: optimiser steps done.
        tokens: tokens seen, over all processes.
        seconds: time spent in training.
        best: {"step", "value"} of the best dev metric so far, or None.
        accuracy: best dev accuracy after an epoch so far, if the schedule uses it.
        drops: epochs without improvement of that accuracy.
        scaler: state of the fp16 loss scaler.
    """

    step: int = 0
    tokens: int = 0
    seconds: float = 0.0
    best: dict[str, Any] | None = None
    accuracy: float | None = None
    drops: int = 0
    scaler: dict[str, Any] | None = None


def checkpoint_path(root: Path, step: int) -> Path:
    """Returns the folder of the checkpoint of ``step`` under ``root``."""
    return root / f"step-{step:08d}"


def list_checkpoints(root: Path) -> list[Path]:
    """Returns the checkpoints under ``root``, oldest first."""
    return sorted(root.glob("step-*"))


def save(
    root: Path,
    state: State,
    encoder: nn.Module,
    objective: nn.Module,
    optimizer: torch.optim.Optimizer,
    keep_last: int = 2,
) -> Path:
    """Writes a checkpoint under ``root``, and removes all but the newest ``keep_last`` and the best.

    Raises:
        OSError, UserError: if it cannot be written (a full disk, say); nothing of it is left then.
    """
    for unfinished in root.glob(".step-*"):  # of a killed process
        shutil.rmtree(unfinished)
    folder = checkpoint_path(root, state.step)
    try:
        with atomic_folder(folder) as unfinished:
            save_model(encoder, str(unfinished / MODEL))  # writes tied weights once
            save_model(objective, str(unfinished / OBJECTIVE))
            torch.save(optimizer.state_dict(), unfinished / OPTIMIZER)
            write_json(unfinished / STATE, vars(state))
    except (SafetensorError, RuntimeError) as error:
        raise UserError(f"cannot be written ({reason(error)})", key=str(folder)) from error
    for old in list_checkpoints(root)[:-keep_last]:
        if not state.best or old != checkpoint_path(root, state.best["step"]):
            shutil.rmtree(old)
    return folder


def finish(root: Path) -> None:
    """Removes the optimiser states of a finished run, the newest checkpoint's last."""
    for folder in list_checkpoints(root):
        (folder / OPTIMIZER).unlink(missing_ok=True)


def load(
    folder: Path, encoder: nn.Module, objective: nn.Module, optimizer: torch.optim.Optimizer | None = None
) -> State:
    """Loads the checkpoint in ``folder`` into the three, or into two; returns its counters.

    Raises:
        UserError: if it cannot be read, or is of another model.
    """
    with reading("checkpoint of this configuration", folder):
        load_model(encoder, str(folder / MODEL))
        load_model(objective, str(folder / OBJECTIVE))
        if optimizer is not None:
            optimizer.load_state_dict(torch.load(folder / OPTIMIZER, "cpu", weights_only=True))
        return State(**read_json(folder / STATE))


def load_matching(path: Path, module: nn.Module) -> list[str]:
    """Loads those weights in ``path`` that have a parameter's name and shape in ``module``; returns their names.

    Weights of a sub-module with extra state (the vocabulary they belong to) are loaded only if it is the same.

    Raises:
        UserError: if the file cannot be read.
    """
    with reading("file of weights", path):
        saved = load_file(path)
    others = tuple(
        name.removesuffix(EXTRA_STATE)
        for name, state in module.state_dict().items()
        if name.endswith(EXTRA_STATE) and not (name in saved and torch.equal(saved[name], state.cpu()))
    )
    names = [
        name
        for name, parameter in module.named_parameters()
        if name in saved and saved[name].shape == parameter.shape and not name.startswith(others)
    ]
    module.load_state_dict({name: saved[name] for name in names}, strict=False)
    return names
