"""The two types that go from the text to the loss: ``Tokens`` and ``Batch``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

IGNORE = -100  # label of a position that is not to be predicted (torch's ignore_index)


def to_device(tensor: Tensor, device: torch.device | str) -> Tensor:
    """Returns ``tensor`` on ``device``; the host does not wait for the copy.

    Only copies from page-locked memory are asynchronous, so a tensor on the host is moved there first.
    """
    device = torch.device(device)
    if device.type == "cuda" and tensor.device.type == "cpu":
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)


@dataclass(frozen=True, eq=False)
class Tokens:
    """B token sequences, padded on the right to the longest.

    The tensors that determine shapes (``lengths``, ``labels``) stay on the host when the others move to a device,
    so that selecting rows or positions never waits for the device.

    Attributes:
        ids: token ids of shape (B, T), int64.
        mask: of shape (B, T), bool; True at real tokens, special tokens included.
        lengths: real tokens of each row, of shape (B,), int64, on the host.
        labels: of shape (B, T), int64, on the host, or None; the token to predict, else ``IGNORE``.
        type_ids: segment ids of shape (B, T), int64, or None.
    """

    ids: Tensor
    mask: Tensor
    lengths: Tensor
    labels: Tensor | None = None
    type_ids: Tensor | None = None

    @classmethod
    def pad(
        cls,
        rows: Sequence[np.ndarray],
        pad_id: int,
        labels: Sequence[np.ndarray] | None = None,
        type_ids: Sequence[np.ndarray] | None = None,
    ) -> Tokens:
        """Pads B sequences to the longest.

        Args:
            rows: token ids of each sequence, of shape (n,).
            pad_id: fills ``ids``.
            labels, type_ids: rows of the attributes of these names, each as long as its sequence; None: none.
        """
        lengths = torch.tensor([len(row) for row in rows], dtype=torch.int64)
        ids = _pad(rows, pad_id)
        return cls(
            ids=ids,
            mask=torch.arange(ids.shape[1]) < lengths[:, None],
            lengths=lengths,
            labels=None if labels is None else _pad(labels, IGNORE),
            type_ids=None if type_ids is None else _pad(type_ids, 0),
        )

    @classmethod
    def cat(cls, blocks: Sequence[Tokens], pad_id: int) -> Tokens:
        """Joins the rows of all ``blocks``, padded to the longest.

        A block without labels or segment ids gets ``IGNORE`` or 0 where another block has them.
        """
        width = max(block.ids.shape[1] for block in blocks)

        def join(name: str, fill: int) -> Tensor | None:
            parts = [getattr(block, name) for block in blocks]
            given = next(
                (part for part in parts if part is not None), None
            )  # labels stay on the host, ids may not
            if given is None:
                return None
            parts = [
                given.new_full(block.ids.shape, fill) if part is None else part
                for block, part in zip(blocks, parts, strict=True)
            ]
            return torch.cat([nn.functional.pad(part, (0, width - part.shape[1]), value=fill) for part in parts])

        ids, mask = join("ids", pad_id), join("mask", 0)
        assert ids is not None and mask is not None
        lengths = torch.cat([block.lengths for block in blocks])
        return cls(ids, mask, lengths, join("labels", IGNORE), join("type_ids", 0))

    def __len__(self) -> int:
        return self.ids.shape[0]

    def rows(self, index: Tensor) -> Tokens:
        """Returns the rows ``index`` (of shape (b,), int64, on the host), cut to the longest of them."""
        lengths = self.lengths[index]
        width = int(lengths.max()) if len(index) else 0

        moved = to_device(index, self.ids.device)
        return Tokens(
            ids=self.ids[moved, :width],
            mask=self.mask[moved, :width],
            lengths=lengths,
            labels=None if self.labels is None else self.labels[index, :width],
            type_ids=None if self.type_ids is None else self.type_ids[moved, :width],
        )

    def to(self, device: torch.device | str) -> Tokens:
        return replace(
            self,
            ids=to_device(self.ids, device),
            mask=to_device(self.mask, device),
            type_ids=None if self.type_ids is None else to_device(self.type_ids, device),
        )


@dataclass(frozen=True, eq=False)
class Batch:
    """Examples of an objective for one step on one process.

    Attributes:
        tokens: the sequences by the name of their role ("anchor", "positive", ...).
        numbers: further tensors by name (class labels, scores, ...).
        size: number of examples (documents, sentences).
        task: name of the task, if the objective has several; else "".
    """

    tokens: Mapping[str, Tokens]
    numbers: Mapping[str, Tensor] = field(default_factory=dict)
    size: int = 0
    task: str = ""

    @property
    def n_tokens(self) -> int:
        """Number of real tokens in all roles, which tokens/s counts."""
        return sum(int(block.lengths.sum()) for block in self.tokens.values())

    def to(self, device: torch.device | str) -> Batch:
        moved = {id(block): block.to(device) for block in self.tokens.values()}  # one block may have several roles
        return replace(
            self,
            tokens={name: moved[id(block)] for name, block in self.tokens.items()},
            numbers={name: to_device(value, device) for name, value in self.numbers.items()},
        )


def _pad(rows: Sequence[np.ndarray], fill: int) -> Tensor:
    return pad_sequence([torch.from_numpy(row.astype(np.int64)) for row in rows], True, fill)
