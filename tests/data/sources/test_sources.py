"""The common checks of all sources, over small files."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from data.sources.base import Source
from data.sources.mixture import Mixture
from data.sources.pairs import Inference, Parallel
from data.sources.samples import FILES, Samples
from data.sources.text import Text
from data.sources.trees import Trees
from tests.checks.source import check_source
from tests.data.sources.corpora import mixed_corpora, write_corpora

CASES: dict[str, Callable[[dict[str, str]], Callable[..., Source]]] = {
    "jsonl": lambda paths: partial(Text, path=paths["books"], group_field="id"),
    "lines": lambda paths: partial(Text, path=paths["notes"]),
    "inference": lambda paths: partial(Inference, path=paths["nli"]),
    "parallel": lambda paths: partial(Parallel, source=paths["english"], target=paths["french"]),
    "trees": lambda paths: partial(Trees, gold=paths["gold"]),
    "held-out file": lambda paths: partial(Text, path=paths["notes"], dev_path=paths["books"]),
    "mixture": lambda paths: partial(Mixture, corpora=mixed_corpora(paths)),
    **{kind: lambda paths, kind=kind: partial(Samples, kind=kind, pairs=300) for kind in FILES},  # type: ignore[misc]
}


@pytest.mark.parametrize("case", CASES)
def test_a_source_satisfies_the_common_checks(case: str, tmp_path: Path) -> None:
    # The examples of these two, or all of their parts, depend on ``dev_fraction``.
    check_source(CASES[case](write_corpora(tmp_path)), rewrites=case not in ("held-out file", "mixture"))
