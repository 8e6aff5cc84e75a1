"""An unreachable hub."""

from __future__ import annotations

import time

import pytest
from huggingface_hub import constants

from data import network
from data.errors import UserError
from data.sources.text import Text


def test_an_unreachable_hub_is_reported_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(network, "getproxies", dict)
    start = time.perf_counter()
    source = Text(dataset="some/set")
    for read in (lambda: source.fingerprint, lambda: next(source.examples())):
        with pytest.raises(UserError) as error:
            read()
        assert error.value.key == "corpus.dataset"
    assert time.perf_counter() - start < 2 * network.ASK_SECONDS
