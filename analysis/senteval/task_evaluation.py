"""Loads one task and evaluates it on its sentences' vectors: features, training, scores, predictions by kind."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from analysis.senteval import scores
from analysis.senteval.classifiers.relatedness import Scored, relatedness
from analysis.senteval.classifiers.retrieval import Captioned, retrieval
from analysis.senteval.classifiers.selection import kfold, nested, split, tuned
from analysis.senteval.classifiers.snli import Pairs, snli
from analysis.senteval.features import Progress
from analysis.senteval.files.captions import Captions
from analysis.senteval.files.loaders import Examples
from analysis.senteval.protocols import SNLI_L2, Protocol
from analysis.senteval.tasks import TASKS, Task
from data.errors import UserError

Dataset = Mapping[str, Examples] | Mapping[str, Captions]
Outcomes = tuple[dict[str, Any], dict[str, np.ndarray]]  # a record's scores; predictions of each test example

# Approximate maximum number of passes over the training examples, by kind; per fold with k-fold (see ``work``).
_PASSES = {"nested": 60, "kfold": 60, "split": 60, "snli": 100, "relatedness": 1000, "retrieval": 4000}


class Indexed(NamedTuple):
    """n examples whose sentences are rows of a matrix of vectors.

    Attributes:
        first, second: rows of the sentences, int64 of shape (n,); ``second`` is empty for tasks on single
            sentences. Captions are ``first``, of shape (n, 5).
        targets: classes or gold scores, of shape (n,); of captions the images' features, of shape (n, F).
    """

    first: np.ndarray
    second: np.ndarray
    targets: np.ndarray


Parts = Mapping[str, Indexed]


@dataclass(frozen=True)
class Job:
    """A task to evaluate, which holds no vectors and may be sent to another process.

    Attributes:
        name: name of the task.
        source: its first file, for error messages.
        parts: examples by pooling and part; of several poolings the one that is best on dev counts.
        protocol: protocol of the evaluation.
        device: device to train on.
        work: its time relative to other tasks', see ``work``.
    """

    name: str
    source: str
    parts: Mapping[str | None, Parts]
    protocol: Protocol
    device: str
    work: float

    def evaluate(self, matrices: Mapping[str | None, np.ndarray], progress: Progress) -> Outcomes:
        """Evaluates the task.

        Args:
            matrices: vectors by pooling, float32 of shape (N, D); may be memory-mapped.
            progress: called with the share done, 0 .. 1.

        Returns:
            Scores, counts and seconds for its ``records.Record``, and the arrays for ``predictions/<task>.npz``.

        Raises:
            UserError: if the examples cannot be used.
        """
        task, started = TASKS[self.name], time.perf_counter()
        found: list[Outcomes] = []
        progress(0.0)
        for pooling, parts in self.parts.items():

            def part(share: float, done: int = len(found)) -> None:
                progress((done + share) / len(self.parts))

            try:
                record, predictions = _evaluate(task, parts, np.asarray(matrices[pooling]), self, part)
            except UserError as error:
                error.key = error.key or f"{self.name} ({self.source})"
                raise
            if pooling is not None:
                record["pooling"] = pooling
            found.append((record, predictions))
        # Without dev the last pooling is taken, as the protocol says.
        record, predictions = found[-1] if found[-1][0]["dev"] is None else max(found, key=_dev)
        seconds = round(time.perf_counter() - started, 2)
        return record | {"kind": task.kind, "protocol": self.protocol.name, "seconds": seconds}, predictions


def load(task: Task, root: Path) -> Dataset:
    """Loads a task's examples from the files under its group's ``root``.

    The garbage collector is off meanwhile: with millions of objects it would take half of the time.

    Raises:
        UserError: for files that cannot be used.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        return task.load(root)
    finally:
        if enabled:
            gc.enable()


def sentences(dataset: Dataset) -> Iterator[str]:
    """Yields all sentences of a task."""
    for part in dataset.values():
        if isinstance(part, Captions):
            for captions in part.captions:
                yield from captions
        else:
            yield from part.first
            yield from part.second


def indexed(dataset: Dataset, protocol: Protocol, index: Callable[[list[str]], np.ndarray]) -> Parts:
    """Replaces a task's sentences by their rows, which ``index`` returns for preprocessed ones."""

    def rows(found: Iterable[str]) -> np.ndarray:
        return index([protocol.preprocess(sentence) for sentence in found])

    parts = {}
    for name, part in dataset.items():
        if isinstance(part, Captions):
            captions = rows(chain.from_iterable(part.captions))
            parts[name] = Indexed(captions.reshape(len(part.captions), -1), captions[:0], part.images)
        else:
            parts[name] = Indexed(rows(part.first), rows(part.second), part.targets)
    return parts


def work(task: Task, dataset: Dataset, protocol: Protocol) -> float:
    """Estimates the relative time of a task, for the progress over several and for their order."""
    part = dataset.get("all") or dataset.get("train")
    if task.kind == "similarity" or part is None:
        return 1.0
    count = len(part.captions) if isinstance(part, Captions) else len(part.targets)
    folds = {"nested": protocol.folds**2, "kfold": protocol.folds}.get(task.kind, 1)
    return 1.0 + _PASSES[task.kind] * folds * count


def _evaluate(task: Task, parts: Parts, matrix: np.ndarray, job: Job, progress: Progress) -> Outcomes:
    match task.kind:
        case "retrieval":
            return _retrieval(parts, matrix, job.device, progress)
        case "similarity":
            return _similarity(parts, matrix, job.protocol)
        case "relatedness":
            return _relatedness(parts, matrix, job.protocol, progress)
        case "snli":
            return _snli(parts, matrix, job, progress)
        case _:
            return _classes(task, parts, matrix, job, progress)


def _dev(outcomes: Outcomes) -> float:
    """Returns the score on dev; an undefined one (NaN) is the lowest."""
    dev = outcomes[0]["dev"]
    return -math.inf if math.isnan(dev) else dev


def _classes(task: Task, parts: Parts, matrix: np.ndarray, job: Job, progress: Progress) -> Outcomes:
    def features(part: Indexed) -> np.ndarray:
        return _pair(matrix, part) if task.features == "pair" else matrix[part.first]

    _check_classes(parts["all" if task.kind == "nested" else "train"])
    found = {name: (features(part), part.targets) for name, part in parts.items()}
    classes = task.classes or len(np.unique(parts["train"].targets))
    protocol = job.protocol
    if task.name == "WordContent":  # the toolkit uses no hidden layer here
        protocol = replace(protocol, classifier=replace(protocol.classifier, hidden=0), probing_hidden=())
    options: dict[str, Any] = {"device": job.device, "progress": progress}
    arrays: dict[str, np.ndarray] = {}
    extra: dict[str, Any] = {}
    if task.kind == "nested":
        outcome = nested(*found["all"], classes, protocol, **options)
        gold = parts["all"].targets
        assert outcome.folds is not None
        arrays["fold"] = outcome.folds
    else:
        gold = parts["test"].targets
        if task.kind == "kfold":
            outcome = kfold(found["train"], found["test"][0], classes, protocol, **options)
        elif task.group == "probing" and protocol.probing_hidden:
            outcome = tuned(found["train"], found["dev"], found["test"][0], classes, protocol, **options)
            extra = {"hidden": outcome.hidden, "dropout": outcome.dropout}
        else:
            outcome = split(found["train"], found["dev"], found["test"][0], classes, protocol, **options)
    reached = scores.classification(task.name, gold, outcome.probabilities, arrays.get("fold"))
    record = {"dev": outcome.dev, **reached, "l2": outcome.l2, **extra}
    record |= {"n_train": len(gold if task.kind == "nested" else parts["train"].targets)}
    record |= {"n_dev": outcome.n_dev, "n_test": len(gold)}
    return record, arrays | {"gold": gold, "predicted": outcome.probabilities}


def _check_classes(train: Indexed) -> None:
    if len(np.unique(train.targets)) < 2:
        raise UserError("all training examples are of one class")


def _pair(matrix: np.ndarray, part: Indexed) -> np.ndarray:
    """Returns [|u - v|; u * v] of shape (n, 2 D)."""
    first, second = matrix[part.first], matrix[part.second]
    return np.hstack([np.abs(first - second), first * second])


def _snli(parts: Parts, matrix: np.ndarray, job: Job, progress: Progress) -> Outcomes:
    _check_classes(parts["train"])
    train, dev, test = (Pairs(*part) for part in parts.values())
    found = snli(matrix, train, dev, test, job.protocol.classifier, device=job.device, progress=progress)
    record = {"dev": found.dev, **scores.classification("SNLI", test.labels, found.probabilities), "l2": SNLI_L2}
    return _counted(parts, record), {"gold": test.labels, "predicted": found.probabilities}


def _relatedness(parts: Parts, matrix: np.ndarray, protocol: Protocol, progress: Progress) -> Outcomes:
    gold = parts["test"].targets
    record: dict[str, Any]
    if protocol.cosine:
        dev, predicted = (
            scores.cosines(matrix[part.first], matrix[part.second]) for part in (parts["dev"], parts["test"])
        )
        found_dev = scores.correlation(dev, parts["dev"].targets)
        # Gao et al. (2021) choose and report by Spearman.
        record = {"dev": 100 * found_dev.spearman, "dev_pearson": 100 * found_dev.pearson}
    else:
        train, dev_part = (Scored(_pair(matrix, parts[name]), parts[name].targets) for name in ("train", "dev"))
        found = relatedness(train, dev_part, _pair(matrix, parts["test"]), progress=progress)
        record = {"dev": 100 * found.dev, "dev_pearson": 100 * found.dev}
        predicted = found.predictions
    record |= {"l2": None, **scores.relatedness(gold, predicted, trained=not protocol.cosine)}
    # Kept in double precision: in single precision some scores would be tied.
    return _counted(parts, record), {"gold": gold, "predicted": predicted}


def _similarity(parts: Parts, matrix: np.ndarray, protocol: Protocol) -> Outcomes:
    found = {
        name: (scores.cosines(matrix[part.first], matrix[part.second]), part.targets)
        for name, part in parts.items()
    }
    reached = scores.similarity(found, cosine=protocol.cosine)
    gold = np.concatenate([part.targets for part in parts.values()])
    record = {"dev": None, **reached, "l2": None, "n_train": 0, "n_dev": 0, "n_test": len(gold)}
    return record, {
        "gold": gold,
        "predicted": np.concatenate([predicted for predicted, _ in found.values()]).astype(np.float32),
        "subset": np.repeat(np.arange(len(parts)), [len(part.targets) for part in parts.values()]),
    }


def _retrieval(parts: Parts, matrix: np.ndarray, device: str, progress: Progress) -> Outcomes:
    train, dev, test = (
        Captioned(parts[name].targets, matrix, parts[name].first) for name in ("train", "dev", "test")
    )
    found = retrieval(train, dev, test, device=device, progress=progress)
    sides = {"caption": found.image_to_text, "image": found.text_to_image}
    recalls = {f"{side}_r{k}": getattr(ranks, f"recall_{k}") for side, ranks in sides.items() for k in (1, 5, 10)}
    record = {
        "dev": found.dev / 6,
        "test": sum(recalls.values()) / 6,
        "l2": None,
        **{f"n_{name}": part.first.size for name, part in parts.items()},
        "recalls": recalls,
        "median_rank": {side: ranks.median for side, ranks in sides.items()},
        "splits": found.splits,
    }
    return record, {}


def _counted(parts: Parts, record: dict[str, Any]) -> dict[str, Any]:
    return record | {f"n_{name}": len(part.targets) for name, part in parts.items()}
