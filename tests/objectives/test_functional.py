"""NT-Xent and in-batch scores against formulas, pytorch-metric-learning and cases solved by hand; invariances."""

from __future__ import annotations

import math
from typing import Literal

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pytorch_metric_learning.losses import NTXentLoss
from torch import Tensor

from objectives.functional import choose_first, in_batch_scores, nt_xent
from objectives.projection import Projection, ProjectionHead
from tests import oracles
from tests.objectives.gradients import assert_same_gradient, vector_pairs


def library_nt_xent(anchors: Tensor, positives: Tensor, temperature: float, queue: Tensor | None) -> Tensor:
    """Returns pytorch-metric-learning's loss; the queue is in ref_emb, and no vector is paired with itself."""
    n = len(anchors)
    vectors = torch.cat([anchors, positives])
    labels = torch.arange(n).repeat(2)
    loss = NTXentLoss(temperature=temperature)
    if queue is None:
        return loss(vectors, labels)
    bank = torch.cat([vectors, queue])
    bank_labels = torch.cat([labels, n + torch.arange(len(queue))])
    first, second = torch.where(labels[:, None] == bank_labels)
    keep = first != second
    negative = torch.where(labels[:, None] != bank_labels)
    indices = (first[keep], second[keep], *negative)
    return loss(vectors, labels, indices_tuple=indices, ref_emb=bank, ref_labels=bank_labels)


@settings(max_examples=60)
@given(
    documents=st.integers(1, 6),
    anchors_per_document=st.integers(1, 3),
    positives_per_anchor=st.integers(1, 4),
    temperature=st.floats(0.003, 1.0),
    queue_size=st.integers(0, 7),
    head=st.sampled_from([None, "relu", "linear"]),
    seed=st.integers(0, 1000),
)
def test_value_and_gradient_equal_pytorch_metric_learning(
    documents: int,
    anchors_per_document: int,
    positives_per_anchor: int,
    temperature: float,
    queue_size: int,
    head: Literal["relu", "linear"] | None,
    seed: int,
) -> None:
    n = max(2, documents * anchors_per_document)
    rng = torch.Generator().manual_seed(seed)
    spans = torch.randn(n * (1 + positives_per_anchor), 8, generator=rng, dtype=torch.float64).requires_grad_()
    queue = torch.randn(queue_size, 5 if head else 8, generator=rng, dtype=torch.float64) if queue_size else None
    torch.manual_seed(seed)
    head_settings = Projection(width=5, activation=head or "relu")
    projection = ProjectionHead(8, head_settings).double() if head else torch.nn.Identity()

    def split() -> tuple[Tensor, Tensor]:
        vectors = projection(spans)
        return vectors[:n], vectors[n:].unflatten(0, (n, positives_per_anchor)).mean(1)

    inputs = [spans, *projection.parameters()]
    ours = nt_xent(*split(), temperature=temperature, queue=queue)
    theirs = library_nt_xent(*split(), temperature, queue)
    # The library computes log(p + tiny): exact in float64 for p > 1e-300, which these temperatures ensure.
    assert_same_gradient(ours, theirs, inputs, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("queue_size", [0, 3])
@pytest.mark.parametrize("n", [1, 2, 5])
def test_value_and_gradient_equal_the_formula(n: int, queue_size: int) -> None:
    anchors, positives = vector_pairs(n, width=4, seed=n)
    queue = torch.randn(queue_size, 4, dtype=torch.float64) if queue_size else None
    ours = nt_xent(anchors, positives, temperature=0.05, queue=queue)
    naive = oracles.nt_xent(anchors, positives, 0.05, queue)
    torch.testing.assert_close(ours, naive, atol=1e-12, rtol=1e-12)
    assert_same_gradient(ours, naive, [anchors, positives], atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize("queue_size", [0, 6])
def test_equal_vectors_give_the_logarithm_of_the_number_of_candidates(queue_size: int) -> None:
    same = torch.ones(4, 3)
    queue = torch.ones(queue_size, 3) if queue_size else None
    value = nt_xent(same, same, temperature=0.1, queue=queue)
    assert value.item() == pytest.approx(math.log(2 * 4 - 1 + queue_size), rel=1e-6)


def test_two_orthogonal_pairs_by_hand() -> None:
    # Pair similarity 1, all others 0: each term is -log(e^(1/t) / (e^(1/t) + 2)).
    anchors = torch.eye(2, dtype=torch.float64)
    value = nt_xent(anchors, 3 * anchors, temperature=0.5)
    assert value.item() == pytest.approx(-math.log(math.e**2 / (math.e**2 + 2)), rel=1e-12)


def test_sum_is_2n_times_mean() -> None:
    anchors, positives = vector_pairs(5, width=4, seed=0)
    mean = nt_xent(anchors, positives, temperature=0.05)
    total = nt_xent(anchors, positives, temperature=0.05, reduction="sum")
    torch.testing.assert_close(total, 10 * mean)


def test_scale_and_order_of_vectors_do_not_change_the_loss() -> None:
    anchors, positives = vector_pairs(5, width=4, seed=1)
    value = nt_xent(anchors, positives, temperature=0.05)
    order = torch.randperm(5)
    torch.testing.assert_close(nt_xent(7 * anchors[order], positives[order] / 3, temperature=0.05), value)
    torch.testing.assert_close(nt_xent(positives, anchors, temperature=0.05), value)


def test_half_precision_inputs_are_compared_in_float32() -> None:
    anchors, positives = vector_pairs(6, width=16, seed=2)
    low = nt_xent(anchors.bfloat16(), positives.bfloat16(), temperature=0.005)
    exact = nt_xent(anchors.bfloat16().double(), positives.bfloat16().double(), temperature=0.005)
    assert low.dtype == torch.float32
    torch.testing.assert_close(low.double(), exact, rtol=1e-4, atol=1e-4)


def test_gradcheck() -> None:
    anchors, positives = vector_pairs(3, width=4, seed=3)
    queue = torch.randn(2, 4, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda a, p: nt_xent(a, p, temperature=0.3, queue=queue), (anchors, positives))


def test_small_temperature_does_not_cap_the_loss() -> None:
    # Cosines are -1 for the pair and +1 for a negative: the loss, about 2 / t, far exceeds -log(float32's tiny).
    anchors = torch.tensor([[1.0, 0.0], [-1.0, 0.0]])
    value = nt_xent(anchors, -anchors, temperature=1e-3)
    assert value.item() == pytest.approx(2000, rel=1e-3)


@settings(max_examples=60)
@given(n=st.integers(1, 9), data=st.data())
def test_in_batch_scores_and_gradient_equal_a_loop(n: int, data: st.DataObject) -> None:
    k = data.draw(st.integers(1, n))
    first, second = vector_pairs(n, width=4, seed=n)
    ours = in_batch_scores(first, second, k)
    naive = torch.stack([torch.stack([first[i] @ second[(i + j) % n] for j in range(k)]) for i in range(n)])
    torch.testing.assert_close(ours, naive)
    weights = torch.randn(n, k, dtype=torch.float64)
    assert_same_gradient((weights * ours).sum(), (weights * naive).sum(), [first, second])


def test_in_batch_scores_by_hand() -> None:
    first, second = torch.tensor([[1.0], [2.0], [3.0]]), torch.tensor([[1.0], [10.0], [100.0]])
    assert in_batch_scores(first, second, 2).tolist() == [[1, 10], [20, 200], [300, 3]]


def test_choose_first_by_hand() -> None:
    scores = torch.tensor([[math.log(3), 0.0], [0.0, math.log(3)], [5.0, 5.0]])
    loss, accuracy = choose_first(scores)
    assert loss.item() == pytest.approx((math.log(4 / 3) + math.log(4) + math.log(2)) / 3)
    assert accuracy.item() == pytest.approx(1 / 3)  # ties count as errors


def test_choose_first_is_finite_for_scores_beyond_exp() -> None:
    loss, _ = choose_first(torch.tensor([[1000.0, 0.0], [0.0, 1000.0]]))
    assert loss.item() == 500
