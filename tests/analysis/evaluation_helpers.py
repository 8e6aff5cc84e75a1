"""Word vector files, a bag of words, and trees."""

from __future__ import annotations

import gzip
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from analysis.models import Model
from encoders.bag_of_words import BagOfWords

NOUNS = ("dog", "cat", "bird", "fish", "horse", "cow", "sheep", "goat")


def vector_file(path: Path, vectors: Mapping[str, Sequence[float]]) -> Path:
    """Writes a file of word vectors."""
    lines = (" ".join([word, *map(str, numbers)]) for word, numbers in vectors.items())
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def bag(tmp_path: Path, words: Sequence[str]) -> Model:
    """Returns a bag-of-words model with random vectors of ``words``."""
    rng = np.random.default_rng(0)
    path = vector_file(tmp_path / "words.txt", {word: rng.normal(size=8).round(4).tolist() for word in words})
    return Model("bag", BagOfWords(vectors=str(path)))


def tree_folder(folder: Path) -> Path:
    """Writes train, dev and test files of generated trees in GUM's format, half of them in the past tense."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(1)
    for part, count in (("train", 200), ("dev", 100), ("test", 120)):
        verbs, adverbs = rng.choice(["VBD saw", "VBZ sees"], count), rng.integers(10**9, size=count)
        with gzip.open(folder / f"made_{part}.ptb.gz", "wt") as file:
            for verb, adverb in zip(verbs, adverbs, strict=True):
                file.write(f"(ROOT (S (NP (DT the) (NN dog)) (VP ({verb}) (ADVP (RB very{adverb}))) (. .)))\n")
    return folder
