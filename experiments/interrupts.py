"""Signals that end a command cleanly: Ctrl-C, SIGTERM, a closed terminal, a scheduler's warning."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

TERMINATIONS = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
INTERRUPTS = (signal.SIGINT, *TERMINATIONS)
NOTED = "Stopping, in training after this step; a second interrupt stops at once.\n"


@contextmanager
def signal_handler(signals: Sequence[signal.Signals], handler: Any) -> Iterator[None]:
    """Sets the handler of ``signals`` inside the block; those that are ignored, as under nohup, stay so."""
    handled = [number for number in signals if signal.getsignal(number) != signal.SIG_IGN]
    former = {number: signal.signal(number, handler) for number in handled}
    try:
        yield
    finally:
        for number, before in former.items():
            signal.signal(number, before)


@contextmanager
def terminations() -> Iterator[None]:
    """Turns a request to terminate into an interrupt, so that commands clean up as after Ctrl-C."""
    with signal_handler(TERMINATIONS, signal.default_int_handler):
        yield


@contextmanager
def noted_interrupts() -> Iterator[threading.Event]:
    """Turns the first signal into an event, so that the step is finished; a second one raises."""
    interrupted = threading.Event()

    def note(*_: object) -> None:
        if interrupted.is_set():
            raise KeyboardInterrupt
        interrupted.set()
        if "RANK" not in os.environ:  # else the launcher prints it
            print_note()

    with signal_handler(INTERRUPTS, note):
        yield interrupted


def print_note() -> None:
    """Prints ``NOTED`` from a signal handler."""
    with suppress(OSError):  # the terminal is closed
        os.write(2, NOTED.encode())  # print() may have been interrupted, and cannot be called twice at once
