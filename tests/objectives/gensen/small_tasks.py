"""Small tasks of GenSen, and random units for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from data.batch import Batch
from data.pairs import PairUnit
from data.randomness import generator
from data.sources.samples import Samples
from data.views.neighbours import NeighbourUnit
from objectives.gensen.base import GenSenTask, Sizes
from objectives.gensen.nli import NLI
from tests.tiny_encoder import FORMAT, TinyEncoder

VOCABULARY_SIZE = 12
SIZES = Sizes(
    batch_size=6,
    max_length=90,
    vocab_size=100,
    min_count=1,
    word_size=5,
    hidden=4,
    dropout=0.0,
    classifier_width=7,
)


def nli_task(sizes: Sizes = SIZES) -> NLI:
    return NLI("nli", sizes, Samples(kind="nli", pairs=3))


def build(task: GenSenTask, dropout: float = 0.0) -> tuple[Any, TinyEncoder]:
    torch.manual_seed(0)
    encoder = TinyEncoder(dropout=dropout).double()
    task.tokenizer = range(VOCABULARY_SIZE)  # only its length is used
    task.build(encoder)
    return task.double(), encoder


def tokens(rng: np.random.Generator, high: int = VOCABULARY_SIZE) -> np.ndarray:
    return rng.integers(5, high, size=rng.integers(1, 9)).astype(np.uint16)


def neighbour_units(count: int = 6, neighbours: int = 2) -> list[NeighbourUnit]:
    rng = np.random.default_rng(1)
    return [NeighbourUnit(tokens(rng, 30), tuple(tokens(rng) for _ in range(neighbours))) for _ in range(count)]


def nli_pairs(count: int = 6) -> list[PairUnit]:
    rng = np.random.default_rng(2)
    return [PairUnit((tokens(rng, 30), tokens(rng, 30)), np.array([i % 3], np.uint8)) for i in range(count)]


def batch_of(task: GenSenTask, units: list[Any], rows: slice = slice(None)) -> Batch:
    examples = [task.sample(unit, FORMAT, generator(i)) for i, unit in enumerate(units)]
    return task.collate(examples[rows], FORMAT)
