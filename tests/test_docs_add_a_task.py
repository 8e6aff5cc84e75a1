"""docs/add-a-task.md, followed in a copy of the tree."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.test_docs_pages import COMMAND, FILE, ROOT, checkout, follow

PAGE = (ROOT / "docs" / "add-a-task.md").read_text(encoding="utf-8")


def patched(text: str, diff: str) -> str:
    """Inserts the added lines of ``diff`` after the line before them."""
    for before, added in re.findall(r"^ (.+)\n((?:\+.+\n)+)", diff, re.M):
        assert text.count(f"{before}\n") == 1, before
        text = text.replace(f"{before}\n", f"{before}\n" + re.sub(r"^\+", "", added, flags=re.M))
    return text


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout after the page's files were written and changed."""
    tree = checkout(tmp_path_factory.mktemp("checkout"))
    for name, text in FILE.findall(PAGE):
        path = tree / name
        path.write_text(
            patched(path.read_text(encoding="utf-8"), text) if path.exists() else text, encoding="utf-8"
        )
    return tree


def test_the_page_works_as_written(tree: Path) -> None:
    test, evaluation = COMMAND.findall(FILE.sub("", PAGE))
    assert re.search(r"\b3 passed", follow(test, tree))
    folder = tree / "data" / "downstream" / "Mine"
    folder.mkdir(parents=True)
    lines = "question\tIs it late ?\norder\tGo home .\nstatement\tThe door is open .\n"
    for split in ("train", "dev", "test"):
        (folder / f"{split}.tsv").write_text(lines * 200)
    shown = follow(evaluation.replace("<folder with downstream/Mine>", str(tree / "data")), tree)
    assert re.search(r"Mine │ accuracy │ 100\.00 │ 100\.00", shown), shown


def test_it_names_what_there_is() -> None:
    named = set(re.findall(r"`([\w./-]+/[\w./-]+\.\w+)`", FILE.sub("", PAGE)))
    assert named and all((ROOT / name).exists() for name in named), named
