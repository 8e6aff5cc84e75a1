"""Evaluates one task on its sentences' vectors: features, training, scores and predictions for each kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, cast

import numpy as np

from analysis.senteval import scores
from analysis.senteval.classifiers.hidden import Choice, choose_hidden
from analysis.senteval.classifiers.relatedness import Scored, relatedness
from analysis.senteval.classifiers.retrieval import Captioned, retrieval
from analysis.senteval.classifiers.selection import Outcome, kfold, nested, split
from analysis.senteval.classifiers.similarity import cosine, cosines
from analysis.senteval.classifiers.snli import Pairs, snli
from analysis.senteval.features import Vectors
from analysis.senteval.files.examples import Captions, Examples
from analysis.senteval.protocols import Protocol
from analysis.senteval.tasks import Task
from data.errors import UserError

Dataset = Mapping[str, Examples] | Mapping[str, Captions]
Outcomes = tuple[dict[str, Any], dict[str, np.ndarray]]  # a record's scores; predictions of each test example
Progress = Callable[[float], None]

# Approximate maximum number of passes over the training examples, by kind; per fold with k-fold (see ``work``).
_PASSES = {"nested": 60, "kfold": 60, "split": 60, "snli": 100, "relatedness": 1000, "retrieval": 4000}


class Rows:
    """Vectors of sentences, looked up after the protocol's preprocessing."""

    def __init__(self, vectors: Vectors, protocol: Protocol) -> None:
        self._vectors = vectors
        self._protocol = protocol

    def __call__(self, found: list[str]) -> np.ndarray:
        """Returns vectors of shape (n, D), float32."""
        return self._vectors.rows([normal(sentence, self._protocol) for sentence in found])

    def index(self, found: list[str]) -> np.ndarray:
        """Returns row numbers of ``matrix``, int64 of shape (n,)."""
        return self._vectors.index([normal(sentence, self._protocol) for sentence in found])

    @property
    def matrix(self) -> np.ndarray:
        """All vectors; may be memory-mapped."""
        return self._vectors.matrix


def normal(sentence: str, protocol: Protocol) -> str:
    """Returns ``sentence`` after the protocol's preprocessing."""
    return sentence.lower() if protocol.lowercase else sentence


def sentences(dataset: Dataset) -> Iterator[str]:
    """Yields all sentences of a task."""
    for part in dataset.values():
        if isinstance(part, Captions):
            for captions in part.captions:
                yield from captions
        else:
            yield from part.first
            yield from part.second


def work(task: Task, dataset: Dataset, protocol: Protocol) -> float:
    """Estimates the relative time of ``evaluate_task``, for the progress over several tasks."""
    part = dataset.get("all") or dataset.get("train")
    if task.kind == "similarity" or part is None:
        return 1.0
    count = len(part.captions) if isinstance(part, Captions) else len(part.targets)
    folds = {"nested": protocol.folds**2, "kfold": protocol.folds}.get(task.kind, 1)
    return 1.0 + _PASSES[task.kind] * folds * count


def evaluate_task(
    task: Task, dataset: Dataset, rows: Rows, protocol: Protocol, *, device: str, progress: Progress
) -> Outcomes:
    """Evaluates one task.

    Returns:
        Scores and counts for its ``records.Record``, and the arrays for ``predictions/<task>.npz``.
    """
    if task.kind == "retrieval":
        return _retrieval(cast(Mapping[str, Captions], dataset), rows, device, progress)
    parts = cast(Mapping[str, Examples], dataset)
    if task.kind == "similarity":
        return _similarity(parts, rows, protocol)
    if task.kind == "relatedness":
        return _relatedness(parts, rows, protocol, device, progress)
    if task.kind == "snli":
        return _snli(parts, rows, protocol, device, progress)
    return _classes(task, parts, rows, protocol, device, progress)


def _classes(
    task: Task, parts: Mapping[str, Examples], rows: Rows, protocol: Protocol, device: str, progress: Progress
) -> Outcomes:
    def features(part: Examples) -> np.ndarray:
        return _pair(rows(part.first), rows(part.second)) if task.features == "pair" else rows(part.first)

    _check_classes(parts["all" if task.kind == "nested" else "train"])
    found = {name: (features(part), part.targets) for name, part in parts.items()}
    classes = task.classes or len(np.unique(parts["train"].targets))
    options: dict[str, Any] = {"device": device, "progress": progress}
    arrays: dict[str, np.ndarray] = {}
    extra: dict[str, Any] = {}
    outcome: Outcome | Choice
    if task.kind == "nested":
        outcome = nested(*found["all"], classes, protocol, **options)
        gold = parts["all"].targets
        arrays["fold"] = cast(np.ndarray, outcome.folds)
    else:
        gold = parts["test"].targets
        if task.name == "WordContent":  # the toolkit uses no hidden layer here
            protocol = replace(protocol, classifier=replace(protocol.classifier, hidden=0), probing_hidden=())
        if task.kind == "kfold":
            outcome = kfold(*found["train"], *found["test"], classes, protocol, **options)
        elif task.group == "probing" and protocol.probing_hidden:
            outcome = choose_hidden(*found["train"], *found["dev"], *found["test"], classes, protocol, **options)
            extra = {"hidden": outcome.hidden, "dropout": outcome.dropout}
        else:
            outcome = split(*found["train"], *found["dev"], *found["test"], classes, protocol, **options)
    reached = scores.classification(task.name, gold, outcome.probabilities, arrays.get("fold"))
    record = {"dev": outcome.dev, **reached, "l2": outcome.l2, **extra}
    record |= {"n_train": len(gold if task.kind == "nested" else parts["train"].targets)}
    record |= {"n_dev": outcome.n_dev, "n_test": outcome.n_test}
    return record, arrays | {"gold": gold, "predicted": outcome.probabilities}


def _check_classes(train: Examples) -> None:
    if len(np.unique(train.targets)) < 2:
        raise UserError("all training examples are of one class; a classifier needs two.")


def _pair(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Returns [|u - v|; u * v] of shape (n, 2 D) for vectors of shape (n, D)."""
    return np.hstack([np.abs(first - second), first * second])


def _snli(
    parts: Mapping[str, Examples], rows: Rows, protocol: Protocol, device: str, progress: Progress
) -> Outcomes:
    _check_classes(parts["train"])
    train, dev, test = (
        Pairs(rows.index(part.first), rows.index(part.second), part.targets) for part in parts.values()
    )
    found = snli(rows.matrix, train, dev, test, protocol.classifier, device=device, progress=progress)
    gold = parts["test"].targets
    record = {"dev": found.dev, **scores.classification("SNLI", gold, found.probabilities), "l2": found.l2}
    return _counted(parts, record), {"gold": gold, "predicted": found.probabilities}


def _relatedness(
    parts: Mapping[str, Examples], rows: Rows, protocol: Protocol, device: str, progress: Progress
) -> Outcomes:
    gold = parts["test"].targets
    record: dict[str, Any]
    if protocol.cosine:
        dev, test = (cosine(rows(part.first), rows(part.second), part.targets) for part in _ends(parts))
        # Gao et al. (2021) choose and report by Spearman.
        record = {"dev": 100 * dev.correlation.spearman, "dev_pearson": 100 * dev.correlation.pearson}
        predicted = test.predictions
    else:
        train, dev_part, test_part = (
            Scored(_pair(rows(part.first), rows(part.second)), part.targets) for part in parts.values()
        )
        found = relatedness(train, dev_part, test_part, device=device, progress=progress)
        record = {"dev": 100 * found.dev, "dev_pearson": 100 * found.dev}
        predicted = found.predictions
    record |= {"l2": None, **scores.relatedness(gold, predicted, trained=not protocol.cosine)}
    # Kept in double precision: in single precision some scores would be tied.
    return _counted(parts, record), {"gold": gold, "predicted": predicted}


def _similarity(parts: Mapping[str, Examples], rows: Rows, protocol: Protocol) -> Outcomes:
    found = {name: (cosines(rows(part.first), rows(part.second)), part.targets) for name, part in parts.items()}
    reached = scores.similarity(found, cosine=protocol.cosine)
    gold = np.concatenate([part.targets for part in parts.values()])
    record = {"dev": None, **reached, "l2": None, "n_train": 0, "n_dev": 0, "n_test": len(gold)}
    return record, {
        "gold": gold,
        "predicted": np.concatenate([predicted for predicted, _ in found.values()]).astype(np.float32),
        "subset": np.repeat(np.arange(len(parts)), [len(part.targets) for part in parts.values()]),
    }


def _retrieval(parts: Mapping[str, Captions], rows: Rows, device: str, progress: Progress) -> Outcomes:
    def captioned(part: Captions) -> Captioned:
        index = rows.index([caption for captions in part.captions for caption in captions])
        return Captioned(part.images, rows.matrix, index.reshape(len(part.captions), -1))

    train, dev, test = (captioned(parts[name]) for name in ("train", "dev", "test"))
    found = retrieval(train, dev, test, device=device, progress=progress)
    sides = {"caption": found.image_to_text, "image": found.text_to_image}
    recalls = {f"{side}_r{k}": getattr(ranks, f"recall_{k}") for side, ranks in sides.items() for k in (1, 5, 10)}
    record = {
        "dev": found.dev / 6,
        "test": sum(recalls.values()) / 6,
        "l2": None,
        **{f"n_{name}": sum(map(len, part.captions)) for name, part in parts.items()},
        "recalls": recalls,
        "median_rank": {side: ranks.median for side, ranks in sides.items()},
        "splits": found.splits,
    }
    return record, {}


def _ends(parts: Mapping[str, Examples]) -> tuple[Examples, Examples]:
    return parts["dev"], parts["test"]


def _counted(parts: Mapping[str, Examples], record: dict[str, Any]) -> dict[str, Any]:
    return record | {f"n_{name}": len(part.targets) for name, part in parts.items()}
