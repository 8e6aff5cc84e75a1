"""Pools token states to one sentence vector: mean, cls, max or last of the real tokens, or BERT's pooler.

    mean  (1 / n) sum_t h_t      cls  h_1      max  max_t h_t      last  h_n      pooler  tanh(W h_1 + b)

The n real tokens include special ones. Reimers and Gurevych (2019), section 3, compare the first three. The
pooler is that of Devlin et al. (2019), in their published program (``modeling.py``). ALBERT has it too; RoBERTa's
family defines one, but RoBERTa's weights have none. DeCLUTR's own script of table 4 used the output of
BERT's pooler as the vector of [CLS].

"first_last", of ``Transformer``, is the mean over the real tokens of (e_t + h_t) / 2, with e_t the output of the
embedding layer: the "avg. first-last" of Gao et al. (2021), "SimCSE", table 1.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

Pooling = Literal["mean", "cls", "max", "last"]
# For evaluation only, as sentence-transformers has no such poolings.
POOLER, FIRST_LAST = "pooler", "first_last"
PARTS = (POOLER, "pooler_activation")  # ALBERT's tanh is a module of its own


def _mean(states: Tensor, mask: Tensor) -> Tensor:
    total = (states * mask.unsqueeze(-1)).sum(dim=1, dtype=torch.promote_types(states.dtype, torch.float32))
    return total / mask.sum(dim=1, keepdim=True).clamp(min=1)  # (B, H)


def _max(states: Tensor, mask: Tensor) -> Tensor:
    with torch.no_grad():  # amax's backward pass would compare all values with the maximum
        place = states.masked_fill(~mask.unsqueeze(-1), float("-inf")).argmax(dim=1, keepdim=True)
    return states.gather(1, place).squeeze(1)


def _last(states: Tensor, mask: Tensor) -> Tensor:
    last = (mask.sum(dim=1) - 1).clamp(min=0)  # (B,)
    return states[torch.arange(len(states), device=states.device), last]


class Definition(NamedTuple):
    """A pooling that sentence-transformers has too, and how it is written for other libraries.

    Attributes:
        pool: (states, mask) to vectors.
        name: sentence-transformers' name.
        key: its name in the older files of sentence-transformers, which all versions read.
        code: expression over ``states`` of shape (B, T, H) and ``mask`` of shape (B, T, 1), for model cards.
    """

    pool: Callable[[Tensor, Tensor], Tensor]
    name: str
    key: str
    code: str


# Without weights. One with weights is a module of ``Transformer``, which writes and reads its files, too.
POOLINGS: dict[str, Definition] = {
    "mean": Definition(_mean, "mean", "pooling_mode_mean_tokens", "(states * mask).sum(1) / mask.sum(1)"),
    "cls": Definition(lambda states, mask: states[:, 0], "cls", "pooling_mode_cls_token", "states[:, 0]"),
    "max": Definition(
        _max, "max", "pooling_mode_max_tokens", 'states.masked_fill(mask == 0, float("-inf")).max(1).values'
    ),
    "last": Definition(
        _last,
        "lasttoken",
        "pooling_mode_lasttoken",
        "states[torch.arange(len(states)), mask[:, :, 0].sum(1) - 1]",
    ),
}


def pool(states: Tensor, mask: Tensor, how: str) -> Tensor:
    """Pools states to one vector per sequence, of shape (B, H).

    Args:
        states: of shape (B, T, H).
        mask: of shape (B, T), bool, True at real tokens, which stand on the left.
        how: "mean" (summed in float32 at least, and returned so), "cls" (the first token), "max" (among
            ties one gets the gradient) or "last".
    """
    return POOLINGS[how].pool(states, mask)


def takes_pooler(backbone: Any) -> bool:
    """Returns whether the family of ``backbone``, a model of transformers without head, has a pooler."""
    return "add_pooling_layer" in inspect.signature(type(backbone).__init__).parameters


def has_pooler(backbone: Any) -> bool:
    """Returns whether ``backbone`` has its pooler now."""
    return takes_pooler(backbone) and backbone.pooler is not None


def add_pooler(backbone: Any, folder: Path | None = None) -> None:
    """Adds the family's pooler if ``backbone`` lacks it, with the weights in ``folder`` or random ones."""
    if not takes_pooler(backbone) or has_pooler(backbone):
        return
    kind, options = type(backbone), {"config": copy.deepcopy(backbone.config), "add_pooling_layer": True}
    options["config"].num_hidden_layers = 1
    if isinstance(windows := getattr(backbone.config, "attention_window", None), list):  # Longformer's, by layer
        options["config"].attention_window = windows[:1]
    if folder is None:
        source = kind(**options)
    else:
        source = kind.from_pretrained(folder, **options, use_safetensors=True, local_files_only=True)
    source.to(next(backbone.parameters()).device).train(backbone.training)
    for name in PARTS:
        if hasattr(source, name):
            setattr(backbone, name, getattr(source, name))


def pooler_output(backbone: Any, states: Tensor) -> Tensor:
    """Returns the first of ``states`` (B, T, H), passed through the pooler if there is one, of shape (B, H)."""
    if not has_pooler(backbone):
        return states[:, 0]
    if isinstance(backbone.pooler, nn.Linear):
        return torch.tanh(backbone.pooler(states[:, 0]))
    return backbone.pooler(states)
