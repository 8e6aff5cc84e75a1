"""What several tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def suite_data(relative: str) -> Path:
    """A file or folder of the real data that the environment variable SUITE_DATA points to, else a skip."""
    root = os.environ.get("SUITE_DATA")
    if not root:
        pytest.skip("SUITE_DATA is not set")
    path = Path(root) / relative
    if not path.exists():
        pytest.skip(f"no {relative} in SUITE_DATA")
    return path
