r"""Heads of GenSen's tasks on the shared encoder: decoders of sequences, and a classifier of pairs.

    L_decoders = sum_k  - 1 / N_k  sum_{j, t}  log p_k(y_{j,t}^k | y_{j,<t}^k, E(x_j))   N_k: tokens of all y_j^k
    L_pairs = - log softmax(W_2 relu(W_1 dropout([u ; v ; |u - v| ; u * v]) + b_1) + b_2)_class

Subramanian et al. (2018), sections 3, 4 and 7, after Kiros et al. (2015) and Conneau et al. (2017). Sources x and
targets y are cut to ``max_length`` tokens, start and end tokens included, as in the published program; the
sentences of pairs only to the encoder's positions. The mean is over the real tokens of the global batch.

Skip-thought predicts the next sentence (STN) and the previous one (STP), translation a sentence in French or
German from an English one, parsing the sentence's constituency tree as a sequence of brackets
(``data.sources.trees``). Words of all languages are split by ``data.vocabulary.WORDS``, which is made for English:
French "l'homme" stays one word, which a French tokeniser splits. Perplexities are per such word.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from data.batch import Batch, TokenExample
from data.errors import rename_keys
from data.sources.base import Source, fingerprint
from data.store import MOST_COUNTED, Pair, prepare
from data.token_format import TokenFormat
from data.tokenizer import END, START, load_or_train, train_words
from data.views import neighbours
from data.views.neighbours import Neighbours, NeighbourUnit
from encoders.base import Encoder
from objectives.base import PARTS, Corpus, Loss, TaskData, open_pairs, task_keys
from objectives.classifiers import Classifier, classification_loss
from objectives.decoder import Decoder
from objectives.gather import global_mean

OFFSETS = {"stn": 1, "stp": -1}
Form = Literal["gensen", "infersent", "sentence_bert"]


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Sizes that the heads share: the arguments of ``GenSen`` with these names."""

    batch_size: int
    max_length: int
    vocab_size: int
    min_count: int
    word_size: int
    hidden: int | None
    dropout: float
    classifier_width: int


class Head(nn.Module):
    """Base of the heads: samples the examples of a task, and predicts their targets from sentence vectors.

    Args:
        name: name of the task.
        part_names: names of its loss parts.
        sizes: see ``Sizes``.
        source: pairs of text from which examples are sampled; None: the run's corpus.

    Attributes:
        tokenizer: tokenizer of the targets; None if these are classes.
        surprisals: for each loss part, the -log p of each word or class under its frequency in the training part.
            The losses of an evaluation report loss and accuracy of predicting from them (``<part>_unigram``,
            ``<part>_accuracy_unigram``).
    """

    tokenizer: Any = None

    def __init__(self, name: str, part_names: tuple[str, ...], sizes: Sizes, source: Source | None) -> None:
        super().__init__()
        self.name = name
        self.part_names = part_names
        self.sizes = sizes
        self.source = source
        self.batch_size = sizes.batch_size
        self.surprisals: dict[str, Tensor] = {}

    def collate(self, examples: list[TokenExample], format: TokenFormat) -> Batch:
        return Batch.join(examples, format.pad_id, self.name)

    def unigram_baseline(self, part: str, targets: Tensor) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Computes loss and accuracy of predicting ``targets`` from their frequencies in training only.

        Args:
            part: name of the loss part.
            targets: words or classes, of shape (N,).

        Returns:
            Mean surprisal, and accuracy of the most frequent target, over the global batch; and the number of
            targets in it, by the same names.
        """
        table = self.surprisals[part].to(targets.device)
        _, loss, count = global_mean(table[targets].sum(), len(targets))
        _, correct, _ = global_mean((targets == table.argmin()).sum(), len(targets))
        means = {f"{part}_unigram": loss, f"{part}_accuracy_unigram": correct}
        return means, dict.fromkeys(means, count)


def surprisals(counts: np.ndarray) -> Tensor:
    """Computes the -log p of each token, in nats, from its number of occurrences, with add-one smoothing."""
    return torch.from_numpy(-np.log((counts + 1) / (counts + 1).sum())).float()


class Decoders(Head):
    """Predicts sequences: neighbouring sentences of the corpus, or the second texts of pairs.

    Decoders of several neighbours share an update, as published, and a vocabulary of the words of the run's
    corpus. Its sentences are tokenised a second time with it, as the encoder's tokens need not be words. Words are
    lower-cased, unless they are symbols between blanks.

    Args:
        name, part_names, sizes, source: see ``Head``. Each part has a decoder; without ``source`` they are of
            ``OFFSETS``.
    """

    def task_data(self, corpus: Corpus) -> Mapping[str, TaskData]:
        """Returns the task's data, and sets ``surprisals`` and the vocabulary.

        Raises:
            UserError: if there are no examples, or they cannot be read.
        """
        content = self._content
        self._train_words(corpus)
        units: Any
        if self.source is None:
            store, offsets = corpus.store, [OFFSETS[part] for part in self.part_names]
            setting = "corpus"
            table = prepare(
                corpus.source,
                self.tokenizer,
                cache=corpus.cache / "stores",
                sentences=store.sentences,
                progress=partial(corpus.progress, self.name),
            )
            units = Neighbours(store, table, offsets)
            train, dev = (neighbours.select(store, part, offsets) for part in PARTS)
            lengths = [np.roll(table.lengths[:, 0], -offset) for offset in offsets]
            counts = [table.token_counts(train.indices + offset, most=content) for offset in offsets]
        else:
            store, train, dev, setting = open_pairs(self.source, corpus, self.name, self.tokenizer)
            units, lengths = store, [store.lengths[:, 1]]
            counts = [store.token_counts(train.indices, column=1, most=content)]
        for part, count in zip(self.part_names, counts, strict=True):
            count[END] += min(len(train.indices), MOST_COUNTED)
            self.surprisals[part] = surprisals(count)
        total = sum(np.minimum(each, content) for each in (store.lengths[:, 0], *lengths))
        return {self.name: TaskData(units, train, dev, np.asarray(total), setting)}

    def _train_words(self, corpus: Corpus) -> None:
        corpus.progress(f"words of {self.name}", 0)
        source, column = (corpus.source, 0) if self.source is None else (self.source, 1)
        options: dict[str, Any] = {
            "vocab_size": self.sizes.vocab_size,
            "min_count": self.sizes.min_count,
            "lowercase": not source.symbols,
            "symbols": source.symbols,
        }
        with task_keys(self.name) if self.source else rename_keys(encoder="objective"):
            self.tokenizer = load_or_train(
                (train_words, options),
                lambda: source.texts(column),
                corpus.cache / "tokenizers",
                f"column {column} {source.texts_key()}",
            )

    @property
    def _content(self) -> int:
        """Most tokens of a source or target, without start and end tokens."""
        return self.sizes.max_length - 2

    def build(self, encoder: Encoder) -> None:
        sizes = self.sizes
        self.decoders = {
            part: Decoder(
                vocabulary=len(self.tokenizer),
                condition=encoder.dimension,
                word_size=sizes.word_size,
                hidden=sizes.hidden,
                dropout=sizes.dropout,
            )
            for part in self.part_names
        }
        self.weights = nn.ModuleDict(self.decoders)  # registers them

    def get_extra_state(self) -> Tensor:
        """Returns a number of the vocabulary: weights of another one are not taken over (``warm_start``)."""
        words = self.tokenizer.convert_ids_to_tokens(range(len(self.tokenizer)))
        return torch.tensor(int(fingerprint(*words)[:15], 16))

    def set_extra_state(self, state: Tensor) -> None:
        """Raises ValueError if the weights belong to another vocabulary."""
        if not torch.equal(state.cpu(), self.get_extra_state()):
            raise ValueError(f"The decoders of {self.name} have another vocabulary.")

    def sample(self, unit: NeighbourUnit | Pair, format: TokenFormat, rng: np.random.Generator) -> TokenExample:
        """Returns the source, and the target of each decoder."""
        source, targets = unit if isinstance(unit, NeighbourUnit) else (unit.first, (unit.second,))
        rows = {"source": [format.wrap(source[: self._content])]}
        for part, row in zip(self.part_names, targets, strict=True):
            rows[part] = [np.concatenate([[START], row[: self._content], [END]])]
        return TokenExample(rows)

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
                    baseline, numbers = self.unigram_baseline(part, targets.ids[:, 1:][targets.mask[:, 1:]])
                    means |= baseline
                    counts |= numbers
            total, means[part], counts[part] = global_mean(loss, number)
            totals.append(total)
        return Loss(torch.stack(totals).sum(), means, counts)


class PairClassifier(Head):
    """Classifies pairs of a premise and a hypothesis, with vectors u and v.

    Args:
        name, part_names, sizes, source: see ``Head``.

    Attributes:
        form: form of the classifier and of its input: "gensen" (the equation above), or those of
            ``objectives.nli``.
    """

    form: Form = "gensen"
    source: Source

    def task_data(self, corpus: Corpus) -> Mapping[str, TaskData]:
        """Returns the task's data, and sets ``surprisals``; errors as in ``Decoders``."""
        store, train, dev, setting = open_pairs(self.source, corpus, self.name)
        counts = np.bincount(store.labels[train.indices], minlength=len(self.source.classes))
        self.surprisals[self.name] = surprisals(counts)
        return {self.name: TaskData(store, train, dev, store.lengths.max(axis=1), setting)}

    def build(self, encoder: Encoder) -> None:
        width, classes = self.sizes.classifier_width, len(self.source.classes)
        self.classifier: nn.Module
        if self.form == "gensen":
            self.classifier = nn.Sequential(
                nn.Dropout(self.sizes.dropout),
                nn.Linear(4 * encoder.dimension, width),
                nn.ReLU(),
                nn.Linear(width, classes),
            )
        elif self.form == "infersent":
            self.classifier = Classifier(4 * encoder.dimension, classes, width=width)
        else:
            self.classifier = nn.Linear(3 * encoder.dimension, classes)

    def sample(self, unit: Pair, format: TokenFormat, rng: np.random.Generator) -> TokenExample:
        rows = {"premise": [format.wrap(unit.first)], "hypothesis": [format.wrap(unit.second)]}
        return TokenExample(rows, {"class": unit.label})

    def loss(self, encoder: Encoder, batch: Batch) -> Loss:
        u, v = encoder.vectors(batch.all_rows(encoder.format.pad_id)).chunk(2)
        features = [u, v, (u - v).abs()] + ([] if self.form == "sentence_bert" else [u * v])
        classes = batch.numbers["class"]
        total, *means = classification_loss(self.classifier(torch.cat(features, dim=1)), classes)
        parts = dict(zip(self.part_names, means, strict=True))
        if not self.training and self.surprisals:
            parts |= self.unigram_baseline(self.name, classes)[0]
        return Loss(total, parts)
