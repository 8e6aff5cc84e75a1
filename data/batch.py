"""The types that go from the text to the loss: ``TokenExample``, ``Tokens`` and ``Batch``."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, NamedTuple

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
        labels: Sequence[np.ndarray] = (),
        type_ids: Sequence[np.ndarray] = (),
    ) -> Tokens:
        """Pads B sequences to the longest.

        Args:
            rows: token ids of each sequence, of shape (n,).
            pad_id: fills ``ids``.
            labels, type_ids: rows of the attributes of these names, each as long as its sequence; (): none.
        """
        lengths = torch.tensor([len(row) for row in rows], dtype=torch.int64)
        ids = _pad(rows, pad_id)
        return cls(
            ids=ids,
            mask=torch.arange(ids.shape[1]) < lengths[:, None],
            lengths=lengths,
            labels=_pad(labels, IGNORE) if labels else None,
            type_ids=_pad(type_ids, 0) if type_ids else None,
        )

    @classmethod
    def cat(cls, blocks: Collection[Tokens], pad_id: int) -> Tokens:
        """Joins the rows of all ``blocks``, padded to the longest.

        A block without labels or segment ids gets ``IGNORE`` or 0 where another block has them.
        """
        width = max(block.ids.shape[1] for block in blocks)

        def join(name: str, fill: int) -> Any:
            parts = [getattr(block, name) for block in blocks]
            tensors = [part for part in parts if part is not None]  # labels stay on the host, ids may not
            if not tensors:
                return None
            parts = [
                tensors[0].new_full(block.ids.shape, fill) if part is None else part
                for block, part in zip(blocks, parts, strict=True)
            ]
            return torch.cat([nn.functional.pad(part, (0, width - part.shape[1]), value=fill) for part in parts])

        lengths = torch.cat([block.lengths for block in blocks])
        return cls(join("ids", pad_id), join("mask", 0), lengths, join("labels", IGNORE), join("type_ids", 0))

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


class TokenExample(NamedTuple):
    """Rows of one example, by the name of their role ("anchor", "positive", ...).

    Attributes:
        rows: token ids of the role's rows, special tokens included, of shape (T,).
        numbers: further values by name (class labels, say).
        labels, type_ids: for each row of the roles that have them, as in ``Tokens``, of shape (T,).
        sources: for each row of the roles that ``compare.py`` shows, the positions in the sampled unit of its
            tokens, without special tokens; -1 for tokens from elsewhere.
    """

    rows: Mapping[str, Sequence[np.ndarray]]
    numbers: Mapping[str, Any] = MappingProxyType({})
    labels: Mapping[str, Sequence[np.ndarray]] = MappingProxyType({})
    type_ids: Mapping[str, Sequence[np.ndarray]] = MappingProxyType({})
    sources: Mapping[str, Sequence[np.ndarray]] = MappingProxyType({})


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

    @classmethod
    def join(cls, examples: Sequence[TokenExample], pad_id: int, task: str) -> Batch:
        """Joins examples of a task, with rows in their order."""

        def collect(attribute: str, role: str) -> list[np.ndarray]:
            return [row for example in examples for row in getattr(example, attribute).get(role, ())]

        tokens = {
            role: Tokens.pad(collect("rows", role), pad_id, collect("labels", role), collect("type_ids", role))
            for role in examples[0].rows
        }
        numbers = {name: torch.tensor([each.numbers[name] for each in examples]) for name in examples[0].numbers}
        return cls(tokens, numbers, len(examples), task)

    @property
    def n_tokens(self) -> int:
        """Number of real tokens in all roles, which tokens/s counts."""
        return sum(int(block.lengths.sum()) for block in self.tokens.values())

    def all_rows(self, pad_id: int) -> Tokens:
        """Joins the rows of all roles, role by role, padded to the longest."""
        return Tokens.cat(self.tokens.values(), pad_id)

    def to(self, device: torch.device | str) -> Batch:
        return replace(
            self,
            tokens={name: block.to(device) for name, block in self.tokens.items()},
            numbers={name: to_device(value, device) for name, value in self.numbers.items()},
        )


def _pad(rows: Sequence[np.ndarray], fill: int) -> Tensor:
    return pad_sequence([torch.from_numpy(row.astype(np.int64)) for row in rows], True, fill)
