"""Trained sentence relatedness: STS-B and SICK-R (``senteval/tools/relatedness.py``; Tai et al. 2015)."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from analysis.senteval.classifiers.training import Patience, toolkit_stream
from analysis.senteval.features import Progress
from analysis.senteval.protocols import SEED
from analysis.senteval.scores import correlation

CLASSES = 5
BATCH = 64
MAX_EPOCH, EPOCH_SIZE = 1000, 50
PATIENCE = 3


class Scored(NamedTuple):
    """n pairs with gold scores.

    Attributes:
        features: [|u-v|; u*v], float32 of shape (n, F).
        gold: of shape (n,).
    """

    features: np.ndarray
    gold: np.ndarray


class Relatedness(NamedTuple):
    """Predictions of the model of the best dev evaluation.

    Attributes:
        dev: Pearson on dev; NaN if undefined, which counts as 0 in model selection.
        predictions: expected scores of the test pairs, 1 .. 5, float64 of shape (n,).
        epochs: number of epochs trained.
    """

    dev: float
    predictions: np.ndarray
    epochs: int


def relatedness(
    train: Scored,
    dev: Scored,
    test: np.ndarray,
    *,
    progress: Progress | None = None,
) -> Relatedness:
    """Trains a distribution over the scores 1 .. 5 with the toolkit's seeds, batches and early stopping.

    It runs on the CPU: on a GPU starting the kernels of such small steps takes longer than the steps.

    Args:
        test: features of the test pairs, float32 of shape (n, F).
        progress: called with the share done, 0 .. 1, at each dev evaluation.
    """
    features, dev_features, test_features = (
        torch.as_tensor(part, dtype=torch.float32) for part in (train.features, dev.features, test)
    )
    targets = torch.as_tensor(two_point(train.gold).T)
    model = _Model(features.shape[1])
    stream = np.random.RandomState(SEED)
    patience = Patience(PATIENCE)
    epochs = 0
    while not patience.spent and epochs <= MAX_EPOCH:
        for _ in range(EPOCH_SIZE):
            model.learn(features, targets, torch.from_numpy(stream.permutation(len(features))))
        epochs += EPOCH_SIZE
        pearson = correlation(model.expected(dev_features), dev.gold).pearson
        if patience.rises(0.0 if math.isnan(pearson) else pearson):
            kept, best = model.values.clone(), pearson
        if progress is not None:
            progress(1.0 if patience.spent else min(1.0, epochs / (MAX_EPOCH + EPOCH_SIZE)))
    model.values.copy_(kept)
    return Relatedness(best, model.expected(test_features), epochs)


def two_point(gold: np.ndarray) -> np.ndarray:
    """Converts scores of shape (n,) to distributions over 1 .. 5, float32 of shape (n, 5).

    The mass of a score between two integers is divided between them (Tai et al. 2015, section 4.2). As in the
    toolkit a score below 1 keeps only the mass on 1, so its row sums to less than one.
    """
    distance = np.abs(np.asarray(gold, dtype=np.float64)[:, None] - np.arange(1, CLASSES + 1))
    return np.maximum(1 - distance, 0).astype(np.float32)


def adam(parameter: Tensor, gradient: Tensor, mean: Tensor, square: Tensor, step: int) -> None:
    """Makes one update of ``torch.optim.Adam`` in place, faster for few numbers; ``step`` counts from 1."""
    mean.lerp_(gradient, 0.1)
    square.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
    scale = square.sqrt().div_(math.sqrt(1 - 0.999**step)).add_(1e-8)
    parameter.addcdiv_(mean, scale, value=-1e-3 / (1 - 0.9**step))


class _Model:
    """Softmax regression with squared error; weights and biases are one vector, so that Adam needs one update."""

    def __init__(self, width: int) -> None:
        with toolkit_stream("cpu"):
            layer = nn.Linear(width, CLASSES)
        self.values = torch.cat([layer.weight.detach().flatten(), layer.bias.detach()])
        self.weight, self.bias = self._parts(self.values)
        self.gradient = torch.zeros_like(self.values)
        self.weight_gradient, self.bias_gradient = self._parts(self.gradient)
        self.mean, self.square = torch.zeros_like(self.values), torch.zeros_like(self.values)
        self.step = 0

    @staticmethod
    def _parts(values: Tensor) -> tuple[Tensor, Tensor]:
        return values[:-CLASSES].view(CLASSES, -1), values[-CLASSES:]

    def learn(self, features: Tensor, targets: Tensor, order: Tensor) -> None:
        """Trains one epoch with explicit gradients: autograd and torch.optim are slow for such small steps."""
        targets = targets[:, order]
        for begin in range(0, len(order), BATCH):
            rows = features.index_select(0, order[begin : begin + BATCH])
            probabilities = self._probabilities(rows)
            error = probabilities - targets[:, begin : begin + BATCH]
            error *= 2 / error.numel()
            error -= (error * probabilities).sum(dim=0)
            error *= probabilities
            torch.mm(error, rows, out=self.weight_gradient)
            torch.sum(error, dim=1, out=self.bias_gradient)
            self.step += 1
            adam(self.values, self.gradient, self.mean, self.square, self.step)

    def expected(self, features: Tensor) -> np.ndarray:
        """Computes expected scores, float64 of shape (n,), for features of shape (n, F)."""
        return np.arange(1.0, CLASSES + 1) @ self._probabilities(features).numpy().astype(np.float64)

    def _probabilities(self, rows: Tensor) -> Tensor:
        """Computes probabilities of shape (5, B); one class per row, as long rows are faster."""
        return torch.softmax(torch.mm(self.weight, rows.T).add_(self.bias[:, None]), dim=0)
