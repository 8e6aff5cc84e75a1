"""Classifiers with a hidden layer, several L2 values and dropouts at once (``senteval/tools/classifier.py``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from analysis.senteval.classifiers.fit_groups import Fit, Stream, grouped
from analysis.senteval.classifiers.training import Patience, toolkit_stream
from analysis.senteval.protocols import L2, SEED, Classifier, Protocol

_JUDGED = 4096  # rows at a time where nothing is learned


class Fitted(NamedTuple):
    """A trained classifier, as it was at its first best look at dev.

    Attributes:
        hidden_weight, hidden_bias: float32 of shapes (H, D) and (H,).
        weight, bias: float32 of shapes (C, H) and (C,).
        dev_accuracy: share of the dev rows that are right, 0 .. 1.
    """

    hidden_weight: np.ndarray
    hidden_bias: np.ndarray
    weight: np.ndarray
    bias: np.ndarray
    dev_accuracy: float

    def logits(self, rows: np.ndarray) -> np.ndarray:
        """Scores of shape (m, C), float32, of features of shape (m, D)."""
        parts = []
        for begin in range(0, len(rows), _JUDGED):
            states = torch.from_numpy(rows[begin : begin + _JUDGED] @ self.hidden_weight.T + self.hidden_bias)
            parts.append(states.sigmoid().numpy() @ self.weight.T + self.bias)
        return np.concatenate(parts)


class Choice(NamedTuple):
    """A split task's result where width and dropout are tuned beside L2.

    Attributes:
        dev, test: accuracies in percent, rounded to 2 digits as the toolkit does.
        hidden, dropout, l2: the chosen ones.
        probabilities: of the test examples, float32 of shape (n_test, C).
        n_dev, n_test: examples.
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
    """One classifier as a module, its weights (and its dropout) from torch's global stream."""
    if not classifier.hidden:
        return nn.Sequential(nn.Linear(inputs, classes))
    first, last = nn.Linear(inputs, classifier.hidden), nn.Linear(classifier.hidden, classes)
    middle = [nn.Dropout(classifier.dropout), nn.Sigmoid()]
    return nn.Sequential(first, *(reversed(middle) if classifier.dropout_last else middle), last)


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
    """Trains ``fits`` on rows of one matrix; those of the same train and dev rows share each batch's products.

    Args:
        features: float32 of shape (n, D).
        labels: int64 of shape (n,), 0 .. C-1.
        fits: what to train.
        classes: C.
        classifier: with ``hidden`` > 0.
        progress: called with the share done, 0 .. 1.

    Returns:
        One a fit, in their order: on the CPU what ``network`` in a plain loop under the toolkit's seed comes to,
        dropout's draws included. (A GPU draws other masks than ``nn.Dropout`` there.)
    """
    x, y = _on(features, labels, device)
    fitted: dict[int, Fitted] = {}
    groups = grouped(fits)
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
    """A split task with width, dropout and L2 chosen on dev, the first best of each in the protocol's order.

    Args:
        train, dev, test: float32 of shape (n, D) each, with labels 0 .. C-1 of shape (n,).
        classes: C.
        protocol: ``probing_hidden``, ``probing_dropout`` and the rest of the classifier.
        progress: called with the share done, 0 .. 1.
    """
    learned, judged = (
        _Rows(*_on(features, labels, device), torch.arange(len(labels), device=device))
        for features, labels in ((train, train_labels), (dev, dev_labels))
    )
    best: tuple[float, int, float, float, Fitted] | None = None
    for done, hidden in enumerate(protocol.probing_hidden):
        grid = [(l2, dropout) for dropout, l2 in product(protocol.probing_dropout, L2)]
        part = _part(progress, done, len(protocol.probing_hidden))
        classifier = replace(protocol.classifier, hidden=hidden)
        stream = Stream(len(train), split=False)
        found = _train(learned, judged, stream, grid, classes, classifier, part)
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
    """``rows`` (int64) of ``features`` (n, D) and ``labels`` (n,)."""

    features: Tensor
    labels: Tensor
    rows: Tensor


class _Side:
    """K classifiers of one width side by side: one product makes all their hidden layers.

    Args:
        inputs: D.
        classes: C.
        classifier: its width H and its order of layers.
        grid: L2 and dropout of each.
    """

    def __init__(
        self,
        inputs: int,
        classes: int,
        classifier: Classifier,
        grid: Sequence[tuple[float, float]],
        device: torch.device,
    ) -> None:
        with toolkit_stream(device):
            model = network(inputs, classes, classifier)
            state = torch.get_rng_state()
        self.classifier = classifier
        self.members = list(range(len(grid)))
        # (K, H, D), (K, H), (K, C, H), (K, C)
        self.parameters = [
            torch.stack([one.detach()] * len(grid)).to(device).requires_grad_() for one in model.parameters()
        ]
        self.optimizer = self._optimizer()
        self.l2 = torch.tensor([l2 for l2, _ in grid], device=device)
        self.dropouts = [dropout for _, dropout in grid]
        # Fits of equal dropout draw equal masks, for each begins at the same seed.
        self.generators = {dropout: torch.Generator(device) for dropout in self.dropouts if dropout}
        for generator in self.generators.values():
            generator.set_state(state) if device.type == "cpu" else generator.manual_seed(SEED)

    def learn(self, rows: Tensor, labels: Tensor) -> None:
        """One update on B rows of shape (B, D)."""
        scores = self.scores(rows, self._masks(len(rows)))
        loss = cross_entropy(scores.flatten(0, 1), labels.repeat(len(scores)), reduction="sum") / len(rows)
        self.optimizer.zero_grad()
        loss.backward()  # autograd.grad's may lie in another order, which the fused update does not ask
        for parameter in self.parameters:
            assert parameter.grad is not None
            parameter.grad.addcmul_(parameter.detach(), self.l2.view(-1, *[1] * (parameter.dim() - 1)))
        self.optimizer.step()

    def scores(self, rows: Tensor, masks: Tensor | None = None) -> Tensor:
        """Of shape (K, B, C)."""
        first, first_bias, last, last_bias = self.parameters
        states = torch.addmm(first_bias.flatten(), rows, first.flatten(0, 1).T).unflatten(1, first_bias.shape)
        if masks is None:
            states = states.sigmoid()
        elif self.classifier.dropout_last:
            states = states.sigmoid() * masks
        else:
            states = (states * masks).sigmoid()
        return torch.baddbmm(last_bias[:, None], states.transpose(0, 1), last.mT)

    def _masks(self, size: int) -> Tensor | None:
        """Of shape (B, K, H): what dropout multiplies with."""
        if not self.generators:
            return None
        width = self.classifier.hidden
        drawn = {0.0: torch.ones(size, width, device=self.l2.device)}
        for dropout, generator in self.generators.items():
            mask = torch.empty_like(drawn[0.0]).bernoulli_(1 - dropout, generator=generator)
            drawn[dropout] = mask.div_(1 - dropout)
        return torch.stack([drawn[dropout] for dropout in self.dropouts], dim=1)

    def _optimizer(self) -> torch.optim.Optimizer:
        """Of all members at once, each of which has an L2 of its own: ``learn`` adds it."""
        if self.classifier.optimizer == "adam":
            return torch.optim.Adam(self.parameters, fused=True)  # one pass over the weights
        return torch.optim.RMSprop(self.parameters)

    def fitted(self, place: int, accuracy: float) -> Fitted:
        """The classifier at ``place`` as it is now."""
        first, first_bias, last, last_bias = (one[place].detach().cpu().numpy().copy() for one in self.parameters)
        return Fitted(first, first_bias, last, last_bias, accuracy)

    def keep(self, places: list[int]) -> None:
        """Only these go on."""
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
    """Classifiers of ``grid`` (L2 and dropout) that share their batches, in its order."""
    side = _Side(train.features.shape[1], classes, classifier, grid, train.features.device)
    patience = [Patience(classifier.patience) for _ in grid]
    best: dict[int, Fitted] = {}
    epochs = 0
    while side.members and epochs <= classifier.max_epoch:
        for order in stream.epochs(epochs, epochs + classifier.epoch_size):
            rows = train.rows[torch.from_numpy(order).to(train.rows)]
            for batch in rows.split(classifier.batch):
                side.learn(train.features[batch], train.labels[batch])
            epochs += 1
            progress(epochs / (classifier.max_epoch + classifier.epoch_size))
        accuracies = _accuracies(side, dev)
        for place, (member, accuracy) in enumerate(zip(side.members, accuracies, strict=True)):
            if patience[member].rises(accuracy):
                best[member] = side.fitted(place, accuracy)
        going = [place for place, member in enumerate(side.members) if not patience[member].spent]
        if len(going) < len(side.members):
            side.keep(going)
    progress(1.0)
    return [best[member] for member in range(len(grid))]


@torch.no_grad()
def _accuracies(side: _Side, dev: _Rows) -> list[float]:
    right = torch.zeros(len(side.members), dtype=torch.int64, device=dev.labels.device)
    for rows in dev.rows.split(_JUDGED):
        right += (side.scores(dev.features[rows]).argmax(dim=2) == dev.labels[rows]).sum(dim=1)
    return [count / len(dev.rows) for count in right.tolist()]


def _on(features: np.ndarray, labels: np.ndarray, device: torch.device | str) -> tuple[Tensor, Tensor]:
    return torch.as_tensor(features, device=device), torch.as_tensor(labels, device=device)


def _part(progress: Callable[[float], None] | None, done: int, parts: int) -> Callable[[float], None]:
    """Tells ``progress`` the share of the whole, from that of one part."""

    def tell(share: float) -> None:
        if progress is not None:
            progress((done + share) / parts)

    return tell
