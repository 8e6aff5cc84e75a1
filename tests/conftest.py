"""Makes the tests independent of the user's environment and limits threads in parallel test processes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Libraries read these when they are imported, before any fixture: offline mode, threads, parallel tokenizers.
READ_AT_IMPORT = ("HF_HUB_", "HF_DATASETS_", "TRANSFORMERS_", "OMP_", "GOMP_", "TOKENIZERS_")
for name in [name for name in os.environ if name.startswith(READ_AT_IMPORT)]:
    del os.environ[name]
if "PYTEST_XDIST_WORKER" in os.environ:  # more threads than cores would slow each other down
    os.environ["OMP_NUM_THREADS"] = "1"

# The same examples every time, however busy the machine.
CHECKS = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large]
settings.register_profile("any machine", deadline=None, derandomize=True, suppress_health_check=CHECKS)
settings.load_profile("any machine")


def pytest_make_parametrize_id(val: object) -> str | None:
    """Shortens bytes in test ids: archives hold the time, but all xdist processes must collect the same ids."""
    return "bytes" if isinstance(val, bytes) else None


@pytest.fixture
def in_a_small_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes to a folder with two small files, so that "." as a corpus does not search the whole checkout."""
    for name in ("texts.jsonl", "texts.txt"):
        (tmp_path / name).write_text("{}\n")
    monkeypatch.chdir(tmp_path)
