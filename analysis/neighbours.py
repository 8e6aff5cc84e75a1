"""Nearest neighbours: the sentences of a file closest to a query by cosine (GenSen's table 8).

    cos(v(query), v(sentence))        the k largest; exact, in blocks of constant memory

Files have one sentence per line and may be .gz; blank lines are skipped. Texts that differ only in case and white
space count as equal: duplicates are shown once, and texts equal to the query never. Of equal cosines the earlier
line comes first. Vectors are cached, so a second query of the same file needs no encoding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import merge
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Unpack

import numpy as np

from analysis.model_names import Names
from analysis.models import ModelOptions, open_models
from analysis.quick import normalise
from analysis.reporting.rendering import Form, csv_table, escape_markdown, markdown_table, write_result
from analysis.senteval.files.loaders import stream
from data.display import printable
from data.errors import UserError
from data.ranges import Count

BLOCK = 16_384  # sentences at a time


class Neighbour(NamedTuple):
    """A neighbour: its cosine, its line in the file (from 1) and its text."""

    cosine: float
    line: int
    text: str


def same(text: str) -> str:
    """Normalises ``text``: texts that count as equal have the same result."""
    return " ".join(text.split()).casefold()


def neighbours(
    queries: Sequence[str],
    sentences: Iterable[tuple[int, str]],
    rows: Callable[[Sequence[str]], np.ndarray],
    k: int,
    *,
    block: int = BLOCK,
) -> list[list[Neighbour]]:
    """Finds the k nearest ``sentences`` to each of q ``queries``, nearest first; fewer if there are fewer.

    Args:
        queries: texts.
        sentences: numbered lines, read once.
        rows: function from sentences to vectors, float32 of shape (n, D).
        k: number of neighbours.
        block: sentences in memory at a time.
    """
    query_vectors = normalise(rows(queries))
    best: list[list[Neighbour]] = [[] for _ in queries]
    lines = iter(sentences)
    while part := list(islice(lines, block)):
        cosines = query_vectors @ normalise(rows([text for _, text in part])).T  # (q, b)
        for place, query in enumerate(queries):
            order = np.argsort(-cosines[place], kind="stable")
            new = (Neighbour(float(cosines[place, i]), *part[i]) for i in order)
            both = merge(best[place], new, key=lambda one: (-one.cosine, one.line))
            best[place] = _distinct(both, query, k)
    return best


def _distinct(found: Iterable[Neighbour], query: str, k: int) -> list[Neighbour]:
    """Returns the first k of ``found`` that differ from each other and from ``query``."""
    own, distinct = same(query), dict[str, Neighbour]()
    for one in found:
        if (key := same(one.text)) != own:
            distinct.setdefault(key, one)
            if len(distinct) == k:
                break
    return list(distinct.values())


Found = Sequence[tuple[str, Mapping[str, Sequence[Neighbour]]]]  # of each model, by query


def as_text(found: Found) -> str:
    """Renders one paragraph per query, with its neighbours indented below, under each model's name."""
    parts = []
    for model, by_query in found:
        parts.append(f"{model}:")
        for query, near in by_query.items():
            lines = (query, *(f"  {one.cosine:.3f}  {one.text}  (line {one.line:,})" for one in near))
            parts.append("\n".join(map(printable, lines)))
    return "\n\n".join(parts)


def as_markdown(found: Found) -> str:
    """Renders one table per query, under each model's name."""
    parts = []
    for model, by_query in found:
        parts.append(f"## {escape_markdown(model)}")
        for query, near in by_query.items():
            rows = [[f"{one.cosine:.3f}", escape_markdown(one.text), str(one.line)] for one in near]
            parts.append(f"**{escape_markdown(query)}**")
            parts.append(markdown_table(["cosine", "sentence", "line"], rows, "rlr"))
    return "\n\n".join(parts)


def as_csv(found: Found) -> str:
    """Renders one line per neighbour: model, query, rank, cosine, line, sentence."""
    lines: list[list[object]] = [["model", "query", "rank", "cosine", "line", "sentence"]]
    for model, by_query in found:
        for query, near in by_query.items():
            for rank, one in enumerate(near, start=1):
                lines.append([model, query, rank, f"{one.cosine:.6f}", one.line, one.text])
    return csv_table(lines)


_FORMATS = {"text": as_text, "md": as_markdown, "csv": as_csv}


def report_neighbours(
    *,
    models: Names,
    sentences: str,
    queries: Sequence[str] = (),
    queries_file: str | None = None,
    k: Count = 4,
    format: Form = "text",
    out: str | None = None,
    **options: Unpack[ModelOptions],
) -> list[dict[str, Any]]:
    """Prints the neighbours of each query by each model, writes them to ``out`` and returns them.

    Args:
        models: names of models.
        sentences: file to search, a sentence a line.
        queries: texts.
        queries_file: file of more queries, one a line.
        k: neighbours of a query.
        format: of the lists.
        out: JSON file.
        options: see ``analysis.models.ModelOptions``.

    Raises:
        UserError: if a file or model cannot be read, or there is no query, or no sentence besides the queries.
    """
    texts = list(queries)
    if queries_file is not None:
        texts += [line.text for line in stream(Path(queries_file).expanduser())]
    texts = list(dict.fromkeys(text for text in texts if text.strip()))
    if not texts:
        raise UserError("there is no query", key="queries")
    lists: list[tuple[str, dict[str, list[Neighbour]]]] = []
    records = []
    for model in open_models(models, **options):
        lines = ((line.number, line.text) for line in stream(Path(sentences).expanduser()) if line.text.strip())
        nearest = neighbours(texts, lines, model.rows, k)
        if not any(nearest):
            raise UserError(f"{sentences} holds no sentence other than the queries", key="sentences")
        lists.append((model.name, dict(zip(texts, nearest, strict=True))))
        by_query = [
            {"query": query, "neighbours": [one._asdict() for one in near]} for query, near in lists[-1][1].items()
        ]
        records.append({"model": model.facts(), "queries": by_query})
    print(_FORMATS[format](lists))
    write_result(out, {"neighbours": records, "sentences": sentences, "k": k})
    return records
