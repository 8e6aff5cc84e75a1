"""Embeds the same held-out sentences with each encoder: a t-SNE map, and nearest neighbours of a few queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.neighbours import Neighbour, neighbours, same
from analysis.projection_map import PERPLEXITY, Agreement, placed
from analysis.quick import LENGTH_BINS, normalise
from analysis.senteval.features import Encodes
from data.errors import UserError
from data.randomness import EVALUATED_SPLIT, generator
from data.sentences import splitter

SENTENCES, SEARCHED = 500, 2000  # on the map; candidates for neighbours, those on the map included
QUERIES, NEAREST = 5, 3
GROUPS = 10  # documents on a map: as many as colour and shape can distinguish
LEAST_MAPPED = 20  # sentences
WORDS = LENGTH_BINS[0][0], LENGTH_BINS[-1][1]  # in a sentence that is shown


@dataclass(frozen=True)
class Sample:
    """The sentences that are shown.

    Attributes:
        sentences: on the map.
        groups: index into ``labels`` for each sentence.
        labels: first words of the sentences' documents; if documents are short, ranges of length.
        searched: candidates for neighbours.
        queries: sentences whose neighbours are shown.
    """

    sentences: tuple[str, ...]
    groups: tuple[int, ...]
    labels: tuple[str, ...]
    searched: tuple[str, ...]
    queries: tuple[str, ...]


@dataclass(frozen=True)
class Geometry:
    """The sample in the vector space of one encoder.

    Attributes:
        dimension: width of a vector.
        places: positions of the sentences on the map, of shape (n, 2); None if there are too few.
        scores: how often neighbours share a sentence's label.
        nearest: neighbours of each query.
    """

    dimension: int
    places: np.ndarray | None
    scores: Agreement | None
    nearest: tuple[tuple[Neighbour, ...], ...]


def sample(texts: Sequence[str], queries: Sequence[str] | None = None, *, size: int = SENTENCES) -> Sample:
    """Samples held-out sentences, the same ones for every encoder and training seed.

    Args:
        texts: whole documents.
        queries: sentences to search with; None takes sentences of documents that are not on the map, if there are
            any.
        size: number of sentences on the map.

    Raises:
        UserError: if fewer than two documents have a sentence of WORDS words.
    """
    rng = generator(EVALUATED_SPLIT, size)
    split = splitter(lambda: texts)
    taken: set[str] = set()
    documents: list[tuple[str, list[str]]] = []
    for number in rng.permutation(len(texts)).tolist():
        own = {
            same(sentence): " ".join(sentence.split())
            for sentence in split(texts[number])
            if WORDS[0] <= len(sentence.split()) <= WORDS[1]
        }
        if fresh := [sentence for key, sentence in own.items() if key not in taken]:
            taken.update(own)
            documents.append((texts[number], fresh))
    if len(documents) < 2:
        raise UserError(
            f"Held-out text has sentences of {WORDS[0]} to {WORDS[1]} words in {len(documents)} documents, but "
            "maps and neighbours need 2: use more text, or raise corpus.dev_fraction."
        )
    each = -(-size // GROUPS)
    # Long documents first, so that GROUPS of them suffice; equal ones in random order.
    documents.sort(key=lambda document: -min(len(document[1]), each))
    mapped, others = documents[:GROUPS], documents[GROUPS:]
    sentences, groups, labels = _by_document(mapped, each)
    if len(sentences) < size / 2 and others:
        sentences, groups, labels = _by_length([sentence for _, own in documents for sentence in own][:size])
    if queries is None:
        queries = [own[-1] for _, own in [*others, *reversed(mapped)][:QUERIES]]
    asked = {same(query) for query in queries}
    shown = {*sentences}
    rest = [sentence for _, own in documents for sentence in own if sentence not in shown]
    drawn = [rest[i] for i in rng.permutation(len(rest))[: max(0, SEARCHED - len(sentences))].tolist()]
    searched = [sentence for sentence in [*sentences, *drawn] if same(sentence) not in asked]
    return Sample(tuple(sentences[:size]), tuple(groups[:size]), tuple(labels), tuple(searched), tuple(queries))


def _by_document(documents: Sequence[tuple[str, list[str]]], each: int) -> tuple[list[str], list[int], list[str]]:
    """Returns the first ``each`` sentences of every document, the documents' numbers and their first words."""
    chosen = [(number, sentence) for number, (_, own) in enumerate(documents) for sentence in own[:each]]
    labels = [" ".join(text.split()[:8]) for text, _ in documents]
    return [sentence for _, sentence in chosen], [number for number, _ in chosen], labels


def _by_length(sentences: list[str]) -> tuple[list[str], list[int], list[str]]:
    """Returns ``sentences``, the bin of LENGTH_BINS of each, and the names of the bins."""
    ends = [high for _, high in LENGTH_BINS]
    groups = [int(np.searchsorted(ends, len(sentence.split()))) for sentence in sentences]
    return sentences, groups, [f"{low} to {high} words" for low, high in LENGTH_BINS]


def embed(encoder: Encodes, shown: Sample) -> Geometry:
    """Embeds a sample; computes its map (t-SNE) and neighbours (cosine similarity).

    Args:
        encoder: anything with ``encode``.
        shown: the sample.
    """
    everything = list(dict.fromkeys([*shown.sentences, *shown.searched, *shown.queries]))
    vectors = np.asarray(encoder.encode(everything), dtype=np.float32)
    place = {sentence: number for number, sentence in enumerate(everything)}

    def rows(sentences: Sequence[str]) -> np.ndarray:
        return vectors[[place[sentence] for sentence in sentences]]

    found = neighbours(shown.queries, list(enumerate(shown.searched, start=1)), rows, NEAREST)
    nearest = tuple(map(tuple, found))
    mapped = rows(shown.sentences)
    if len(mapped) < LEAST_MAPPED or not np.ptp(normalise(mapped), axis=0).any():
        return Geometry(vectors.shape[1], None, None, nearest)
    labels = [str(group) for group in shown.groups]
    perplexity = min(PERPLEXITY, (len(mapped) - 1) / 4)
    places, scores = placed(mapped, labels, perplexity=perplexity)
    return Geometry(vectors.shape[1], places, scores, nearest)
