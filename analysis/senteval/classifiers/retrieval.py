"""Image and caption retrieval: two linear maps trained with a ranking loss (``senteval/tools/ranking.py``)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import linear, relu

from analysis.senteval.captions import CAPTIONS
from analysis.senteval.classifiers.pairs import PairRows
from analysis.senteval.classifiers.training import initial_layers
from analysis.senteval.protocols import SEED

PROJECTION = 1000
MARGIN = 0.2
CONTRAST = 30
BATCH = 128
MAX_EPOCH = 20
PATIENCE = 3
SPLIT_IMAGES, SPLITS = 1000, 5


def retrieval(
    vectors: np.ndarray, train: PairRows, dev: PairRows, test: PairRows, *, device: str = "cpu"
) -> tuple[float, np.ndarray]:
    """Trains both maps with the toolkit's seeds, negatives, batches and early stopping.

    Args:
        vectors: vectors of distinct captions, float32 of shape (m, D); may be memory-mapped.
        train, dev, test: n images each. ``labels`` are their features, float32 of shape (n, F); ``first`` are the
            rows of their captions, five an image.
        device: device to train on; it holds all images and captions.

    Returns:
        The sum of the six recalls on dev, 0 .. 600, as in the toolkit; the results of ``evaluate_splits`` on test.
    """
    rows, stream, matrices = train.first, np.random.RandomState(SEED), [train.labels, vectors]
    images, captions = (matrix if device == "cpu" else torch.tensor(matrix, device=device) for matrix in matrices)
    layers, _ = initial_layers([(matrix.shape[1], PROJECTION) for matrix in matrices], SEED)
    maps = [layer.to(device).requires_grad_() for layer in layers]
    optimizer = torch.optim.Adam(maps)
    best, failures = -1.0, 0
    for _ in range(MAX_EPOCH + 1):
        for batch, other_images, other_captions in batches(len(rows), stream):
            pairs = project(maps, images[batch // CAPTIONS], captions[rows[batch]])
            others = project(maps, images[other_images // CAPTIONS], captions[rows[other_captions]])
            optimizer.zero_grad()
            ranking_loss(*pairs, *others).backward()
            optimizer.step()
        score = float(evaluate_splits(maps, vectors, dev)[:, :3].sum())
        if score > best:
            best, best_maps = score, [layer.detach().clone() for layer in maps]
        elif (failures := failures + 1) > PATIENCE:
            break
    return best, evaluate_splits(best_maps, vectors, test)


def project(maps: list[Tensor], *rows: Any) -> list[Tensor]:
    """Maps images of shape (B, F) and captions of shape (B, D) to shape (B, P)."""
    sides = zip(rows, maps[::2], maps[1::2], strict=True)
    return [linear(torch.as_tensor(side, device=bias.device), weight, bias) for side, weight, bias in sides]


@torch.no_grad()
def evaluate_splits(maps: list[Tensor], vectors: np.ndarray, examples: PairRows) -> np.ndarray:
    """Computes the means over the splits of up to 1,000 images each; images that fill no split are left out.

    Returns:
        Recalls at 1, 5 and 10 in percent and the median rank (best: 1), of shape (2, 4): from image to text, from
        text to image.
    """
    images, rows = examples.labels, examples.first.reshape(-1, CAPTIONS)
    size = min(len(images), SPLIT_IMAGES)
    splits = []
    for part in (slice(k * size, (k + 1) * size) for k in range(min(SPLITS, len(images) // size))):
        sides = map(unit, project(maps, images[part], vectors[rows[part].reshape(-1)]))
        splits.append([summary(ranks.cpu().numpy()) for ranks in both_ranks(linear(*sides))])
    return np.mean(splits, axis=0)


def unit(rows: Tensor) -> Tensor:
    """Scales rows of shape (B, P) to length 1."""
    return rows / rows.square().sum(dim=1, keepdim=True).sqrt()


def ranking_loss(images: Tensor, captions: Tensor, other_images: Tensor, other_captions: Tensor) -> Tensor:
    """Computes the sum of the margin violations of all negatives, in both directions, by cosine.

    Args:
        images, captions: projections of shape (B, P), paired row by row.
        other_images, other_captions: negatives of shape (B * K, P), K for each row.
    """
    images, captions = unit(images), unit(captions)
    near = (images * captions).sum(dim=1, keepdim=True)

    def violations(rows: Tensor, others: Tensor) -> Tensor:
        others = others.unflatten(0, (len(rows), -1))
        far = torch.einsum("bp,bkp->bk", rows, others) / torch.linalg.vector_norm(others, dim=2)
        return relu(MARGIN - near + far).sum()

    return violations(images, other_captions) + violations(captions, other_images)


def batches(captions: int, stream: np.random.RandomState) -> Iterator[list[np.ndarray]]:
    """Yields the batches of one epoch: numbers of B captions, and (B * 30,) negatives for images and captions.

    Negatives are sampled with replacement from outside the batch. The samples equal those of ``stream.choice`` on
    the epoch's order without the batch, as in the toolkit, but that list is never built.
    """
    order = stream.permutation(captions)
    for begin in range(0, captions, BATCH):
        batch = order[begin : begin + BATCH]
        places = [stream.randint(0, captions - len(batch), CONTRAST * len(batch)) for _ in range(2)]
        yield [batch, *(order[place + len(batch) * (place >= begin)] for place in places)]


def both_ranks(scores: Tensor) -> tuple[Tensor, Tensor]:
    """Computes the ranks, from 0, of each image's best caption and of each caption's image among all.

    Among equal scores the later column ranks first. This does not favour the correct one, so identical vectors
    score at chance level.

    Args:
        scores: of shape (n, 5n); captions 5i .. 5i + 4 belong to image i.

    Returns:
        Ranks of shapes (n,) and (5n, 1).
    """
    captions = torch.arange(scores.shape[1], device=scores.device).view(-1, CAPTIONS)
    return _ranks(scores, captions).amin(dim=1), _ranks(scores.T, captions.view(-1, 1) // CAPTIONS)


def _ranks(scores: Tensor, columns: Tensor) -> Tensor:
    """Computes the ranks of ``columns``, of shape (n, k), in the rows of scores of shape (n, m)."""
    order = scores.flip(1).argsort(dim=1, descending=True, stable=True)
    return order.argsort(dim=1).flip(1).gather(1, columns)


def summary(ranks: np.ndarray) -> list[float]:
    """Computes recalls at 1, 5 and 10 in percent, and the median rank from 1, of ranks counted from 0."""
    return [*(100 * np.mean(ranks < k) for k in (1, 5, 10)), np.floor(np.median(ranks)) + 1]
