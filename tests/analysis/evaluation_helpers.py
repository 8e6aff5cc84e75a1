"""Word vector files, a bag of words, and trees."""

from __future__ import annotations

import gzip
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from analysis.models import Model
from encoders.bag_of_words import BagOfWords

NOUNS = ("dog", "cat", "bird", "fish", "horse", "cow", "sheep", "goat")
VERBS = ("saw", "sees", "liked", "likes")


def vector_file(path: Path, vectors: Mapping[str, Sequence[float]]) -> Path:
    """Writes a file of word vectors."""
    lines = (" ".join([word, *map(str, numbers)]) for word, numbers in vectors.items())
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def bag(tmp_path: Path, words: Sequence[str], dimension: int = 8) -> Model:
    """Returns a bag-of-words model with random vectors of ``words``."""
    rng = np.random.default_rng(0)
    path = vector_file(
        tmp_path / "words.txt", {word: rng.normal(size=dimension).round(4).tolist() for word in words}
    )
    return Model("bag", BagOfWords(vectors=str(path)))


def tree(rng: np.random.Generator, verb: str) -> str:
    """Returns a tree whose sentence has 5 to 12 words and the tense of its verb."""
    tag = "VBD" if verb in ("saw", "liked") else "VBZ"
    first, second = rng.choice(NOUNS, 2, replace=False)
    adverbs = " ".join(f"(RB very{number})" for number in range(rng.integers(0, 8)))
    opening = "(PP (IN in) (NP (NN may))) " if rng.random() < 0.5 else ""
    return (
        f"(ROOT (S {opening}(NP-SBJ (DT the) (NN {first})) (VP ({tag} {verb}) (NP (DT a) (NN {second})) "
        f"(ADVP {adverbs or '(RB now)'})) (. .)))"
    )


def tree_folder(folder: Path, counts: tuple[int, int, int] = (300, 120, 120)) -> Path:
    """Writes train, dev and test files of generated trees in GUM's format."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(1)
    for part, count in zip(("train", "dev", "test"), counts, strict=True):
        lines = [tree(rng, str(rng.choice(VERBS))) for _ in range(count)]
        with gzip.open(folder / f"made_{part}.ptb.gz", "wt", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
    return folder
