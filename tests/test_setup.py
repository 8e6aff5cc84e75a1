"""The set-up: requirements in setup.cfg, and what is reported where it is incomplete."""

from __future__ import annotations

import configparser
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def requirements(*extras: str) -> list[str]:
    """Returns the requirements in setup.cfg of ``extras``, among them "install"."""
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg", encoding="utf-8")
    blocks = {"install": config["options"]["install_requires"], **config["options.extras_require"]}
    return sorted({line for name in extras for line in blocks[name].split("\n") if line})


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


WITHOUT_MTEB = "import sys; sys.modules['mteb'] = None; from experiments import evaluate; evaluate.main()"
WINDOWS = "import sys; sys.platform = 'win32'; import experiments"
COMMANDS = [f"experiments/{name}.py" for name in ("run", "evaluate", "compare", "reproduce", "runs")]


@pytest.mark.parametrize(
    "arguments",
    [
        ["-c", WINDOWS],
        ["-c", WITHOUT_MTEB, "mteb", "models=random_vectors", "tasks=STS12"],
        *(["-S", path] for path in COMMANDS),
    ],
)
def test_windows_and_missing_packages_are_reported_in_one_line(arguments: list[str]) -> None:
    """With -S, Python finds no installed packages."""
    done = subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
