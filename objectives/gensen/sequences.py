r"""A task that writes sequences: a decoder for each, all from one sentence vector.

    L = sum_k  - 1 / N_k  sum_{j, t}  log p_k(y_{j,t}^k | y_{j,<t}^k, E(x_j))        N_k: tokens of all y_j^k

Subramanian et al. 2018, section 3. x and y are cut to ``max_length`` tokens, what begins and ends them included,
as in the published program; the mean is over real tokens of the global batch.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from data.batch import Batch, Tokens
from data.pairs import PairSource
from data.selection import Selection
from data.sources.base import fingerprint
from data.token_format import TokenFormat
from data.tokenizer import END, PAD, START
from encoders.base import Encoder
from objectives.base import MARK, Loss, Material
from objectives.decoder import Decoder
from objectives.gather import global_mean
from objectives.gensen.base import GenSenTask, Sizes, decoded, surprisals


class SequenceUnit(NamedTuple):
    """Content token ids of a source of shape (n,), and of the target of each decoder, of shapes (m,)."""

    source: np.ndarray
    targets: tuple[np.ndarray, ...]


class SequenceTask(GenSenTask):
    """Base of the tasks that write sequences.

    Args:
        name: of the task.
        parts: names of its decoders, and so of its loss parts.
        sizes, source: see ``GenSenTask``.
    """

    def __init__(self, name: str, parts: Sequence[str], sizes: Sizes, source: PairSource | None = None) -> None:
        super().__init__(name, sizes, source)
        self.parts = tuple(parts)
        self.decoders: Mapping[str, Decoder] = {}
        self.source_length = 0.0  # mean tokens that are read
        self.target_lengths: tuple[float, ...] = ()  # mean tokens that each decoder predicts

    @property
    def part_names(self) -> tuple[str, ...]:
        return self.parts

    @abstractmethod
    def split(self, unit: Any) -> SequenceUnit:
        """Source and targets of a unit, whole."""

    def found(
        self, units: Any, train: Selection, dev: Selection, sources: np.ndarray, targets: np.ndarray
    ) -> Material:
        """Keeps what there is to know of the examples.

        Args:
            units, train, dev: as ``Material`` has them.
            sources: tokens of the source of each unit, of shape (n,).
            targets: tokens of its targets, of shape (n, decoders).
        """
        content = self.sizes.content
        sources, targets = np.minimum(sources, content), np.minimum(targets, content)
        self.source_length = float(sources[train.indices].mean())
        self.target_lengths = tuple((targets[train.indices].mean(axis=0) + 1).tolist())  # END besides
        for number, part in enumerate(self.parts):
            fetch = partial(self._target, units, number)
            self.surprisals[part] = surprisals(fetch, train.indices, len(self.tokenizer), END)
        words = fingerprint(*self.tokenizer.convert_ids_to_tokens(range(len(self.tokenizer))))
        self.register_buffer(MARK, torch.tensor(int(words[:15], 16)))
        self.material = Material(units, train, dev, sources + targets.sum(axis=1), self.setting)
        return self.material

    def build(self, encoder: Encoder) -> None:
        self.decoders = {
            part: Decoder(
                vocabulary=len(self.tokenizer),
                condition=encoder.dimension,
                word_size=self.sizes.word_size,
                hidden=self.sizes.hidden,
                dropout=self.sizes.dropout,
            )
            for part in self.parts
        }
        self.heads = nn.ModuleDict(self.decoders)  # registers them

    def draw(self, unit: Any, format: TokenFormat, rng: np.random.Generator) -> SequenceUnit:
        source, targets = self.split(unit)
        content = self.sizes.content
        rows = tuple(np.concatenate([[START], target[:content], [END]]).astype(np.int64) for target in targets)
        return SequenceUnit(format.wrap(source[:content]), rows)

    def collate(self, examples: list[SequenceUnit], format: TokenFormat) -> Batch:
        tokens = {"source": Tokens.pad([example.source for example in examples], format.pad_id)}
        for number, part in enumerate(self.parts):
            tokens[part] = Tokens.pad([example.targets[number] for example in examples], PAD)
        return Batch(tokens, size=len(examples), task=self.name)

    def loss(self, encoder: Encoder, batch: Batch) -> Loss:
        vectors = encoder.vectors(batch.tokens["source"])
        totals, means, counts = [], {}, {}
        for part, decoder in self.decoders.items():
            targets = batch.tokens[part]
            if self.training:
                loss, number = decoder.loss(vectors, targets)
            else:
                loss, hits, number = decoder.loss_and_hits(vectors, targets)
                _, means[f"{part}_accuracy"], counts[f"{part}_accuracy"] = global_mean(hits, number)
                if self.surprisals:
                    wanted = targets.ids[:, 1:][targets.mask[:, 1:]]
                    guessed, numbers = self.unigram(part, wanted)
                    means |= guessed
                    counts |= numbers
            total, means[part], counts[part] = global_mean(loss, number)
            totals.append(total)
        return Loss(torch.stack(totals).sum(), means, counts)

    def step_flops(self, encoder: Encoder) -> float:
        length = self.source_length + len(encoder.format.prefix) + len(encoder.format.suffix)
        flops = encoder.forward_flops(round(self.batch_size * length), length)
        for decoder, tokens in zip(self.decoders.values(), self.target_lengths, strict=True):
            flops += decoder.flops(self.batch_size, round(self.batch_size * tokens))
        return 3 * flops  # forward, and twice as much backward

    def show(self, encoder: Encoder, units: Sequence[Any]) -> list[dict[str, str]]:
        whole = [self.split(unit) for unit in units]
        rows = [encoder.format.wrap(unit.source[: self.sizes.content]) for unit in whole]
        device = next(encoder.parameters()).device
        vectors = encoder.vectors(Tokens.pad(rows, encoder.format.pad_id).to(device))
        shown = [{"source": decoded(encoder.tokenizer, unit.source)} for unit in whole]
        for number, (part, decoder) in enumerate(self.decoders.items()):
            # One that goes round in circles is not followed to the end.
            most = min(self.sizes.content, max(2 * len(unit.targets[number]) + 1 for unit in whole))
            written = decoder.greedy(vectors, max_length=most)
            for sample, unit, row in zip(shown, whole, written, strict=True):
                sample[f"{part} target"] = decoded(self.tokenizer, unit.targets[number])
                text = decoded(self.tokenizer, row) + " ..." * (len(row) == most)
                sample[f"{part} decoded"] = text or "(nothing)"
        return shown

    def _target(self, units: Any, number: int, i: int) -> np.ndarray:
        return self.split(units[i]).targets[number][: self.sizes.content]
