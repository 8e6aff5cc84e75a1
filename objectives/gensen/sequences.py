r"""Skip-thought, translation and parsing: decoders predict sequences from the same sentence vector.

    L = sum_k  - 1 / N_k  sum_{j, t}  log p_k(y_{j,t}^k | y_{j,<t}^k, E(x_j))        N_k: tokens of all y_j^k

Subramanian et al. (2018), sections 3 and 4. Sources x and targets y are cut to ``max_length`` tokens, start and
end tokens included, as in the published program; the mean is over the real tokens of the global batch.

Skip-thought (Kiros et al. 2015) predicts the next sentence (STN) and the previous one (STP), translation a
sentence in French or German from an English one, parsing the sentence's constituency tree as a sequence of
brackets (``data.sources.trees``). Words of all languages are split by ``data.vocabulary.WORDS``, which is made for
English: French "l'homme" stays one word, which a French tokeniser splits. Perplexities are per such word.
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
from data.errors import rename_keys
from data.pairs import PairSource, PairUnit
from data.selection import Selection
from data.sources.base import fingerprint
from data.store import prepare
from data.token_format import TokenFormat
from data.tokenizer import END, PAD, START
from data.views import neighbours
from data.views.neighbours import Neighbours, NeighbourUnit
from data.vocabulary import corpus_vocabulary
from encoders.base import Encoder
from objectives.base import VOCABULARY_ID, Corpus, Loss, TaskData
from objectives.decoder import Decoder
from objectives.functional import forward_flops
from objectives.gather import global_mean
from objectives.gensen.base import GenSenTask, Sizes, decoded, surprisals, task_keys

OFFSETS = {"stn": 1, "stp": -1}


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

    part_names: tuple[str, ...] = ()
    source_length = 0.0  # mean content tokens of a source
    target_lengths: tuple[float, ...] = ()  # mean number of tokens predicted by each decoder

    def __init__(self, name: str, parts: Sequence[str], sizes: Sizes, source: PairSource | None = None) -> None:
        super().__init__(name, sizes, source)
        self.part_names = tuple(parts)
        self.decoders: Mapping[str, Decoder] = {}

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
        """Builds ``tokenizer``, the decoders' vocabulary, from the words of the targets ``texts()``; cached.

        Words are lower-cased, unless they are ``symbols`` between blanks. ``texts_key()`` is a fingerprint of the
        targets.

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

    def measured(
        self, units: Any, train: Selection, dev: Selection, sources: np.ndarray, targets: np.ndarray
    ) -> TaskData:
        """Returns the task's data, after measuring its lengths and word frequencies.

        Args:
            units, train, dev: see ``TaskData``.
            sources: number of tokens of the source of each unit, of shape (n,).
            targets: number of tokens of its targets, of shape (n, decoders).
        """
        content = self.sizes.content
        sources, targets = np.minimum(sources, content), np.minimum(targets, content)
        self.source_length = float(sources[train.indices].mean())
        self.target_lengths = tuple((targets[train.indices].mean(axis=0) + 1).tolist())  # and END
        for number, part in enumerate(self.part_names):
            target = partial(self._target, number)
            self.surprisals[part] = surprisals(units, train.indices, len(self.tokenizer), END, target)
        words = fingerprint(*self.tokenizer.convert_ids_to_tokens(range(len(self.tokenizer))))
        self.register_buffer(VOCABULARY_ID, torch.tensor(int(words[:15], 16)))
        return TaskData(units, train, dev, sources + targets.sum(axis=1), self.setting)

    def build(self, encoder: Encoder) -> None:
        self.decoders = {
            part: Decoder(
                vocabulary=len(self.tokenizer),
                condition=encoder.dimension,
                word_size=self.sizes.word_size,
                hidden=self.sizes.hidden,
                dropout=self.sizes.dropout,
            )
            for part in self.part_names
        }
        self.heads = nn.ModuleDict(self.decoders)  # registers them

    def sample(self, unit: Any, format: TokenFormat, rng: np.random.Generator) -> SequenceUnit:
        source, targets = self.split(unit)
        content = self.sizes.content
        rows = tuple(np.concatenate([[START], target[:content], [END]]).astype(np.int64) for target in targets)
        return SequenceUnit(format.wrap(source[:content]), rows)

    def collate(self, examples: list[SequenceUnit], format: TokenFormat) -> Batch:
        tokens = {"source": Tokens.pad([example.source for example in examples], format.pad_id)}
        for number, part in enumerate(self.part_names):
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

    def _target(self, number: int, unit: Any) -> np.ndarray:
        return self.split(unit).targets[number][: self.sizes.content]


class SkipThought(SequenceTask):
    """Predicts the next sentence, the previous one, or both in the same update (as published).

    The decoders share a vocabulary of the words of the run's corpus. The sentences are tokenised a second time
    with it, as the encoder's tokens need not be words.

    Args:
        parts: "stn", "stp" or both.
        sizes: see ``Sizes``.
    """

    def __init__(self, parts: Sequence[str], sizes: Sizes) -> None:
        super().__init__("skip_thought", parts, sizes)
        self.offsets = [OFFSETS[part] for part in parts]

    def split(self, unit: NeighbourUnit) -> SequenceUnit:
        return SequenceUnit(unit.sentence, unit.neighbours)

    def prepare(self, corpus: Corpus) -> TaskData:
        corpus.progress("words", 0, None)
        with rename_keys(encoder="objective"):
            self.make_vocabulary(corpus, corpus.source.texts, corpus.source.texts_key)
        targets = prepare(
            corpus.source,
            self.tokenizer,
            cache=corpus.cache / "stores",
            sentences=corpus.store.sentences,
            progress=lambda done, total, _: corpus.progress("sentences to predict", done, total),
        )
        assert len(targets) == len(corpus.store), "the same splitter makes the same sentences"
        train, dev = (neighbours.select(corpus.store, part, self.offsets) for part in ("train", "dev"))
        lengths = np.stack([np.roll(targets.lengths, -offset) for offset in self.offsets], axis=1)
        units = Neighbours(corpus.store, targets, self.offsets)
        return self.measured(units, train, dev, corpus.store.lengths, lengths)


class PairTask(SequenceTask):
    """Translation or parsing: predicts the second text of a pair from the first.

    Targets are lower-cased, but for brackets.
    """

    source: PairSource

    def split(self, unit: PairUnit) -> SequenceUnit:
        return SequenceUnit(unit.sources[0], (unit.target,))

    def prepare(self, corpus: Corpus) -> TaskData:
        source = self.source
        with task_keys(self.name):
            corpus.progress(f"words of {self.name}", 0, None)
            self.make_vocabulary(
                corpus, source.target_texts, lambda: f"targets {source.texts_key()}", symbols=source.symbols
            )
            store, train, dev = self.pair_store(corpus)
        return self.measured(store, train, dev, store.source_lengths[:, 0], store.target_lengths[:, None])
