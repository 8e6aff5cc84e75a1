"""Access to the real data in the folder SUITE_DATA; tests that need it are skipped without it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def suite_data(relative: str) -> Path:
    """Returns a file or folder below the environment variable SUITE_DATA, or skips the test if absent."""
    root = os.environ.get("SUITE_DATA")
    if not root:
        pytest.skip("SUITE_DATA is not set")
    path = Path(root) / relative
    if not path.exists():
        pytest.skip(f"no {relative} in SUITE_DATA")
    return path
