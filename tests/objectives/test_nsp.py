"""NSP: pairs of a corpus, the pooler of transformers and its export, refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from data.errors import UserError
from data.randomness import generator
from data.sentences import Sentences
from data.sources.base import Document
from data.store import prepare
from data.views.segments import RunningText
from data.vocabulary import train_word_level
from encoders.transformer import Transformer
from objectives.base import Corpus
from objectives.nsp import NSP
from tests.data.samples import Listed
from tests.encoders.models import tiny

LINES = [f"sentence {i} has {'many ' * (i % 5)}words ." for i in range(240)]


def build_corpus(folder: Path, tokenizer: Any = None, **options: float) -> Corpus:
    tokenizer = tokenizer or train_word_level(LINES, vocab_size=500, min_count=1, max_length=64)
    documents = [Document("\n\n".join(LINES[8 * i : 8 * i + 8])) for i in range(30)]
    source = Listed(documents, **{"dev_fraction": 0.2, **options})
    store = prepare(source, tokenizer, cache=folder, sentences=Sentences(min_words=4, max_words=6))
    return Corpus(source, store, tokenizer, folder)


@pytest.mark.parametrize("published", [False, True])
def test_the_documents_of_a_pair_are_of_one_part(published: bool, tmp_path: Path) -> None:
    corpus = build_corpus(tmp_path)
    objective = NSP(max_length=24, published=published)
    [data] = objective.task_data(corpus).values()
    # A published pair can start at any sentence; otherwise its document must go on for the length of a pair.
    n_places = len(data.train.indices) + len(data.dev.indices)
    assert n_places == 240 if published else 90 < n_places < 200
    lengths = []
    for part in (data.train, data.dev):
        documents = {int(i) // 8 for i in part.indices}
        for i in part.indices.tolist():
            pair = objective.pair(data.units[i], 20, generator(i))
            lengths.append(len(pair.first) + len(pair.second) + 4)  # four special tokens
            numbers = [int(word) for word in corpus.tokenizer.decode(pair.second).split() if word.isdigit()]
            assert {number // 8 for number in numbers} <= documents
    assert max(lengths) <= 24
    assert objective.mean_length == pytest.approx(np.mean(lengths), rel=0.07)


def test_a_corpus_of_one_document_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError):
        NSP(max_length=24).task_data(build_corpus(tmp_path, fraction=0.02))


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert"])
def test_the_classifier_of_a_transformer_reads_its_first_token(family: str) -> None:
    encoder = tiny(family, pooling="mean")
    objective = NSP(batch_size=6, max_length=40)
    objective.build(encoder)
    rng = np.random.default_rng(0)
    sentences = [rng.integers(5, 300, size=rng.integers(2, 9)) for _ in range(120)]
    units = RunningText(sentences, np.repeat(np.arange(4), 30), np.array([1, 31, 61, 91]))
    batch = objective.collate(
        [objective.sample(units[30 * (i % 4) + 1], encoder.format, generator(i)) for i in range(6)], encoder.format
    )
    loss = objective.loss(encoder, batch)
    loss.total.backward()
    assert objective.head is not None and objective.head.in_features == 32
    states = encoder(batch.tokens["pair"]).states[:, 0]
    if family != "distilbert":
        pooler = encoder.backbone.pooler.dense
        assert pooler.weight.grad is not None and pooler.weight.grad.abs().sum() > 0
        states = torch.tanh(pooler(states))
    expected = nn.functional.cross_entropy(objective.head(states), batch.numbers["follows"])
    torch.testing.assert_close(loss.parts["nsp"], expected.detach())


def test_the_trained_pooler_is_exported(tmp_path: Path) -> None:
    encoder = tiny("bert")
    NSP().build(encoder)
    encoder.save(tmp_path / "encoder")
    reloaded = Transformer.load(tmp_path / "encoder")
    NSP().build(reloaded)  # as a run does that starts from the exported encoder
    weight, reloaded_weight = (each.backbone.pooler.dense.weight for each in (encoder, reloaded))
    assert torch.equal(weight, reloaded_weight)
