"""A replaced network: data sets of the hub whose rows a test gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import datasets
import pytest

from data.sources import hub

COMMIT = "0123456789" * 4
Serve = Callable[[list[dict[str, Any]]], None]


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Serve:
    """Returns a function that makes every data set consist of the given rows."""

    def serve_rows(rows: list[dict[str, Any]]) -> None:
        def load(dataset: str, *, split: str, streaming: bool, **options: Any) -> datasets.IterableDataset:
            assert streaming and options["revision"] == COMMIT
            return datasets.Dataset.from_list(rows).to_iterable_dataset()

        monkeypatch.setattr(hub, "unreachable", lambda: None)
        monkeypatch.setattr(datasets, "load_dataset", load)

    return serve_rows
