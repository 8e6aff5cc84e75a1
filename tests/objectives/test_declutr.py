"""DeCLUTR on a tiny encoder in float64: examples, loss, gradient caching, memory bank, refusals."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import objectives.caching
from data.batch import IGNORE, Batch
from data.errors import UserError
from data.randomness import generator
from objectives.declutr import Declutr
from tests import oracles
from tests.objectives.gradients import sample_batch
from tests.tiny_encoder import FORMAT, TinyEncoder, documents


def build(dropout: float = 0.0, **settings: Any) -> tuple[Declutr, TinyEncoder]:
    torch.manual_seed(0)
    encoder = TinyEncoder(dropout=dropout).double()
    objective = Declutr(**{"batch_size": 4, "min_length": 4, "max_length": 16, **settings})
    objective.build(encoder)
    return objective.double(), encoder


def batch_of(objective: Declutr, count: int = 4, step: int = 0) -> Batch:
    return sample_batch(objective, documents(count, 100), step=step)


def loss_and_gradients(
    objective: Declutr, encoder: TinyEncoder, batch: Batch, seed: int = 0
) -> tuple[Tensor, list[Tensor]]:
    torch.manual_seed(seed)
    bank = copy.deepcopy(objective.bank)
    encoder.zero_grad()
    objective.zero_grad()
    loss = objective.loss(encoder, batch).total
    loss.backward()
    objective.bank = bank  # without this batch
    weights = [*encoder.parameters(), *objective.parameters()]
    return loss.detach(), [torch.zeros_like(w) if w.grad is None else w.grad.clone() for w in weights]


def test_an_example_holds_spans_of_its_document() -> None:
    objective, _ = build(positives_per_anchor=3)
    unit = np.arange(1000, 1100)  # consecutive ids, so that those of a span are too
    format = FORMAT.__class__(**{**FORMAT.__dict__, "vocab_size": 2000})
    example = objective.sample(unit, format, generator(0))
    assert {role: len(rows) for role, rows in example.rows.items()} == {"anchor": 2, "positive": 6}
    for anchor, labels in zip(example.rows["anchor"], example.labels["anchor"], strict=True):
        assert (anchor[0], anchor[-1], labels[0], labels[-1]) == (0, 2, IGNORE, IGNORE)
        original = np.where(labels == IGNORE, anchor, labels)[1:-1]
        kept = original >= 1000
        assert kept.all() and (np.diff(original) == 1).all()
    for positive in example.rows["positive"]:
        assert (positive[0], positive[-1]) == (0, 2) and (np.diff(positive[1:-1]) == 1).all()


def test_spans_are_cut_at_the_encoders_positions() -> None:
    objective, _ = build(min_length=80, max_length=80)
    example = objective.sample(documents(1, 400)[0], FORMAT, generator(0))
    rows = [*example.rows["anchor"], *example.labels["anchor"], *example.rows["positive"]]
    assert {len(row) for row in rows} == {FORMAT.max_length}


@pytest.mark.parametrize("groups", [1, 3, 6])
def test_loss_equals_its_definition(groups: int) -> None:
    objective, encoder = build(length_groups=groups, contrastive_weight=0.7, mlm_weight=1.3)
    batch = batch_of(objective)
    anchors, positives = batch.tokens["anchor"], batch.tokens["positive"]
    encoded = encoder(anchors)
    mean_positives = torch.stack([rows.mean(0) for rows in encoder(positives).sentence.split(2)])
    contrastive = oracles.nt_xent(encoded.sentence, mean_positives, 0.05)
    assert anchors.labels is not None
    mlm = F.cross_entropy(encoder.token_logits(encoded.states).flatten(0, 1), anchors.labels.flatten())
    loss = objective.loss(encoder, batch)
    parts = {"contrastive": contrastive.detach(), "mlm": mlm.detach()}
    torch.testing.assert_close(dict(loss.parts), parts)
    torch.testing.assert_close(loss.total, 0.7 * contrastive + 1.3 * mlm)


@pytest.mark.parametrize(("off", "part"), [("mlm_weight", "contrastive"), ("contrastive_weight", "mlm")])
def test_a_part_without_weight_is_not_computed(off: str, part: str) -> None:
    objective, encoder = build(**{off: 0.0})
    batch = batch_of(objective)
    assert set(objective.loss(encoder, batch).parts) == {part}
    assert (batch.tokens["anchor"].labels is not None) == objective.requirements.mask_token == (part == "mlm")
    assert ("positive" in batch.tokens) == (part == "contrastive")


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({}, id="defaults"),
        pytest.param({"projection": {"width": 4}, "memory_bank": 10}, id="projection and memory bank"),
        pytest.param({"mlm_weight": 0.0}, id="without MLM"),
    ],
)
def test_gradient_caching_equals_the_same_sub_batches_with_graph(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    objective, encoder = build(dropout=0.3, cache_chunk=60, **settings)
    batch = batch_of(objective)
    if objective.bank is not None:
        objective.bank.put(torch.randn(7, 4))
    calls = []

    def record_and_run(run: Any, *args: Any, use_reentrant: bool) -> Any:
        # checkpoint saves the random state of the devices of its tensor arguments only
        assert all(arg is None or isinstance(arg, Tensor) for arg in args)
        calls.append(run)
        return run(*args)

    cached = loss_and_gradients(objective, encoder, batch)
    with monkeypatch.context() as patch:
        patch.setattr(objectives.caching, "checkpoint", record_and_run)
        uncached = loss_and_gradients(objective, encoder, batch)
    assert 4 < len(calls) < 12
    other_dropout = loss_and_gradients(objective, encoder, batch, seed=1)
    torch.testing.assert_close(cached, uncached, rtol=1e-10, atol=1e-13)
    assert abs(other_dropout[0] - uncached[0]) > 1e-3  # dropout has an effect


def test_gradient_caching_equals_the_whole_batch_without_dropout() -> None:
    cached, encoder = build(cache_chunk=40)
    uncached, _ = build(length_groups=1)
    batch = batch_of(cached)
    result, expected = (loss_and_gradients(objective, encoder, batch) for objective in (cached, uncached))
    torch.testing.assert_close(result, expected, rtol=1e-10, atol=1e-13)


def test_bank_holds_the_last_embeddings_after_their_loss() -> None:
    objective, encoder = build(memory_bank=100, mlm_weight=0.0)
    assert objective.bank is not None
    first, second = batch_of(objective, step=0), batch_of(objective, step=1)
    without_bank, _ = build(mlm_weight=0.0)
    torch.testing.assert_close(objective.loss(encoder, first).total, without_bank.loss(encoder, first).total)
    queue = objective.bank.negatives().clone()
    positives = encoder(first.tokens["positive"]).sentence.unflatten(0, (8, 2)).mean(1)
    torch.testing.assert_close(queue, torch.cat([encoder(first.tokens["anchor"]).sentence, positives]))
    anchors = encoder(second.tokens["anchor"]).sentence
    positives = encoder(second.tokens["positive"]).sentence.unflatten(0, (8, 2)).mean(1)
    expected = oracles.nt_xent(anchors, positives, 0.05, queue)
    torch.testing.assert_close(objective.loss(encoder, second).total, expected)
    assert objective.facts() == {"negatives per anchor": 14 + 100}


def test_held_out_losses_neither_read_nor_fill_the_bank() -> None:
    objective, encoder = build(memory_bank=100)
    batch = batch_of(objective)
    objective.loss(encoder, batch)
    measured = objective.dev_metrics(encoder, [batch])
    without_bank, _ = build()
    assert measured == without_bank.dev_metrics(encoder, [batch])
    assert objective.bank is not None and int(objective.bank.seen) == 16
    assert set(measured) == {"dev_contrastive", "dev_mlm"} and encoder.training and objective.training


def test_gradient_caching_sums_its_chunks_in_float32() -> None:
    cached, encoder = build(batch_size=24, cache_chunk=16, mlm_weight=0.0)
    encoder, batch = encoder.float(), batch_of(cached, 24)
    uncached, _ = build(batch_size=24, length_groups=1, mlm_weight=0.0)

    def relative_error(objective: Declutr) -> float:
        exact = torch.cat([part.flatten() for part in loss_and_gradients(uncached, encoder, batch)[1]])
        with torch.autocast("cpu", torch.bfloat16):
            rounded = torch.cat([part.flatten() for part in loss_and_gradients(objective, encoder, batch)[1]])
        return float((rounded - exact).norm() / exact.norm())

    assert relative_error(cached) < 1.2 * relative_error(uncached)


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"min_length": 20}, "min_length"),
        ({"gap": 3}, "gap"),
        ({"mlm_weight": 0, "contrastive_weight": 0}, "contrastive_weight"),
        ({"batch_size": 1, "anchors_per_document": 1}, "batch_size"),
        ({"cache_chunk": 15}, "cache_chunk"),
    ],
    ids=str,
)
def test_settings_that_contradict_each_other_are_refused(settings: dict[str, Any], key: str) -> None:
    with pytest.raises(UserError) as error:
        build(**settings)
    assert error.value.key == f"objective.{key}"
