"""Translation and parsing: examples, vocabularies, sources."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from data.pairs import PairUnit
from data.randomness import generator
from data.tokenizer import END, START
from data.vocabulary import train_word_level
from objectives.gensen.pairs import SOURCES, PairTask
from tests.objectives.gensen.small_tasks import SIZES
from tests.objectives.gensen.test_objective import corpus, gru, small
from tests.tiny import FORMAT


def test_a_translation_reads_the_source() -> None:
    drawn = PairTask("fr", None, 3, SIZES).sample(
        PairUnit((np.array([20, 21]),), np.array([7, 8, 9])), FORMAT, generator(0)
    )
    assert drawn.source.tolist() == [0, 20, 21, 2]
    assert [target.tolist() for target in drawn.targets] == [[START, 7, 8, 9, END]]


@pytest.mark.parametrize("name", SOURCES)
def test_the_decoder_has_the_vocabulary_of_the_targets(name: str, tmp_path: Path) -> None:
    objective = small(tasks=[name], vocab_size=40)
    objective.task_data(corpus(tmp_path))
    objective.build(gru(tmp_path))
    task = objective.tasks[name]
    assert isinstance(task, PairTask)
    symbols = name == "parse"
    expected = train_word_level(
        task.source.target_texts(),
        vocab_size=40,
        min_count=1,
        lowercase=not symbols,
        symbols=symbols,
        max_length=90,
    )
    assert task.tokenizer.get_vocab() == expected.get_vocab()
    assert len(expected) <= 40 and task.decoders[name].output.out_features == len(expected)
