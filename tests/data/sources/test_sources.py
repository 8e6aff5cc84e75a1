"""The common checks of all sources, over small files."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from data.sources.base import Source
from data.sources.mixture import Mixture
from data.sources.pairs import Inference, Parallel
from data.sources.samples import FILES, Samples
from data.sources.text import Text
from data.sources.trees import Trees
from tests.checks.source import check_source


def write_corpora(folder: Path) -> dict[str, str]:
    """Writes a file for each kind of source; returns their paths."""
    rows = [{"id": f"book{n // 4}/{n}", "text": f"Chapter  {n}\n\nText"} for n in range(200)]
    labels = ["neutral", "entailment", "contradiction", "-"]
    inference = [
        {"gold_label": labels[n % 4], "sentence1": f"premise {n // 5}", "sentence2": f"hypothesis {n}"}
        for n in range(200)
    ]
    contents = {
        "books.jsonl": "".join(json.dumps(row) + "\n" for row in rows),
        "notes.txt": "".join(f"note {n}\n\n" for n in range(100)),
        "nli.jsonl": "".join(json.dumps(row) + "\n" for row in inference),
        "text.en": "".join(f"sentence {n}\n" for n in range(100)),
        "text.fr": "".join(f"phrase {n}\n" if n % 9 else "\n" for n in range(100)),
        "gold.mrg": "".join(f"(S (NP (NN gold{n})) (VP (VBZ sleeps)))\n" for n in range(40)),
        "machine.mrg": "".join(f"(S (NP (NN machine{n})) (VP (VBZ sleeps)))\n" for n in range(40)),
    }
    for name, content in contents.items():
        (folder / f"{name}.gz").write_bytes(gzip.compress(content.encode()))
    return {name: str(folder / f"{name}.gz") for name in contents}


CASES: dict[str, Callable[[dict[str, str]], Callable[..., Source]]] = {
    "jsonl": lambda paths: partial(Text, path=paths["books.jsonl"], group_field="id"),
    "lines": lambda paths: partial(Text, path=paths["notes.txt"]),
    "paragraphs": lambda paths: partial(Text, path=paths["notes.txt"], document="paragraph"),
    "words": lambda paths: partial(Text, path=paths["notes.txt"], document=3),
    "inference": lambda paths: partial(Inference, path=paths["nli.jsonl"]),
    "parallel": lambda paths: partial(Parallel, source=paths["text.en"], target=paths["text.fr"]),
    "trees": lambda paths: partial(Trees, gold=paths["gold.mrg"]),
    **{kind: lambda paths, kind=kind: partial(Samples, kind=kind, pairs=300) for kind in FILES},  # type: ignore[misc]
}


@pytest.mark.parametrize("case", CASES)
def test_a_source_satisfies_the_common_checks(case: str, tmp_path: Path) -> None:
    check_source(CASES[case](write_corpora(tmp_path)))


def test_sources_that_depend_on_parts_satisfy_the_common_checks(tmp_path: Path) -> None:
    paths = write_corpora(tmp_path)
    corpora: dict[str, Any] = {
        "books": {"path": paths["books.jsonl"], "group_field": "id", "weight": 2.5},
        "notes": {"path": paths["notes.txt"], "weight": 0.5, "dev_fraction": 0.3},
    }
    check_source(partial(Mixture, corpora=corpora), rewrites=False)
    check_source(partial(Trees, gold=paths["gold.mrg"], machine=paths["machine.mrg"]), rewrites=False)
    check_source(partial(Text, path=str(tmp_path / "*.txt.gz"), dev_path=paths["books.jsonl"]), rewrites=False)
