r"""Base of the sequence tasks: one or more decoders predict sequences from the same sentence vector.

    L = sum_k  - 1 / N_k  sum_{j, t}  log p_k(y_{j,t}^k | y_{j,<t}^k, E(x_j))        N_k: tokens of all y_j^k

Subramanian et al. (2018), section 3. Sources x and targets y are cut to ``max_length`` tokens, start and end
tokens included, as in the published program; the mean is over the real tokens of the global batch.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
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
from data.vocabulary import corpus_vocabulary
from encoders.base import Encoder
from objectives.base import VOCABULARY_ID, Corpus, Loss, TaskData
from objectives.decoder import Decoder
from objectives.functional import forward_flops
from objectives.gather import global_mean
from objectives.gensen.base import GenSenTask, Sizes, decoded, surprisals


class SequenceUnit(NamedTuple):
    """Content token ids of a source, of shape (n,), and of the target of each decoder, of shapes (m,)."""

    source: np.ndarray
    targets: tuple[np.ndarray, ...]


class SequenceTask(GenSenTask):
    """Base of the sequence tasks.

    Args:
        name: name of the task.
        parts: names of its decoders, which are also the names of its loss parts.
        sizes, source: see ``GenSenTask``.
    """

    def __init__(self, name: str, parts: Sequence[str], sizes: Sizes, source: PairSource | None = None) -> None:
        super().__init__(name, sizes, source)
        self.parts = tuple(parts)
        self.decoders: Mapping[str, Decoder] = {}
        self.source_length = 0.0  # mean content tokens of a source
        self.target_lengths: tuple[float, ...] = ()  # mean number of tokens predicted by each decoder

    @property
    def part_names(self) -> tuple[str, ...]:
        return self.parts

    @abstractmethod
    def split(self, unit: Any) -> SequenceUnit:
        """Returns source and targets of a unit, uncut."""

    def make_vocabulary(
        self,
        corpus: Corpus,
        texts: Callable[[], Iterable[str]],
        texts_key: Callable[[], str],
        *,
        symbols: bool = False,
    ) -> None:
        """Builds ``tokenizer``, the decoders' vocabulary, from the words of the targets; cached.

        Args:
            corpus: the run's corpus, for its cache.
            texts: returns the targets.
            texts_key: returns a fingerprint of them.
            symbols: whether words are symbols between blanks, and not to be lower-cased.

        Raises:
            UserError: if no word is frequent enough.
        """
        sizes = self.sizes
        self.tokenizer = corpus_vocabulary(
            texts,
            sizes.vocab_size,
            sizes.min_count,
            not symbols,
            sizes.max_length,
            corpus.cache / "tokenizers",
            texts_key,
            symbols=symbols,
        )

    def set_data(
        self, units: Any, train: Selection, dev: Selection, sources: np.ndarray, targets: np.ndarray
    ) -> TaskData:
        """Sets and returns ``data``, and measures its lengths and word frequencies.

        Args:
            units, train, dev: see ``TaskData``.
            sources: number of tokens of the source of each unit, of shape (n,).
            targets: number of tokens of its targets, of shape (n, decoders).
        """
        content = self.sizes.content
        sources, targets = np.minimum(sources, content), np.minimum(targets, content)
        self.source_length = float(sources[train.indices].mean())
        self.target_lengths = tuple((targets[train.indices].mean(axis=0) + 1).tolist())  # and END
        for number, part in enumerate(self.parts):
            fetch = partial(self._target, units, number)
            self.surprisals[part] = surprisals(fetch, train.indices, len(self.tokenizer), END)
        words = fingerprint(*self.tokenizer.convert_ids_to_tokens(range(len(self.tokenizer))))
        self.register_buffer(VOCABULARY_ID, torch.tensor(int(words[:15], 16)))
        self.data = TaskData(units, train, dev, sources + targets.sum(axis=1), self.setting)
        return self.data

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

    def sample(self, unit: Any, format: TokenFormat, rng: np.random.Generator) -> SequenceUnit:
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
                    guessed, numbers = self.unigram_baseline(part, wanted)
                    means |= guessed
                    counts |= numbers
            total, means[part], counts[part] = global_mean(loss, number)
            totals.append(total)
        return Loss(torch.stack(totals).sum(), means, counts)

    def step_flops(self, encoder: Encoder) -> float:
        flops = forward_flops(encoder, self.batch_size, self.source_length)
        for decoder, tokens in zip(self.decoders.values(), self.target_lengths, strict=True):
            flops += decoder.flops(self.batch_size, round(self.batch_size * tokens))
        return 3 * flops  # a backward pass costs two forward passes

    def predict(self, encoder: Encoder, units: Sequence[Any]) -> list[dict[str, str]]:
        whole = [self.split(unit) for unit in units]
        rows = [encoder.format.wrap(unit.source[: self.sizes.content]) for unit in whole]
        device = next(encoder.parameters()).device
        vectors = encoder.vectors(Tokens.pad(rows, encoder.format.pad_id).to(device))
        shown = [{"source": decoded(encoder.tokenizer, unit.source)} for unit in whole]
        for number, (part, decoder) in enumerate(self.decoders.items()):
            # Limited, as a decoder that repeats itself never ends.
            most = min(self.sizes.content, max(2 * len(unit.targets[number]) + 1 for unit in whole))
            written = decoder.greedy(vectors, max_length=most)
            for sample, unit, row in zip(shown, whole, written, strict=True):
                sample[f"{part} target"] = decoded(self.tokenizer, unit.targets[number])
                text = decoded(self.tokenizer, row) + " ..." * (len(row) == most)
                sample[f"{part} decoded"] = text or "(nothing)"
        return shown

    def _target(self, units: Any, number: int, i: int) -> np.ndarray:
        return self.split(units[i]).targets[number][: self.sizes.content]
