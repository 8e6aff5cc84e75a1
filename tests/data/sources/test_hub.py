"""Hub data sets, with a replaced network: rows as documents, documents of several rows, refusals."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import datasets
import pytest
from huggingface_hub import constants

from data import network
from data.errors import UserError
from data.sources import hub
from data.sources.base import Document
from data.sources.hub import Hub

COMMIT = "0123456789" * 4


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Callable[[list[dict[str, Any]]], None]:
    def serve_rows(rows: list[dict[str, Any]]) -> None:
        def load(dataset: str, subset: str | None, **options: Any) -> datasets.IterableDataset:
            files = options.pop("data_files")
            assert options == {"split": "train", "streaming": True, "revision": COMMIT}
            assert files is None or subset is None
            return datasets.Dataset.from_list(rows).to_iterable_dataset()

        monkeypatch.setattr(hub, "unreachable", lambda: None)
        monkeypatch.setattr(datasets, "load_dataset", load)

    return serve_rows


def test_by_default_a_row_is_a_document(serve: Callable[[list[dict[str, Any]]], None]) -> None:
    serve([{"id": "a/1", "text": "one"}, {"id": "b/1", "text": "two"}])
    source = Hub(dataset="some/set", revision=COMMIT, group_field="id")
    assert list(source.documents()) == [Document("one", "a"), Document("two", "b")]
    assert source.fingerprint == Hub(dataset="some/set", revision=COMMIT, group_field="id").fingerprint
    assert source.fingerprint != Hub(dataset="some/set", revision="f" * 40, group_field="id").fingerprint
    selected = Hub(dataset="some/set", revision=COMMIT, group_field="id", files="train/*.parquet")
    assert list(selected.documents()) == list(source.documents()) and selected.fingerprint != source.fingerprint
    with pytest.raises(UserError):
        list(Hub(dataset="some/set", revision=COMMIT, field="body").documents())


def test_rows_are_joined_to_documents(serve: Callable[[list[dict[str, Any]]], None]) -> None:
    rows = ["", " = First = \n", " text \n", " = = Section = = \n", " more \n", " = Second = \n", " end \n"]
    serve([{"text": row} for row in rows])
    source = Hub(dataset="some/set", revision=COMMIT, document_start="^ = [^=]+ = $")
    assert [" ".join(document.text.split()) for document in source.documents()] == [
        "",
        "= First = text = = Section = = more",
        "= Second = end",
    ]


def test_an_unreachable_hub_is_reported_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(network, "getproxies", dict)
    start = time.perf_counter()
    source = Hub(dataset="some/set")
    with pytest.raises(UserError):
        _ = source.fingerprint
    with pytest.raises(UserError):
        next(source.documents())
    assert time.perf_counter() - start < 2 * network.ASK_SECONDS


def test_an_invalid_expression_is_refused() -> None:
    with pytest.raises(UserError) as error:
        Hub(dataset="some/set", document_start="(")
    assert error.value.key == "corpus.document_start"
