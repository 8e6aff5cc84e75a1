"""GenSen: schedule of the tasks, origin of their data, refusals."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from data.errors import UserError
from data.randomness import generator
from data.sentences import Sentences
from data.store import prepare
from data.tokenizer import train_words
from encoders.gru import GRU
from objectives.base import Corpus
from objectives.gensen.objective import GenSen
from tests.data.samples import Document, Listed

SMALL = {"batch_size": 4, "min_count": 1, "word_size": 6, "classifier_width": 5, "synthetic_pairs": 150}
LETTERS = [(a, b) for a in "abcdefgh" for b in "stuvwxyz"]
LINES = [f"The {a} {b} goes home ." for a, b in generator(0).permutation(LETTERS).tolist()]


def small_gensen(**arguments: Any) -> GenSen:
    return GenSen(**{**SMALL, **arguments})


def source() -> Listed:
    return Listed([Document("\n\n".join(LINES[4 * i : 4 * i + 4])) for i in range(16)], dev_fraction=0.3)


@cache
def word_tokenizer() -> Any:
    texts = [*LINES, *small_gensen().texts()]
    return train_words(texts, vocab_size=2000, min_count=1, lowercase=True)


def build_corpus(folder: Path) -> Corpus:
    tokenizer, sentences = word_tokenizer(), Sentences(min_words=1, unique=False)
    return Corpus(source(), prepare(source(), tokenizer, cache=folder, sentences=sentences), tokenizer, folder)


def gru() -> GRU:
    torch.manual_seed(0)
    return GRU(hidden=4, word_size=5, tokenizer=word_tokenizer())


# Schedule


def test_nli_comes_after_every_ten_other_steps() -> None:
    objective = small_gensen()
    names = [objective.task_at(step, 3) for step in range(2200)]
    assert [step for step, name in enumerate(names) if name == "nli"] == list(range(10, 2200, 11))
    counts = Counter(names)
    for name in ("skip_thought", "fr", "de", "parse"):
        assert counts[name] == pytest.approx(500, abs=80)  # about four standard deviations


def test_alpha_sets_the_share_of_each_task() -> None:
    objective = small_gensen(tasks=["stn", "fr", "de"], alpha={"de": 6, "skip_thought": 1, "fr": 1})
    counts = Counter(objective.task_at(step, 0) for step in range(2000))
    assert counts["de"] == pytest.approx(1500, abs=80) and counts["fr"] == pytest.approx(250, abs=60)
    assert objective.shares == {
        "skip_thought": 0.125,
        "fr": 0.125,
        "de": 0.75,
    }


# Data


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"tasks": []}, "tasks"),
        ({"tasks": ["fr", "fr"]}, "tasks"),
        ({"tasks": ["stp", "fr"], "alpha": {"stp": 1, "fr": 1}}, "alpha"),
        ({"tasks": ["fr"], "alpha": {"fr": 0}}, "alpha"),
        ({"fr": {"source": "a.en"}}, "fr.source"),
        ({"nli": {}}, "nli.path"),
        ({"parse": {"gold": "/no/trees.mrg"}}, "parse.gold"),
    ],
    ids=str,
)
def test_settings_that_do_not_fit_are_refused(settings: dict[str, Any], key: str) -> None:
    with pytest.raises(UserError) as error:
        small_gensen(**settings)
    assert error.value.key == f"objective.{key}"
    small_gensen(tasks=["stn"], parse={"gold": "/no/where.mrg"})  # parsing is not among the tasks
