"""NSP and SOP: places in a corpus, inputs, losses against loops, the pooler of a transformer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from data.batch import IGNORE, Batch
from data.errors import UserError
from data.randomness import generator
from data.sentences import Sentences
from data.store import prepare
from data.tokenizer import train_words
from data.views.segments import RunningText
from encoders.transformer import Transformer
from objectives.base import Corpus
from objectives.nsp import NSP
from objectives.segment_pairs import SegmentPairs
from objectives.sop import SOP
from tests.data.samples import Document, Listed
from tests.encoders.models import tiny
from tests.objectives.gradients import sample_batch
from tests.tiny_encoder import FORMAT, TinyEncoder

PAIR_FORMAT = replace(FORMAT, middle=(2, 2))
BATCH, CONTENT = 8, 14  # CONTENT: most content tokens of a pair
KINDS: dict[str, type[SegmentPairs]] = {"nsp": NSP, "sop": SOP}


def text(vocabulary: int = 30) -> RunningText:
    """Eight documents of twelve sentences of random content tokens; two of the documents are held out."""
    rng = np.random.default_rng(0)
    sentences = [rng.integers(5, vocabulary, size=rng.integers(2, 9)) for _ in range(96)]
    begin = np.flatnonzero(np.isin(np.arange(96) % 12, range(1, 6)))  # 14 or more tokens follow
    return RunningText(sentences, np.repeat(np.arange(8), 12), begin[begin < 72], begin[begin >= 72])


def build(name: str, **settings: Any) -> tuple[SegmentPairs, TinyEncoder]:
    torch.manual_seed(0)
    encoder = TinyEncoder(format=PAIR_FORMAT).double()
    objective = KINDS[name](**{"batch_size": BATCH, "max_length": CONTENT + 4, "mlm_probability": 0.3, **settings})
    objective.build(encoder)
    return objective.double(), encoder


def batch_of(objective: SegmentPairs, units: RunningText, format: Any = PAIR_FORMAT) -> Batch:
    return sample_batch(objective, [units[12 * (i % 6) + 1] for i in range(BATCH)], format)


@pytest.mark.parametrize("name", KINDS)
def test_a_pair_is_one_row_with_segment_ids_and_masked_content(name: str) -> None:
    plain, masked, units = build(name, mlm_weight=0)[0], build(name)[0], text()
    segments = set()
    for seed in range(60):
        before, after = (each.sample(units[13], PAIR_FORMAT, generator(seed)) for each in (plain, masked))
        first, second, follows = plain.pair(units[13], CONTENT, generator(seed))
        assert not before.labels and before.numbers == after.numbers == {"follows": follows}
        [ids], [hidden], [labels] = before.rows["pair"], after.rows["pair"], after.labels["pair"]
        [type_ids], [same] = before.type_ids["pair"], after.type_ids["pair"]
        assert ids.tolist() == [0, *first, 2, 2, *second, 2] and len(ids) <= CONTENT + 4
        assert type_ids.tolist() == same.tolist() == [0] * (len(first) + 3) + [1] * (len(second) + 1)
        selected = labels != IGNORE
        assert (labels[selected] == ids[selected]).all() and (ids[selected] > 4).all()
        assert (hidden[~selected] == ids[~selected]).all()
        segments |= {*type_ids[selected].tolist()}
    assert segments == {0, 1}


@pytest.mark.parametrize("weight", [0.0, 0.7])
@pytest.mark.parametrize("name", KINDS)
def test_the_loss_equals_its_definition(name: str, weight: float) -> None:
    objective, encoder = build(name, mlm_weight=weight)
    batch = batch_of(objective, text())
    pairs, classes = batch.tokens["pair"], batch.numbers["follows"]
    assert set(classes.tolist()) == {0, 1}
    losses, correct, mlm_losses = [], [], []
    for row in range(BATCH):
        encoding = encoder(pairs.rows(torch.tensor([row])))
        scores = objective.head(encoding.sentence[0])
        losses.append(-torch.log_softmax(scores, 0)[classes[row]])
        correct.append(float(scores.argmax() == classes[row]))
        for position in range(int(pairs.lengths[row]) if weight else 0):
            if (label := int(pairs.labels[row, position])) != IGNORE:  # type: ignore[index]
                scores = encoder.token_logits(encoding.states[0, position])
                mlm_losses.append(-torch.log_softmax(scores, 0)[label])
    loss = objective.loss(encoder, batch)
    mlm = weight * torch.stack(mlm_losses).mean() if weight else 0
    torch.testing.assert_close(loss.total, torch.stack(losses).mean() + mlm)
    assert float(loss.parts[f"{name}_accuracy"]) == pytest.approx(np.mean(correct))
    if weight:
        torch.testing.assert_close(loss.parts["mlm"], torch.stack(mlm_losses).mean().detach())
        assert int(loss.counts["mlm"]) == len(mlm_losses)


def test_a_held_out_batch_without_masked_tokens_does_not_count_for_mlm() -> None:
    objective, encoder = build("sop")
    batch, empty = (batch_of(objective, text()) for _ in range(2))
    labels = empty.tokens["pair"].labels
    assert labels is not None
    labels.fill_(IGNORE)
    both, one = objective.dev_metrics(encoder, [batch, empty]), objective.dev_metrics(encoder, [batch])
    assert both["dev_mlm"] == one["dev_mlm"] > 1


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert"])
def test_the_classifier_of_a_transformer_reads_its_first_token(family: str, tmp_path: Path) -> None:
    encoder = tiny(family, pooling="mean")
    objective = NSP(batch_size=BATCH, max_length=24)
    objective.build(encoder)
    batch = batch_of(objective, text(300), encoder.format)
    loss = objective.loss(encoder, batch)
    loss.total.backward()
    states = encoder(batch.tokens["pair"]).states[:, 0]
    if family != "distilbert":
        pooler = encoder.backbone.pooler.dense
        assert pooler.weight.grad is not None and pooler.weight.grad.abs().sum() > 0
        states = torch.tanh(pooler(states))
        encoder.save(tmp_path / "encoder")
        NSP().build(reloaded := Transformer.load(tmp_path / "encoder"))
        assert torch.equal(reloaded.backbone.pooler.dense.weight, pooler.weight)
    expected = nn.functional.cross_entropy(objective.head(states), batch.numbers["follows"])
    torch.testing.assert_close(loss.parts["nsp"], expected.detach())


def corpus(folder: Path, **options: Any) -> Corpus:
    lines = [f"s {i} {'many ' * (i % 5)}words ." for i in range(240)]
    source = Listed(
        [Document("\n\n".join(lines[8 * i : 8 * i + 8])) for i in range(30)], dev_fraction=0.2, **options
    )
    tokenizer = train_words(lines, vocab_size=500, min_count=1)
    store = prepare(source, tokenizer, cache=folder, sentences=Sentences(min_words=1))
    return Corpus(source, store, tokenizer, folder)


def test_a_corpus_of_one_document_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError):
        NSP(max_length=24).task_data(corpus(tmp_path, fraction=0.02))
