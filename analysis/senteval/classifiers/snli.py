"""SNLI: a classifier of [u; v; u*v; |u-v|], with features built batch by batch (``senteval/snli.py``)."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from analysis.senteval.classifiers.networks import network
from analysis.senteval.classifiers.training import Patience, Table, toolkit_stream
from analysis.senteval.features import Progress
from analysis.senteval.protocols import SEED, SNLI_EPOCH_SIZE, SNLI_L2, SNLI_MAX_EPOCH, Classifier

CLASSES = 3
_EVALUATION_PAIRS = 1024  # pairs at a time in evaluation


class Pairs(NamedTuple):
    """n pairs of sentences.

    Attributes:
        first, second: rows of the matrix of vectors, int64 of shape (n,).
        labels: classes 0 .. 2, int64 of shape (n,).
    """

    first: np.ndarray
    second: np.ndarray
    labels: np.ndarray


class Snli(NamedTuple):
    """Predictions of the classifier of the best epoch.

    Attributes:
        dev: accuracy in percent, as the toolkit rounds it.
        probabilities: class probabilities of the test pairs, float32 of shape (n_test, 3).
        epochs: number of epochs trained.
    """

    dev: float
    probabilities: np.ndarray
    epochs: int


def snli(
    vectors: np.ndarray,
    train: Pairs,
    dev: Pairs,
    test: Pairs,
    classifier: Classifier,
    *,
    device: torch.device | str = "cpu",
    progress: Progress | None = None,
) -> Snli:
    """Trains with the toolkit's seeds, batches and early stopping; no L2 is selected.

    Args:
        vectors: vectors of distinct sentences, float32 of shape (m, D); may be memory-mapped. Features are built
            one batch at a time, of shape (B, 4D).
        classifier: its ``max_epoch`` and ``epoch_size`` are replaced by SNLI's own.
        device: device to train on; vectors that do not fit there stay on the host.
        progress: called with the share done, 0 .. 1.
    """
    table = Table(vectors, device)
    stream = np.random.RandomState(SEED)
    patience = Patience(classifier.patience)
    steps = -(-len(train.labels) // classifier.batch)
    epochs = 0
    with toolkit_stream(device):
        model = network(4 * table.width, CLASSES, classifier).to(device)
        optimizer = _optimizer(model, classifier)
        while not patience.spent and epochs <= SNLI_MAX_EPOCH:
            for _ in range(SNLI_EPOCH_SIZE):
                order = stream.permutation(len(train.labels))
                for step, (rows, labels) in enumerate(_batches(table, train, order, classifier.batch), start=1):
                    optimizer.zero_grad()
                    cross_entropy(model(rows), labels).backward()
                    optimizer.step()
                    if progress is not None:
                        progress((epochs + step / steps) / (SNLI_MAX_EPOCH + SNLI_EPOCH_SIZE))
                epochs += 1
            predicted = _scores(model, table, dev).argmax(dim=1).numpy()
            if patience.rises(float((predicted == dev.labels).mean())):
                kept = copy.deepcopy(model)
    probabilities = torch.softmax(_scores(kept, table, test), dim=1).numpy()
    if progress is not None:
        progress(1.0)
    return Snli(round(100 * patience.best, 2), probabilities, epochs)


def _optimizer(model: nn.Module, classifier: Classifier) -> torch.optim.Optimizer:
    if classifier.optimizer == "adam":
        return torch.optim.Adam(model.parameters(), weight_decay=SNLI_L2)
    return torch.optim.RMSprop(model.parameters(), lr=1e-2, weight_decay=SNLI_L2)


def _batches(table: Table, pairs: Pairs, order: np.ndarray, batch: int) -> Iterator[tuple[Tensor, Tensor]]:
    labels = torch.as_tensor(pairs.labels, device=table.device)
    for begin in range(0, len(order), batch):
        rows = order[begin : begin + batch]
        u, v = table[pairs.first[rows]], table[pairs.second[rows]]
        yield torch.cat([u, v, u * v, (u - v).abs_()], dim=1), labels[torch.from_numpy(rows).to(table.device)]


@torch.no_grad()
def _scores(model: nn.Module, table: Table, pairs: Pairs) -> Tensor:
    """Computes scores of shape (n, 3), on the host."""
    model.eval()
    parts = [
        model(rows).cpu() for rows, _ in _batches(table, pairs, np.arange(len(pairs.labels)), _EVALUATION_PAIRS)
    ]
    model.train()
    return torch.cat(parts)
