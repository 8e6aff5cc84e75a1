"""Reference implementation of the toolkit's classifier, with any number of hidden layers, one fit at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from analysis.senteval.protocols import ClassifierSettings


class PlainNetwork(NamedTuple):
    """The model with the best dev accuracy (in evaluation mode) and that accuracy."""

    model: nn.Sequential
    dev_accuracy: float

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
    classifier: ClassifierSettings,
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
    classifier: ClassifierSettings,
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

        def accuracy() -> float:
            return int((model(dev_x).argmax(1) == dev_y).sum()) / len(dev_y)

        best = plain_training(model, nn.functional.cross_entropy, x, y, accuracy, l2, classifier, random)
    return PlainNetwork(model, best)


def plain_training(
    model: nn.Sequential,
    loss: Callable[[Tensor, Tensor], Tensor],
    x: Tensor,
    y: Tensor,
    score: Callable[[], float],
    l2: float,
    classifier: ClassifierSettings,
    random: np.random.RandomState,
) -> float:
    """The toolkit's loop: keeps the weights with the best dev score, and returns that score."""
    optimizer_class = torch.optim.Adam if classifier.optimizer == "adam" else torch.optim.RMSprop
    optimizer = optimizer_class(model.parameters(), weight_decay=l2)
    best, failures, epochs = -1.0, 0, 0
    while failures <= classifier.patience and epochs <= classifier.max_epoch:
        model.train()
        for _ in range(classifier.epoch_size):
            for batch in torch.from_numpy(random.permutation(len(x))).split(classifier.batch):
                optimizer.zero_grad()
                loss(model(x[batch]), y[batch]).backward()
                optimizer.step()
        epochs += classifier.epoch_size
        model.eval()
        with torch.no_grad():
            reached = score()
        if reached > best:
            best, best_state = reached, {name: tensor.clone() for name, tensor in model.state_dict().items()}
        else:
            failures += 1
    model.load_state_dict(best_state)
    return best


def _model(inputs: int, classes: int, classifier: ClassifierSettings) -> nn.Sequential:
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
