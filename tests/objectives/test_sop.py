"""SOP: adjacent segments of a document, in order or swapped; refusal of encoders that ignore word order."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from data.errors import UnfitError
from data.randomness import generator
from objectives.sop import SOP
from tests.objectives.test_nsp import build_corpus
from tests.tiny_encoder import TinyEncoder


def test_pairs_are_neighbours_in_order_or_swapped(tmp_path: Path) -> None:
    corpus, objective = build_corpus(tmp_path), SOP(max_length=24)
    [data] = objective.task_data(corpus).values()
    # Of the eight sentences of a document, all but the last can start a pair.
    assert len(data.train.indices) + len(data.dev.indices) == 240 * 7 / 8
    lengths, in_order = [], []
    for i in (*data.train.indices.tolist(), *data.dev.indices.tolist()):
        pair = objective.pair(data.units[i], 20, generator(i))
        lengths.append(len(pair.first) + len(pair.second) + 4)  # four special tokens
        first, second = (
            [int(word) for word in corpus.tokenizer.decode(segment).split() if word.isdigit()]
            for segment in (pair.first, pair.second)
        )
        assert len({number // 8 for number in first + second}) == 1  # both from one document
        earlier, later = (first, second) if pair.follows else (second, first)
        assert sorted(earlier + later) == earlier + later
        in_order.append(pair.follows)
    assert max(lengths) <= 24 and 0.4 < np.mean(in_order) < 0.6
    assert objective.mean_length == pytest.approx(np.mean(lengths), rel=0.07)


def test_it_requires_word_order() -> None:
    encoder = TinyEncoder()
    encoder.reads_order = False
    assert SOP().requirements.word_order
    with pytest.raises(UnfitError):
        SOP().check_encoder(encoder)
