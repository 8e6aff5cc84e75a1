"""Access to the real data in the folder that SUITE_DATA names; tests that need them are skipped without."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def suite_data(relative: str) -> Path:
    """Returns the path of a file or folder in SUITE_DATA; skips the test if it does not exist."""
    root = os.environ.get("SUITE_DATA")
    if not root:
        pytest.skip("SUITE_DATA is not set")
    path = Path(root) / relative
    if not path.exists():
        pytest.skip(f"no {relative} in SUITE_DATA")
    return path
