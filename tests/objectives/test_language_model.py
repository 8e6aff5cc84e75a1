"""Language modelling: inputs and targets, the loss against a loop, refused encoders."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from data.batch import IGNORE
from data.errors import UserError
from data.randomness import generator
from encoders.base import Encoder
from encoders.gru import GRU
from encoders.lstm import LSTM
from objectives import language_model
from objectives.language_model import LanguageModel, sees_ahead
from tests.encoders.bilstms import tiny
from tests.objectives.gradients import assert_same_gradient, sample_batch
from tests.tiny_encoder import FORMAT, TinyEncoder

UNITS = [np.array(row, np.uint16) for row in ([5, 6, 7], [8], [9, 5, 5, 10, 11, 6], [7, 7])]


def gru(bidirectional: bool) -> GRU:
    return tiny(GRU, bidirectional=bidirectional)


def build(encoder: Encoder) -> LanguageModel:
    torch.manual_seed(0)
    objective = LanguageModel(batch_size=4)
    objective.build(encoder)
    return objective.double()


def test_each_token_is_followed_by_the_next() -> None:
    unit = UNITS[0]

    def rows(**settings: Any) -> tuple[list[int], list[int]]:
        sample = LanguageModel().sample(unit, replace(FORMAT, **settings), generator(0))
        [tokens], [following] = sample.rows["sentence"], sample.labels["sentence"]
        return tokens.tolist(), following.tolist()

    assert rows() == ([0, 5, 6, 7, 2], [5, 6, 7, 2, IGNORE])
    assert rows(suffix=()) == ([0, 5, 6, 7], [5, 6, 7, 30])
    assert rows(prefix=(), suffix=(), max_length=2) == ([5, 6], [6, 7])
    assert rows(max_length=4) == ([0, 5, 6, 2], [5, 6, 7, IGNORE])


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_loss_and_gradient_equal_a_loop(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(language_model, "CHUNK", 3)
    encoder = (tiny(LSTM) if kind == "lstm" else gru(False)).double()
    objective = build(encoder)
    assert objective.output is not None and objective.output.weight.shape == (len(encoder.tokenizer) + 1, 4)
    batch = sample_batch(objective, UNITS, encoder.format)
    loss = objective.loss(encoder, batch)
    states = encoder(batch.tokens["sentence"]).states
    end = 2 if kind == "gru" else len(encoder.tokenizer)
    terms = []
    for row, unit in enumerate(UNITS):
        for position, word in enumerate([*unit.tolist(), end]):
            scores = objective.output.weight @ states[row, position] + objective.output.bias
            terms.append(-scores.log_softmax(0)[word])
    expected = torch.stack(terms).mean()
    torch.testing.assert_close(loss.parts["lm"], expected.detach())
    assert int(loss.counts["lm"]) == len(terms) == 16
    assert_same_gradient(loss.total, expected, [*encoder.parameters(), *objective.parameters()])
    assert objective.dev_metrics(encoder, [batch])["dev_lm_perplexity"] == pytest.approx(
        float(expected.detach().exp())
    )


def test_encoders_whose_states_depend_on_later_words_are_refused() -> None:
    for encoder in (tiny(LSTM), tiny(LSTM, layers=2), gru(False)):
        encoder.train()
        assert not sees_ahead(encoder) and encoder.training
    bidirectional: list[Any] = [tiny(), gru(True), TinyEncoder()]
    for encoder in bidirectional:
        assert sees_ahead(encoder)
        with pytest.raises(UserError):
            LanguageModel().check_encoder(encoder)
