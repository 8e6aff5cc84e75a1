"""Writes a SentEval folder with a few generated sentences per task, including captions in the published format."""

from __future__ import annotations

import pickle
from itertools import product
from pathlib import Path

import numpy as np

from analysis.senteval.tasks import TASKS
from tests.analysis import evaluation_helpers

NOUNS = ["dog", "cat", "bird", "fish", "horse", "cow", "sheep", "goat"]
VERBS = ["sees", "likes", "hears", "finds"]
WORDS = NOUNS + VERBS + ["the", "good", "bad", "."]


def vector_file(path: Path) -> Path:
    """Writes word vectors for all words of the folder's sentences."""
    rng = np.random.default_rng(0)
    return evaluation_helpers.vector_file(path, {word: rng.normal(size=8).round(4).tolist() for word in WORDS})


def write_captions(path: Path, images: np.ndarray, captions: list[str]) -> None:
    """Writes features of n images, of shape (n, F), and 5 n captions as a file of the caption task."""
    content = {
        "features": images,
        "image_to_caption_ids": {i: list(range(5 * i, 5 * i + 5)) for i in range(len(images))},
        "captions": {i: {"cleaned_caption": caption} for i, caption in enumerate(captions)},
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pickle.dumps(content, protocol=2))


def folder(root: Path) -> Path:
    """Writes the files of all 28 tasks below ``root``; the caption task has 30 images per split."""
    rng = np.random.default_rng(1)

    def sentence(adjective: str = "") -> str:
        words = ["the", *rng.choice(NOUNS, 1), *rng.choice(VERBS, 1), "the", *rng.choice(NOUNS, 1)]
        return " ".join([*words, *([adjective] if adjective else []), *["."] * int(rng.integers(1, 3))])

    def write(name: str, lines: list[str]) -> None:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")

    for name in ("MR", "CR", "SUBJ", "MPQA"):
        for file, adjective in zip(TASKS[name].files, ("good", "bad"), strict=True):
            write(f"downstream/{file}", [sentence(adjective) for _ in range(30)])
    for name, levels in (("SST2", "01"), ("SST5", "01234")):
        for file in TASKS[name].files:
            lines = [(label, sentence("good" if int(label) % 2 else "bad")) for label in levels * 12]
            write(
                f"downstream/{file}",
                [f"{text}\t{label}" if name == "SST2" else f"{label} {text}" for label, text in lines],
            )
    coarse = ["ABBR:exp", "DESC:def", "ENTY:cremat", "HUM:ind", "LOC:city", "NUM:date"]
    for file in TASKS["TREC"].files:
        write(f"downstream/{file}", [f"{label} {sentence('good')}" for label in coarse * 20])
    for file in TASKS["MRPC"].files:
        rows = [f"{i % 2}\t{i}\t{i}\t{sentence('good')}\t{sentence('bad')}" for i in range(40)]
        write(f"downstream/{file}", ["Quality\t#1 ID\t#2 ID\t#1 String\t#2 String", *rows])
    for file in TASKS["SNLI"].files:
        kind = Path(file).name.split(".")[0]
        labels = ["entailment", "neutral", "contradiction"] * 10
        write(f"downstream/{file}", [label if kind == "labels" else sentence() for label in labels])
    for file in TASKS["SICKRelatedness"].files:
        labels = ["ENTAILMENT", "NEUTRAL", "CONTRADICTION"] * 10
        rows = [f"{i}\t{sentence()}\t{sentence()}\t{1 + i % 5}.5\t{label}" for i, label in enumerate(labels)]
        rows = [row.replace("\t5.5\t", "\t4.9\t") for row in rows]
        write(
            f"downstream/{file}",
            ["pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment", *rows],
        )
    for file in TASKS["STSBenchmark"].files:
        rows = [f"a\tb\tc\t{i}\t{i % 6}.000\t{sentence()}\t{sentence()}" for i in range(30)]
        write(f"downstream/{file}", rows)
    for year in range(12, 17):
        for file in TASKS[f"STS{year}"].files:
            is_input = Path(file).name.startswith("STS.input")
            write(
                f"downstream/{file}",
                [f"{sentence()}\t{sentence()}" if is_input else f"{i % 6}.0" for i in range(20)],
            )
    for file in TASKS["ImageCaptionRetrieval"].files:
        captions = [sentence() for _ in range(150)]
        write_captions(root / "downstream" / file, rng.normal(size=(30, 6)).astype(np.float32), captions)
    for task in TASKS.values():
        if task.group == "probing":
            examples = product(("tr", "va", "te"), range(12), {"I": "good", "O": "bad"}.items())
            rows = [f"{part}\t{label}\t{sentence(adjective)}" for part, _, (label, adjective) in examples]
            write(f"probing/{task.files[0]}", rows)
    return root
