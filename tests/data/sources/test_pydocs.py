"""The bundled corpus: documents made of modules, near copies, fingerprint and size."""

from __future__ import annotations

from collections import Counter
from importlib import metadata
from pathlib import Path

import pytest

from data.sources.base import text_hash
from data.sources.pydocs import FEWEST_WORDS, MOST_WORDS, Pydocs, join_modules


def test_docstrings_of_a_module_are_joined_and_cut(tmp_path: Path) -> None:
    def prose(module: str, count: int) -> str:
        words = [chr(97 + i % 26) + chr(97 + i // 26) for i in range(count)]
        return "\n\n".join(f"{module} says of {word} that it is a thing that one may have." for word in words)

    (tmp_path / "tests").mkdir()
    for name, count in (("a_long.py", 400), ("b_short.py", 30), ("c_short.py", 30), ("tests/d.py", 99)):
        module = name[0]
        (tmp_path / name).write_text(f'"""{prose(module, count)}"""\n')
    (tmp_path / "broken.py").write_text("def (")
    documents = list(join_modules(tmp_path, "package", set()))
    words = [len(document.texts[0].split()) for document in documents]
    assert all(FEWEST_WORDS <= count <= MOST_WORDS + 20 for count in words[:-1])
    # Paragraphs of a, b and c differ in the word "a", "b" or "c" alone, and so are no near copies.
    assert [document.group for document in documents] == ["package.a_long"] * 3 + ["package.c_short"]
    assert sum(words) == 13 * 460
    assert "d says" not in " ".join(document.texts[0] for document in documents)


def test_package_versions_are_in_the_fingerprint(monkeypatch: pytest.MonkeyPatch) -> None:
    source = Pydocs()
    assert "torch " in source.describe()["where"] and source.fingerprint == Pydocs().fingerprint
    monkeypatch.setattr(metadata, "version", lambda name: "1")
    assert source.fingerprint != Pydocs().fingerprint


@pytest.mark.slow
def test_the_corpus_has_about_its_stated_size() -> None:
    source = Pydocs()
    documents = list(source.examples())
    words = [len(document.texts[0].split()) for document in documents]
    assert len(documents) > 1500 and sum(words) > 2_000_000
    assert sum(count >= FEWEST_WORDS for count in words) > 0.95 * len(words)
    hashes = Counter(text_hash(part) for document in documents for part in document.texts[0].split("\n\n"))
    assert max(hashes.values()) == 1
