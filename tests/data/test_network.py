"""Reachability of the hub: proxies, offline mode, and errors of the hub as opposed to failed connections."""

from __future__ import annotations

import socket
from typing import Any

import pytest
from huggingface_hub import constants, errors

from data import network


@pytest.fixture
def addresses(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Accepts all connections and lists their addresses."""
    connected: list[tuple[str, int]] = []

    def connect(address: tuple[str, int], **_: Any) -> socket.socket:
        connected.append(address)
        return socket.socket()

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(socket, "create_connection", connect)
    for name in ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    return connected


def test_a_proxy_is_used(addresses: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch) -> None:
    assert network.unreachable() is None
    monkeypatch.setenv("https_proxy", "http://proxy.example:3128")
    assert network.unreachable() is None
    assert addresses == [("huggingface.co", 443), ("proxy.example", 3128)]


def request_that_raises(error: type[Exception]) -> Any:
    def request(seconds: float) -> None:
        assert 0 < seconds < network.ASK_SECONDS
        raise error.__new__(error)

    return request


@pytest.mark.parametrize(
    "error", [errors.GatedRepoError, errors.RepositoryNotFoundError, errors.EntryNotFoundError]
)
def test_errors_from_the_hub_are_raised(error: type[Exception], addresses: list[tuple[str, int]]) -> None:
    with pytest.raises(error):
        network.unreachable(request_that_raises(error))


@pytest.mark.parametrize("error", [OSError, errors.HfHubHTTPError])
def test_failures_on_the_way_are_reported(error: type[Exception], addresses: list[tuple[str, int]]) -> None:
    assert network.unreachable(request_that_raises(error)) == "the hub (huggingface.co) is not reachable"


def test_offline_mode_makes_no_request(addresses: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert network.unreachable() == "HF_HUB_OFFLINE is set" and not addresses
