"""Held-out sentences under an encoder: their t-SNE map and nearest neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pandas as pd

from analysis import plots
from analysis.neighbours import neighbours
from analysis.projection_map import place_sentences, scatter
from analysis.quick import SENTENCE_WORDS
from data.sentences import splitter

SENTENCES, SEARCHED, QUERIES, NEAREST = 500, 2000, 5, 3
LEAST_MAPPED = 20  # sentences
DOCUMENTS = len(plots.SERIES)  # on a map, each in a colour


class Sample(NamedTuple):
    """Held-out sentences that are shown.

    Attributes:
        mapped: on the map: columns label (the number of their document) and text.
        searched: candidates for neighbours.
        queries: sentences whose neighbours are shown.
    """

    mapped: pd.DataFrame
    searched: list[str]
    queries: Sequence[str]


class Space(NamedTuple):
    """A sample under an encoder: width of a vector, map or None, agreement of labels, neighbours of each query."""

    width: int
    map: str | None
    agreement: dict[str, float] | None
    nearest: list[pd.Series]


def sample_sentences(texts: Sequence[str], queries: Sequence[str] | None = None) -> Sample:
    """Samples sentences of held-out documents, the same for every encoder.

    Args:
        texts: documents in random order.
        queries: sentences to search with; None selects sentences of several documents.
    """
    words = pd.Series(texts).map(splitter(texts)).explode().str.split()
    sentences = words[words.str.len().isin(SENTENCE_WORDS)].str.join(" ").drop_duplicates()
    largest = sentences.groupby(level=0).size().nlargest(DOCUMENTS).index
    mapped = sentences.loc[largest].groupby(level=0).head(SENTENCES // DOCUMENTS)
    searched = pd.concat([mapped, sentences]).drop_duplicates().tolist()
    return Sample(
        pd.DataFrame({"label": mapped.index.map(str), "text": mapped.tolist()}),
        searched[:SEARCHED],
        queries or searched[:: -max(1, len(searched) // QUERIES)][:QUERIES],
    )


def embed_sample(encoder: Any, sample: Sample) -> Space:
    """Embeds a sample with anything that has ``encode``: its t-SNE map, and neighbours by cosine similarity."""
    nearest = neighbours(sample.queries, sample.searched, encoder.encode, NEAREST)
    labels = sample.mapped["label"].tolist()
    vectors = encoder.encode(sample.mapped["text"].tolist())
    if len(vectors) < LEAST_MAPPED:
        return Space(vectors.shape[1], None, None, nearest)
    places, agreement = place_sentences(vectors, labels)
    return Space(vectors.shape[1], plots.picture(scatter, places, labels), agreement, nearest)
