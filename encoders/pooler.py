"""BERT's pooler: what a transformer makes of its first token's state for a classifier of whole inputs.

    pooled = tanh(W h_1 + b)

Devlin et al. (2019), in their published program (``modeling.py``). ALBERT has it too; RoBERTa's family has a place
for it, which RoBERTa's weights leave empty. DeCLUTR's own script of table 4 took BERT's for the state of [CLS].
"""

from __future__ import annotations

import copy
import inspect
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor, nn

from encoders.folder import fill

POOLER = "pooler"
_PARTS = (POOLER, "pooler_activation")  # ALBERT has its tanh apart


def has_place(backbone: Any) -> bool:
    """Whether the family of ``backbone``, a model of transformers without head, has a pooler."""
    return "add_pooling_layer" in inspect.signature(type(backbone).__init__).parameters


def has_pooler(backbone: Any) -> bool:
    """Whether ``backbone`` has one now."""
    return has_place(backbone) and backbone.pooler is not None


def saved(backbone: Any, folder: Path | None) -> dict[str, Tensor]:
    """The weights of the pooler in ``folder``, by their names in it; empty where there is none."""
    found = {}
    if folder is not None and has_place(backbone):
        for path in sorted(folder.glob("*.safetensors")):
            with safe_open(path, framework="pt") as file:
                for key in file.keys():  # noqa: SIM118 (it is no dictionary)
                    place, _, name = key.removeprefix(f"{backbone.base_model_prefix}.").partition(".")
                    if place == POOLER:
                        found[name] = file.get_tensor(key).float()
    return found


def add(backbone: Any, folder: Path | None) -> None:
    """Gives ``backbone`` its family's pooler where it lacks one, with the weights in ``folder`` or random ones."""
    if not has_place(backbone) or has_pooler(backbone):
        return
    config = copy.deepcopy(backbone.config)
    config.num_hidden_layers = 1
    fresh = type(backbone)(config, add_pooling_layer=True)
    if weights := saved(backbone, folder):
        assert folder is not None
        fill(fresh.pooler, weights, folder)
    carry(fresh.to(next(backbone.parameters()).device).train(backbone.training), backbone)


def carry(one: Any, other: Any) -> None:
    """Gives ``other`` the pooler of ``one``, if it has one."""
    for name in _PARTS:
        if (part := getattr(one, name, None)) is not None:
            setattr(other, name, part)


def pooled(backbone: Any, states: Tensor) -> Tensor:
    """Of ``states`` (of shape (B, T, H)) the first one through the pooler, or as it is without one, (B, H)."""
    if not has_pooler(backbone):
        return states[:, 0]
    if isinstance(backbone.pooler, nn.Linear):
        return torch.tanh(backbone.pooler(states[:, 0]))
    return backbone.pooler(states)
