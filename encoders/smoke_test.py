"""Finds what an encoder's vectors depend on by encoding two rows, in place of a list of families."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from data.batch import Tokens
from data.token_format import TokenFormat
from encoders.saving import NO_LIMIT

LONGER = 64  # tokens of the longer row


@torch.no_grad()
def smoke_test(
    encode: Callable[[Tokens], Tensor], format: TokenFormat, stated: int | None
) -> tuple[int, int, bool]:
    """Encodes a short row by itself and beside a longer one.

    Args:
        encode: computes vectors of shape (B, D).
        format: special tokens and vocabulary.
        stated: number of positions by the configuration; the tables of positions that are looked up count first.

    Returns:
        D; the longest input in tokens, ``NO_LIMIT`` if there is none; whether padding changes vectors.
    """
    words = [id for id in range(format.vocab_size) if id not in format.special_ids][::-1]
    short = format.wrap(np.resize(words, 3))
    with _Positions() as positions:
        single = encode(Tokens.pad([short], format.pad_id))[0]
    limit = max(positions.limit or stated or 0, 0) or NO_LIMIT
    longer = format.wrap(np.resize(words, min(limit, LONGER) - (len(short) - 3)))
    batched = encode(Tokens.pad([short, longer], format.pad_id))[0]
    return len(single), limit, bool((single - batched).norm() > 1e-3 * single.norm())


class _Positions(TorchFunctionMode):
    """Observes look-ups of consecutive rows in embedding tables: those of positions.

    Attributes:
        limit: most tokens whose positions all such tables have; 0 if there is none.
    """

    limit = 0

    def __torch_function__(self, function: Any, types: Any, arguments: Any = (), options: Any = None) -> Any:
        if function is F.embedding:
            ids, table = arguments[0].flatten(), arguments[1]
            if len(ids) > 2 and bool((ids.diff() == 1).all()):
                limit = len(table) - int(ids[0])  # the first row is 0, or follows the padding's
                self.limit = min(self.limit or limit, limit)
        return function(*arguments, **options or {})
