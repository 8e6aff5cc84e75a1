"""Trains many linear classifiers with one batched product per step, for devices where small steps are slow."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from analysis.senteval.classifiers.fit_groups import Group
from analysis.senteval.classifiers.training import Patience
from analysis.senteval.protocols import Classifier

GATHERED = 1 << 28  # bytes of features gathered from the matrix at a time

Finish = Callable[[int, np.ndarray, float], None]


def train(
    groups: list[Group],
    features: np.ndarray,
    labels: np.ndarray,
    start: np.ndarray,
    decay: list[float],
    classes: int,
    classifier: Classifier,
    device: torch.device | str,
    finish: Finish,
) -> None:
    """Trains all fits of ``groups``; other arguments as in ``linear.fit_many``.

    Args:
        start: initial weights of all fits, of shape (C, D + 1), the bias last.
        decay: L2 weight of each fit.
        finish: called with a fit's position, its weights in the layout of ``start`` and its dev accuracy.
    """
    width = -(-start.shape[1] // 8) * 8  # features, 1 for the bias, zeros that align the rows
    matrix = torch.zeros(len(features), width, device=device)
    matrix[:, : features.shape[1]] = torch.tensor(features)
    matrix[:, features.shape[1]] = 1
    first = torch.zeros(classes, width, device=device)
    first[:, : start.shape[1]] = torch.tensor(start)
    targets = torch.tensor(labels, device=device)

    def finish_unpadded(position: int, rows: np.ndarray, accuracy: float) -> None:
        finish(position, rows[:, : start.shape[1]], accuracy)

    count = max(GATHERED // (classifier.batch * width * 4), 1)
    for begin in range(0, len(groups), count):
        problem = _Problem(groups[begin : begin + count], matrix, targets, first, decay, classifier)
        for epoch in range(0, classifier.max_epoch + 1, classifier.epoch_size):
            for number in range(epoch, epoch + classifier.epoch_size):
                problem.train_epoch(number)
            problem.evaluate_dev()
            problem.remove_finished(
                finish_unpadded, everything=epoch + classifier.epoch_size > classifier.max_epoch
            )
            if not problem.groups:
                break


class _Problem:
    """G groups of at most L fits each, as tensors of shape (G, L, C, D'), where D' is the matrix's width.

    Groups may differ in size by a few rows. A group's last batch is padded with rows of weight zero. In a step for
    which a group has no batch, its learning rate is zero.
    """

    def __init__(
        self,
        groups: list[Group],
        matrix: Tensor,
        targets: Tensor,
        start: Tensor,
        decay: list[float],
        classifier: Classifier,
    ) -> None:
        self.groups = groups
        self.matrix = matrix
        self.targets = targets
        self.classifier = classifier
        most = max(len(group.members) for group in groups)
        self.weights = start.repeat(len(groups), most, 1, 1)
        self.best = self.weights.clone()
        self.mean, self.square = torch.zeros_like(self.weights), torch.zeros_like(self.weights)
        l2 = [[decay[k] for k in group.members] + [0.0] * (most - len(group.members)) for group in groups]
        self.decay = torch.tensor(l2, device=matrix.device)[:, :, None, None]
        self.patience = [[Patience(classifier.patience) for _ in group.members] for group in groups]
        self.steps = np.zeros(len(groups), np.int64)  # updates made

    def train_epoch(self, epoch: int) -> None:
        """Makes one pass over the training rows."""
        adam = self.classifier.optimizer == "adam"
        orders = [group.train[group.stream.epochs(epoch, epoch + 1)[0]] for group in self.groups]
        rows, real = self._padded(orders)
        for low, factors in zip(
            range(0, rows.shape[1], self.classifier.batch), self._factors(orders), strict=True
        ):
            share, keep_mean, keep_square, rate, scale = factors[:, :, None, None, None]
            part = slice(low, low + self.classifier.batch)
            x = self.matrix[rows[:, part]]
            error = self._scores(x).softmax(dim=3)
            error -= torch.nn.functional.one_hot(self.targets[rows[:, part]], error.shape[3])[:, :, None]
            error *= real[:, part, None, None] * share
            gradient = (error.flatten(2).mT @ x).view_as(self.weights) + self.decay * self.weights
            self.square.lerp_(gradient * gradient, keep_square)
            if adam:
                gradient = self.mean.lerp_(gradient, keep_mean)
            self.weights -= rate * gradient / (self.square.sqrt() * scale + 1e-8)

    def evaluate_dev(self) -> None:
        """Computes the dev accuracies and keeps each fit's best weights."""
        rows, real = self._padded([group.dev for group in self.groups])
        correct = torch.zeros(self.weights.shape[:2], device=rows.device)
        size = max(GATHERED // (len(rows) * self.matrix.shape[1] * 4), 1)
        for low in range(0, rows.shape[1], size):
            part = rows[:, low : low + size]
            predicted = self._scores(self.matrix[part]).argmax(dim=3)
            correct += ((predicted == self.targets[part][:, :, None]) * real[:, low : low + size, None]).sum(dim=1)
        accuracies = correct.cpu().numpy().astype(np.int64)
        rose = torch.zeros(self.weights.shape[:2], dtype=torch.bool)
        for g, (group, patience) in enumerate(zip(self.groups, self.patience, strict=True)):
            for k, one in enumerate(patience):
                rose[g, k] = not one.spent and one.rises(accuracies[g, k] / len(group.dev))
        self.best[rose.to(rows.device)] = self.weights[rose.to(rows.device)]

    def remove_finished(self, finish: Finish, *, everything: bool) -> None:
        """Calls ``finish`` for the groups whose fits have all stopped, or for ``everything``, and removes them."""
        going = [not everything and not all(one.spent for one in patience) for patience in self.patience]
        if all(going):
            return
        for g in np.flatnonzero(~np.array(going)):
            found = self.best[g, :, :].cpu().numpy()
            for position, rows, patience in zip(self.groups[g].members, found, self.patience[g], strict=False):
                finish(position, rows, patience.best)
        kept = torch.tensor(going, device=self.weights.device)
        self.weights, self.best, self.decay = self.weights[kept], self.best[kept], self.decay[kept]
        self.mean, self.square = self.mean[kept], self.square[kept]
        self.groups = [group for group, goes in zip(self.groups, going, strict=True) if goes]
        self.patience = [patience for patience, goes in zip(self.patience, going, strict=True) if goes]
        self.steps = self.steps[going]

    def _scores(self, x: Tensor) -> Tensor:
        """Computes scores of shape (G, B, L, C) for features of shape (G, B, D')."""
        return (x @ self.weights.flatten(1, 2).mT).unflatten(2, self.weights.shape[1:3])

    def _padded(self, rows: list[np.ndarray]) -> tuple[Tensor, Tensor]:
        """Pads each group's ``rows`` with row 0; returns them (int64) and a mask, 1 at real rows, 0 at padding."""
        sizes = np.array([len(one) for one in rows])
        real = np.arange(sizes.max()) < sizes[:, None]
        filled = np.zeros(real.shape, np.int64)
        filled[real] = np.concatenate(rows)
        device = self.weights.device
        return torch.from_numpy(filled).to(device), torch.from_numpy(real.astype(np.float32)).to(device)

    def _factors(self, orders: list[np.ndarray]) -> Tensor:
        """Computes the factors of each step of a pass, of shape (steps, 5, G).

        The factors are an example's share of the loss, the weights of a gradient in both moments, the learning
        rate, and the factor of the square root, with Adam's corrections. All but the last are 0 without a batch.
        """
        sizes = np.array([len(order) for order in orders])
        lows = np.arange(0, sizes.max(), self.classifier.batch)
        counts = np.clip(sizes - lows[:, None], 0, self.classifier.batch)
        some = counts > 0
        number = self.steps + np.cumsum(some, axis=0)
        self.steps = number[-1]
        share = some / np.maximum(counts, 1)
        if self.classifier.optimizer == "adam":
            rate, scale = some * 1e-3 / (1 - 0.9**number), 1 / np.sqrt(1 - 0.999**number)
            table = [share, some * 0.1, some * 0.001, rate, scale]
        else:
            table = [share, some * 0.0, some * 0.01, some * 0.01, np.ones(some.shape)]
        return torch.tensor(np.stack(table, axis=1), dtype=torch.float32, device=self.weights.device)
