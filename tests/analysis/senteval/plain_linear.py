"""Reference implementation of the toolkit's linear classifier in plain PyTorch, one fit at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from analysis.senteval.protocols import Classifier


class PlainFit(NamedTuple):
    """Weights, dev accuracy and number of epochs of one fit."""

    dev_accuracy: float
    weight: np.ndarray
    bias: np.ndarray
    epochs: int

    def logits(self, rows: np.ndarray) -> np.ndarray:
        return rows @ self.weight.T + self.bias


@contextmanager
def one_thread() -> Iterator[None]:
    """Limits torch to one thread, as steps this small are slower on several."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@one_thread()
def plain_fit(
    features: np.ndarray,
    labels: np.ndarray,
    train: np.ndarray,
    dev: np.ndarray | None,
    l2: float,
    classes: int,
    classifier: Classifier,
) -> PlainFit:
    random = np.random.RandomState(1111)
    if dev is None:
        order, held_out = random.permutation(len(train)), int(0.05 * len(train))
        train, dev = train[order[held_out:]], train[order[:held_out]]
    with torch.random.fork_rng():
        torch.manual_seed(1111)
        model = nn.Linear(features.shape[1], classes)
    optimizer: torch.optim.Optimizer
    if classifier.optimizer == "adam":
        optimizer = torch.optim.Adam(model.parameters(), weight_decay=l2)
    else:
        optimizer = torch.optim.RMSprop(model.parameters(), weight_decay=l2)
    train_x, train_y = torch.tensor(features[train]), torch.tensor(labels[train])
    dev_x, dev_y = torch.tensor(features[dev]), torch.tensor(labels[dev])
    best, failures, epochs = -1.0, 0, 0
    while failures <= classifier.patience and epochs <= classifier.max_epoch:
        for _ in range(classifier.epoch_size):
            order = random.permutation(len(train_x))
            for low in range(0, len(order), classifier.batch):
                chosen = torch.from_numpy(order[low : low + classifier.batch])
                loss = nn.functional.cross_entropy(model(train_x[chosen]), train_y[chosen])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        epochs += classifier.epoch_size
        with torch.no_grad():
            accuracy = int((model(dev_x).argmax(1) == dev_y).sum()) / len(dev_y)
        if accuracy > best:
            best = accuracy
            best_parameters = [parameter.detach().numpy().copy() for parameter in model.parameters()]
        else:
            failures += 1
    return PlainFit(best, best_parameters[0], best_parameters[1], epochs)
