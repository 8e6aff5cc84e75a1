"""Checkpoints: everything a run needs to be resumed with the same bits; written atomically, nothing pickled.

``step-00000100/`` holds ``model.safetensors`` (encoder), ``objective.safetensors`` (heads and queues),
``optimizer.safetensors`` and ``state.json`` (counters, and size and digest of each file). The optimizer's file,
the largest, is kept where a run may be resumed: in its newest checkpoints, until it is finished.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, load_model, save_file, save_model
from torch import nn

from data.errors import UserError, reading, reason
from data.files import atomic_folder, read_json, write_json

MODEL, OBJECTIVE, OPTIMIZER = "model.safetensors", "objective.safetensors", "optimizer.safetensors"
STATE = "state.json"
EXTRA_STATE = "_extra_state"  # end of the names under which modules save their extra state
# What torch's optimisers keep of each parameter: Adam and AdamW; SGD and Muon.
MOMENTS, MOMENTUM = {"step", "exp_avg", "exp_avg_sq"}, {"momentum_buffer"}


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


@dataclass(kw_only=True)
class Contents(State):
    """``state.json``: the counters, and the files beside it."""

    files: list[str]


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
        OSError, UserError: if it cannot be written (a full disk, say); nothing of it is left then.
    """
    folder = root / f"step-{step:08d}"
    for left in root.glob(".step-*"):  # by a killed process
        shutil.rmtree(left, ignore_errors=True)
    try:
        with atomic_folder(folder) as unfinished:
            save_model(encoder, str(unfinished / MODEL))  # writes tied weights once
            save_model(objective, str(unfinished / OBJECTIVE))
            save_file(_flat(optimizer), unfinished / OPTIMIZER)
            files = [MODEL, OBJECTIVE, OPTIMIZER]
            (unfinished / STATE).write_text(json.dumps(state | {"step": step, "files": files}, indent=2))
    except SafetensorError as error:
        raise UserError(f"cannot be written ({reason(error)})", key=str(folder)) from error
    return folder


def list_checkpoints(root: Path) -> list[Path]:
    """Returns the checkpoints under ``root``, oldest first."""
    return sorted(root.glob("step-*"))


def prune(root: Path, keep_last: int, best: int | None) -> None:
    """Removes all but the newest ``keep_last`` checkpoints and that of step ``best``.

    The best one, if it is older, is only exported, and loses its optimizer state.
    """
    for folder in list_checkpoints(root)[:-keep_last]:
        if folder.name == f"step-{best or 0:08d}":
            _drop_optimizer(folder)
        else:
            shutil.rmtree(folder)


def finish(root: Path) -> None:
    """Removes the optimizer states of a finished run, the newest checkpoint's last."""
    for folder in list_checkpoints(root):
        _drop_optimizer(folder)


def is_finished(root: Path) -> bool:
    """Returns whether the newest checkpoint under ``root`` is that of a finished run, without optimizer state."""
    return any(verify(newest)["files"] == [MODEL, OBJECTIVE] for newest in list_checkpoints(root)[-1:])


def _drop_optimizer(folder: Path) -> None:
    write_json(folder / STATE, verify(folder) | {"files": [MODEL, OBJECTIVE]})
    (folder / OPTIMIZER).unlink(missing_ok=True)


def verify(folder: Path) -> dict[str, Any]:
    """Returns the state of the checkpoint in ``folder``.

    Raises:
        UserError: if it is damaged.
    """
    with reading("checkpoint", folder):
        state: dict[str, Any] = read_json(folder / STATE, Contents)
        return state


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
    with reading("optimizer state of this configuration", folder / OPTIMIZER):
        parameters = [
            (parameter, MOMENTS if "betas" in group else MOMENTUM)
            for group in optimizer.param_groups
            for parameter in group["params"]
        ]
        entries: dict[int, dict[str, Any]] = {}
        for key, value in load_file(folder / OPTIMIZER).items():
            index, name = key.split(".", 1)
            parameter, names = parameters[int(index)]
            if name not in names or (name != "step" and value.shape != parameter.shape):
                raise ValueError(f"{key} has no place")
            entries.setdefault(int(index), {})[name] = value
        groups = optimizer.state_dict()["param_groups"]
        optimizer.load_state_dict({"state": entries, "param_groups": groups})
    return state


def load_part(path: Path, module: nn.Module) -> None:
    """Loads all weights in ``path`` into ``module``.

    Raises:
        UserError: if names or shapes differ.
    """
    with reading("file of this model's weights", path):
        load_model(module, str(path))


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
