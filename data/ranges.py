"""Bounds of the numbers in a configuration, so that a typing error cannot exhaust the machine."""

from __future__ import annotations

MOST = 2**20  # of rows of a batch, tokens of a span, steps between two events: beyond what any machine holds
WIDEST = 2**16  # of units of a layer
THREADS = 1024  # and processes: starting a million takes a machine down
SEED = 2**32 - 1  # the largest that NumPy and scikit-learn take
COUNT = 10**15  # of steps, tokens, pairs: beyond any corpus, and far below where integers overflow


def require_range(name: str, value: float | None, least: float, most: float = MOST) -> None:
    """Refuses a ``value`` outside ``least`` to ``most``, both included; None stands for a default and passes.

    Raises:
        ValueError: naming ``name``, the bound and the value.
    """
    if value is not None and not least <= value <= most:
        bound = f"at most {most}" if value > most else f"at least {least}"
        raise ValueError(f"{name} must be {bound}. Got {value} instead.")
