"""NSP and SOP: inputs, losses against loops, several processes, learning, refusals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from data.batch import IGNORE, Batch, Tokens
from data.errors import UserError
from data.loader import Loader
from data.randomness import generator
from data.views.segments import RunningText
from encoders.base import Encoding
from objectives.nsp import NSP
from objectives.segment_pairs import SegmentPairs
from objectives.sop import SOP
from tests.objectives.two_processes import Results, backward, check_against_one_process
from tests.tiny_encoder import FORMAT, TinyEncoder

PAIR_FORMAT = replace(FORMAT, middle=(2, 2))
BATCH, CONTENT = 8, 14  # CONTENT: most content tokens of a pair
KINDS = {"nsp": NSP, "sop": SOP}


def text(seed: int = 0) -> RunningText:
    """Eight documents of twelve sentences of random content tokens; two of the documents are held out."""
    rng = np.random.default_rng(seed)
    sentences = [rng.integers(5, 30, size=rng.integers(2, 9)) for _ in range(96)]
    documents = np.repeat(np.arange(8), 12)
    begin = np.flatnonzero(np.isin(np.arange(96) % 12, range(1, 6)))  # 14 or more tokens follow
    return RunningText(sentences, documents, begin[begin < 72], begin[begin >= 72])


def build(name: str, **settings: Any) -> tuple[SegmentPairs, TinyEncoder]:
    torch.manual_seed(0)
    encoder = TinyEncoder(dropout=settings.pop("dropout", 0.0), format=PAIR_FORMAT).double()
    objective = KINDS[name](**{"batch_size": BATCH, "max_length": CONTENT + 4, "mlm_probability": 0.3, **settings})
    objective.build(encoder)
    return objective.double(), encoder


def batch_of(objective: SegmentPairs, step: int = 0) -> Batch:
    units = text()
    places = np.random.default_rng(step).choice(np.arange(1, 72, 12), BATCH)
    examples = [
        objective.sample(units[int(i)], PAIR_FORMAT, generator(step, row, int(i))) for row, i in enumerate(places)
    ]
    return objective.collate(examples, PAIR_FORMAT)


# Inputs


@pytest.mark.parametrize("name", KINDS)
def test_a_pair_is_one_row_with_segment_ids(name: str) -> None:
    objective, _ = build(name, mlm_weight=0)
    units = text()
    for seed in range(40):
        example = objective.sample(units[13], PAIR_FORMAT, generator(seed))
        first, second, follows = objective.pair(units[13], CONTENT, generator(seed))
        assert example.ids.tolist() == [0, *first, 2, 2, *second, 2] and len(example.ids) <= CONTENT + 4
        assert example.type_ids.tolist() == [0] * (len(first) + 3) + [1] * (len(second) + 1)
        assert example.labels is None and example.follows == follows


@pytest.mark.parametrize("name", KINDS)
def test_mlm_masks_both_segments_but_no_special_tokens(name: str) -> None:
    plain, masked = build(name, mlm_weight=0)[0], build(name)[0]
    units = text()
    segments = set()
    for seed in range(60):
        before, after = (each.sample(units[13], PAIR_FORMAT, generator(seed)) for each in (plain, masked))
        assert after.labels is not None and after.type_ids.tolist() == before.type_ids.tolist()
        selected = after.labels != IGNORE
        assert (after.labels[selected] == before.ids[selected]).all() and (before.ids[selected] > 4).all()
        assert (after.ids[~selected] == before.ids[~selected]).all()
        segments |= {*after.type_ids[selected].tolist()}
    assert segments == {0, 1}
    assert (
        masked.requirements.mask_token
        and not plain.requirements.mask_token
        and masked.requirements.unit == "sentence"
    )


def test_the_smaller_length_limit_applies() -> None:
    units = text()
    for objective, format, limit in (
        (NSP(max_length=12, short=0), PAIR_FORMAT, 12),
        (NSP(max_length=500, short=0), replace(PAIR_FORMAT, max_length=16), 16),
        (SOP(max_length=500, short=0), replace(PAIR_FORMAT, max_length=16), 16),
    ):
        lengths = [len(objective.sample(units[i], format, generator(i)).ids) for i in range(1, 60, 12)]
        assert max(lengths) <= limit and (not isinstance(objective, NSP) or min(lengths) == limit)


# Losses


@pytest.mark.parametrize("weight", [0.0, 0.7])
@pytest.mark.parametrize("name", KINDS)
def test_the_loss_equals_its_definition(name: str, weight: float) -> None:
    objective, encoder = build(name, mlm_weight=weight)
    batch = batch_of(objective)
    pairs, classes = batch.tokens["pair"], batch.numbers["follows"]
    assert objective.head is not None and set(classes.tolist()) == {0, 1}
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
    torch.testing.assert_close(loss.parts[name], torch.stack(losses).mean().detach())
    assert float(loss.parts[f"{name}_accuracy"]) == pytest.approx(np.mean(correct))
    assert tuple(loss.parts) == objective.part_names
    if weight:
        torch.testing.assert_close(loss.parts["mlm"], torch.stack(mlm_losses).mean().detach())
        assert int(loss.counts["mlm"]) == len(mlm_losses)


@pytest.mark.parametrize("name", KINDS)
def test_gradcheck(name: str) -> None:
    objective, encoder = build(name)
    batch = batch_of(objective)

    def loss(weight: Tensor) -> Tensor:
        with torch.nn.utils.stateless._reparametrize_module(encoder, {"mix.weight": weight}):
            return objective.loss(encoder, batch).total

    assert torch.autograd.gradcheck(loss, (encoder.mix.weight.detach().clone().requires_grad_(),))


def test_half_precision_gives_losses_in_float32() -> None:
    objective, encoder = build("nsp")
    objective, encoder = objective.float(), encoder.float()
    with torch.autocast("cpu", torch.bfloat16):
        loss = objective.loss(encoder, batch_of(objective))
    assert {value.dtype for value in (loss.total, *loss.parts.values())} == {torch.float32}


def test_a_held_out_batch_without_masked_tokens_does_not_count_for_mlm() -> None:
    objective, encoder = build("sop")
    batch, empty = (batch_of(objective) for _ in range(2))
    labels = empty.tokens["pair"].labels
    assert labels is not None
    labels.fill_(IGNORE)
    both, one = objective.dev_metrics(encoder, [batch, empty]), objective.dev_metrics(encoder, [batch])
    assert both["dev_mlm"] == one["dev_mlm"] > 1


def test_dev_metrics_are_without_dropout() -> None:
    objective, encoder = build("sop", dropout=0.4)
    batches = [batch_of(objective, step) for step in range(2)]
    measured = objective.dev_metrics(encoder, batches)
    assert set(measured) == {"dev_sop", "dev_sop_accuracy", "dev_mlm"}
    assert measured == objective.dev_metrics(encoder, batches)


# Several processes


def gradients(rank: int, world: int) -> Results:
    """Returns the gradients and loss parts of both objectives; each rank gets contiguous rows."""
    results = {}
    units, share = text(), BATCH // world
    for name in KINDS:
        objective, encoder = build(name)
        rows = range(rank * share, (rank + 1) * share)
        examples = [objective.sample(units[12 * (i % 6) + 1], PAIR_FORMAT, generator(1, i)) for i in rows]
        loss = objective.loss(encoder, objective.collate(examples, PAIR_FORMAT))
        results[name] = backward(loss, world, encoder, objective)
    return results


def test_two_processes_give_the_gradient_of_one(tmp_path: Path) -> None:
    check_against_one_process(gradients, tmp_path, rtol=1e-6, atol=1e-9)


# Training


class Matching(TinyEncoder):
    """Represents a pair by product and difference of the mean word vectors of its segments."""

    def __init__(self) -> None:
        super().__init__(width=16, format=PAIR_FORMAT)
        self.dimension = 32

    def forward(self, tokens: Tokens) -> Encoding:
        assert tokens.type_ids is not None
        states = self.embedding(tokens.ids)
        first, second = (
            (states * mask[:, :, None]).sum(1) / mask.sum(1, keepdim=True)
            for mask in (tokens.mask & (tokens.type_ids == segment) for segment in (0, 1))
        )
        return Encoding(states, tokens.mask, torch.cat([first * second, first - second], dim=1))


@pytest.mark.parametrize("name", KINDS)
def test_training_learns_the_classes(name: str) -> None:
    """Token ids rise through a document (SOP), or each document has tokens of only one of six sets (NSP)."""
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    sentences, documents = [], np.repeat(np.arange(60), 12)
    for document in range(60):
        for sentence in range(12):
            length = int(rng.integers(2, 6))
            rising = 5 + 2 * sentence + rng.integers(2, size=length)
            sentences.append(rising if name == "sop" else 5 + document % 6 + 6 * rng.integers(4, size=length))
    begin = np.flatnonzero(np.isin(np.arange(720) % 12, range(1, 5)))
    train, dev = begin[begin < 540], begin[begin >= 540]
    units = RunningText(sentences, documents, train, dev)
    objective = KINDS[name](batch_size=32, max_length=18, mlm_weight=0.0)
    encoder = Matching()
    objective.build(encoder)
    loader = Loader(units, train, objective, PAIR_FORMAT, batch_size=32, seed=1)
    held_out = Loader(units, dev, objective, PAIR_FORMAT, batch_size=60, seed=1).fixed(1)
    optimizer = torch.optim.Adam([*encoder.parameters(), *objective.parameters()], lr=2e-2)
    for step in range(120):
        loss = objective.loss(encoder, loader.batch(step)).total
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    # NSP accuracy is at most about 11/12: one in six other documents has tokens of the same set.
    assert objective.dev_metrics(encoder, held_out)[f"dev_{name}_accuracy"] > 0.75


# Cost and refusals


@pytest.mark.parametrize("weight", [0.0, 1.0])
def test_step_flops_follow_the_sampled_tokens(weight: float) -> None:
    objective, encoder = build("nsp", short=0.0, mlm_weight=weight)
    batch = batch_of(objective)
    masked = encoder.head_flops(round(batch.n_tokens * 0.3)) if weight else 0
    assert objective.step_flops(encoder) == 3 * (encoder.forward_flops(batch.n_tokens, 0) + masked)


def test_an_encoder_without_room_is_refused() -> None:
    SOP().check_encoder(TinyEncoder(format=replace(PAIR_FORMAT, max_length=6)))
    with pytest.raises(UserError):
        SOP().check_encoder(TinyEncoder(format=replace(PAIR_FORMAT, max_length=5)))
