"""The set-up: Python interpreter, version ranges in setup.cfg, pinned versions in requirements/constraints.txt."""

from __future__ import annotations

import configparser
import operator
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CONSTRAINTS = ROOT / "requirements/constraints.txt"
COMPARE = {">=": operator.ge, "<": operator.lt, "==": operator.eq}


@cache
def setup() -> configparser.ConfigParser:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg", encoding="utf-8")
    return config


def requirements(*extras: str) -> list[str]:
    """Returns the requirements in setup.cfg of ``extras``, among them "install", or of all."""
    blocks = {"install": setup()["options"]["install_requires"], **setup()["options.extras_require"]}
    return sorted({line for name in extras or blocks for line in blocks[name].split("\n") if line})


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


PINS = {
    normal(name): version
    for name, version in re.findall(r"^(.+)==(.+)$", CONSTRAINTS.read_text(encoding="utf-8"), re.M)
}


def numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)]


@pytest.mark.parametrize("requirement", requirements())
def test_the_pinned_version_is_in_the_range(requirement: str) -> None:
    name, bounds = re.fullmatch(r"([\w.-]+?)((?:>=|==|<).+)", requirement).groups()  # type: ignore[union-attr]
    pinned = numbers(PINS[normal(name)])
    for bound in bounds.split(","):
        sign, version = re.fullmatch(r"(>=|==|<)([\w.]+)", bound).groups()  # type: ignore[union-attr]
        assert COMPARE[sign](pinned, numbers(version)), f"{name}: {pinned} is not {bound}"


def test_supported_pythons_match_the_readme() -> None:
    versions = re.findall(r"Python :: (\S+)", setup()["metadata"]["classifiers"])
    text = f"Python {versions[0]} or later (tested on {', '.join(versions[:-1])} and {versions[-1]})"
    assert text in (ROOT / "README.md").read_text(encoding="utf-8")
    assert setup()["options"]["python_requires"] == f">={versions[0]}"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Returns a folder with the files that ``make setup`` reads, and stand-ins for Python."""
    for path in ("Makefile", "setup.cfg", "pyproject.toml", "requirements/constraints.txt"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / path, tmp_path / path)
    scripts = {
        "fails-at-venv": f'[ "$1" = -m ] && exit 9\nexec {sys.executable} "$@"',
        ".venv/bin/python": "echo Python 3.99.1",
    }
    for name, script in scripts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    return tmp_path


@pytest.mark.parametrize(
    ("python", "has_environment", "message"),
    [
        ("./fails-at-venv", False, "Error 9"),  # it is the one that is used
        ("false", False, "PYTHON"),
        (sys.executable, True, f"PYTHON={sys.executable}"),  # the environment has another
    ],
)
def test_make_uses_the_given_python_or_refuses_it(
    python: str, has_environment: bool, message: str, tree: Path
) -> None:
    if not has_environment:
        shutil.rmtree(tree / ".venv")
    done = subprocess.run(
        ["make", "setup", f"PYTHON={python}"], cwd=tree, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2 and message in done.stderr
    assert (tree / ".venv").exists() == has_environment


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
