"""Example comparison of two objectives and two encoders, of which one pair is impossible and one failed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from analysis.comparison import geometry, marking, reading
from analysis.comparison.marking import Block
from analysis.comparison.page import Page
from analysis.comparison.reading import Run
from analysis.comparison.views import ObjectiveView, TaskView
from data.batch import IGNORE, Tokens
from tests.analysis import runs_on_disk

TEXT = "the cat sat on a mat while dogs ran <away> & birds sang of it"
WORDS = ["<s>", "</s>", "<mask>", *TEXT.split()]
START, END, MASK = range(3)
SPECIAL = frozenset({START, END})
NASTY = '</script><b onload="x">&'  # in every text that comes from outside


def texts_of(ids: Sequence[int]) -> list[str]:
    return [f" {WORDS[i]}" for i in ids]


def tokens(*rows: Sequence[int] | np.ndarray, labels: Sequence[Sequence[int]] | None = None) -> Block:
    """Returns a block of rows, each between START and END."""
    wrapped = [np.array([START, *row, END]) for row in rows]
    hidden = None if labels is None else [np.array([IGNORE, *row, IGNORE]) for row in labels]
    return Block(Tokens.pad(wrapped, 1, labels=hidden), texts_of, SPECIAL, MASK)


def run(folder: Path, objective: str, encoder: str, seed: int = 1, **changed: float | None) -> Run:
    """Writes and reads a finished run with ``changed`` scores."""
    path = runs_on_disk.write(folder / f"{objective}-{encoder}-{seed}")
    names = {"objective": objective, "encoder": encoder, "corpus": "pydocs", "budget": "teaching"}
    (path / "config.yaml").write_text(yaml.safe_dump({"names": names, "seed": seed, "weights": "random"}))
    quick = json.loads((path / "quick.json").read_text())
    quick["trained"] |= changed
    quick["chance"] = {"dev_contrastive": 4.0}
    quick["facts"] = {"negatives per anchor": 62, "task": NASTY}
    (path / "quick.json").write_text(json.dumps(quick))
    about = {"python": "3.11", "packages": {"torch": "2.13.0"}, "device": "cpu", "threads": 2, "commit": None}
    (path / "environment.json").write_text(json.dumps(about))
    command = f"python experiments/run.py objective={objective} encoder={encoder} seed={seed}"
    return reading.read(objective, encoder, seed, command, path)


def texts(count: int = 14, sentences: int = 60) -> list[str]:
    """Returns documents whose sentences mix words of their own document with words that all share."""
    rng = np.random.default_rng(0)
    documents = []
    for document in range(count):
        lines = []
        for number in range(sentences):
            own = [f"word{document}x{i}" for i in rng.integers(0, 30, rng.integers(4, 12))]
            lines.append(f"Sentence {number} of {document} says {' '.join(own)} {NASTY}.")
        documents.append(" ".join(lines))
    return documents


class Hashing:
    """Encoder whose vectors are means of random word vectors."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def encode(self, sentences: Sequence[str]) -> np.ndarray:
        vectors: dict[str, np.ndarray] = {}
        rows = []
        for sentence in sentences:
            for word in sentence.split():
                if word not in vectors:
                    rng = np.random.default_rng([self.seed, *word.encode()])
                    vectors[word] = rng.normal(size=12)
            rows.append(np.mean([vectors[word] for word in sentence.split()], axis=0))
        return np.array(rows, dtype=np.float32)


def views() -> tuple[ObjectiveView, ...]:
    document = np.arange(3, len(WORDS))
    span = document[2:8].tolist()
    hidden = [MASK if i == 1 else token for i, token in enumerate(span)]
    labels = [token if i == 1 else IGNORE for i, token in enumerate(span)]
    roles = {"anchor": tokens(hidden, labels=[labels]), "positive": tokens(document[5:9], document[9:12])}
    spans = marking.view(document, roles, {})
    swapped = [*document[:3], document[5], document[4], document[3], *document[6:9]]
    permuted = marking.view(document[:9], {"sequence": tokens(swapped)}, {"consistent": "0"})
    return (
        ObjectiveView(
            "declutr",
            f"Spans {NASTY}",
            f"L = a + b {NASTY}",
            "gru",
            (TaskView("", "held-out document", (spans,)),),
        ),
        ObjectiveView("conssent", "Perturbed", "", "gru", (TaskView("P", "held-out sentence", (permuted,)),)),
    )


def comparison(folder: Path, **changed: Any) -> Page:
    """Returns a page of two pairs with two seeds each, an impossible pair and a failed one."""
    runs = [
        *(run(folder, "declutr", "gru", seed, **{"recall@1": 20.0 + seed}) for seed in (1, 2)),
        Run("declutr", "bag_of_words", 1, "python a", possible=False, problem=f"It has no mask token {NASTY}."),
        *(run(folder, "conssent", "gru", seed, **{"recall@1": 10.0 + seed}) for seed in (1, 2)),
        Run("conssent", "bag_of_words", 1, "python b", problem="killed by signal 9 (out of memory?)"),
    ]
    sample = geometry.sample(texts(), size=120)
    geometry_of_runs = {
        run.name: geometry.embed(Hashing(number), sample) for number, run in enumerate(reading.leading(runs))
    }
    defaults: dict[str, Any] = {
        "objectives": ("declutr", "conssent"),
        "encoders": ("gru", "bag_of_words"),
        "budget": "teaching",
        "equal": "All runs read equally many tokens, 20,000 each.",
        "command": f"python experiments/compare.py '{NASTY}'",
        "runs": tuple(runs),
        "views": views(),
        "sample": sample,
        "geometry": geometry_of_runs,
    }
    return Page(**defaults | changed)
