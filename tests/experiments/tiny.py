"""Corpora and overrides for runs small enough to train in a second."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from analysis.runs import read_lines
from experiments import config, launch
from experiments.run_folder import open_run_folder

TOPICS = 8
WORDS = [f"{a}{b}" for a in ("ba", "ke", "li", "mo", "nu", "ra") for b in "dfgklmnrst"]


def corpus(folder: Path, documents: int = 60, words: int = 120) -> Path:
    """Writes documents of made-up words, most of which belong to the document's topic."""
    rng = random.Random(0)
    path = folder / "corpus.jsonl"
    with path.open("w") as file:
        for number in range(documents):
            topic_words = WORDS[number % TOPICS :: TOPICS]
            text = " ".join(rng.choice(topic_words if rng.random() < 0.7 else WORDS) for _ in range(words))
            file.write(json.dumps({"id": f"topic{number}", "text": text}) + "\n")
    return path


def overrides(folder: Path, *more: str) -> list[str]:
    """Returns the overrides of a run of 8 steps on ``corpus(folder)`` with a one-layer transformer."""
    path = folder / "corpus.jsonl"
    if not path.exists():
        corpus(folder)
    sizes = "num_hidden_layers: 1, hidden_size: 16, num_attention_heads: 2, intermediate_size: 32"
    return [
        "encoder=transformer",
        "encoder.name=tiny",
        "encoder.pooling=mean",
        "weights=random",
        f"encoder.shape={{model_type: roberta, {sizes}}}",
        "encoder.vocab_size=320",
        "corpus=text",
        f"corpus.path={path}",
        "corpus.dev_fraction=0.2",
        "evaluation=none",
        "budget.steps=8",
        "budget.min_span=4",
        "budget.max_span=8",
        "budget.documents=4",
        "budget.min_tokens=null",
        "optimizer.lr=1e-3",
        "device=cpu",
        "objective.length_groups=2",
        "dev_batches=2",
        f"cache={folder / 'cache'}",
        *more,
    ]


def sentences(folder: Path, count: int = 400) -> Path:
    """Writes sentences of consecutive words of a fixed cycle, each ending in a number, mostly a rare one."""
    rng = random.Random(0)
    cycle = [f"{a}{b}" for a in ("ba", "ke", "li", "mo") for b in "dfgk"]
    path = folder / "sentences.jsonl"
    with path.open("w") as file:
        for _ in range(count):
            first, words = rng.randrange(len(cycle)), rng.randint(5, 12)
            text = " ".join(cycle[(first + i) % len(cycle)] for i in range(words))
            file.write(json.dumps({"text": f"{text} {rng.randrange(1000)}"}) + "\n")
    return path


def conssent(folder: Path, *more: str, objective: str = "conssent") -> list[str]:
    """Returns the overrides of a ConsSent run on ``sentences(folder)`` with a BiLSTM-Max."""
    path = folder / "sentences.jsonl"
    if not path.exists():
        sentences(folder)
    common = [text for text in overrides(folder) if not text.startswith(("encoder", "weights", "objective"))]
    left_out = ("corpus.path", "dev_batches", "optimizer.lr", "budget.steps")
    return [
        *(text for text in common if not text.startswith(left_out)),
        f"objective={objective}",
        "objective.classifier_width=8",
        "encoder=bilstm_max",
        "encoder.hidden=6",
        "encoder.word_size=8",
        "encoder.min_count=1",
        f"corpus.path={path}",
        "sentences.split=false",
        "budget.sentences=32",
        "threads=1",
        *more,
    ]


def compose(folder: Path, *more: str) -> dict[str, Any]:
    """Returns the checked configuration of ``overrides``."""
    return check([*overrides(folder, *more)])


def check(texts: list[str]) -> dict[str, Any]:
    """Returns the checked configuration of any overrides."""
    values = config.compose(texts)
    config.check(values)
    return values


def train(values: dict[str, Any]) -> Path:
    """Trains in this process and returns the run's folder."""
    with open_run_folder(values) as path:
        launch.run(values | {"processes": 1}, path)
    return path


def run(folder: Path, *more: str) -> Path:
    """Trains a run of ``overrides`` in this process and returns its folder."""
    return train(compose(folder, *more))


def resume(run_folder: Path, cache: Path, *more: str) -> Path:
    """Resumes a run in this process and returns its folder."""
    return train(check([f"resume={run_folder}", f"cache={cache}", *more]))


def metrics(run_folder: Path) -> list[dict[str, float]]:
    return read_lines(run_folder / "metrics.jsonl")
