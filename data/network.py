"""Whether the Hugging Face hub can be asked now: one try, with a limit of 5 s in all.

The hub library's own retries take 25 s to say that there is no network.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from huggingface_hub import constants, errors

CONNECT_SECONDS = 2.0
ASK_SECONDS = 5.0
ANSWERS = (errors.RepositoryNotFoundError, errors.EntryNotFoundError, errors.HFValidationError)


def hub() -> str:
    """Host and port of the hub."""
    return urlsplit(constants.ENDPOINT).netloc


def unreachable(question: Callable[[float], Any] = lambda seconds: None) -> str | None:
    """Why the hub cannot be asked now, or None if it can.

    ``question`` is put to it, with the seconds that it may take, after a plain connection to it or to the proxy
    before it.

    Raises:
        Exception: what ``question`` raises, where it is the hub's answer: no such model, no login (``ANSWERS``).
    """
    if constants.is_offline_mode():
        return "HF_HUB_OFFLINE is set"
    address = urlsplit(constants.ENDPOINT)
    host = address.hostname or ""
    proxy = None if proxy_bypass(host) else getproxies().get(address.scheme)
    door = urlsplit(proxy) if proxy else address
    port = door.port or (443 if door.scheme == "https" else 80)
    outcomes: list[Exception | None] = []

    def ask() -> None:
        try:
            socket.create_connection((door.hostname or host, port), timeout=CONNECT_SECONDS).close()
            question(ASK_SECONDS - CONNECT_SECONDS)
            outcomes.append(None)
        except Exception as error:
            outcomes.append(error)

    thread = threading.Thread(target=ask, daemon=True)  # name resolution obeys no time limit
    thread.start()
    thread.join(ASK_SECONDS)
    if not outcomes:
        return f"the hub ({hub()}) did not answer within {ASK_SECONDS:g} s"
    if isinstance(outcomes[0], ANSWERS):
        raise outcomes[0]
    return None if outcomes[0] is None else f"the hub ({hub()}) is not reachable"
