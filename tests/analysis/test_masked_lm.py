"""MLM loss on a text: compared with a plain loop."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from analysis.masked_lm import evaluate_masked_lm
from analysis.models import Model
from data.batch import IGNORE, Tokens
from data.errors import UserError
from data.randomness import MASKED_PASSAGES, generator
from data.views.masking import mask_tokens
from encoders.random_vectors import RandomVectors
from tests.tiny_encoder import FORMAT, TinyEncoder

PASSAGES = ["abcde fghij klmno pqrst", "yxw", "hello world"] * 7


def letter_ids(text: str, add_special_tokens: bool) -> list[int]:
    assert not add_special_tokens
    return [5 + ord(letter) - ord("a") for letter in text if letter.isalpha()]


@pytest.fixture
def model() -> Model:
    torch.manual_seed(3)
    encoder = TinyEncoder().eval()
    encoder.tokenizer = SimpleNamespace(encode=letter_ids, decode=lambda ids: "xy" * len(ids))
    return Model("tiny", encoder)


@pytest.fixture
def data(tmp_path: Path) -> str:
    (tmp_path / "text.txt").write_text("\n\n ".join(PASSAGES))
    return str(tmp_path / "text.txt")


@pytest.mark.parametrize("probability", [0.3, 1.0])
def test_the_loss_equals_a_loop_over_masked_tokens(model: Model, data: str, probability: float) -> None:
    encoder, nats, count = model.encoder, 0.0, 0
    assert isinstance(encoder, TinyEncoder)
    with torch.no_grad():
        for place, passage in enumerate(PASSAGES):
            ids = np.array(letter_ids(passage, False))
            masked, labels = mask_tokens(ids, FORMAT, probability, generator(MASKED_PASSAGES, 1, place))
            states = encoder(Tokens.pad([FORMAT.wrap(masked)], FORMAT.pad_id)).states[0, 1:-1]
            for state, label in zip(states, labels, strict=True):
                if label != IGNORE:
                    nats -= encoder.token_logits(state).log_softmax(0)[label].item()
                    count += 1
    scores = evaluate_masked_lm(model, data=data, probability=probability)
    assert scores["masked"] == count and scores["loss"] == pytest.approx(nats / count, rel=1e-5)
    # The tokenizer decodes every token to two characters.
    assert scores["bits_per_character"] == pytest.approx(nats / count / 2 / math.log(2), rel=1e-5)


def test_uniform_predictions_cost_the_logarithm_of_the_vocabulary(model: Model, data: str) -> None:
    assert isinstance(model.encoder, TinyEncoder)
    torch.nn.init.zeros_(model.encoder.embedding.weight)
    scores = evaluate_masked_lm(model, data=data, probability=0.5, passages=9)
    assert scores["loss"] == pytest.approx(math.log(FORMAT.vocab_size))


def test_a_model_without_head_is_refused(data: str) -> None:
    with pytest.raises(UserError) as error:
        evaluate_masked_lm(Model("random", RandomVectors()), data=data)
    assert error.value.key == "models"
