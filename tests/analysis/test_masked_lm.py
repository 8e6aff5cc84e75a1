"""Held-out MLM loss: compared with a plain loop; passages and intervals."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from analysis.masked_lm import PASSAGE_WORDS, Passage, evaluate_masked_lm, held_out_passages, masked_loss
from analysis.models import Model, open_models
from data.batch import IGNORE, Tokens
from data.errors import UserError
from data.randomness import MASKED_PASSAGES, generator
from data.sources.mixture import Mixture
from data.views.masking import mask_tokens
from encoders import BUNDLED
from encoders.random_vectors import RandomVectors
from tests.tiny_encoder import FORMAT, TinyEncoder


def letter_ids(text: str, add_special_tokens: bool) -> list[int]:
    assert not add_special_tokens
    return [5 + ord(letter) - ord("a") for letter in text.replace(" ", "")]


def tiny() -> TinyEncoder:
    torch.manual_seed(3)
    encoder = TinyEncoder().eval()
    encoder.tokenizer = SimpleNamespace(encode=letter_ids, decode=lambda ids: "xy" * len(ids))
    return encoder


PASSAGES = [Passage("abcde fghij klmno pqrst", "one"), Passage("yxw", "one"), Passage("hello world", "two")] * 7


@pytest.mark.parametrize("probability", [0.3, 1.0])
def test_the_loss_equals_a_loop_over_masked_tokens(probability: float) -> None:
    encoder = tiny()
    nats, tokens = {"one": [0.0, 0], "two": [0.0, 0]}, 0
    with torch.no_grad():
        for place, passage in enumerate(PASSAGES):
            ids = np.array(letter_ids(passage.text, False))
            tokens += len(ids)
            masked, labels = mask_tokens(ids, FORMAT, probability, generator(MASKED_PASSAGES, 1, place))
            states = encoder(Tokens.pad([FORMAT.wrap(masked)], FORMAT.pad_id)).states[0, 1:-1]
            for state, label in zip(states, labels, strict=True):
                if label != IGNORE:
                    nats[passage.group][0] -= encoder.token_logits(state).log_softmax(0)[label].item()
                    nats[passage.group][1] += 1
    found = masked_loss(encoder, PASSAGES, probability)
    total, count = (sum(sums) for sums in zip(*nats.values(), strict=True))
    loss = total / count
    error = math.sqrt(sum((nat - loss * number) ** 2 for nat, number in nats.values())) / count
    assert (found["masked"], found["groups"]) == (count, 2)
    assert found["loss"] == pytest.approx(loss, rel=1e-5)
    # With two groups, t has one degree of freedom and the variance the correction n / (n - 1) = 2.
    assert found["interval"] == pytest.approx(12.7062 * error * math.sqrt(2), rel=1e-3)
    # The tokenizer decodes every token to two characters.
    assert found["bits_per_character"] == pytest.approx(loss / 2 / math.log(2), rel=1e-5)
    assert found["bits_interval"] == pytest.approx(found["interval"] / 2 / math.log(2))


def test_uniform_predictions_cost_the_logarithm_of_the_vocabulary() -> None:
    encoder = tiny()
    torch.nn.init.zeros_(encoder.embedding.weight)
    found = masked_loss(encoder, PASSAGES, 0.5)
    assert found["loss"] == pytest.approx(math.log(FORMAT.vocab_size))
    assert found["interval"] == pytest.approx(0, abs=1e-6)


def corpus(tmp_path: Path, documents: int) -> Mixture:
    words = (f"w{number}" for number in range(10**6))
    lines = [" ".join(next(words) for _ in range(PASSAGE_WORDS * 3 + 5)) for _ in range(documents)]
    (tmp_path / "dev.txt").write_text("\n".join(lines) + "\ntoo short\n")
    (tmp_path / "train.txt").write_text("never seen\n")
    return Mixture(corpora={"a": {"path": str(tmp_path / "train.txt"), "dev_path": str(tmp_path / "dev.txt")}})


def test_passages_are_whole_distinct_and_of_held_out_documents(tmp_path: Path) -> None:
    found = held_out_passages(corpus(tmp_path, 4))
    assert len(found) == 12 and len({passage.group for passage in found}) == 4
    words = [word for passage in found for word in passage.text.split()]
    assert len(words) == len(set(words)) == 12 * PASSAGE_WORDS
    few = held_out_passages(corpus(tmp_path, 4), limit=5)
    assert len(few) == 5 and {*few} < {*found} and few == held_out_passages(corpus(tmp_path, 4), limit=5)


def corpora(tmp_path: Path) -> dict[str, dict[str, str]]:
    corpus(tmp_path, 3)
    return {"a": {"path": f"{tmp_path}/train.txt", "dev_path": f"{tmp_path}/dev.txt"}}


def test_the_loss_of_a_bundled_encoder(tmp_path: Path) -> None:
    [model] = open_models([BUNDLED])
    scores = evaluate_masked_lm(model, corpora=corpora(tmp_path), passages=4)
    assert scores["a.masked"] > 50 and 0 < scores["a.loss"] < 15


def test_models_and_text_that_cannot_be_measured_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError) as error:
        evaluate_masked_lm(Model("random", RandomVectors()), corpora=corpora(tmp_path))
    assert error.value.key == "models"
    with pytest.raises(UserError):  # no token is masked
        masked_loss(tiny(), PASSAGES, 1e-9)
    assert math.isnan(masked_loss(tiny(), PASSAGES[:2], 1.0)["interval"])  # one group has no interval
    with pytest.raises(UserError):  # no document is long enough
        held_out_passages(corpus(tmp_path, 0))
