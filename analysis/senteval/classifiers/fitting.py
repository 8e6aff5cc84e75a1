"""Trains many classifiers at once: all folds and L2 values of a task (``senteval/tools/classifier.py``).

Logistic regressions on a CPU are trained by compiled kernels, everything else in torch. Every fit begins with
torch's initial weights under the classifier's seed and uses the same permutations, so all fits of one size share
both.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch

from analysis.senteval.classifiers import networks
from analysis.senteval.classifiers.training import Fit, Fitted, Group, Patience, grouped, toolkit_stream
from analysis.senteval.features import Progress
from analysis.senteval.protocols import Classifier

SMALL = 1 << 15  # weights of all fits; with fewer of them a GPU would only start small kernels


def fit_many(
    features: np.ndarray,
    labels: np.ndarray,
    fits: Sequence[Fit],
    classes: int,
    classifier: Classifier,
    *,
    device: torch.device | str = "cpu",
    progress: Progress | None = None,
) -> list[Fitted]:
    """Trains ``fits`` on rows of one matrix, without copying it.

    Args:
        features: float32 of shape (n, D).
        labels: int64 of shape (n,), 0 .. C-1.
        fits: classifiers to train.
        classes: C.
        classifier: its hidden layers, optimizer and early stopping.
        device: device to train on, if the fits are not small.
        progress: called with the share done, 0 .. 1.

    Returns:
        One classifier per fit, in their order. A logistic regression on a CPU is the same to the last bit for any
        other fits and any number of torch threads.
    """
    features = np.ascontiguousarray(features, np.float32).view(np.ndarray)
    labels = np.ascontiguousarray(labels, np.int64)
    device = training_device(device, len(fits), features.shape[1], classes, classifier)
    if classifier.hidden or device.type != "cpu":
        together = device.type != "cpu"
        return networks.fit_many(
            features, labels, fits, classes, classifier, device=device, together=together, progress=progress
        )
    start = initial_weights(features.shape[1], classes, classifier.seed)
    results: dict[int, Fitted] = {}
    lock = threading.Lock()

    def finish(position: int, rows: np.ndarray, accuracy: float) -> None:
        with lock:
            results[position] = Fitted([(np.ascontiguousarray(rows[:, :-1]), rows[:, -1].copy())], accuracy)
            if progress is not None:
                progress(len(results) / len(fits))

    decay = [fit.l2 for fit in fits]
    features = features.view()
    features.flags.writeable = False  # one type for the compiler, memory-mapped or not
    groups = _split_groups(grouped(fits, classifier.seed), torch.get_num_threads())
    with ThreadPoolExecutor(torch.get_num_threads()) as pool:
        arguments = (features, labels, start, decay, classes, classifier, finish)
        for task in [pool.submit(_train, group, *arguments) for group in groups]:
            task.result()
    return [results[position] for position in range(len(fits))]


def training_device(
    device: torch.device | str, fits: int, inputs: int, classes: int, classifier: Classifier
) -> torch.device:
    """Returns the device on which ``fits`` classifiers are trained: ``device``, or the CPU if they are small."""
    hidden = classifier.hidden
    weights = hidden * (inputs + (classifier.layers - 1) * hidden + classes) if hidden else inputs * classes
    return torch.device("cpu" if fits * weights < SMALL else device)


def initial_weights(width: int, classes: int, seed: int) -> np.ndarray:
    """Returns torch's initial weights of a Linear under ``seed``, float32 of shape (C, D + 1), the bias last."""
    with toolkit_stream("cpu", seed):
        layer = torch.nn.Linear(width, classes)
    return np.column_stack([layer.weight.detach().numpy(), layer.bias.detach().numpy()])


def _split_groups(groups: list[Group], threads: int) -> list[Group]:
    """Splits groups into parts if there are fewer groups than threads."""
    count = -(-threads // len(groups))
    return [
        group._replace(members=group.members[part::count])
        for group in groups
        for part in range(min(count, len(group.members)))
    ]


def _train(
    group: Group,
    features: np.ndarray,
    labels: np.ndarray,
    start: np.ndarray,
    decay: list[float],
    classes: int,
    classifier: Classifier,
    finish: Callable[[int, np.ndarray, float], None],
) -> None:
    from analysis.senteval.classifiers import kernels  # late: not needed on a GPU

    running = group.members
    weights = np.tile(start, (len(running), 1))
    first, second = np.zeros_like(weights), np.zeros_like(weights)
    patience = {position: Patience(classifier.patience) for position in running}
    best: dict[int, np.ndarray] = {}
    steps = 0
    for epoch in range(0, classifier.max_epoch + 1, classifier.epoch_size):
        orders = group.stream.epochs(epoch, epoch + classifier.epoch_size)
        l2 = np.array([decay[position] for position in running], np.float32)
        adam = classifier.optimizer == "adam"
        steps = kernels.train(
            features,
            labels,
            group.train,
            orders,
            weights,
            first,
            second,
            steps,
            l2,
            classes,
            classifier.batch,
            adam,
        )
        right = kernels.correct(features, labels, group.dev, weights, classes)
        for k, position in enumerate(running):
            if patience[position].rises(right[k] / len(group.dev)):
                best[position] = weights[k * classes : (k + 1) * classes].copy()
        going = np.array([not patience[position].spent for position in running])
        if not going.all():
            kept = np.repeat(going, classes)
            weights, first, second = weights[kept], first[kept], second[kept]
            running = [position for position, goes in zip(running, going, strict=True) if goes]
        if not running:
            break
    for position, rows in best.items():
        finish(position, rows, patience[position].best)
