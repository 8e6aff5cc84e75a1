"""The set-up: Python interpreter, version ranges in setup.cfg, pinned versions in requirements/constraints.txt."""

from __future__ import annotations

import configparser
import operator
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CONSTRAINTS = ROOT / "requirements/constraints.txt"
COMPARE = {">=": operator.ge, "<": operator.lt, "==": operator.eq}


def requirements() -> list[str]:
    """Returns the requirements in setup.cfg, extras included."""
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg", encoding="utf-8")
    blocks = [config["options"]["install_requires"], *config["options.extras_require"].values()]
    return sorted({line for block in blocks for line in block.split("\n") if line})


def pins() -> dict[str, str]:
    """Returns the pinned versions by normalised name."""
    lines = CONSTRAINTS.read_text(encoding="utf-8").splitlines()
    return {normal(name): version for name, _, version in (line.partition("==") for line in lines) if version}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)]


@pytest.mark.parametrize("requirement", requirements())
def test_the_pinned_version_is_in_the_range(requirement: str) -> None:
    name, bounds = re.fullmatch(r"([\w.-]+?)((?:>=|==|<).+)", requirement).groups()  # type: ignore[union-attr]
    pinned = numbers(pins()[normal(name)])
    for bound in bounds.split(","):
        sign, version = re.fullmatch(r"(>=|==|<)([\w.]+)", bound).groups()  # type: ignore[union-attr]
        assert COMPARE[sign](pinned, numbers(version)), f"{name}: {pinned} is not {bound}"


def test_supported_pythons_match_the_readme() -> None:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg", encoding="utf-8")
    versions = re.findall(r"Python :: (\S+)", config["metadata"]["classifiers"])
    text = f"Python {versions[0]} or later (tested on {', '.join(versions[:-1])} and {versions[-1]})"
    assert text in (ROOT / "README.md").read_text(encoding="utf-8")
    assert config["options"]["python_requires"] == f">={versions[0]}"


def make(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs ``make setup`` in a copy of the files that it reads."""
    (folder / "requirements").mkdir()
    for path in ("Makefile", "setup.cfg", "pyproject.toml", "requirements/constraints.txt"):
        shutil.copy(ROOT / path, folder / path)
    command = ["make", "setup", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)


@pytest.fixture
def interpreter(tmp_path: Path) -> Path:
    """Returns a stand-in for Python that fails when it is to create an environment."""
    path = tmp_path / "python3.99"
    path.write_text(f'#!/bin/sh\n[ "$1" = -m ] && exit 9\nexec {sys.executable} "$@"\n')
    path.chmod(0o755)
    return path


def test_make_uses_the_given_python(tmp_path: Path, interpreter: Path) -> None:
    (tree := tmp_path / "tree").mkdir()
    done = make(tree, f"PYTHON={interpreter}")
    version = ".".join(map(str, sys.version_info[:3]))
    assert f"setup: environment .venv with Python {version}" in done.stdout
    assert "Error 9" in done.stderr
    assert not (tree / ".venv").exists()


def test_make_refuses_an_old_python(tmp_path: Path) -> None:
    (tree := tmp_path / "tree").mkdir()
    done = make(tree, "PYTHON=false")
    assert done.returncode == 2 and "PYTHON" in done.stderr
    assert not (tree / ".venv").exists()


def test_make_refuses_another_python_than_that_of_the_environment(tmp_path: Path) -> None:
    (tree := tmp_path / "tree").mkdir()
    python = tree / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\necho Python 3.99.1\n")
    python.chmod(0o755)
    done = make(tree, f"PYTHON={sys.executable}")
    assert done.returncode == 2 and f"PYTHON={sys.executable}" in done.stderr
    assert python.exists()


WINDOWS = "import sys; sys.platform = 'win32'; import experiments"
COMMANDS = [f"experiments/{name}.py" for name in ("run", "evaluate", "compare", "reproduce", "runs")]


@pytest.mark.parametrize("arguments", [["-c", WINDOWS], *(["-S", path] for path in COMMANDS)])
def test_windows_and_missing_packages_are_reported_in_one_line(arguments: list[str]) -> None:
    """With -S, Python finds no installed packages."""
    done = subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
