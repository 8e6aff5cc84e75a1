"""Tokens and batches: padding, selection of rows, concatenation and moves to a device."""

from __future__ import annotations

import numpy as np
import torch

from data.batch import IGNORE, Batch, Tokens


def test_pad_rows_and_cat() -> None:
    first = Tokens.pad(
        [np.array([5, 6, 7]), np.array([8])], 1, labels=[np.array([IGNORE, 6, IGNORE]), np.array([8])]
    )
    assert first.ids.tolist() == [[5, 6, 7], [8, 1, 1]]
    assert first.mask.tolist() == [[True] * 3, [True, False, False]]
    assert first.labels is not None and first.labels.tolist() == [[IGNORE, 6, IGNORE], [8, IGNORE, IGNORE]]
    second = Tokens.pad([np.array([2, 3, 4, 9])], 1)
    both = Tokens.cat([first, second], 1)
    assert both.ids.tolist() == [[5, 6, 7, 1], [8, 1, 1, 1], [2, 3, 4, 9]]
    assert both.lengths.tolist() == [3, 1, 4]
    assert both.labels is not None and (both.labels[2] == IGNORE).all()
    part = both.rows(torch.tensor([1, 0]))
    assert part.ids.tolist() == [[8, 1, 1], [5, 6, 7]] and len(part) == 2
    assert Batch({"a": first, "b": second}, size=2).n_tokens == 8
    assert Batch({"a": first}).to("meta").tokens["a"].ids.is_meta
