"""Encoder passes in sub-batches, with gradient caching.

Gradient caching (L. Gao et al. 2021, "Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup"):
activations are dropped and recomputed in the backward pass, so that only those of one chunk are in memory.
Checkpointing a function that returns only vectors does this: its inputs, its vectors and the random state are
kept. The gradient is exact.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from data.batch import Tokens
from data.grouping import length_chunks, length_groups, run_in_groups
from encoders.kernels import autocast_dtype


def embed_in_groups(
    run: Callable[[Tokens], tuple[Tensor, ...]], tokens: Tokens, *, chunk: int | None, groups: int = 1
) -> tuple[Tensor, ...]:
    """Applies ``run`` to sub-batches of rows of similar length.

    Args:
        run: returns vectors of its rows, of shape (b, D), and perhaps further results, scalars.
        tokens: B rows.
        chunk: largest number of tokens, padding included, of a sub-batch with gradient caching; None: no caching.
        groups: largest number of sub-batches without caching.

    Returns:
        The vectors, of shape (B, D), in the order of ``tokens``, and the sums of the further results.
    """

    # Tensors one by one: checkpoint saves the random state of the devices of its tensor arguments only.
    def run_fields(*fields: Any) -> tuple[Tensor, ...]:
        with nullcontext() if chunk is None else _without_cast_cache(tokens.ids.device):
            return run(Tokens(*fields))

    def run_part(part: Tokens) -> Any:
        fields = vars(part).values()
        if chunk is not None and torch.is_grad_enabled():
            return checkpoint(run_fields, *fields, use_reentrant=False)
        return run_fields(*fields)

    lengths = tokens.lengths.numpy()
    parts = length_groups(lengths, groups) if chunk is None else length_chunks(lengths, chunk)
    return run_in_groups(run_part, tokens, parts)


def _without_cast_cache(device: torch.device) -> AbstractContextManager[None]:
    """Returns the autocast in force, if any, without its cache of the weights' half-precision copies.

    A cached copy would sum the gradients of all chunks in half precision, which loses those of the later ones.
    """
    dtype = autocast_dtype(device)
    return nullcontext() if dtype is None else torch.autocast(device.type, dtype=dtype, cache_enabled=False)
