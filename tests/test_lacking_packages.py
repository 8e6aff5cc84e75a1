"""What works where packages are lacking that only some corpora and a CPU's classifiers need."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.experiments import tiny

ROOT = Path(__file__).resolve().parents[1]
WITHOUT = """
import sys
sys.modules |= dict.fromkeys(("datasets", "pyarrow", "numba"))  # importing one of them fails
from experiments import compose, experiment, evaluation
experiment.run(compose.check(sys.argv[1:]))
"""


@pytest.mark.slow
def test_training_needs_none_of_them(tmp_path: Path) -> None:
    overrides = tiny.overrides(tmp_path, "budget.steps=2", "dev_batches=1", f"run_dir={tmp_path / 'run'}")
    command = [sys.executable, "-c", WITHOUT, *overrides]
    found = subprocess.run(command, capture_output=True, text=True, timeout=200, cwd=ROOT)
    assert found.returncode == 0, found.stderr
    assert (tmp_path / "run" / "encoder").is_dir()
