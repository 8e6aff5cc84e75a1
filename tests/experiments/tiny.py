"""A corpus, and a command line, small enough to train in a second."""

from __future__ import annotations

import json
import random
from pathlib import Path

from experiments import compose, experiment

TOPICS = 8


def corpus(folder: Path, documents: int = 60, words: int = 120) -> Path:
    """Writes documents of made-up words; each has a topic, whose words it prefers."""
    rng = random.Random(0)
    vocabulary = [f"{a}{b}" for a in ("ba", "ke", "li", "mo", "nu", "ra") for b in "dfgklmnrst"]
    path = folder / "corpus.jsonl"
    with path.open("w") as file:
        for number in range(documents):
            own = vocabulary[number % TOPICS :: TOPICS]
            text = " ".join(rng.choice(own if rng.random() < 0.7 else vocabulary) for _ in range(words))
            file.write(json.dumps({"id": f"topic{number}", "text": text}) + "\n")
    return path


def overrides(folder: Path, *more: str) -> list[str]:
    """A run of 8 steps over ``corpus(folder)`` with a transformer of one layer."""
    path = folder / "corpus.jsonl"
    if not path.exists():
        corpus(folder)
    sizes = "num_hidden_layers: 1, hidden_size: 16, num_attention_heads: 2, intermediate_size: 32"
    return [
        "encoder=roberta-mini",
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


def run(folder: Path, *more: str) -> Path:
    """Trains in this process; returns the run's folder."""
    return experiment.run(compose.check(overrides(folder, *more)))


def metrics(run_folder: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (run_folder / "metrics.jsonl").read_text().splitlines()]
