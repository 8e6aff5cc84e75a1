"""Signals that end a command, noted for the end of a step."""

from __future__ import annotations

import os
import signal

import pytest

from experiments.interrupts import INTERRUPTS, NOTED, noted_interrupts


@pytest.mark.parametrize("number", INTERRUPTS, ids=lambda number: number.name)
def test_the_first_signal_is_noted_and_the_second_interrupts(
    number: signal.Signals, capfd: pytest.CaptureFixture[str]
) -> None:
    before = signal.getsignal(number)
    with noted_interrupts() as interrupted:
        assert not interrupted.is_set()
        os.kill(os.getpid(), number)
        assert interrupted.is_set() and capfd.readouterr().err == NOTED
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)
    assert signal.getsignal(number) == before
