"""Word embeddings from counts, against a naive count and by what they must say."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from data.errors import UserError
from data.tokenizer import corpus_tokenizer, train_bpe
from encoders import BUNDLED, cooccurrence, models
from encoders.cooccurrence import begin_with_neighbours
from encoders.models import configuration
from encoders.transformer import Transformer

RNG = np.random.default_rng(0)
ANIMALS, TOOLS = ["cat", "dog", "cow", "hen"], ["saw", "axe", "pin", "rod"]
TEXTS = [
    " ".join(RNG.choice(ANIMALS if number % 2 else TOOLS, size=12)) + " and the farm"[: 4 * (number % 3)]
    for number in range(200)
]


@pytest.fixture(scope="module")
def tokenizer():  # type: ignore[no-untyped-def]
    return train_bpe(TEXTS, vocab_size=300, max_length=64)


def test_counts_are_those_of_a_naive_loop(tokenizer) -> None:  # type: ignore[no-untyped-def]
    found = cooccurrence._counts(TEXTS[:20], tokenizer).toarray()
    naive = np.zeros_like(found)
    for text in TEXTS[:20]:
        ids = tokenizer.encode(f" {text}", add_special_tokens=False)
        for i, j in itertools.combinations(range(len(ids)), 2):
            if j - i <= cooccurrence.WINDOW:
                naive[ids[i], ids[j]] += 1
    assert (found == naive).all() and found.sum() > 0


def test_chunks_change_nothing(tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    whole = cooccurrence._counts(TEXTS, tokenizer).toarray()
    monkeypatch.setattr(cooccurrence, "CHUNK_TEXT", 100)
    assert (cooccurrence._counts(TEXTS, tokenizer).toarray() == whole).all()


def test_words_of_the_same_company_are_near(tokenizer) -> None:  # type: ignore[no-untyped-def]
    found = cooccurrence.vectors(TEXTS, tokenizer, 6)
    assert found.dtype == np.float32 and found.std() == pytest.approx(1, abs=1e-5)
    unit = found / np.linalg.norm(found, axis=1, keepdims=True)
    places = {word: tokenizer.encode(f" {word}", add_special_tokens=False)[-1] for word in ANIMALS + TOOLS}
    cosine = {pair: unit[places[pair[0]]] @ unit[places[pair[1]]] for pair in itertools.combinations(places, 2)}
    near = [value for (a, b), value in cosine.items() if (a in ANIMALS) == (b in ANIMALS)]
    far = [value for (a, b), value in cosine.items() if (a in ANIMALS) != (b in ANIMALS)]
    assert min(near) > max(far)


def test_a_random_start_takes_them(tokenizer, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    shape: Any = {
        "model_type": "roberta", "num_hidden_layers": 1, "hidden_size": 8, "num_attention_heads": 2,
        "intermediate_size": 8, "initializer_range": 0.1,
    }  # fmt: skip
    texts: Any = {"texts": lambda: TEXTS, "texts_key": lambda: "farm", "cache": tmp_path}
    encoder = Transformer(weights="random", shape=shape, vocab_size=300, words="cooccurrence", **texts)
    table = encoder.model.get_input_embeddings().weight.detach().numpy()
    (kept,) = tmp_path.glob("cooccurrence-*.npy")
    assert np.allclose(table[5:], 0.1 * np.load(kept)[5:])
    before = kept.stat().st_mtime_ns
    again = Transformer(weights="random", shape=shape, vocab_size=300, words="cooccurrence", **texts)
    assert np.array_equal(again.model.get_input_embeddings().weight.detach().numpy()[5:], table[5:])
    assert kept.stat().st_mtime_ns == before


def test_too_little_text_is_refused(tokenizer) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(UserError, match=r"encoder.words=cooccurrence needs a corpus of more than 64 different"):
        cooccurrence.vectors(TEXTS[:2], tokenizer, 64)


def test_places_of_heads_that_look_at_neighbours_hold_no_words(tokenizer) -> None:  # type: ignore[no-untyped-def]
    shape: Any = {
        "model_type": "roberta", "num_hidden_layers": 1, "hidden_size": 8, "num_attention_heads": 2,
        "intermediate_size": 8, "initializer_range": 0.1,
    }  # fmt: skip
    texts: Any = {"texts": lambda: TEXTS}
    given: Any = {"weights": "random", "shape": shape, "vocab_size": 300, **texts}
    table = Transformer(words="cooccurrence", heads="neighbours", **given).model.get_input_embeddings().weight
    assert (table[:, -4:] == 0).all()
    assert np.allclose(
        table[5:, :-4].detach().numpy(), 0.1 * cooccurrence.vectors(TEXTS, tokenizer, 4)[5:], atol=1e-6
    )


@pytest.mark.parametrize("key", ["words", "heads"])
def test_a_start_is_asked_of_random_weights_alone(key: str) -> None:
    with pytest.raises(ValueError, match=f"encoder.{key} must be 'random' or '.*'. Got 'learned' instead"):
        Transformer(name=BUNDLED, weights="random", shape={"model_type": "roberta"}, **{key: "learned"})  # type: ignore[arg-type]
    other = {"words": "cooccurrence", "heads": "neighbours"}[key]
    with pytest.raises(ValueError, match=f"encoder.{key}={other} needs weights=random"):
        Transformer(name=BUNDLED, **{key: other})  # type: ignore[arg-type]


@pytest.mark.parametrize("family", ["roberta", "bert", "electra"])
def test_heads_begin_with_neighbours(family: str) -> None:
    """Whatever the words, the heads of the first layer look at -1, +1, -2 and +2, up to the last position."""
    sizes = {"num_hidden_layers": 2, "hidden_size": 256, "num_attention_heads": 4, "intermediate_size": 8}
    own = {"embedding_size": 256} if family == "electra" else {}
    tokenizer = corpus_tokenizer(lambda: TEXTS, 300, 64, None, None)
    config = configuration({"model_type": family, "initializer_range": 0.06, **sizes, **own}, tokenizer)
    torch.manual_seed(0)
    model: Any = models.untrained(config, {"attn_implementation": "eager"}).eval()
    before = model.base_model.encoder.layer[1].attention.self.query.weight.clone()
    begin_with_neighbours(model)
    ids = torch.randint(len(tokenizer.all_special_ids), len(tokenizer), (3, 512))
    with torch.no_grad():
        attention = model(ids, output_attentions=True).attentions
    places = torch.arange(2, 510)
    for head, shift in enumerate((-1, 1, -2, 2)):
        assert attention[0][:, head, places, places + shift].mean() > 0.7
    assert attention[1].max() < 0.2
    assert torch.equal(model.base_model.encoder.layer[1].attention.self.query.weight, before)


@pytest.mark.parametrize(
    "config",
    [
        transformers.T5Config(vocab_size=300, d_model=8, num_layers=1, num_heads=2, d_kv=4, d_ff=8),
        transformers.DistilBertConfig(vocab_size=300, dim=8, n_layers=1, n_heads=2, hidden_dim=8),
        transformers.BertConfig(
            vocab_size=300, hidden_size=6, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8
        ),
    ],
)
def test_heads_that_cannot_begin_with_neighbours_are_refused(config: Any) -> None:
    with pytest.raises(ValueError, match=rf"encoder.heads=neighbours: a {config.model_type} has no such"):
        begin_with_neighbours(transformers.AutoModel.from_config(config))
