"""Reachability of the hub: through a proxy, and with its refusals distinguished from no answer."""

from __future__ import annotations

import socket
from typing import Any

import pytest
from huggingface_hub import constants, errors

from data import network


@pytest.fixture
def doors(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Records the addresses to which a connection is opened; all accept it."""
    asked: list[tuple[str, int]] = []

    def connect(address: tuple[str, int], **_: Any) -> socket.socket:
        asked.append(address)
        return socket.socket()

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(socket, "create_connection", connect)
    for name in ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    return asked


def test_a_proxy_is_used(doors: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch) -> None:
    assert network.unreachable() is None
    monkeypatch.setenv("https_proxy", "http://proxy.example:3128")
    assert network.unreachable() is None
    assert doors == [("huggingface.co", 443), ("proxy.example", 3128)]


def _raise(error: type[Exception]) -> Any:
    def question(seconds: float) -> None:
        assert 0 < seconds < network.ASK_SECONDS
        raise error.__new__(error)

    return question


@pytest.mark.parametrize(
    "error", [errors.GatedRepoError, errors.RepositoryNotFoundError, errors.EntryNotFoundError]
)
def test_errors_from_the_hub_are_raised(error: type[Exception], doors: list[tuple[str, int]]) -> None:
    with pytest.raises(error):
        network.unreachable(_raise(error))


@pytest.mark.parametrize("error", [OSError, errors.HfHubHTTPError])
def test_failures_on_the_way_are_reported(error: type[Exception], doors: list[tuple[str, int]]) -> None:
    assert network.unreachable(_raise(error)) == "the hub (huggingface.co) is not reachable"


def test_offline_mode_makes_no_request(doors: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert network.unreachable() == "HF_HUB_OFFLINE is set" and not doors
