"""Ids of parametrised tests."""

from __future__ import annotations


def joined(value: object) -> str | None:
    """Returns the parts of a list or tuple, separated by spaces; None, pytest's own id, for other values."""
    if not isinstance(value, list | tuple):
        return None
    return " ".join(map(str, value)) or "nothing"
