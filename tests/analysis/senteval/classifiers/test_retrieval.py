from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from analysis.senteval.classifiers import retrieval as module
from analysis.senteval.classifiers.pairs import PairRows
from analysis.senteval.classifiers.retrieval import (
    batches,
    both_ranks,
    evaluate_splits,
    ranking_loss,
    retrieval,
    summary,
)
from analysis.senteval.classifiers.training import initial_layers

NO_ROWS = np.empty(0, np.int64)


def captioned(*images: int, noise: float = 0.5, width: int = 6) -> tuple[Any, ...]:
    """Returns shuffled vectors of captions, a linear map of their image's features plus noise; and each part."""
    to_text, end = np.random.default_rng(99).standard_normal((width, width + 2)), 0
    shuffled, parts = np.empty((5 * sum(images), width + 2), np.float32), []
    for seed, count in enumerate(images):
        random = np.random.default_rng(seed)
        features = random.standard_normal((count, width)).astype(np.float32)
        vectors = features.repeat(5, axis=0) @ to_text + noise * random.standard_normal((5 * count, width + 2))
        rows = end + random.permutation(5 * count)
        shuffled[rows], end = vectors, end + 5 * count
        parts.append(PairRows(rows, NO_ROWS, features))
    return shuffled, *parts


def naive_ranks(scores: np.ndarray) -> tuple[list[int], list[int]]:
    """Ranks by sorting; of equal scores the last comes first."""

    def order(row: np.ndarray) -> list[int]:
        return np.argsort(row, kind="stable")[::-1].tolist()

    image_to_text = [min(order(row).index(5 * image + k) for k in range(5)) for image, row in enumerate(scores)]
    text_to_image = [order(row).index(caption // 5) for caption, row in enumerate(scores.T)]
    return image_to_text, text_to_image


def naive_loss(images: Tensor, captions: Tensor, other_images: Tensor, other_captions: Tensor) -> float:
    total = 0.0
    for i in range(len(images)):
        matching = float(images[i] @ captions[i])
        for k in range(other_images.shape[1]):
            total += max(0.0, 0.2 - matching + float(images[i] @ other_captions[i, k]))
            total += max(0.0, 0.2 - matching + float(captions[i] @ other_images[i, k]))
    return total


def plain_training(
    vectors: np.ndarray, train: PairRows, dev: PairRows, epochs: int
) -> tuple[list[float], nn.Linear, nn.Linear]:
    """The toolkit's training: each caption has its own copy of the image, and negatives are drawn from lists."""
    random = np.random.RandomState(1111)
    images = torch.from_numpy(train.labels.repeat(5, axis=0))
    captions = torch.from_numpy(vectors[train.first])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1111)
        to_image, to_text = nn.Linear(images.shape[1], 1000), nn.Linear(captions.shape[1], 1000)
    optimizer = torch.optim.Adam([*to_image.parameters(), *to_text.parameters()])

    def unit(rows: Tensor) -> Tensor:
        return rows / torch.sqrt(torch.pow(rows, 2).sum(-1, keepdim=True))

    dev_scores = []
    for _ in range(epochs):
        order = list(random.permutation(len(captions)))
        for begin in range(0, len(order), 128):
            own, others = order[begin : begin + 128], order[:begin] + order[begin + 128 :]
            other_images = random.choice(others, 30 * len(own)).reshape(-1, 30)
            other_captions = random.choice(others, 30 * len(own)).reshape(-1, 30)
            image, caption = unit(to_image(images[own])), unit(to_text(captions[own]))
            matching = (image * caption).sum(1, keepdim=True)
            to_captions = (image[:, None] * unit(to_text(captions[other_captions]))).sum(2)
            to_images = (caption[:, None] * unit(to_image(images[other_images]))).sum(2)
            loss = (0.2 - matching + to_captions).clamp(min=0).sum() + (0.2 - matching + to_images).clamp(
                min=0
            ).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            image_vectors = unit(to_image(torch.from_numpy(dev.labels)))
            caption_vectors = unit(to_text(torch.from_numpy(vectors[dev.first])))
            ranks = naive_ranks((image_vectors @ caption_vectors.T).numpy())
        dev_scores.append(
            sum(100 * float(np.mean(np.array(direction) < k)) for direction in ranks for k in (1, 5, 10))
        )
    return dev_scores, to_image, to_text


def test_scores_equal_those_of_the_toolkits_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_EPOCH", 2)  # gives three epochs
    vectors, train, dev, test = captioned(40, 30, 35)
    dev_scores, to_image, to_text = plain_training(vectors, train, dev, 3)
    total, sides = retrieval(vectors, train, dev, test)
    assert total == pytest.approx(max(dev_scores), abs=1.0)  # one caption changes a recall by 0.67
    if dev_scores[2] == max(dev_scores):
        maps = [layer.detach() for layer in (*to_image.parameters(), *to_text.parameters())]
        expected = evaluate_splits(maps, vectors, test)
        assert sides[0] == pytest.approx(expected[0], abs=3) and sides[1] == pytest.approx(expected[1], abs=1)


def test_batches_equal_those_of_the_toolkit() -> None:
    mine, theirs = np.random.RandomState(1111), np.random.RandomState(1111)
    for _ in range(2):
        result = list(batches(300, mine))
        order = list(theirs.permutation(300))
        assert len(result) == 3
        for begin, (own, images, captions) in zip(range(0, 300, 128), result, strict=True):
            others = order[:begin] + order[begin + 128 :]
            assert own.tolist() == order[begin : begin + 128]
            assert images.tolist() == theirs.choice(others, 30 * len(own)).tolist()
            assert captions.tolist() == theirs.choice(others, 30 * len(own)).tolist()
            assert not {*own.tolist()} & {*images.tolist(), *captions.tolist()}


def test_loss_equals_a_naive_loop() -> None:
    def unit(*shape: int) -> Tensor:
        return nn.functional.normalize(torch.randn(*shape, dtype=torch.float64, generator=random), dim=-1)

    random = torch.Generator().manual_seed(0)
    images, captions, other_images, other_captions = unit(4, 3), unit(4, 3), unit(4, 5, 3), unit(4, 5, 3)
    expected = naive_loss(images, captions, other_images, other_captions)
    others = other_images.flatten(0, 1), other_captions.flatten(0, 1)
    assert float(ranking_loss(images, captions, *others)) == pytest.approx(expected)
    assert float(ranking_loss(images, captions, 3 * others[0], 0.1 * others[1])) == pytest.approx(expected)


def test_loss_solved_by_hand() -> None:
    image = caption = torch.tensor([[1.0, 0.0]])
    far, near, same = (torch.tensor([[cos, (1 - cos**2) ** 0.5]]) for cos in (0.5, 0.9, 1.0))
    assert float(ranking_loss(image, caption, far, far)) == 0
    assert float(ranking_loss(image, caption, near, far)) == pytest.approx(0.1)
    assert float(ranking_loss(image, caption, near, same)) == pytest.approx(0.3)


@given(st.integers(1, 6), st.integers(0, 1000), st.integers(1, 8))
def test_ranks_equal_those_of_sorting(images: int, seed: int, values: int) -> None:
    random = np.random.default_rng(seed)
    scores = random.integers(values, size=(images, 5 * images)).astype(np.float32)  # with ties
    image_to_text, text_to_image = both_ranks(torch.from_numpy(scores))
    assert (image_to_text.tolist(), text_to_image.flatten().tolist()) == naive_ranks(scores)


def test_recalls_and_median_rank_solved_by_hand() -> None:
    assert summary(np.array([0, 3, 4, 9])) == [25, 75, 100, 4]
    assert summary(np.array([0, 1, 6, 20])) == [25, 50, 75, 4]  # the median 3.5 is rounded down


@pytest.mark.parametrize(("images", "splits", "size"), [(99, 1, 99), (100, 1, 100), (230, 2, 100), (600, 5, 100)])
def test_images_are_evaluated_in_splits_of_a_thousand(
    images: int, splits: int, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hundred stand for a thousand."""
    assert module.SPLIT_IMAGES == 1000
    monkeypatch.setattr(module, "SPLIT_IMAGES", 100)
    vectors, part = captioned(images, noise=5.0, width=2)
    maps, _ = initial_layers([(2, 20), (4, 20)], 1)
    each = [
        evaluate_splits(
            maps, vectors, PairRows(part.first[5 * begin :][: 5 * size], NO_ROWS, part.labels[begin:][:size])
        )
        for begin in range(0, splits * size, size)
    ]
    np.testing.assert_allclose(evaluate_splits(maps, vectors, part), np.mean(each, axis=0))
