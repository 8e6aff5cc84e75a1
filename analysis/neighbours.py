"""Nearest neighbours: the sentences of a file closest to a query by cosine (GenSen's table 8).

    cos(v(query), v(sentence))        the k largest, by exact search

Files have one sentence per line and may be .gz; blank lines are skipped. Duplicates are shown once, and texts
equal to the query never.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Unpack

import numpy as np
import pandas as pd

from analysis.geometry import normalise
from analysis.model_names import Names
from analysis.models import Model
from analysis.reports import ReportOptions
from data.errors import UserError
from data.ranges import Count
from data.sources.reading import stripped_lines


def neighbours(
    queries: Sequence[str], sentences: Sequence[str], encode: Callable[[Sequence[str]], np.ndarray], k: int
) -> list[pd.Series]:
    """Finds the k nearest ``sentences`` to each of q ``queries``; fewer if there are fewer.

    Args:
        queries: texts.
        sentences: candidates.
        encode: function from sentences to vectors, float32 of shape (n, D).
        k: number of neighbours.

    Returns:
        Of each query cosines, indexed by sentence, nearest first.
    """
    texts = [*dict.fromkeys(sentences)]
    cosines = pd.DataFrame(normalise(encode(queries)) @ normalise(encode(texts)).T, queries, texts)
    return [row.drop(query, errors="ignore").nlargest(k) for query, row in cosines.iterrows()]


def evaluate_neighbours(
    model: Model, *, sentences: str, queries: Names, k: Count = 4, **options: Unpack[ReportOptions]
) -> dict[str, float]:
    """Finds the nearest neighbours of queries.

    Args:
        model: model that encodes the sentences.
        sentences: file to search, a sentence a line.
        queries: texts.
        k: neighbours of a query.
        options: see ``analysis.reports.ReportOptions``.

    Returns:
        Cosines of "<query> → <sentence>", nearest first.

    Raises:
        UserError: if the file cannot be read or has no sentence.
    """
    candidates = [*stripped_lines(sentences)]
    if not candidates:
        raise UserError("no sentence", key=sentences)
    nearest = zip(queries, neighbours(queries, candidates, model.rows, k), strict=True)
    return {f"{query} → {text}": cosine for query, near in nearest for text, cosine in near.items()}
