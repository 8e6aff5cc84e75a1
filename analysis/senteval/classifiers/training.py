"""Trains many classifiers at once: all folds and L2 values of a task (``senteval/tools/classifier.py``).

Two trainers train classifiers that share their batches: ``Regressions``, by compiled kernels on the CPU, and
``Networks``, in torch, for hidden layers, and for many classes on a GPU. All begin with torch's initial weights
under the protocol's seed, and fits of one size get the same permutations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, count, pairwise
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.special import softmax
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from analysis.senteval.classifiers import kernels
from analysis.senteval.protocols import ClassifierSettings

ACTIVATIONS = {"sigmoid": torch.sigmoid, "relu": torch.relu}
DEV_SHARE = 0.05  # of the training rows, if there is no dev set
ROWS = 4096  # at a time in evaluation
PART = 1 << 18  # numbers of the features that are built at a time: they fit in a core's cache
MANY = 100  # classes: a GPU is slower than the kernels with fewer

Permutations = Callable[[int, int], Iterator[np.ndarray]]
Layers = list[np.ndarray]
Start = tuple[list[Tensor], Tensor]  # weights and biases of layers, and torch's random state after them


class Fits(NamedTuple):
    """Classifiers that are trained on the same batches.

    Attributes:
        train: training rows of the features, int64.
        dev: dev rows for early stopping, int64. None uses the toolkit's 5 % of ``train``: the first
            ``int(0.05 * len(train))`` of the first permutation, at least one.
        l2: weight decay of each classifier.
    """

    train: np.ndarray
    dev: np.ndarray | None
    l2: Sequence[float] | np.ndarray

    def draw(self, permutations: Permutations) -> tuple[np.ndarray, Iterator[np.ndarray]]:
        """Returns the dev rows, and the training rows in each epoch's order."""
        train, dev, _ = self
        held_out = max(1, int(DEV_SHARE * len(train))) if dev is None else 0
        orders = permutations(len(train), held_out)
        if dev is None:
            dev, train = np.split(train[next(orders)], [held_out])
        return dev, (train[order] for order in orders)


@dataclass
class PairFeatures:
    """Features [u; v; u*v; |u-v|] of n pairs of sentences, built only for the rows in use.

    Attributes:
        vectors: vectors of sentences, float32 of shape (m, D); may be memory-mapped.
        first, second: rows of ``vectors``, int64 of shape (n,).
    """

    vectors: np.ndarray
    first: np.ndarray
    second: np.ndarray

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.first), 4 * self.vectors.shape[1]

    def __getitem__(self, rows: np.ndarray | slice) -> np.ndarray:
        """Returns the features of some rows, float32 of shape (B, 4 D)."""
        u, v = self.vectors[self.first[rows]], self.vectors[self.second[rows]]
        return np.concatenate([u, v, u * v, np.abs(u - v)], axis=1)


FeatureMatrix = np.ndarray | PairFeatures


class Fitted(NamedTuple):
    """A trained classifier: its weights at the first best dev evaluation.

    Attributes:
        dev_accuracy: accuracy on dev, 0 .. 1.
        layers: weight (outputs, inputs) and bias (outputs,) of each layer from D to C, float32.
        activation: non-linearity between the layers.
    """

    dev_accuracy: float
    layers: Layers
    activation: str = "sigmoid"

    def probabilities(self, features: FeatureMatrix) -> np.ndarray:
        """Computes the probabilities of the classes, float32 of shape (m, C), for features of shape (m, D)."""
        parts = []
        for begin in range(0, features.shape[0], ROWS):
            states = features[begin : begin + ROWS]
            for number in range(0, len(self.layers), 2):
                if number:
                    states = ACTIVATIONS[self.activation](torch.from_numpy(states)).numpy()
                states = states @ self.layers[number].T + self.layers[number + 1]
            parts.append(softmax(states, axis=1))
        return np.concatenate(parts)


def fit_many(
    features: FeatureMatrix,
    labels: np.ndarray,
    fits: Sequence[Fits],
    classes: int,
    classifier: ClassifierSettings,
    *,
    device: str = "cpu",
) -> list[list[Fitted]]:
    """Trains classifiers on rows of one matrix, without copying it.

    Args:
        features: float32 of shape (n, D).
        labels: int64 of shape (n,), 0 .. C-1.
        fits: classifiers to train.
        classes: C.
        classifier: its hidden layers, optimizer and early stopping.
        device: device to train on, if there are hidden layers or many classes.

    Returns:
        The trained classifiers of each of ``fits``. A logistic regression on a CPU is the same to the last bit for
        any other fits and any number of torch threads.
    """
    sizes = filter(None, [features.shape[1], *[classifier.hidden] * classifier.layers, classes])
    start, permutations = initial_layers(pairwise(sizes), classifier.seed), shared_permutations(classifier.seed)
    in_torch = classifier.hidden or (device != "cpu" and classes >= MANY)
    threads = 1 if in_torch else torch.get_num_threads()
    parts = -(-threads // len(fits))  # of each of fits, so that no thread is idle

    def fit_part(fit: Fits) -> list[Fitted]:
        trainer: Any = (Networks if in_torch else Regressions)(features, labels, fit, start, classifier, device)
        best = train(trainer, permutations, trainer.dev_scores)
        return [Fitted(accuracy, layers, classifier.activation) for accuracy, layers in best]

    with ThreadPoolExecutor(threads) as pool:
        divided = (fit._replace(l2=l2) for fit in fits for l2 in np.array_split(fit.l2, parts))
        fitted = list((map if in_torch else pool.map)(fit_part, divided))
    return [list(chain(*fitted[k : k + parts])) for k in range(0, len(fitted), parts)]


def initial_layers(sizes: Iterable[tuple[int, int]], seed: int) -> Start:
    """Returns weights and biases of Linear layers by (inputs, outputs), and torch's random state after them."""
    with torch.random.fork_rng(devices=[]):
        torch.random.default_generator.manual_seed(seed)
        layers = [nn.Linear(*size) for size in sizes]
        return [values.detach() for layer in layers for values in layer.parameters()], torch.get_rng_state()


@lru_cache(maxsize=1)
def shared_permutations(seed: int) -> Permutations:
    """Returns a function that yields NumPy's legacy permutations, drawn once for all fits of one size.

    Its arguments are the number of rows, and how many of them the first permutation holds out. Threads may share
    it. It is kept until another seed is asked for, or ``cache_clear`` is called.
    """
    streams: dict[Any, tuple[np.random.RandomState, list[np.ndarray]]] = {}
    lock = Lock()

    def permutations(rows: int, held_out: int) -> Iterator[np.ndarray]:
        stream, drawn = streams.setdefault((rows, held_out), (np.random.RandomState(seed), []))
        for number in count():
            with lock:
                if number == len(drawn):
                    drawn.append(stream.permutation(rows - held_out * (number > 0)).astype(np.int32))
            yield drawn[number]

    return permutations


def train(
    trainer: Any, permutations: Permutations, dev_scores: Callable[[np.ndarray], np.ndarray]
) -> list[tuple[float, Layers]]:
    """Trains with the toolkit's early stopping; returns each classifier's best dev score and its layers then.

    A classifier stops at the (patience + 1)-th dev evaluation without improvement; the count is never reset.

    Args:
        trainer: ``Regressions`` or ``Networks``.
        permutations: see ``shared_permutations``.
        dev_scores: computes the scores of the trainer's classifiers on dev rows.
    """
    classifier, (dev, epochs) = trainer.classifier, trainer.fits.draw(permutations)
    members = np.arange(len(trainer.fits.l2))  # that are still trained
    best: list[tuple[float, Layers]] = [(-math.inf, [])] * len(members)
    failures_left = np.full(len(members), classifier.patience + 1)
    done = 0
    while len(members) and done <= classifier.max_epoch:
        for _ in range(classifier.epoch_size):
            trainer.train_epoch(next(epochs))
        done += classifier.epoch_size
        for place, score in enumerate(dev_scores(dev)):
            if score > best[members[place]][0]:
                best[members[place]] = float(score), trainer.layers(place)
            else:
                failures_left[members[place]] -= 1
        running = failures_left[members] > 0
        if not running.all():
            members = members[running]
            trainer.keep(running)
    return best


@dataclass
class ClassifierGroup:
    """L classifiers that are trained side by side.

    Attributes:
        features: float32 of shape (n, D).
        targets: classes, int64 of shape (n,).
        fits: rows and L2.
        start: initial weights and biases, and the state of torch's random stream after them.
        classifier: batch, optimizer and order of layers.
        device: device to train on.
    """

    features: Any
    targets: np.ndarray
    fits: Fits
    start: Start
    classifier: ClassifierSettings
    device: str = "cpu"


@dataclass
class Regressions(ClassifierGroup):
    """Softmax regressions, trained by the compiled kernels; ``targets`` may be as in ``kernels.train``."""

    def __post_init__(self) -> None:
        first = np.column_stack([layer.numpy() for layer in self.start[0]])  # (C, D + 1), the bias last
        self.l2, self.steps, self.classes = np.array(self.fits.l2, np.float32), 0, len(first)
        weights = np.tile(first, (len(self.l2), 1))
        self.state = np.stack([weights, 0 * weights, 0 * weights])  # weights and two moments

    def train_epoch(self, rows: np.ndarray) -> None:
        """Makes one pass over the training rows."""
        batch, adam = self.classifier.batch, self.classifier.optimizer == "adam"
        for part in self.parts(rows):
            self.steps = kernels.train(  # type: ignore[call-arg]
                *part, *self.state, self.steps, self.l2, self.classes, batch, adam
            )

    def dev_scores(self, dev: np.ndarray) -> np.ndarray:
        """Computes each classifier's accuracy on rows."""
        right = np.zeros(len(self.l2))
        for features, targets, rows in self.parts(dev):
            scores = kernels.score(features, rows, self.state[0], self.classes)
            predicted = (
                scores > 0 if self.classes == 2 else scores.reshape(-1, self.classes, len(rows)).argmax(axis=1)
            )
            right += (predicted == targets[rows]).sum(axis=1)
        return right / len(dev)

    def layers(self, place: int) -> Layers:
        """Copies the weights of a classifier that is still trained."""
        weights = self.state[0, place * self.classes :][: self.classes]
        return [weights[:, :-1].copy(), weights[:, -1].copy()]

    def keep(self, running: np.ndarray) -> None:
        """Keeps only the ``running`` classifiers, by a mask."""
        self.l2 = self.l2[running]
        # contiguous, unlike an index
        self.state = self.state.compress(running.repeat(self.classes), axis=1)

    def parts(self, rows: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Yields a matrix, targets and rows of both: all at once if the features are a matrix."""
        if isinstance(self.features, np.ndarray):
            yield self.features, self.targets, rows
            return
        batch = self.classifier.batch
        size = max(PART // self.features.shape[1] // batch, 1) * batch
        for part in np.split(rows, range(size, len(rows), size)):
            yield self.features[part], self.targets[part], np.arange(len(part))


@dataclass
class Networks(ClassifierGroup):
    """Networks with any number of hidden layers: one product computes the first layer of all.

    On a CPU each equals a network of modules that is trained alone, dropout masks included. A GPU holds a matrix
    of features, and gets others batch by batch.
    """

    def __post_init__(self) -> None:
        device, count = self.device, len(self.fits.l2)
        if isinstance(self.features, np.ndarray):
            self.features = torch.as_tensor(self.features, device=device)
        self.l2 = torch.tensor(self.fits.l2, dtype=torch.float32, device=device)
        # (L, H, D), (L, H), ..., (L, C, H), (L, C)
        self.parameters = [
            layer.to(device).repeat(count, *[1] * layer.dim()).requires_grad_() for layer in self.start[0]
        ]
        adam = self.classifier.optimizer == "adam"
        self.optimizer: torch.optim.Optimizer = (
            torch.optim.Adam(self.parameters, fused=True) if adam else torch.optim.RMSprop(self.parameters)
        )
        self.generator = torch.Generator().set_state(self.start[1])

    def train_epoch(self, rows: np.ndarray) -> None:
        """Makes one pass over the training rows."""
        for part in np.split(rows, range(self.classifier.batch, len(rows), self.classifier.batch)):
            scores = self.scores(part, training=True)
            labels = torch.tensor(self.targets[part], device=self.device).repeat(len(scores))
            self.optimizer.zero_grad()
            (cross_entropy(scores.flatten(0, 1), labels, reduction="sum") / len(part)).backward()
            for parameter in self.parameters:
                l2 = self.l2.view(-1, *[1] * (parameter.dim() - 1))
                parameter.grad.addcmul_(parameter.detach(), l2)  # type: ignore[union-attr]
            self.optimizer.step()

    def scores(self, rows: np.ndarray, training: bool = False) -> Tensor:
        """Computes scores of shape (L, B, C) for row numbers of shape (B,)."""
        weight, bias, *others = self.parameters
        features = torch.as_tensor(self.features[rows], device=self.device)
        states = torch.addmm(bias.flatten(), features, weight.flatten(0, 1).T)  # (B, L * H)
        states = states.unflatten(1, bias.shape).transpose(0, 1)
        for weight, bias in zip(others[::2], others[1::2], strict=True):
            states = torch.baddbmm(bias[:, None], self.activate(states, training), weight.mT)
        return states

    def activate(self, states: Tensor, training: bool) -> Tensor:
        """Applies non-linearity and dropout to states of shape (L, B, H)."""
        activation, kept = ACTIVATIONS[self.classifier.activation], 1 - self.classifier.dropout
        if not training or kept == 1:
            return activation(states)
        # All share the mask of a network that is trained alone.
        mask = torch.empty(states.shape[1:]).bernoulli_(kept, generator=self.generator).div_(kept).to(self.device)
        return activation(states) * mask if self.classifier.dropout_last else activation(states * mask)

    @torch.no_grad()
    def dev_scores(self, dev: np.ndarray) -> np.ndarray:
        """Computes each network's accuracy on rows."""
        parts = np.split(dev, range(ROWS, len(dev), ROWS))
        predicted = torch.cat([self.scores(part).argmax(dim=2) for part in parts], dim=1)
        return (predicted.cpu().numpy() == self.targets[dev]).mean(axis=1)

    def layers(self, place: int) -> Layers:
        """Copies the weights of a network that is still trained."""
        return [parameter.detach()[place].cpu().numpy().copy() for parameter in self.parameters]

    def keep(self, running: np.ndarray) -> None:
        """Keeps only the ``running`` networks, by a mask."""
        self.l2 = self.l2[running]
        for parameter in self.parameters:
            parameter.data, parameter.grad = parameter.data[running], None
            state = self.optimizer.state[parameter]
            state |= {name: value[running] for name, value in state.items() if value.dim()}
