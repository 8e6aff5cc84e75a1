"""Skip-thought: the neighbours that are predicted, under the encoder's and the decoder's vocabulary."""

from __future__ import annotations

from pathlib import Path

from data.tokenizer import train_bpe
from tests.objectives.gensen.test_objective import LINES, corpus, folder, small, words

__all__ = ["folder"]


def test_skip_thought_predicts_the_sentences_of_the_corpus(folder: Path) -> None:
    read = {" ".join(line.lower().split()): i for i, line in enumerate(LINES)}
    bpe = train_bpe(LINES, vocab_size=300)
    for tokenizer in (words(), bpe):
        objective = small(tasks=["stn", "stp"])
        data = objective.task_data(corpus(folder, tokenizer))["skip_thought"]
        task = objective.tasks["skip_thought"]
        for i in (*data.train.indices, *data.dev.indices):
            unit = data.units[int(i)]
            assert str(tokenizer.decode(unit.sentence)).strip().lower() == LINES[i].lower()
            following, previous = (read[task.tokenizer.decode(row)] for row in unit.neighbours)
            assert (following, previous) == (i + 1, i - 1)
        assert {int(i) % 4 for i in data.train.indices} == {1, 2}
