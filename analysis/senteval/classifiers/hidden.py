"""Classifiers with hidden layers, several L2 values and dropouts at once (``senteval/tools/classifier.py``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise, product
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from analysis.senteval.classifiers.fit_groups import Fit, Stream, grouped
from analysis.senteval.classifiers.training import Patience, toolkit_stream
from analysis.senteval.protocols import L2, Classifier, Protocol

_EVALUATION_ROWS = 4096  # rows at a time in evaluation
_ACTIVATIONS: dict[str, nn.Module] = {"sigmoid": nn.Sigmoid(), "relu": nn.ReLU()}


class Fitted(NamedTuple):
    """A trained classifier: its weights at the first best dev evaluation.

    Attributes:
        layers: weight (outputs, inputs) and bias (outputs,) of each layer from D to C, float32.
        activation: name of the non-linearity.
        dev_accuracy: accuracy on dev, 0 .. 1.
    """

    layers: list[tuple[np.ndarray, np.ndarray]]
    activation: str
    dev_accuracy: float

    def logits(self, rows: np.ndarray) -> np.ndarray:
        """Computes scores of shape (m, C), float32, for features of shape (m, D)."""
        (first, first_bias), *others = self.layers
        parts = []
        for begin in range(0, len(rows), _EVALUATION_ROWS):
            states = rows[begin : begin + _EVALUATION_ROWS] @ first.T + first_bias
            for weight, bias in others:
                states = _ACTIVATIONS[self.activation](torch.from_numpy(states)).numpy() @ weight.T + bias
            parts.append(states)
        return np.concatenate(parts)


class Choice(NamedTuple):
    """Result of a split task with width and dropout tuned together with L2.

    Attributes:
        dev, test: accuracies in percent, rounded to 2 digits as in the toolkit.
        hidden, dropout, l2: the chosen values.
        probabilities: class probabilities of the test examples, float32 of shape (n_test, C).
        n_dev, n_test: numbers of examples.
    """

    dev: float
    test: float
    hidden: int
    dropout: float
    l2: float
    probabilities: np.ndarray
    n_dev: int
    n_test: int


def network(inputs: int, classes: int, classifier: Classifier) -> nn.Sequential:
    """Builds one classifier as a module; weights and dropout use torch's global random stream."""
    hidden = [classifier.hidden] * classifier.layers if classifier.hidden else []
    first, *others = (nn.Linear(*sizes) for sizes in pairwise([inputs, *hidden, classes]))
    parts: list[nn.Module] = [first]
    for linear in others:
        middle = [nn.Dropout(classifier.dropout), _ACTIVATIONS[classifier.activation]]
        parts += [*(reversed(middle) if classifier.dropout_last else middle), linear]
    return nn.Sequential(*parts)


def fit_many(
    features: np.ndarray,
    labels: np.ndarray,
    fits: Sequence[Fit],
    classes: int,
    classifier: Classifier,
    *,
    device: torch.device | str = "cpu",
    progress: Callable[[float], None] | None = None,
) -> list[Fitted]:
    """Trains ``fits`` on rows of one matrix; fits with the same train and dev rows share each batch's products.

    Args:
        features: float32 of shape (n, D).
        labels: int64 of shape (n,), 0 .. C-1.
        fits: classifiers to train.
        classes: C.
        classifier: with ``hidden`` > 0.
        progress: called with the share done, 0 .. 1.

    Returns:
        One classifier per fit, in their order. On the CPU it equals ``network`` trained in a plain loop under the
        classifier's seed, dropout masks included. (On a GPU the masks differ from those of ``nn.Dropout``.)
    """
    x, y = _on(features, labels, device)
    fitted: dict[int, Fitted] = {}
    groups = grouped(fits, classifier.seed)
    for done, group in enumerate(groups):
        grid = [(fits[member].l2, classifier.dropout) for member in group.members]
        train, dev = (_Rows(x, y, torch.from_numpy(rows).to(device)) for rows in (group.train, group.dev))
        found = _train(train, dev, group.stream, grid, classes, classifier, _part(progress, done, len(groups)))
        fitted |= zip(group.members, found, strict=True)
    return [fitted[place] for place in range(len(fits))]


def choose_hidden(
    train: np.ndarray,
    train_labels: np.ndarray,
    dev: np.ndarray,
    dev_labels: np.ndarray,
    test: np.ndarray,
    test_labels: np.ndarray,
    classes: int,
    protocol: Protocol,
    *,
    device: torch.device | str = "cpu",
    progress: Callable[[float], None] | None = None,
) -> Choice:
    """Evaluates a split task with width, dropout and L2 chosen on dev; ties go to the first in the grid.

    Args:
        train, dev, test: float32 of shape (n, D) each, with labels 0 .. C-1 of shape (n,).
        classes: C.
        protocol: gives ``probing_hidden``, ``probing_dropout`` and the rest of the classifier.
        progress: called with the share done, 0 .. 1.
    """
    train_rows, dev_rows = (
        _Rows(*_on(features, labels, device), torch.arange(len(labels), device=device))
        for features, labels in ((train, train_labels), (dev, dev_labels))
    )
    best: tuple[float, int, float, float, Fitted] | None = None
    for done, hidden in enumerate(protocol.probing_hidden):
        grid = [(l2, dropout) for dropout, l2 in product(protocol.probing_dropout, L2)]
        part = _part(progress, done, len(protocol.probing_hidden))
        classifier = replace(protocol.classifier, hidden=hidden)
        stream = Stream(len(train), split=False)
        found = _train(train_rows, dev_rows, stream, grid, classes, classifier, part)
        for (l2, dropout), fitted in zip(grid, found, strict=True):
            score = round(100 * fitted.dev_accuracy, 2)
            if best is None or score > best[0]:
                best = score, hidden, dropout, l2, fitted
    assert best is not None
    score, hidden, dropout, l2, fitted = best
    scores = torch.from_numpy(fitted.logits(test))
    right = (scores.argmax(dim=1).numpy() == test_labels).mean()
    return Choice(
        dev=score,
        test=round(100 * float(right), 2),
        hidden=hidden,
        dropout=dropout,
        l2=l2,
        probabilities=torch.softmax(scores, dim=1).numpy(),
        n_dev=len(dev),
        n_test=len(test),
    )


class _Rows(NamedTuple):
    """Row numbers (int64) into ``features`` (n, D) and ``labels`` (n,)."""

    features: Tensor
    labels: Tensor
    rows: Tensor


class _Stack:
    """K classifiers of one width, trained side by side: one product computes all hidden layers.

    Args:
        inputs: D.
        classes: C.
        classifier: gives the width H, the number and the order of layers.
        grid: L2 and dropout of each classifier.
    """

    def __init__(
        self,
        inputs: int,
        classes: int,
        classifier: Classifier,
        grid: Sequence[tuple[float, float]],
        device: torch.device,
    ) -> None:
        with toolkit_stream(device, classifier.seed):
            model = network(inputs, classes, classifier)
            state = torch.get_rng_state()
        self.classifier = classifier
        self.activation = _ACTIVATIONS[classifier.activation]
        self.members = list(range(len(grid)))
        # (K, H, D), (K, H), ..., (K, C, H), (K, C)
        self.parameters = [
            torch.stack([one.detach()] * len(grid)).to(device).requires_grad_() for one in model.parameters()
        ]
        self.optimizer = self._optimizer()
        self.l2 = torch.tensor([l2 for l2, _ in grid], device=device)
        self.dropouts = [dropout for _, dropout in grid]
        # Fits of equal dropout have equal masks, as all begin at the same seed.
        self.generators = {dropout: torch.Generator(device) for dropout in self.dropouts if dropout}
        for generator in self.generators.values():
            generator.set_state(state) if device.type == "cpu" else generator.manual_seed(classifier.seed)

    def learn(self, rows: Tensor, labels: Tensor) -> None:
        """Makes one update on B rows of shape (B, D)."""
        scores = self.scores(rows, self._masks(len(rows)))
        loss = cross_entropy(scores.flatten(0, 1), labels.repeat(len(scores)), reduction="sum") / len(rows)
        self.optimizer.zero_grad()
        loss.backward()  # autograd.grad may return another memory layout, which the fused update ignores
        for parameter in self.parameters:
            assert parameter.grad is not None
            parameter.grad.addcmul_(parameter.detach(), self.l2.view(-1, *[1] * (parameter.dim() - 1)))
        self.optimizer.step()

    def scores(self, rows: Tensor, masks: list[Tensor] | None = None) -> Tensor:
        """Computes scores of shape (K, B, C)."""
        first, first_bias, *others = self.parameters
        states = torch.addmm(first_bias.flatten(), rows, first.flatten(0, 1).T).unflatten(1, first_bias.shape)
        states = states.transpose(0, 1)  # (K, B, H)
        for number, (weight, bias) in enumerate(zip(others[::2], others[1::2], strict=True)):
            if masks is None:
                states = self.activation(states)
            elif self.classifier.dropout_last:
                states = self.activation(states) * masks[number]
            else:
                states = self.activation(states * masks[number])
            states = torch.baddbmm(bias[:, None], states, weight.mT)
        return states

    def _masks(self, size: int) -> list[Tensor] | None:
        """Samples a dropout mask of shape (K, B, H) per hidden layer; None without dropout."""
        if not self.generators:
            return None
        return [self._mask(size, self.classifier.hidden) for _ in range(self.classifier.layers)]

    def _mask(self, size: int, width: int) -> Tensor:
        drawn = {0.0: torch.ones(size, width, device=self.l2.device)}
        for dropout, generator in self.generators.items():
            mask = torch.empty_like(drawn[0.0]).bernoulli_(1 - dropout, generator=generator)
            drawn[dropout] = mask.div_(1 - dropout)
        return torch.stack([drawn[dropout] for dropout in self.dropouts], dim=1).transpose(0, 1)

    def _optimizer(self) -> torch.optim.Optimizer:
        """Returns one optimizer for all members; ``learn`` adds each member's own L2 to the gradient."""
        if self.classifier.optimizer == "adam":
            return torch.optim.Adam(self.parameters, fused=True)  # one pass over the weights
        return torch.optim.RMSprop(self.parameters)

    def fitted(self, place: int, accuracy: float) -> Fitted:
        """Returns a copy of the classifier at ``place``."""
        found = [one[place].detach().cpu().numpy().copy() for one in self.parameters]
        return Fitted(list(zip(found[::2], found[1::2], strict=True)), self.classifier.activation, accuracy)

    def keep(self, places: list[int]) -> None:
        """Drops all classifiers but those at ``places``."""
        rows = torch.tensor(places, dtype=torch.int64, device=self.l2.device)
        before = [(one.shape, self.optimizer.state[one]) for one in self.parameters]
        self.parameters = [one.detach()[rows].requires_grad_() for one in self.parameters]
        self.optimizer = self._optimizer()
        for parameter, (shape, state) in zip(self.parameters, before, strict=True):
            self.optimizer.state[parameter] = {
                name: value[rows] if value.shape == shape else value for name, value in state.items()
            }
        self.l2 = self.l2[rows]
        self.members = [self.members[place] for place in places]
        self.dropouts = [self.dropouts[place] for place in places]
        self.generators = {key: one for key, one in self.generators.items() if key in self.dropouts}


def _train(
    train: _Rows,
    dev: _Rows,
    stream: Stream,
    grid: Sequence[tuple[float, float]],
    classes: int,
    classifier: Classifier,
    progress: Callable[[float], None],
) -> list[Fitted]:
    """Trains the classifiers of ``grid`` (L2 and dropout), which share batches; returns them in its order."""
    stack = _Stack(train.features.shape[1], classes, classifier, grid, train.features.device)
    patience = [Patience(classifier.patience) for _ in grid]
    best: dict[int, Fitted] = {}
    epochs = 0
    while stack.members and epochs <= classifier.max_epoch:
        for order in stream.epochs(epochs, epochs + classifier.epoch_size):
            rows = train.rows[torch.from_numpy(order).to(train.rows)]
            for batch in rows.split(classifier.batch):
                stack.learn(train.features[batch], train.labels[batch])
            epochs += 1
            progress(epochs / (classifier.max_epoch + classifier.epoch_size))
        accuracies = _accuracies(stack, dev)
        for place, (member, accuracy) in enumerate(zip(stack.members, accuracies, strict=True)):
            if patience[member].rises(accuracy):
                best[member] = stack.fitted(place, accuracy)
        going = [place for place, member in enumerate(stack.members) if not patience[member].spent]
        if len(going) < len(stack.members):
            stack.keep(going)
    progress(1.0)
    return [best[member] for member in range(len(grid))]


@torch.no_grad()
def _accuracies(stack: _Stack, dev: _Rows) -> list[float]:
    right = torch.zeros(len(stack.members), dtype=torch.int64, device=dev.labels.device)
    for rows in dev.rows.split(_EVALUATION_ROWS):
        right += (stack.scores(dev.features[rows]).argmax(dim=2) == dev.labels[rows]).sum(dim=1)
    return [count / len(dev.rows) for count in right.tolist()]


def _on(features: np.ndarray, labels: np.ndarray, device: torch.device | str) -> tuple[Tensor, Tensor]:
    return torch.as_tensor(features, device=device), torch.as_tensor(labels, device=device)


def _part(progress: Callable[[float], None] | None, done: int, parts: int) -> Callable[[float], None]:
    """Returns the progress callback of one of several equal parts."""

    def report(share: float) -> None:
        if progress is not None:
            progress((done + share) / parts)

    return report
