"""TSDAE: deleted words, the loss against a loop over rows for both decoders."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from data.randomness import generator
from data.tokenizer import END, START
from encoders.base import Encoder
from objectives.decoder import Decoder
from objectives.tied_decoder import TiedDecoder
from objectives.tsdae import TSDAE
from tests.encoders import models
from tests.encoders.bilstms import tiny as bilstm
from tests.objectives.gradients import sample_batch

BATCH = 4


def build(kind: str = "transformer", **arguments: Any) -> tuple[TSDAE, Encoder]:
    torch.manual_seed(0)
    encoder: Encoder = models.tiny(pooling="cls", dropout=0.0) if kind == "transformer" else bilstm()
    objective = TSDAE(**{"batch_size": BATCH, "word_size": 5, "hidden": 7, **arguments})
    objective.build(encoder)
    return objective.double().eval(), encoder.double().eval()


def units(encoder: Encoder) -> list[np.ndarray]:
    rng, size = np.random.default_rng(0), encoder.format.vocab_size
    return [rng.integers(5, size, size=6 + i % 9) for i in range(BATCH)]


@settings(max_examples=30)
@given(st.integers(1, 90), st.integers(0, 1000))
def test_the_input_is_a_subsequence_of_the_target(length: int, seed: int) -> None:
    objective, encoder = TRANSFORMER
    unit = np.random.default_rng(seed).integers(5, encoder.format.vocab_size, size=length).astype(np.uint16)
    [noisy], [target] = objective.sample(unit, encoder.format, generator(seed)).rows.values()
    assert target.tolist() == encoder.format.wrap(unit).tolist() and target.dtype == noisy.dtype == np.int64
    assert (noisy[0], noisy[-1]) == (target[0], target[-1]) == (0, 2)
    remaining = iter(target[1:-1].tolist())
    assert len(noisy) > 2 and all(token in remaining for token in noisy[1:-1].tolist())  # in this order


TRANSFORMER = build()


def test_sixty_percent_of_the_words_are_deleted() -> None:
    objective, encoder = TRANSFORMER
    word_starts = np.flatnonzero(objective.begins)[-50:]
    assert len(word_starts) == 50 and word_starts.min() > 4
    kept = [
        len(objective.sample(word_starts, encoder.format, generator(seed)).rows["noisy"][0]) - 2
        for seed in range(200)
    ]
    assert np.mean(kept) == pytest.approx(20, abs=1)


def test_the_gru_decoder_has_special_tokens_of_its_own() -> None:
    objective, encoder = build("bilstm")
    [target] = objective.sample(np.array([5, 0, 2]), encoder.format, generator(0)).rows["target"]
    assert target.tolist() == [START, 9, 4, 6, END]
    assert isinstance(objective.decoder, Decoder)
    assert objective.decoder.embedding.num_embeddings == encoder.format.vocab_size + 4


@pytest.mark.parametrize("kind", ["transformer", "bilstm"])
def test_the_loss_is_the_mean_over_tokens_row_by_row(kind: str) -> None:
    objective, encoder = build(kind)
    batch = sample_batch(objective, units(encoder), encoder.format)
    total, count = torch.zeros((), dtype=torch.float64), 0
    for row in range(BATCH):
        index = torch.tensor([row])
        vector = encoder(batch.tokens["noisy"].rows(index)).sentence
        target = batch.tokens["target"].rows(index)
        following = target.ids[0, 1:]
        if isinstance(objective.decoder, TiedDecoder):
            scores = encoder.token_logits(objective.decoder.states(encoder, vector, target)[0, :-1])
        else:
            assert objective.decoder is not None
            states, predicted = objective.decoder.states(vector, target)
            assert torch.equal(predicted, following)
            scores = objective.decoder.output(states)
        total = total + F.cross_entropy(scores, following, reduction="sum")
        count += len(following)
    loss = objective.loss(encoder, batch)
    torch.testing.assert_close(loss.total, total / count)
    torch.testing.assert_close(loss.parts["reconstruction"], loss.total.detach())
    assert float(loss.counts["reconstruction"]) == count
    loss.total.backward()
    assert all(weight.grad is not None for weight in objective.parameters())


def test_a_transformer_without_an_output_layer_gets_one() -> None:
    torch.manual_seed(0)
    encoder = models.tiny()
    encoder.model = encoder.model.base_model
    TSDAE().build(encoder)
    assert encoder.has_mlm_head
