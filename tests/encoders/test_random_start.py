"""A kept tokenizer is found by the name of its texts, without reading them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from encoders import models
from encoders.random_start import begin_with_neighbours, configuration, corpus_tokenizer, corpus_vocabulary

TEXTS = ["one fish two fish", "red fish blue fish", "this one has a little star"] * 20


def test_a_named_corpus_is_read_once(tmp_path: Path) -> None:
    reads = []

    def texts() -> Iterator[str]:
        reads.append(1)
        yield from TEXTS

    first = corpus_tokenizer(texts, 300, 64, tmp_path, lambda: "fish")
    again = corpus_tokenizer(texts, 300, 64, tmp_path, lambda: "fish")
    assert len(reads) == 1
    assert first.get_vocab() == again.get_vocab()
    other = corpus_tokenizer(texts, 300, 64, tmp_path, lambda: "birds")
    assert len(reads) == 2 and other.get_vocab() == first.get_vocab()


def test_a_nameless_corpus_is_known_by_its_text(tmp_path: Path) -> None:
    corpus_tokenizer(lambda: TEXTS, 300, 64, tmp_path, None)
    corpus_tokenizer(lambda: TEXTS, 300, 64, tmp_path, None)
    corpus_tokenizer(lambda: TEXTS[1:], 300, 64, tmp_path, None)
    assert len([path for path in tmp_path.glob("bpe-*") if path.is_dir()]) == 2


def test_two_at_once_train_it_once(tmp_path: Path) -> None:
    reads = []

    def texts() -> Iterator[str]:
        reads.append(1)
        time.sleep(0.2)
        yield from TEXTS

    with ThreadPoolExecutor(3) as pool:
        wanted = [pool.submit(corpus_tokenizer, texts, 300, 64, tmp_path, lambda: "fish") for _ in range(3)]
        vocabularies = [tokenizer.result().get_vocab() for tokenizer in wanted]
    assert len(reads) == 1 and vocabularies[0] == vocabularies[1] == vocabularies[2]


def test_another_version_of_the_training_is_another_tokenizer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus_tokenizer(lambda: TEXTS, 300, 64, tmp_path, lambda: "fish")
    monkeypatch.setattr("encoders.random_start.VERSION", "next")
    corpus_tokenizer(lambda: TEXTS, 300, 64, tmp_path, lambda: "fish")
    assert len([path for path in tmp_path.glob("bpe-*") if path.is_dir()]) == 2


def test_the_texts_are_named_only_where_a_name_is_needed() -> None:
    corpus_tokenizer(lambda: TEXTS, 300, 64, None, lambda: pytest.fail("nothing is kept"))


def test_words_are_kept_by_all_that_makes_them(tmp_path: Path) -> None:
    reads = []

    def texts() -> Iterator[str]:
        reads.append(1)
        yield from TEXTS

    def words(size: int, count: int, lowercase: bool, name: str = "fish") -> dict[str, int]:
        return corpus_vocabulary(texts, size, count, lowercase, 64, tmp_path, lambda: name).get_vocab()

    first = words(50, 1, False)
    assert words(50, 1, False) == first and len(reads) == 1 and "fish" in first and len(first) == 15
    others = [words(8, 1, False), words(50, 41, False), words(50, 1, True), words(50, 1, False, name="birds")]
    assert len(reads) == 5 and [len(other) for other in others] == [8, 6, 15, 15]
    corpus_tokenizer(texts, 300, 64, tmp_path, lambda: "fish")
    assert len([path for path in tmp_path.iterdir() if path.is_dir()]) == 6
    assert corpus_vocabulary(lambda: TEXTS, 50, 1, False, 64, None, None).get_vocab() == first


def test_another_version_of_the_vocabulary_is_another_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus_vocabulary(lambda: TEXTS, 50, 1, False, 64, tmp_path, lambda: "fish")
    monkeypatch.setattr("data.vocabulary.VERSION", "next")
    corpus_vocabulary(lambda: TEXTS, 50, 1, False, 64, tmp_path, lambda: "fish")
    assert len([path for path in tmp_path.glob("words-*") if path.is_dir()]) == 2


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
