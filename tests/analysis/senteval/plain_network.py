"""Reference implementation of the toolkit's classifier, with any number of hidden layers, one fit at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from analysis.senteval.protocols import Classifier


class PlainNetwork(NamedTuple):
    """The model with the best dev accuracy (in evaluation mode), that accuracy, and the number of epochs."""

    model: nn.Sequential
    dev_accuracy: float
    epochs: int

    def logits(self, features: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return self.model(torch.from_numpy(features)).numpy()


@contextmanager
def one_thread() -> Iterator[None]:
    """Limits torch to one thread, as steps this small are slower on several."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def plain_fit(
    features: np.ndarray,
    labels: np.ndarray,
    train: np.ndarray,
    dev: np.ndarray | None,
    l2: float,
    classes: int,
    classifier: Classifier,
) -> PlainNetwork:
    """Fits one classifier on rows of one matrix, as ``plain_network`` does."""
    held_out = None if dev is None else (features[dev], labels[dev])
    return plain_network((features[train], labels[train]), held_out, l2, classes, classifier)


@one_thread()
def plain_network(
    train: tuple[np.ndarray, np.ndarray],
    dev: tuple[np.ndarray, np.ndarray] | None,
    l2: float,
    classes: int,
    classifier: Classifier,
) -> PlainNetwork:
    """Fits one classifier with its seed; without ``dev``, 5 % of ``train`` are held out as dev set."""
    random = np.random.RandomState(classifier.seed)
    x, y = map(torch.from_numpy, train)
    if dev is None:
        order, held_out = torch.from_numpy(random.permutation(len(x))), int(0.05 * len(x))
        dev_x, dev_y, x, y = x[order[:held_out]], y[order[:held_out]], x[order[held_out:]], y[order[held_out:]]
    else:
        dev_x, dev_y = map(torch.from_numpy, dev)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(classifier.seed)
        model = _model(x.shape[1], classes, classifier)
        optimizer: torch.optim.Optimizer
        if classifier.optimizer == "adam":
            optimizer = torch.optim.Adam(model.parameters(), weight_decay=l2)
        else:
            optimizer = torch.optim.RMSprop(model.parameters(), weight_decay=l2)
        best, failures, epochs = -1.0, 0, 0
        while failures <= classifier.patience and epochs <= classifier.max_epoch:
            model.train()
            for _ in range(classifier.epoch_size):
                for batch in torch.from_numpy(random.permutation(len(x))).split(classifier.batch):
                    optimizer.zero_grad()
                    nn.functional.cross_entropy(model(x[batch]), y[batch]).backward()
                    optimizer.step()
            epochs += classifier.epoch_size
            model.eval()
            with torch.no_grad():
                accuracy = int((model(dev_x).argmax(1) == dev_y).sum()) / len(dev_y)
            if accuracy > best:
                best, best_state = accuracy, {name: tensor.clone() for name, tensor in model.state_dict().items()}
            else:
                failures += 1
    model.load_state_dict(best_state)
    return PlainNetwork(model, best, epochs)


def _model(inputs: int, classes: int, classifier: Classifier) -> nn.Sequential:
    if not classifier.hidden:
        return nn.Sequential(nn.Linear(inputs, classes))
    model = nn.Sequential()
    for _ in range(classifier.layers):
        model.append(nn.Linear(inputs, classifier.hidden))
        activation = nn.Sigmoid() if classifier.activation == "sigmoid" else nn.ReLU()
        if classifier.dropout_last:
            model.extend([activation, nn.Dropout(classifier.dropout)])
        else:
            model.extend([nn.Dropout(classifier.dropout), activation])
        inputs = classifier.hidden
    return model.append(nn.Linear(inputs, classes))
