"""Image and caption retrieval: two linear maps trained with a ranking loss (``senteval/tools/ranking.py``)."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import relu

from analysis.senteval.classifiers.training import Patience, Recorded, Table, toolkit_stream
from analysis.senteval.features import Progress
from analysis.senteval.protocols import SEED
from data.batch import to_device
from data.errors import UserError

PROJECTION = 1000
MARGIN = 0.2
CONTRAST = 30
BATCH = 128
MAX_EPOCH = 20
PATIENCE = 3
CAPTIONS = 5  # per image
SPLIT_IMAGES, SPLITS = 1000, 5


class Captioned(NamedTuple):
    """n images and their captions.

    Attributes:
        images: float32 of shape (n, F).
        vectors: vectors of distinct captions, float32 of shape (m, D); may be memory-mapped.
        captions: rows of ``vectors``, int64 of shape (n, 5).
    """

    images: np.ndarray
    vectors: np.ndarray
    captions: np.ndarray


class Ranks(NamedTuple):
    """Recalls in percent and the median rank (best: 1)."""

    recall_1: float
    recall_5: float
    recall_10: float
    median: float


class Retrieval(NamedTuple):
    """Scores of the model of the best dev evaluation.

    Attributes:
        dev: sum of the six recalls on dev, 0 .. 600, as in the toolkit.
        image_to_text, text_to_image: means over the splits of test.
        splits: number of test splits: up to 5 of 1,000 images; fewer than 1,000 images are one split.
        epochs: number of epochs trained.
    """

    dev: float
    image_to_text: Ranks
    text_to_image: Ranks
    splits: int
    epochs: int


def retrieval(
    train: Captioned,
    dev: Captioned,
    test: Captioned,
    *,
    device: torch.device | str = "cpu",
    progress: Progress | None = None,
) -> Retrieval:
    """Trains both maps with the toolkit's seeds, negatives, batches and early stopping.

    Args:
        device: device to train on; vectors that do not fit there stay on the host.
        progress: called with the share done, 0 .. 1.

    Raises:
        UserError: if there are too few training captions for negatives outside the batch.
    """
    captions = train.captions.size
    if captions <= BATCH:
        raise UserError(f"{captions} captions to train on; more than {BATCH} are needed as negatives")
    steps = -(-captions // BATCH)
    images, sentences = Table(train.images, device), Table(train.vectors, device)
    of = train.captions.reshape(-1)
    with toolkit_stream(device):
        model = Projections(images.width, sentences.width).to(device)
    on_gpu = images.on_gpu and sentences.on_gpu
    optimizer = torch.optim.Adam(model.parameters(), fused=on_gpu, capturable=on_gpu)

    def update(own: Tensor, own_captions: Tensor, others: Tensor, other_captions: Tensor) -> None:
        optimizer.zero_grad()
        ranking_loss(
            model.image(images[own]),
            model.caption(sentences[own_captions]),
            model.images(images[others]).unflatten(0, (-1, CONTRAST)),
            model.captions(sentences[other_captions]).unflatten(0, (-1, CONTRAST)),
        ).backward()
        optimizer.step()

    recorded = Recorded()
    place = device if on_gpu else "cpu"
    stream = np.random.RandomState(SEED)
    patience = Patience(PATIENCE)
    epochs = 0
    while not patience.spent and epochs <= MAX_EPOCH:
        for step, (own, others, other_captions) in enumerate(batches(captions, stream), start=1):
            rows = own // CAPTIONS, of[own], others // CAPTIONS, of[other_captions]
            recorded(update, *(to_device(torch.from_numpy(one), place) for one in rows))
            if progress is not None:
                progress((epochs + step / steps) / (MAX_EPOCH + 1))
        epochs += 1
        forth, back = evaluate_splits(model, dev, device)
        if patience.rises(sum(forth[:3]) + sum(back[:3])):
            kept = copy.deepcopy(model)
    if progress is not None:
        progress(1.0)
    splits, _ = _splits(len(test.images))
    return Retrieval(patience.best, *evaluate_splits(kept, test, device), splits, epochs)


class Projections(nn.Module):
    """Linear maps of images and captions into one space, normalised to length 1."""

    def __init__(self, image_width: int, caption_width: int) -> None:
        super().__init__()
        self.images = nn.Linear(image_width, PROJECTION)
        self.captions = nn.Linear(caption_width, PROJECTION)

    def image(self, rows: Tensor) -> Tensor:
        """Projects rows of shape (B, F) to shape (B, P)."""
        return self._unit(self.images(rows))

    def caption(self, rows: Tensor) -> Tensor:
        """Projects rows of shape (B, D) to shape (B, P)."""
        return self._unit(self.captions(rows))

    @staticmethod
    def _unit(rows: Tensor) -> Tensor:
        return rows / rows.square().sum(dim=1, keepdim=True).sqrt()


def ranking_loss(images: Tensor, captions: Tensor, other_images: Tensor, other_captions: Tensor) -> Tensor:
    """Computes the sum of the margin violations of all negatives, in both directions.

    Args:
        images, captions: projections of length 1, of shape (B, P), paired row by row.
        other_images, other_captions: negatives of any length, of shape (B, K, P).
    """
    near = (images * captions).sum(dim=1, keepdim=True)
    to_captions, to_images = _cosines(images, other_captions), _cosines(captions, other_images)
    return relu(MARGIN - near + to_captions).sum() + relu(MARGIN - near + to_images).sum()


def _cosines(rows: Tensor, others: Tensor) -> Tensor:
    """Returns the cosines, of shape (B, K), of rows of length 1, (B, P), with others of any, (B, K, P)."""
    return torch.einsum("bp,bkp->bk", rows, others) / torch.linalg.vector_norm(others, dim=2)


def batches(captions: int, stream: np.random.RandomState) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yields the batches of one epoch: numbers of B captions, and (B * 30,) negatives for images and captions.

    Negatives are sampled with replacement from outside the batch. The samples equal those of ``stream.choice`` on
    the epoch's order without the batch, as in the toolkit, but that list is never built.
    """
    order = stream.permutation(captions)
    for begin in range(0, captions, BATCH):
        own = order[begin : begin + BATCH]
        places = (stream.randint(0, captions - len(own), CONTRAST * len(own)) for _ in range(2))
        images, sentences = (order[place + len(own) * (place >= begin)] for place in places)
        yield own, images, sentences


@torch.no_grad()
def evaluate_splits(model: Projections, examples: Captioned, device: torch.device | str) -> tuple[Ranks, Ranks]:
    """Computes the ranks from image to text and back, as means over the splits."""
    splits, size = _splits(len(examples.images))
    found = []
    for begin in range(0, splits * size, size):
        part = slice(begin, begin + size)
        rows = examples.vectors[examples.captions[part].reshape(-1)]
        images = model.image(torch.from_numpy(examples.images[part]).to(device))
        captions = model.caption(torch.from_numpy(rows).to(device))
        found.append([summary(ranks) for ranks in both_ranks(images @ captions.T)])
    forth, back = np.mean(found, axis=0).tolist()
    return Ranks(*forth), Ranks(*back)


def both_ranks(scores: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Computes the ranks, from 0, of each image's best caption and of each caption's image among all.

    Among equal scores the later column ranks first. This does not favour the correct one, so identical vectors
    score at chance level.

    Args:
        scores: of shape (n, 5n); captions 5i .. 5i + 4 belong to image i.

    Returns:
        Ranks of shapes (n,) and (5n,).
    """
    n = len(scores)
    own = torch.arange(n * CAPTIONS, device=scores.device).view(n, CAPTIONS)
    of_own = scores.gather(1, own)
    best = of_own.amax(dim=1)
    last = torch.where(of_own == best[:, None], own, -1).amax(dim=1)
    forth = _ranks(scores, best, last)
    image = torch.arange(n, device=scores.device).repeat_interleave(CAPTIONS)
    back = _ranks(scores.T, scores.T.gather(1, image[:, None])[:, 0], image)
    return forth.cpu().numpy(), back.cpu().numpy()


def _ranks(scores: Tensor, right: Tensor, column: Tensor) -> Tensor:
    """Counts in each row the columns that rank before ``column``, whose score is ``right``."""
    later = torch.arange(scores.shape[1], device=scores.device) > column[:, None]
    right = right[:, None]
    return ((scores > right) | ((scores == right) & later)).sum(dim=1)


def summary(ranks: np.ndarray) -> Ranks:
    """Computes recalls and median of ranks counted from 0."""
    first, five, ten = (100 * float(np.mean(ranks < k)) for k in (1, 5, 10))
    return Ranks(first, five, ten, float(np.floor(np.median(ranks)) + 1))


def _splits(images: int) -> tuple[int, int]:
    """Returns the number of splits and of images in each; remaining images are not evaluated."""
    return (min(SPLITS, images // SPLIT_IMAGES), SPLIT_IMAGES) if images >= SPLIT_IMAGES else (1, images)
