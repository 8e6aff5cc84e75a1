"""Sub-batches of rows of similar length, with little padding."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from data.batch import Tokens, to_device


def length_groups(lengths: np.ndarray, groups: int, min_saving: int = 0) -> list[np.ndarray]:
    """Splits rows into at most ``groups`` sets of minimal padded area (longest length times rows, summed up).

    In order of length each set is a run of rows; the best borders between runs are found by dynamic programming
    over the distinct lengths.

    Args:
        lengths: of the rows, of shape (n,).
        groups: largest number of sets.
        min_saving: padding tokens that another set must save.

    Returns:
        Arrays of row numbers, int64, shortest rows first, that together hold each row once.
    """
    order = np.argsort(lengths, kind="stable")
    distinct, first = np.unique(lengths[order], return_index=True)
    ends = np.append(first, len(order))  # rows ends[i] .. ends[j] - 1 have the distinct lengths i .. j - 1
    size = len(distinct)
    # area[i, j]: padded area of one set that holds the distinct lengths i .. j - 1
    area = np.where(
        np.arange(size)[:, None] < np.arange(1, size + 1),
        (ends[None, 1:] - ends[:-1, None]) * distinct[None, :],
        np.inf,
    )
    best = area[0]
    cuts: list[np.ndarray] = []
    for _ in range(min(groups, size) - 1):
        # best[i - 1] + area[i, j]: the last set begins at distinct length i
        total = np.vstack([np.full(size, np.inf), best[:-1, None] + area[1:]])
        least = total.min(axis=0)
        if best[-1] - least[-1] < min_saving:
            break
        cuts.append(np.where(least < best, total.argmin(axis=0), 0))
        best = np.minimum(least, best)
    borders = [size]
    for cut in reversed(cuts):
        if cut[borders[0] - 1] > 0:
            borders.insert(0, int(cut[borders[0] - 1]))
    borders.insert(0, 0)
    return [order[ends[a] : ends[b]] for a, b in pairwise(borders)]


def run_in_groups(
    run: Callable[[Tokens], tuple[Tensor, ...]], tokens: Tokens, groups: list[np.ndarray]
) -> tuple[Tensor, ...]:
    """Calls ``run`` for each of ``groups``, numbers of rows of ``tokens``.

    Args:
        run: returns vectors of its rows, of shape (b, D), and perhaps further results, scalars.
        tokens: B rows.
        groups: arrays that together hold each row once.

    Returns:
        The vectors, of shape (B, D), in the order of ``tokens``, and the sums of the further results.
    """
    results = [run(tokens.rows(torch.from_numpy(rows))) for rows in groups]
    vectors, *scalars = zip(*results, strict=True)
    original = to_device(torch.from_numpy(np.argsort(np.concatenate(groups))), tokens.ids.device)
    return torch.cat(vectors)[original], *(torch.stack(values).sum() for values in scalars)


def length_chunks(lengths: np.ndarray, tokens: int) -> list[np.ndarray]:
    """Splits rows into runs of similar length, each of at most ``tokens`` padded tokens or of one row.

    Longest first: a run that is too large fails at once, and later runs fit into the memory of earlier ones.

    Args:
        lengths: of the rows, of shape (n,).
        tokens: largest padded size of a run (length of its longest row times its rows).

    Returns:
        Arrays of row numbers, int64, that together hold each row once.
    """
    order = np.argsort(-lengths, kind="stable")
    chunks = []
    first = 0
    while first < len(order):
        end = first + max(1, tokens // max(1, int(lengths[order[first]])))
        chunks.append(order[first:end])
        first = end
    return chunks
