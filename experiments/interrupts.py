"""SIGINT and SIGTERM, which end a command cleanly."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any

NOTED = "Stopping after this step; a second interrupt stops at once.\n"


@contextmanager
def signal_handlers(handlers: Mapping[signal.Signals, Any]) -> Iterator[None]:
    """Sets ``handlers`` of signals, as ``signal.signal`` takes them, inside the block."""
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def terminations() -> Iterator[None]:
    """Turns a request to terminate into an interrupt, so that commands clean up as after Ctrl-C."""
    with signal_handlers({signal.SIGTERM: signal.default_int_handler}):
        yield


@contextmanager
def noted_interrupts() -> Iterator[threading.Event]:
    """Turns the first SIGINT or SIGTERM into an event, so that the step is finished; a second one raises."""
    interrupted = threading.Event()

    def note(number: int, frame: FrameType | None) -> None:
        if interrupted.is_set():
            raise KeyboardInterrupt
        interrupted.set()
        if os.environ.get("RANK", "0") == "0":
            os.write(2, NOTED.encode())  # print() may have been interrupted, and cannot be called twice at once

    with signal_handlers(dict.fromkeys((signal.SIGINT, signal.SIGTERM), note)):
        yield interrupted
