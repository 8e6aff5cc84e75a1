"""docs/add-a-task.md, followed in a copy of the tree."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_docs_pages import COMMAND, FILE, ROOT, checkout, follow

PAGE = (ROOT / "docs" / "add-a-task.md").read_text(encoding="utf-8")


def patched(text: str, diff: str) -> str:
    """Returns ``text`` with the lines that ``diff`` adds, each group after its preceding line."""
    for before, added in re.findall(r"^ (.+)\n((?:\+.+\n)+)", diff, re.M):
        assert text.count(f"{before}\n") == 1, before
        text = text.replace(f"{before}\n", f"{before}\n" + re.sub(r"^\+", "", added, flags=re.M))
    return text


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a checkout with the page's new and changed files."""
    tree = checkout(tmp_path_factory.mktemp("checkout"))
    for name, text in FILE.findall(PAGE):
        path = tree / name
        path.write_text(
            patched(path.read_text(encoding="utf-8"), text) if path.exists() else text, encoding="utf-8"
        )
    return tree


def test_the_page_works_as_written(tree: Path) -> None:
    test, evaluation, own = COMMAND.findall(FILE.sub("", PAGE))
    assert re.search(r"\b3 passed", follow(test, tree))
    (data,) = re.findall(r"```sh\n(.+?)```", PAGE, re.S)
    subprocess.run(["bash", "-e", "-c", data], cwd=tree, check=True)
    shown = follow(evaluation, tree)
    assert re.search(r"Mine │ accuracy │ 100\.00 │ 100\.00", shown), shown
    follow(own, tree)


def test_the_files_pass_the_lint(tree: Path) -> None:
    changed = [name for name, _ in FILE.findall(PAGE)]
    config = ["--config", str(ROOT / "pyproject.toml")]
    for command in (["check", "--no-cache"], ["format", "--check", "--no-cache"]):
        found = subprocess.run(
            [sys.executable, "-m", "ruff", *command, *config, *changed], cwd=tree, capture_output=True, text=True
        )
        assert found.returncode == 0, found.stdout


def test_the_page_names_files_that_exist() -> None:
    named = set(re.findall(r"`([\w./-]+/[\w./-]+\.\w+)`", FILE.sub("", PAGE)))
    assert named and all((ROOT / name).exists() for name in named), named
