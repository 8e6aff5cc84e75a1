"""Makes the tests independent of the user's environment and limits their threads."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.two_processes import TwoProcesses

# Libraries read these when they are imported, before any fixture: offline mode, threads, parallel tokenizers.
READ_AT_IMPORT = ("HF_HUB_", "HF_DATASETS_", "TRANSFORMERS_", "OMP_", "GOMP_", "TOKENIZERS_")
for name in [name for name in os.environ if name.startswith(READ_AT_IMPORT)]:
    del os.environ[name]
os.environ["OMP_NUM_THREADS"] = "1"  # more threads than free cores slow each other down
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup ignores it

# The same examples every time, however busy the machine.
CHECKS = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large]
settings.register_profile("any machine", deadline=None, derandomize=True, suppress_health_check=CHECKS)
settings.load_profile("any machine")


@pytest.fixture
def in_a_small_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes to a folder with two small files, so that "." as a corpus does not search the whole checkout."""
    for name in ("texts.jsonl", "texts.txt"):
        (tmp_path / name).write_text("{}\n")
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="session")
def small_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with a corpus, word vectors and encoders for ``tests.checks.pairs``, and their cache."""
    from tests.checks import pairs  # imported here because it takes seconds

    folder = tmp_path_factory.mktemp("small")
    pairs.write_files(folder)
    return folder


@pytest.fixture(scope="session")
def two_processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoProcesses]:
    """Yields two processes of one group, which all collective tests of a session share."""
    with TwoProcesses(tmp_path_factory.mktemp("group") / "rendezvous") as processes:
        yield processes
