"""GenSen's tasks: examples, data of their own, losses against loops, several processes, baselines."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from data.batch import Batch, Tokens
from data.errors import UserError
from data.pairs import PairUnit
from data.randomness import generator
from data.tokenizer import END, START
from data.views.neighbours import NeighbourUnit
from objectives.base import MARK, Loss
from objectives.gensen.base import GenSenTask, Sizes, surprisals
from objectives.gensen.nli import NLI, features
from objectives.gensen.skip_thought import SkipThought
from objectives.gensen.translation import Translation
from tests.objectives.test_gensen import LINES, corpus, gru, small
from tests.objectives.two_processes import Found, backward, check
from tests.tiny import FORMAT, TinyEncoder

WORDS = 12
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


def built(task: GenSenTask, dropout: float = 0.0) -> tuple[Any, TinyEncoder]:
    torch.manual_seed(0)
    encoder = TinyEncoder(dropout=dropout).double()
    task.tokenizer = range(WORDS)  # of which only the size counts
    task.build(encoder)
    return task.double(), encoder


def row(rng: np.random.Generator, high: int = WORDS) -> np.ndarray:
    return rng.integers(5, high, size=rng.integers(1, 9)).astype(np.uint16)


def neighbours(count: int = 6, offsets: int = 2) -> list[NeighbourUnit]:
    rng = np.random.default_rng(1)
    return [NeighbourUnit(row(rng, 30), tuple(row(rng) for _ in range(offsets))) for _ in range(count)]


def pairs(count: int = 6) -> list[PairUnit]:
    rng = np.random.default_rng(2)
    return [PairUnit((row(rng, 30), row(rng, 30)), np.array([i % 3], np.uint8)) for i in range(count)]


def collated(task: GenSenTask, units: list[Any], rows: slice = slice(None)) -> Batch:
    drawn = [task.draw(unit, FORMAT, generator(i)) for i, unit in enumerate(units)]
    return task.collate(drawn[rows], FORMAT)


# Examples


def test_source_and_targets_are_cut_at_90_with_what_begins_and_ends_them() -> None:
    task, wide = SkipThought(["stn", "stp"], SIZES), replace(FORMAT, max_length=500)
    long = np.resize(np.arange(5, 12), 300).astype(np.uint16)
    drawn = task.draw(NeighbourUnit(long, (long, long[:88])), wide, generator(0))
    assert [len(drawn.source), *map(len, drawn.targets)] == [90, 90, 90]
    assert drawn.source.tolist() == [0, *long[:88].tolist(), 2]
    for target in drawn.targets:
        assert target.tolist() == [START, *long[:88].tolist(), END] and target.dtype == np.int64
    short = task.draw(NeighbourUnit(long, (long[:3], long[:0])), FORMAT, generator(0))
    assert len(short.source) == FORMAT.max_length  # of the encoder
    assert [target.tolist() for target in short.targets] == [[START, 5, 6, 7, END], [START, END]]


def test_inference_is_not_cut() -> None:
    long = np.resize(np.arange(5, 12), 300)
    wide = replace(FORMAT, max_length=500)
    example = NLI(None, 3, SIZES).draw(PairUnit((long, long[:4]), np.array([2])), wide, generator(0))
    assert (len(example.premise), len(example.hypothesis), example.label) == (302, 6, 2)


def test_a_translation_reads_the_source() -> None:
    drawn = Translation("fr", None, 3, SIZES).draw(
        PairUnit((np.array([20, 21]),), np.array([7, 8, 9])), FORMAT, generator(0)
    )
    assert drawn.source.tolist() == [0, 20, 21, 2]
    assert [target.tolist() for target in drawn.targets] == [[START, 7, 8, 9, END]]


# Data of their own


def test_a_mark_names_the_words_of_a_decoder(tmp_path: Path) -> None:
    marks = []
    for french in ("un deux", "deux un", "un deux"):
        (tmp_path / "a.tsv").write_text("".join(f"{line}\t{french} {french.split()[0]}\n" for line in LINES))
        objective = small(tasks=["fr"], fr={"tsv": str(tmp_path / "a.tsv")})
        objective.materials(corpus(tmp_path))
        objective.build(gru(tmp_path))
        marks.append(int(objective.state_dict()[f"heads.fr.{MARK}"]))
        assert len(objective.tasks["fr"].tokenizer) == 7
    assert marks[0] != marks[1] and marks[0] == marks[2]


def test_problems_of_data_name_the_key_and_the_task(tmp_path: Path) -> None:
    (tmp_path / "a.en").write_text("one\ntwo\n")
    (tmp_path / "a.fr").write_text("un\n")
    files = {"source": str(tmp_path / "a.en"), "target": str(tmp_path / "a.fr")}
    with pytest.raises(UserError, match=r"^objective\.fr: /.*/a\.en has 2 lines and /.*/a\.fr has 1: they"):
        list(small(tasks=["fr"], fr=files).texts())
    (tmp_path / "a.fr").write_text("un\ndeux\n")
    objective = small(tasks=["fr"], fr=files | {"dev_fraction": 0.0})
    with pytest.raises(UserError, match=r"^objective\.fr: The dev part of parallel is empty: objective\.fr\.dev_"):
        objective.materials(corpus(tmp_path))
    with pytest.raises(UserError) as error:
        small(tasks=["fr"], synthetic_pairs=1).materials(corpus(tmp_path))
    assert str(error.value) == (
        "objective.fr: None of the 1 pairs of samples is in the dev part: raise objective.synthetic_pairs."
    )
    assert small(tasks=["fr"], fr=files).tasks["fr"].setting == "objective.fr"
    assert [task.setting for task in small(tasks=["stn", "fr"]).tasks.values()] == [
        "corpus",
        "objective.synthetic_pairs",
    ]


# Losses


def test_a_sequence_loss_is_the_mean_over_real_target_tokens() -> None:
    task, encoder = built(SkipThought(["stn", "stp"], SIZES))
    units = neighbours()
    loss = task.loss(encoder, collated(task, units))
    expected: dict[str, Tensor] = {}
    for number, part in enumerate(("stn", "stp")):
        terms = []
        for unit in units:
            source = Tokens.pad([np.concatenate([[0], unit.sentence, [2]])], 1)
            state = task.decoders[part].start(vector := encoder(source).sentence)
            given, wanted = [START, *unit.neighbours[number]], [*unit.neighbours[number], END]
            for token, following in zip(given, wanted, strict=True):
                state = step(task.decoders[part], int(token), vector, state)
                terms.append(-task.decoders[part].output(state)[0].log_softmax(0)[int(following)])
        expected[part] = torch.stack(terms).mean()
        assert int(loss.counts[part]) == len(terms)
        torch.testing.assert_close(loss.parts[part], expected[part].detach())
    torch.testing.assert_close(loss.total, expected["stn"] + expected["stp"])
    weights = [*encoder.parameters(), *task.parameters()]
    ours = torch.autograd.grad(loss.total, weights, allow_unused=True, retain_graph=True)
    theirs = torch.autograd.grad(expected["stn"] + expected["stp"], weights, allow_unused=True)
    for one, other in zip(ours, theirs, strict=True):
        assert (one is None) == (other is None)
        assert one is None or torch.allclose(one, other, atol=1e-10)


def step(decoder: Any, token: int, vector: Tensor, state: Tensor) -> Tensor:
    word, kept = decoder.of_word(decoder.embedding.weight[[token]]), decoder.of_state(state)
    (i_r, i_z, i_n), (h_r, h_z, h_n) = word.chunk(3, 1), kept.chunk(3, 1)
    c_r, c_z, c_n = decoder.of_sentence(vector).chunk(3, 1)
    reset, keep = torch.sigmoid(i_r + h_r + c_r), torch.sigmoid(i_z + h_z + c_z)
    return (1 - keep) * torch.tanh(i_n + reset * h_n + c_n) + keep * state


def test_inference_loss_is_that_of_a_loop() -> None:
    task, encoder = built(NLI(None, 3, SIZES))
    units = pairs()
    loss = task.loss(encoder, collated(task, units))
    terms, right = [], []
    _, first, _, second = task.classifier
    for unit in units:
        u, v = (encoder(Tokens.pad([np.concatenate([[0], side, [2]])], 1)).sentence[0] for side in unit.sources)
        seen = torch.cat([u, v, (u - v).abs(), u * v])
        scores = second.weight @ torch.relu(first.weight @ seen + first.bias) + second.bias
        terms.append(-scores.log_softmax(0)[int(unit.target[0])])
        right.append(float(int(scores.argmax()) == int(unit.target[0])))
    torch.testing.assert_close(loss.total, torch.stack(terms).mean())
    torch.testing.assert_close(loss.parts["nli"], loss.total.detach())
    assert float(loss.parts["nli_accuracy"]) == pytest.approx(np.mean(right))
    assert first.weight.shape == (7, 4 * encoder.dimension)


def test_features() -> None:
    u, v = torch.tensor([[1.0, -2.0]]), torch.tensor([[3.0, 4.0]])
    assert features(u, v).tolist() == [[1.0, -2.0, 3.0, 4.0, 2.0, 6.0, 3.0, -8.0]]


def test_dropout_is_on_in_training_alone() -> None:
    sizes = replace(SIZES, dropout=0.5)
    for task, units in ((SkipThought(["stn"], sizes), neighbours(offsets=1)), (NLI(None, 3, sizes), pairs())):
        task, encoder = built(task)
        batch = collated(task, units)
        values = [float(task.loss(encoder, batch).total.detach()) for _ in range(2)]
        assert values[0] != values[1]
        task.eval()
        values = [float(task.loss(encoder, batch).total.detach()) for _ in range(2)]
        assert values[0] == values[1]


@pytest.mark.parametrize("kind", ["skip_thought", "nli"])
def test_half_precision(kind: str) -> None:
    task, units = tasks()[kind]
    task, encoder = built(task)
    task, encoder = task.float(), encoder.float()
    batch = collated(task, units)
    exact = task.loss(encoder, batch).total
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = task.loss(encoder, batch)
    loss.total.backward()
    assert loss.total.dtype == torch.float32
    torch.testing.assert_close(loss.total, exact, rtol=0.02, atol=0.0)


# Several processes


def tasks() -> dict[str, tuple[GenSenTask, list[Any]]]:
    return {
        "skip_thought": (SkipThought(["stn", "stp"], SIZES), neighbours()),
        "nli": (NLI(None, 3, SIZES), pairs()),
    }


def gradients(rank: int, world: int) -> Found:
    results = {}
    for kind, (task, units) in tasks().items():
        task, encoder = built(task)
        share = len(units) // world
        loss: Loss = task.loss(encoder, collated(task, units, slice(rank * share, (rank + 1) * share)))
        counts = {f"count {name}": value for name, value in loss.counts.items()}
        results[kind] = backward(loss, world, encoder, task) | counts
    return results


def test_two_processes_give_the_gradient_of_one(tmp_path: Path) -> None:
    check(gradients, tmp_path)


# Baselines


def test_surprisals_by_hand() -> None:
    units = [np.array([5, 5, 6]), np.array([5])]
    # Counts of 5, 6 and END (2): 3, 1, 2; one is added to each of 8.
    expected = -np.log(np.array([1, 1, 3, 1, 1, 4, 2, 1]) / 14)
    np.testing.assert_allclose(surprisals(units.__getitem__, np.array([0, 1]), 8, 2), expected, rtol=1e-6)
    classes = [np.array([0]), np.array([1])]
    found = surprisals(classes.__getitem__, np.array([0, 1]), 3)
    np.testing.assert_allclose(found, -np.log(np.array([2, 2, 1]) / 5), rtol=1e-6)
