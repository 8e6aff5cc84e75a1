"""Tries the Hugging Face hub once, within 5 s in all, and explains its refusals.

The hub library's own retries take 25 s where there is no network.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from huggingface_hub import constants, errors

from data.errors import reason

CONNECT_SECONDS = 2.0
ASK_SECONDS = 5.0
ANSWERS = (errors.RepositoryNotFoundError, errors.EntryNotFoundError, errors.HFValidationError)
BUSY = (408, 429)  # HTTP statuses below 500 of a hub that may answer later
LOGIN = "run `hf auth login`, or set HF_TOKEN"


def hub() -> str:
    """Returns host and port of the hub."""
    return urlsplit(constants.ENDPOINT).netloc


def unreachable(question: Callable[[float], Any] = lambda seconds: None) -> str | None:
    """Returns why the hub cannot be used now, or None if it can.

    Args:
        question: a request to the hub, called with its time limit in seconds once a plain connection to the hub or
            its proxy is made.

    Raises:
        Exception: of ``question``, if it is the hub's answer: no such model, no login.
    """
    if constants.is_offline_mode():
        return "HF_HUB_OFFLINE is set"
    address = urlsplit(constants.ENDPOINT)
    host = address.hostname or ""
    proxy = None if proxy_bypass(host) else getproxies().get(address.scheme)
    gateway = urlsplit(proxy) if proxy else address
    port = gateway.port or (443 if gateway.scheme == "https" else 80)
    outcomes: list[Exception | None] = []

    def ask() -> None:
        try:
            socket.create_connection((gateway.hostname or host, port), timeout=CONNECT_SECONDS).close()
            question(ASK_SECONDS - CONNECT_SECONDS)
            outcomes.append(None)
        except Exception as error:
            outcomes.append(error)

    thread = threading.Thread(target=ask, daemon=True)  # name resolution obeys no time limit
    thread.start()
    thread.join(ASK_SECONDS)
    if not outcomes:
        return f"the hub ({hub()}) did not answer within {ASK_SECONDS:g} s"
    error = outcomes[0]
    if error is None:
        return None
    response = _response(error)
    if isinstance(error, ANSWERS):
        raise error
    if response is None:
        return f"the hub ({hub()}) is not reachable"
    # Proxies and filters do not send this header.
    if "X-Error-Message" in response.headers and response.status_code < 500 and response.status_code not in BUSY:
        raise error
    return f"the hub ({hub()}) answers with HTTP status {response.status_code}"


def refusal(error: Exception, what: str, revision: str = "main") -> str:
    """Explains in one line why the hub refuses ``what``, a model or data set, and what the user can do.

    The explanation of an ``error`` that is not the hub's answer is its first line.
    """
    page = f"{constants.ENDPOINT}/{what}"
    if isinstance(error, errors.GatedRepoError):
        return f"accept its terms on {page}, then log in with the account that did: {LOGIN}"
    if isinstance(error, errors.RepositoryNotFoundError):
        return f"no such name on {hub()} (if it is private: {LOGIN})"
    if isinstance(error, errors.RevisionNotFoundError):
        return f"it has no revision {revision!r} (its commits: {page}/commits)"
    if isinstance(error, errors.DisabledRepoError):
        return f"{hub()} has disabled it"
    if (response := _response(error)) is not None and response.status_code == 401:
        return f"a valid token is needed on {hub()}: {LOGIN}"
    return reason(error)


def _response(error: Exception) -> Any:
    """Returns the HTTP response behind ``error``, or None."""
    return getattr(error, "response", None) if isinstance(error, errors.HfHubHTTPError) else None
