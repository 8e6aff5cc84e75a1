"""Sequence tasks: truncation, vocabularies, the loss against a loop, and the units of each task."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from data.batch import Tokens
from data.pairs import PairUnit
from data.randomness import generator
from data.tokenizer import END, START, train_bpe
from data.views.neighbours import NeighbourUnit
from data.vocabulary import train_word_level
from objectives.base import VOCABULARY_ID
from objectives.gensen.sequences import PairTask, SkipThought
from tests.objectives.gensen.small_tasks import SIZES, batch_of, build, neighbour_units
from tests.objectives.gensen.test_objective import LINES, build_corpus, folder, gru, small_gensen, word_tokenizer
from tests.tiny_encoder import FORMAT

__all__ = ["folder"]


def test_source_and_targets_are_cut_at_90_with_start_and_end_tokens() -> None:
    task, wide_format = SkipThought(["stn", "stp"], SIZES), replace(FORMAT, max_length=500)
    tokens = np.resize(np.arange(5, 12), 300).astype(np.uint16)
    example = task.sample(NeighbourUnit(tokens, (tokens, tokens[:88])), wide_format, generator(0))
    assert [len(example.source), *map(len, example.targets)] == [90, 90, 90]
    assert example.source.tolist() == [0, *tokens[:88].tolist(), 2]
    for target in example.targets:
        assert target.tolist() == [START, *tokens[:88].tolist(), END] and target.dtype == np.int64
    limited = task.sample(NeighbourUnit(tokens, (tokens[:3], tokens[:0])), FORMAT, generator(0))
    assert len(limited.source) == FORMAT.max_length  # the encoder's limit
    assert [target.tolist() for target in limited.targets] == [[START, 5, 6, 7, END], [START, END]]


def test_the_vocabulary_id_depends_on_a_decoders_words(tmp_path: Path) -> None:
    ids = []
    for french in ("un deux", "deux un", "un deux"):
        (tmp_path / "a.tsv").write_text("".join(f"{line}\t{french} {french.split()[0]}\n" for line in LINES))
        objective = small_gensen(tasks=["fr"], fr={"tsv": str(tmp_path / "a.tsv")})
        objective.task_data(build_corpus(tmp_path))
        objective.build(gru(tmp_path))
        ids.append(int(objective.state_dict()[f"heads.fr.{VOCABULARY_ID}"]))
        assert len(objective.tasks["fr"].tokenizer) == 7
    assert ids[0] != ids[1] and ids[0] == ids[2]


def test_a_sequence_loss_is_the_mean_over_real_target_tokens() -> None:
    task, encoder = build(SkipThought(["stn", "stp"], SIZES))
    units = neighbour_units()
    loss = task.loss(encoder, batch_of(task, units))
    expected: dict[str, Tensor] = {}
    for number, part in enumerate(("stn", "stp")):
        terms = []
        for unit in units:
            source = Tokens.pad([np.concatenate([[0], unit.sentence, [2]])], 1)
            state = task.decoders[part].start(vector := encoder(source).sentence)
            inputs, outputs = [START, *unit.neighbours[number]], [*unit.neighbours[number], END]
            for token, following in zip(inputs, outputs, strict=True):
                state = gru_step(task.decoders[part], int(token), vector, state)
                terms.append(-task.decoders[part].output(state)[0].log_softmax(0)[int(following)])
        expected[part] = torch.stack(terms).mean()
        assert int(loss.counts[part]) == len(terms)
        torch.testing.assert_close(loss.parts[part], expected[part].detach())
    torch.testing.assert_close(loss.total, expected["stn"] + expected["stp"])
    weights = [*encoder.parameters(), *task.parameters()]
    gradients = torch.autograd.grad(loss.total, weights, allow_unused=True, retain_graph=True)
    expected_gradients = torch.autograd.grad(expected["stn"] + expected["stp"], weights, allow_unused=True)
    for gradient, expected_gradient in zip(gradients, expected_gradients, strict=True):
        assert (gradient is None) == (expected_gradient is None)
        assert gradient is None or torch.allclose(gradient, expected_gradient, atol=1e-10)


def gru_step(decoder: Any, token: int, vector: Tensor, state: Tensor) -> Tensor:
    word, kept = decoder.of_word(decoder.embedding.weight[[token]]), decoder.of_state(state)
    (i_r, i_z, i_n), (h_r, h_z, h_n) = word.chunk(3, 1), kept.chunk(3, 1)
    c_r, c_z, c_n = decoder.of_sentence(vector).chunk(3, 1)
    reset, keep = torch.sigmoid(i_r + h_r + c_r), torch.sigmoid(i_z + h_z + c_z)
    return (1 - keep) * torch.tanh(i_n + reset * h_n + c_n) + keep * state


# Skip-thought, translation and parsing


def test_skip_thought_predicts_the_sentences_of_the_corpus(folder: Path) -> None:
    numbers = {" ".join(line.lower().split()): i for i, line in enumerate(LINES)}
    bpe = train_bpe(LINES, vocab_size=300)
    for tokenizer in (word_tokenizer(), bpe):
        objective = small_gensen(tasks=["stn", "stp"])
        data = objective.task_data(build_corpus(folder, tokenizer))["skip_thought"]
        task = objective.tasks["skip_thought"]
        for i in (*data.train.indices, *data.dev.indices):
            unit = data.units[int(i)]
            assert str(tokenizer.decode(unit.sentence)).strip().lower() == LINES[i].lower()
            following, previous = (numbers[task.tokenizer.decode(row)] for row in unit.neighbours)
            assert (following, previous) == (i + 1, i - 1)
        assert {int(i) % 4 for i in data.train.indices} == {1, 2}


def test_a_translation_reads_the_source() -> None:
    example = PairTask("fr", ["fr"], SIZES).sample(
        PairUnit((np.array([20, 21]),), np.array([7, 8, 9])), FORMAT, generator(0)
    )
    assert example.source.tolist() == [0, 20, 21, 2]
    assert [target.tolist() for target in example.targets] == [[START, 7, 8, 9, END]]


@pytest.mark.parametrize("name", ["fr", "de", "parse"])
def test_the_decoder_has_the_vocabulary_of_the_targets(name: str, tmp_path: Path) -> None:
    objective = small_gensen(tasks=[name], vocab_size=40)
    objective.task_data(build_corpus(tmp_path))
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
