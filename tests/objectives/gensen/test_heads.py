"""GenSen's heads: truncation, vocabularies, and losses against loops over rows."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from data.batch import Tokens
from data.errors import UserError
from data.randomness import generator
from data.sources.samples import Samples
from data.store import Pair
from data.tokenizer import END, START, train_words
from data.views.neighbours import NeighbourUnit
from objectives.gensen.heads import Decoders, PairClassifier, Sizes, surprisals
from tests.objectives.gensen.test_objective import LINES, build_corpus, gru, small_gensen, word_tokenizer
from tests.objectives.gradients import sample_batch
from tests.objectives.test_decoder import step
from tests.tiny_encoder import FORMAT, TinyEncoder

SIZES = Sizes(
    batch_size=6, max_length=90, vocab_size=99, min_count=1, word_size=5, hidden=4, dropout=0.0, classifier_width=7
)  # fmt: skip


def build(head: Any, form: str = "gensen") -> tuple[Any, TinyEncoder]:
    torch.manual_seed(0)
    head.tokenizer, head.form = word_tokenizer(), form
    encoder = TinyEncoder().double()
    head.build(encoder)
    return head.double(), encoder


def rows(count: int, seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.integers(5, 30, size=rng.integers(1, 9)).astype(np.uint16) for _ in range(count)]


def test_source_and_targets_are_cut_at_90_with_start_and_end_tokens() -> None:
    head, wide_format = Decoders("skip_thought", ("stn", "stp"), SIZES, None), replace(FORMAT, max_length=500)
    tokens = np.resize(np.arange(5, 12), 300).astype(np.uint16)
    example = head.sample(NeighbourUnit(tokens, (tokens, tokens[:88])), wide_format, generator(0))
    assert len(example.rows["source"][0]) == 90
    for part in ("stn", "stp"):
        assert example.rows[part][0].tolist() == [START, *tokens[:88].tolist(), END]
    pairs = Decoders("fr", ("fr",), SIZES, None)
    [source], [target] = pairs.sample(Pair(tokens, tokens[:3], -1), FORMAT, generator(0)).rows.values()
    assert len(source) == FORMAT.max_length  # the encoder's limit
    assert target.tolist() == [START, 5, 6, 7, END]


def test_the_loss_of_decoders_is_the_mean_over_real_target_tokens() -> None:
    head, encoder = build(Decoders("skip_thought", ("stn", "stp"), SIZES, None))
    units = [
        NeighbourUnit(*each) for each in zip(rows(6, 1), zip(rows(6, 2), rows(6, 3), strict=True), strict=True)
    ]
    loss = head.loss(encoder, sample_batch(head, units))
    expected: dict[str, Tensor] = {}
    for number, part in enumerate(("stn", "stp")):
        terms, decoder = [], head.decoders[part]
        for unit in units:
            [vector] = encoder(Tokens.pad([FORMAT.wrap(unit.sentence)], 1)).sentence
            state = decoder.start(vector)
            for token, following in pairwise([START, *unit.neighbours[number].tolist(), END]):
                state = step(decoder, token, vector, state)
                terms.append(-decoder.output(state).log_softmax(0)[following])
        expected[part] = torch.stack(terms).mean()
        assert int(loss.counts[part]) == len(terms)
        torch.testing.assert_close(loss.parts[part], expected[part].detach())
    torch.testing.assert_close(loss.total, expected["stn"] + expected["stp"])


@pytest.mark.parametrize(
    ("form", "shapes"),
    [
        ("gensen", [(7, 24), (3, 7)]),
        ("infersent", [(7, 24), (7, 7), (3, 7)]),
        ("sentence_bert", [(3, 18)]),
    ],
)
def test_the_loss_of_pairs_equals_the_equations(form: str, shapes: list[tuple[int, int]]) -> None:
    head, encoder = build(
        PairClassifier("nli", ("nli", "nli_accuracy"), SIZES, Samples(kind="nli", pairs=3)), form
    )
    units = [
        Pair(first, second, i % 3) for i, (first, second) in enumerate(zip(rows(6, 1), rows(6, 2), strict=True))
    ]
    layers = [layer for layer in head.classifier.modules() if isinstance(layer, nn.Linear)]
    assert [tuple(layer.weight.shape) for layer in layers] == shapes
    terms, correct = [], []
    for unit in units:
        rows_of_pair = (FORMAT.wrap(ids) for ids in (unit.first, unit.second))  # not cut
        u, v = (encoder(Tokens.pad([row], 1)).sentence[0] for row in rows_of_pair)
        values = torch.cat([u, v, (u - v).abs(), *([u * v] if form != "sentence_bert" else [])])
        for number, layer in enumerate(layers):
            values = layer.weight @ (values.relu() if form == "gensen" and number else values) + layer.bias
        terms.append(-values.log_softmax(0)[unit.label])
        correct.append(int(values.argmax()) == unit.label)
    loss = head.loss(encoder, sample_batch(head, units))
    torch.testing.assert_close(loss.total, torch.stack(terms).mean())
    assert float(loss.parts["nli_accuracy"]) == pytest.approx(np.mean(correct))


def test_surprisals_by_hand() -> None:
    np.testing.assert_allclose(surprisals(np.array([0, 3, 1])), -np.log(np.array([1, 4, 2]) / 7), rtol=1e-6)


@pytest.mark.parametrize("name", ["skip_thought", "fr", "parse"])
def test_the_decoders_have_the_vocabulary_of_the_targets(name: str, tmp_path: Path) -> None:
    objective, corpus = (
        small_gensen(tasks=["stn"] if name == "skip_thought" else [name], vocab_size=40),
        build_corpus(tmp_path),
    )
    data = objective.task_data(corpus)[name]
    objective.build(gru())
    head, symbols = objective.tasks[name], name == "parse"
    texts = corpus.source.texts(0) if name == "skip_thought" else head.source.texts(1)
    expected = train_words(texts, vocab_size=40, min_count=1, lowercase=not symbols, symbols=symbols)
    assert head.tokenizer.get_vocab() == expected.get_vocab()
    [decoder] = head.decoders.values()
    assert len(expected) <= 40 and decoder.output.out_features == len(expected)
    counts = np.ones(len(expected))
    for i in data.train.indices:
        unit = data.units[int(i)]
        source, [target] = unit if name == "skip_thought" else (unit.first, [unit.second])
        np.add.at(counts, [*target[:88], END], 1)
        assert data.lengths is not None and data.lengths[i] == len(source) + len(target[:88])
    np.testing.assert_allclose(next(iter(head.surprisals.values())), -np.log(counts / counts.sum()), rtol=1e-5)


def test_skip_thought_predicts_the_sentences_of_the_corpus(tmp_path: Path) -> None:
    numbers = {" ".join(line.lower().split()): i for i, line in enumerate(LINES)}
    objective = small_gensen(tasks=["stn", "stp"])
    data, head = objective.task_data(build_corpus(tmp_path))["skip_thought"], objective.tasks["skip_thought"]
    for i in (*data.train.indices, *data.dev.indices):
        unit = data.units[int(i)]
        assert str(word_tokenizer().decode(unit.sentence)).strip().lower() == LINES[i].lower()
        following, previous = (numbers[head.tokenizer.decode(row)] for row in unit.neighbours)
        assert (following, previous) == (i + 1, i - 1)
    assert {int(i) % 4 for i in data.train.indices} == {1, 2}


def test_extra_state_is_the_vocabulary(tmp_path: Path) -> None:
    states = []
    for french in ("un deux", "deux un", "un deux"):
        (tmp_path / "a.tsv").write_text("".join(f"{line}\t{french} {french.split()[0]}\n" for line in LINES))
        objective = small_gensen(tasks=["fr"], fr={"tsv": str(tmp_path / "a.tsv")})
        objective.task_data(build_corpus(tmp_path))
        objective.build(gru())
        states.append(objective.state_dict())
    key = "heads.fr._extra_state"
    assert states[0][key] != states[1][key] and states[0][key] == states[2][key]
    objective.load_state_dict(states[0])
    with pytest.raises(ValueError):
        objective.load_state_dict(states[1])


def test_data_errors_name_the_key_of_the_task(tmp_path: Path) -> None:
    for name, text in (("en", "one\ntwo\n"), ("fr", "un\ndeux\n")):
        (tmp_path / f"a.{name}").write_text(text)
    files = {"source": str(tmp_path / "a.en"), "target": str(tmp_path / "a.fr"), "dev_fraction": 0.0}
    for arguments, key in (
        ({"fr": files}, "fr"),
        ({"synthetic_pairs": 1}, "synthetic_pairs"),
        ({"min_count": 9999}, "min_count"),
    ):
        with pytest.raises(UserError) as error:
            small_gensen(tasks=["fr"], **arguments).task_data(build_corpus(tmp_path))
        assert error.value.key == f"objective.{key}"
