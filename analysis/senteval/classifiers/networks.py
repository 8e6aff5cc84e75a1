"""Trains classifiers with any number of hidden layers in torch, side by side (``senteval/tools/classifier.py``).

Classifiers of one group, with several L2 values and dropouts, share each batch. On a GPU several groups, such as
the folds of a task, are trained at once, as its small steps take longer to start than to compute.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby, pairwise

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from analysis.senteval.classifiers.training import (
    ACTIVATIONS,
    Fit,
    Fitted,
    Group,
    Patience,
    Recorded,
    grouped,
    toolkit_stream,
)
from analysis.senteval.features import Progress
from analysis.senteval.protocols import Classifier

MEMORY = 1 << 29  # bytes of weights, features and states of the groups that are trained at once
_EVALUATION_ROWS = 4096  # rows of a group at a time in evaluation


def network(inputs: int, classes: int, classifier: Classifier) -> nn.Sequential:
    """Builds one classifier as a module; weights and dropout use torch's global random stream."""
    hidden = [classifier.hidden] * classifier.layers if classifier.hidden else []
    first, *others = (nn.Linear(*sizes) for sizes in pairwise([inputs, *hidden, classes]))
    parts: list[nn.Module] = [first]
    for linear in others:
        middle = [nn.Dropout(classifier.dropout), ACTIVATIONS[classifier.activation]]
        parts += [*(reversed(middle) if classifier.dropout_last else middle), linear]
    return nn.Sequential(*parts)


def fit_many(
    features: np.ndarray,
    labels: np.ndarray,
    fits: Sequence[Fit],
    classes: int,
    classifier: Classifier,
    *,
    device: torch.device,
    together: bool,
    progress: Progress | None = None,
) -> list[Fitted]:
    """Trains ``fits`` in torch; other arguments as in ``fitting.fit_many``.

    Args:
        together: whether groups are trained at once, as many as have the same number of batches and fit into
            ``MEMORY``.

    Returns:
        One classifier per fit, in their order. On the CPU it equals ``network`` trained in a plain loop under the
        classifier's seed, dropout masks included. (On a GPU the masks differ from those of ``nn.Dropout``.)
    """
    x, y = torch.as_tensor(features, device=device), torch.as_tensor(labels, device=device)
    stacks = _divided(grouped(fits, classifier.seed), fits, x.shape[1], classes, classifier, together)
    fitted: dict[int, Fitted] = {}
    for done, groups in enumerate(stacks):

        def part(share: float, done: int = done) -> None:
            if progress is not None:
                progress((done + share) / len(stacks))

        fitted |= _Stack(groups, fits, x, y, classes, classifier).train(part)
    return [fitted[position] for position in range(len(fits))]


def _divided(
    groups: list[Group], fits: Sequence[Fit], inputs: int, classes: int, classifier: Classifier, together: bool
) -> list[list[Group]]:
    """Divides groups into lists that are trained at once: of as many batches and the same dropouts each."""

    def kind(group: Group) -> tuple[int, list[float]]:
        return -(-len(group.train) // classifier.batch), _dropouts(group, fits, classifier)

    if not together:
        return [[group] for group in groups]
    width = classifier.hidden * classifier.layers + classes  # states of an example
    copies = 6 * (inputs + width) * (classifier.hidden or classes)  # weights, best, two gradients and moments
    members = max(len(group.members) for group in groups)
    size = 4 * (classifier.batch * inputs + members * (copies + 3 * classifier.batch * width))
    count = max(MEMORY // size, 1)
    alike = [list(found) for _, found in groupby(sorted(groups, key=kind), key=kind)]
    return [found[begin : begin + count] for found in alike for begin in range(0, len(found), count)]


def _dropouts(group: Group, fits: Sequence[Fit], classifier: Classifier) -> list[float]:
    found = [fits[position].dropout for position in group.members]
    return [classifier.dropout if dropout is None else dropout for dropout in found]


class _Stack:
    """G groups of K classifiers each, trained side by side: one product computes all hidden layers of a group.

    Training rows are padded with rows of weight zero up to the largest group's number.

    Args:
        groups: groups with the same number of batches and the same dropouts.
        fits: all fits, for L2 and dropout of the groups' members.
        features: of shape (n, D).
        labels: of shape (n,).
        classes: C.
        classifier: gives the width H, the number and the order of layers.
    """

    def __init__(
        self,
        groups: list[Group],
        fits: Sequence[Fit],
        features: Tensor,
        labels: Tensor,
        classes: int,
        classifier: Classifier,
    ) -> None:
        self.groups, self.features, self.labels, self.classifier = groups, features, labels, classifier
        self.device = features.device
        with toolkit_stream(self.device, classifier.seed):
            model = network(features.shape[1], classes, classifier)
            state = torch.get_rng_state()
        self.activation, self.one_hot = ACTIVATIONS[classifier.activation], torch.eye(classes, device=self.device)
        self.members = np.array([group.members for group in groups])  # positions of the fits, (G, K)
        # (G, K, H, D), (G, K, H), ..., (G, K, C, H), (G, K, C)
        self.parameters = [
            one.detach().to(self.device).repeat(*self.members.shape, *[1] * one.dim()).requires_grad_()
            for one in model.parameters()
        ]
        self.optimizer = self._optimizer()
        self.l2 = torch.tensor([[fits[one].l2 for one in group.members] for group in groups], device=self.device)
        self.dropouts = _dropouts(groups[0], fits, classifier)
        # Fits of equal dropout have equal masks, as all begin at the same seed.
        self.generators = {dropout: torch.Generator(self.device) for dropout in self.dropouts if dropout}
        for generator in self.generators.values():
            generator.set_state(state) if self.device.type == "cpu" else generator.manual_seed(classifier.seed)
        self.recorded = Recorded(self.generators.values())

    def train(self, progress: Progress) -> dict[int, Fitted]:
        """Trains until all have stopped; returns the classifiers at their best dev evaluation, by position."""
        patience = {member: Patience(self.classifier.patience) for member in self.members.flat}
        best: dict[int, Fitted] = {}
        epochs, epoch_size, most = 0, self.classifier.epoch_size, self.classifier.max_epoch
        while self.groups and epochs <= most:
            for _ in range(epoch_size):
                self.train_epoch(epochs)
                epochs += 1
                progress(epochs / (most + epoch_size))
            accuracies = self.accuracies()
            parameters = [one.detach().cpu().numpy() for one in self.parameters]
            for place, member in np.ndenumerate(self.members):
                accuracy = float(accuracies[place])
                if not patience[member].spent and patience[member].rises(accuracy):
                    found = [values[place].copy() for values in parameters]
                    layers = list(zip(found[::2], found[1::2], strict=True))
                    best[member] = Fitted(layers, accuracy, self.classifier.activation)
            self.remove_finished(np.array([[patience[one].spent for one in row] for row in self.members.tolist()]))
        progress(1.0)
        return best

    def train_epoch(self, epoch: int) -> None:
        """Makes one pass over the training rows."""
        rows, real = self._padded([group.train[group.stream.epochs(epoch, epoch + 1)[0]] for group in self.groups])
        size = self.classifier.batch
        for batch, some in zip(rows.split(size, dim=1), real.split(size, dim=1), strict=True):
            self.recorded(self.update, batch, some)

    def update(self, batch: Tensor, real: Tensor) -> None:
        """Makes one update on rows of the features, of shape (G, B); ``real`` is 0 at padding, else 1."""
        rows, labels = self.features[batch], self.labels[batch]
        shares = real / real.sum(dim=1, keepdim=True)  # parts of the loss
        if self.classifier.hidden:
            self.backpropagate(rows, labels, shares)
        else:
            self.differentiate(rows, labels, shares)
        for parameter in self.parameters:
            assert parameter.grad is not None
            l2 = self.l2.view(*self.l2.shape, *[1] * (parameter.dim() - 2))
            parameter.grad.addcmul_(parameter.detach(), l2)
        self.optimizer.step()

    def backpropagate(self, rows: Tensor, labels: Tensor, shares: Tensor) -> None:
        """Computes the gradients of the loss."""
        scores = self.scores(rows, self._masks(rows.shape[1]))
        targets = labels[:, None].expand(scores.shape[:-1])
        losses = cross_entropy(scores.flatten(0, 2), targets.flatten(), reduction="none").view_as(targets)
        self.optimizer.zero_grad()
        # autograd.grad may return another memory layout, which the fused update ignores
        losses.backward(shares[:, None].expand_as(losses))

    @torch.no_grad()
    def differentiate(self, rows: Tensor, labels: Tensor, shares: Tensor) -> None:
        """Computes the gradients without a hidden layer, in fewer and cheaper steps than autograd takes."""
        weight, bias = self.parameters
        errors = self.scores(rows).transpose(1, 2).softmax(dim=3)  # (G, B, K, C)
        errors.sub_(self.one_hot[labels][:, :, None]).mul_(shares[:, :, None, None])
        weight.grad = torch.bmm(errors.flatten(2).mT, rows).view_as(weight)
        bias.grad = errors.sum(dim=1)

    def scores(self, rows: Tensor, masks: list[Tensor] | None = None) -> Tensor:
        """Computes scores of shape (G, K, B, C)."""
        first, first_bias, *others = self.parameters
        states = torch.baddbmm(first_bias.flatten(1)[:, None], rows, first.flatten(1, 2).mT)  # (G, B, K * H)
        states = states.unflatten(2, first_bias.shape[1:]).transpose(1, 2)  # (G, K, B, H)
        for number, (weight, bias) in enumerate(zip(others[::2], others[1::2], strict=True)):
            if masks is None:
                states = self.activation(states)
            elif self.classifier.dropout_last:
                states = self.activation(states) * masks[number]
            else:
                states = self.activation(states * masks[number])
            product = torch.baddbmm(bias.flatten(0, 1)[:, None], states.flatten(0, 1), weight.flatten(0, 1).mT)
            states = product.unflatten(0, bias.shape[:2])
        return states

    @torch.no_grad()
    def accuracies(self) -> np.ndarray:
        """Computes the dev accuracies, 0 .. 1, of shape (G, K)."""
        rows, real = self._padded([group.dev for group in self.groups])
        right = torch.zeros(self.members.shape, device=self.device)
        size = max(_EVALUATION_ROWS // len(self.groups), self.classifier.batch)
        for part, some in zip(rows.split(size, dim=1), real.split(size, dim=1), strict=True):
            found = self.scores(self.features[part]).argmax(dim=3) == self.labels[part][:, None]
            right += (found * some[:, None]).sum(dim=2)
        return right.cpu().numpy().astype(np.float64) / np.array([[len(group.dev)] for group in self.groups])

    def remove_finished(self, finished: np.ndarray) -> None:
        """Removes the groups and the places whose classifiers are all ``finished``, of shape (G, K)."""
        rows, columns = (np.flatnonzero(~finished.all(axis=axis)) for axis in (1, 0))
        if finished.shape == (len(rows), len(columns)):
            return
        row_numbers, column_numbers = (torch.from_numpy(each).to(self.device) for each in (rows, columns))

        def kept(values: Tensor) -> Tensor:
            return values.detach()[row_numbers][:, column_numbers]

        before = [(one.shape, self.optimizer.state[one]) for one in self.parameters]
        self.parameters = [kept(one).requires_grad_() for one in self.parameters]
        self.optimizer = self._optimizer()
        for parameter, (shape, state) in zip(self.parameters, before, strict=True):
            self.optimizer.state[parameter] = {
                name: kept(value) if value.shape == shape else value for name, value in state.items()
            }
        self.l2 = kept(self.l2)
        self.members = self.members[np.ix_(rows, columns)]
        self.groups = [self.groups[row] for row in rows]
        self.dropouts = [self.dropouts[column] for column in columns]
        self.generators = {key: one for key, one in self.generators.items() if key in self.dropouts}
        self.recorded = Recorded(self.generators.values())

    def _masks(self, size: int) -> list[Tensor] | None:
        """Samples a dropout mask of shape (K, B, H) per hidden layer; None without dropout."""
        if not self.generators:
            return None
        return [self._mask(size, self.classifier.hidden) for _ in range(self.classifier.layers)]

    def _mask(self, size: int, width: int) -> Tensor:
        drawn = {0.0: torch.ones(size, width, device=self.device)}
        for dropout, generator in self.generators.items():
            mask = torch.empty_like(drawn[0.0]).bernoulli_(1 - dropout, generator=generator)
            drawn[dropout] = mask.div_(1 - dropout)
        return torch.stack([drawn[dropout] for dropout in self.dropouts], dim=1).transpose(0, 1)

    def _optimizer(self) -> torch.optim.Optimizer:
        """Returns one optimizer for all members; ``update`` adds each member's own L2 to the gradient."""
        recordable = self.device.type == "cuda"
        if self.classifier.optimizer == "adam":
            # fused: one pass over the weights
            return torch.optim.Adam(self.parameters, fused=True, capturable=recordable)
        return torch.optim.RMSprop(self.parameters, capturable=recordable)

    def _padded(self, rows: list[np.ndarray]) -> tuple[Tensor, Tensor]:
        """Pads each group's ``rows`` with row 0; returns them (int64) and a mask, 1 at real rows, 0 at padding."""
        sizes = np.array([len(one) for one in rows])
        real = np.arange(sizes.max()) < sizes[:, None]
        filled = np.zeros(real.shape, np.int64)
        filled[real] = np.concatenate(rows)
        return torch.from_numpy(filled).to(self.device), torch.from_numpy(real.astype(np.float32)).to(self.device)
