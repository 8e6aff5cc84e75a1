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
from experiments import evaluation
from tests.experiments import tiny
tiny.train(tiny.check(sys.argv[1:]))
"""

WITHOUT_MTEB = """
import sys
sys.modules["mteb"] = None
from experiments import evaluate
sys.argv[1:] = ["mteb", "models=random_vectors", "tasks=STS12"]
evaluate.main()
"""


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", *arguments], capture_output=True, text=True, timeout=200, cwd=ROOT
    )


def test_missing_mteb_is_reported_in_one_line() -> None:
    done = run(WITHOUT_MTEB)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("mteb: ") and done.stderr.count("\n") == 1


@pytest.mark.slow
def test_training_works_without_packages_of_other_features(tmp_path: Path) -> None:
    done = run(
        WITHOUT, *tiny.overrides(tmp_path, "budget.steps=2", "dev_batches=1", f"run_dir={tmp_path / 'run'}")
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "encoder").is_dir()
