"""Nearest neighbours: the sentences of a file closest to a query by cosine (GenSen's table 8).

    cos(v(query), v(sentence))        the k largest, by exact search

Files have one sentence per line and may be .gz; blank lines are skipped. Texts that differ only in case and white
space count as equal: duplicates are shown once, and texts equal to the query never.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, Unpack

import numpy as np

from analysis.models import Model
from analysis.reports import ReportOptions, make_command
from data.errors import UserError
from data.ranges import Count
from data.sources.reading import lines


class Neighbour(NamedTuple):
    """A neighbour: its cosine, its line in the file (from 1) and its text."""

    cosine: float
    line: int
    text: str


def fold(text: str) -> str:
    """Normalises ``text``: texts that count as equal have the same result."""
    return " ".join(text.split()).casefold()


def neighbours(
    queries: Sequence[str],
    sentences: Iterable[tuple[int, str]],
    encode: Callable[[Sequence[str]], np.ndarray],
    k: int,
) -> list[list[Neighbour]]:
    """Finds the k nearest ``sentences`` to each of q ``queries``, nearest first; fewer if there are fewer.

    Args:
        queries: texts.
        sentences: numbered lines.
        encode: function from sentences to vectors, float32 of shape (n, D).
        k: number of neighbours.
    """
    from sklearn.neighbors import NearestNeighbors  # late: takes seconds, and commands check arguments first

    distinct: dict[str, tuple[int, str]] = {}
    for number, text in sentences:
        distinct.setdefault(fold(text), (number, text))
    candidates = [*distinct.values()]
    search = NearestNeighbors(metric="cosine").fit(encode([text for _, text in candidates]))
    count = min(k + 1, len(candidates))  # the query may be one of them
    distances, places = search.kneighbors(encode(queries), count)
    nearest = []
    for query, *near in zip(queries, 1 - distances, places, strict=True):
        closest = (Neighbour(float(cosine), *candidates[place]) for cosine, place in zip(*near, strict=True))
        nearest.append([each for each in closest if fold(each.text) != fold(query)][:k])
    return nearest


def read_sentences(path: str) -> list[tuple[int, str]]:
    """Returns the numbered lines of a file that are not blank."""
    return [(number, line.strip("\r\n")) for number, line in lines(Path(path).expanduser()) if line.strip()]


def evaluate_neighbours(
    model: Model,
    *,
    sentences: str,
    queries: Sequence[str] = (),
    queries_file: str | None = None,
    k: Count = 4,
    **options: Unpack[ReportOptions],
) -> dict[str, float]:
    """Finds the nearest neighbours of queries.

    Args:
        model: model that encodes the sentences.
        sentences: file to search, a sentence a line.
        queries: texts.
        queries_file: file of more queries, one a line.
        k: neighbours of a query.
        options: see ``analysis.reports.ReportOptions``.

    Returns:
        Cosines of "<query> → <sentence> (line <number>)", nearest first.

    Raises:
        UserError: if a file cannot be read, or has no sentence, or there is no query.
    """
    candidates, more = ([] if file is None else read_sentences(file) for file in (sentences, queries_file))
    texts = [*queries, *(text for _, text in more)]
    if not texts or not candidates:
        raise UserError("there is none", key="sentences" if texts else "queries")
    nearest = zip(texts, neighbours(texts, candidates, model.rows, k), strict=True)
    return {f"{query} → {each.text} (line {each.line})": each.cosine for query, near in nearest for each in near}


report_neighbours = make_command(evaluate_neighbours, decimals=3)
