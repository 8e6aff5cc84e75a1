"""Commands without the packages that only some corpora, the classifiers on a CPU, or MTEB need."""

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

WITHOUT_MTEB = """
import sys
sys.modules["mteb"] = None
from experiments import evaluate
sys.argv = ["evaluate.py", "mteb", "models=random_vectors", "tasks=STS12"]
try:
    evaluate.main()
finally:
    assert "torch" not in sys.modules  # the refusal comes before this import, which takes seconds
"""


def test_missing_mteb_is_reported_in_one_line() -> None:
    command = [sys.executable, "-c", WITHOUT_MTEB]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=ROOT)
    line = "mteb is not installed: pip install -c requirements/constraints.txt -e '.[mteb]'\n"
    assert (found.returncode, found.stdout, found.stderr) == (2, "", line)


@pytest.mark.slow
def test_training_works_without_packages_of_other_features(tmp_path: Path) -> None:
    overrides = tiny.overrides(tmp_path, "budget.steps=2", "dev_batches=1", f"run_dir={tmp_path / 'run'}")
    command = [sys.executable, "-c", WITHOUT, *overrides]
    found = subprocess.run(command, capture_output=True, text=True, timeout=200, cwd=ROOT)
    assert found.returncode == 0, found.stderr
    assert (tmp_path / "run" / "encoder").is_dir()
