"""What is written down of one task: its scores, how they came about, whether printed scores may stand beside."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, NotRequired, TypedDict

from analysis.senteval.protocols import PROTOCOLS
from analysis.senteval.tasks import TASKS

PUBLISHED = {task.name: task.sizes for task in TASKS.values()}
PROBING = tuple(task.name for task in TASKS.values() if task.group == "probing")
STS = tuple(task.name for task in TASKS.values() if task.kind == "similarity")
# The probing files are said to hold 100k / 10k / 10k, "in some cases a few more" for balance.
PROBING_TOLERANCE = 0.01


class Subset(TypedDict):
    """One subset of STS12-16; correlations x 100, None where undefined."""

    n: int
    pearson: float | None
    spearman: float | None


class Record(TypedDict):
    """One task's result. Scores are percentages, correlations x 100; None is "there is none" or "undefined".

    Attributes:
        kind: "nested", "kfold", "split", "snli", "relatedness", "similarity" or "retrieval".
        protocol: name of the protocol, see ``protocols.PROTOCOLS``.
        dev: what was chosen by: accuracy; Pearson of relatedness (Spearman where it is plain cosine); mean of
            the six recalls of retrieval (the toolkit reports their sum); None for similarity.
        test: the headline: accuracy (of MRPC too); Spearman of relatedness; mean of the subsets' Spearman of
            similarity (one Spearman over all pairs where the protocol is plain cosine); mean of six recalls.
        n_train, n_dev, n_test: examples as the toolkit counts them (``tasks.Task.sizes``); n_train is 0 for
            similarity.
        l2: the weight chosen, one of each outer fold where k-fold is nested, None where none is chosen.
        seconds: of everything after the sentences were embedded.
        hidden, dropout, pooling: where the protocol chooses them on dev.
        accuracy, f1: of MRPC.
        pearson, spearman: of relatedness one number; of similarity {"mean", "wmean", "all"} over its subsets.
        dev_pearson, mse: of relatedness; None where nothing is trained.
        subsets: of similarity, by name.
        recalls: of retrieval: "caption_r1", "caption_r5", "caption_r10" (captions of an image) and
            "image_r1", ... (images of a caption).
        median_rank: of retrieval: {"caption", "image"}; a rank, no percentage.
        splits: of retrieval: the sets of test images that scores are means over.
        weights: of an ensemble's members.
        files: SHA-256 of the task's files.
        comparable: whether it may stand beside printed scores (SentEval's whole own data, by their counts; the
            papers' measure), see ``incomparable``.
        reason: in one line why not; None where it may.
    """

    kind: str
    protocol: str
    dev: float | None
    test: float | None
    n_train: int
    n_dev: int
    n_test: int
    l2: float | list[float] | None
    seconds: float
    hidden: NotRequired[int]
    dropout: NotRequired[float]
    pooling: NotRequired[str]
    accuracy: NotRequired[float]
    f1: NotRequired[float]
    pearson: NotRequired[float | dict[str, float | None] | None]
    spearman: NotRequired[float | dict[str, float | None] | None]
    dev_pearson: NotRequired[float | None]
    mse: NotRequired[float | None]
    subsets: NotRequired[dict[str, Subset]]
    recalls: NotRequired[dict[str, float]]
    median_rank: NotRequired[dict[str, float]]
    splits: NotRequired[int]
    weights: NotRequired[list[float]]
    files: NotRequired[str]
    comparable: NotRequired[bool]
    reason: NotRequired[str | None]


RECALLS = tuple(f"{side}_r{k}" for side in ("caption", "image") for k in (1, 5, 10))


def measure(record: Mapping[str, Any], metric: str) -> float | None:
    """A score of ``record`` by name: a field ("f1"), a field's part ("spearman.mean"), a mean ("accuracy+f1").

    None where the record has no such score.
    """
    values = []
    for path in metric.split("+"):
        value: Any = record
        for key in path.split("."):
            value = value.get(key) if isinstance(value, Mapping) else None
        if not _number(value):
            return None
        values.append(float(value))
    return sum(values) / len(values)


def headlines(task: str, record: Mapping[str, Any]) -> tuple[str, ...]:
    """The metrics that a table of test scores shows of ``record``, for ``measure``; the first one is ``test``."""
    if task == "MRPC":
        return "accuracy", "f1"
    if record["kind"] == "similarity":
        protocol = PROTOCOLS.get(record["protocol"].split("+")[0])
        return ("spearman.all",) if protocol and protocol.cosine else ("spearman.mean",)
    return ("spearman",) if record["kind"] == "relatedness" else ("test",)


def incomparable(task: str, record: Mapping[str, Any]) -> str | None:
    """Why ``record`` must not stand beside the papers' printed scores, in one line; None where it may."""
    if record["kind"] == "relatedness" and record["mse"] is None:
        return "plain cosine, nothing trained"
    tolerance = PROBING_TOLERANCE if task in PROBING else 0.0
    sizes = record["n_train"], record["n_test"]
    for what, found, published in zip(("training", "test"), sizes, PUBLISHED[task], strict=True):
        if abs(found - published) > tolerance * published:
            return f"{found:,} {what} examples, SentEval has {published:,}"
    return None


def _number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def _count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63


def _text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _score(value: object) -> bool:
    return value is None or _number(value)


def _weight(value: object) -> bool:
    return _score(value) or (isinstance(value, list) and all(map(_number, value)))


def _parts(check: Callable[[object], bool], *keys: str) -> Callable[[object], bool]:
    def holds(value: object) -> bool:
        return isinstance(value, Mapping) and all(key in value and check(value[key]) for key in keys)

    return holds


def _subsets(value: object) -> bool:
    one = _parts(_score, "pearson", "spearman"), _parts(_count, "n")
    return isinstance(value, Mapping) and all(check(subset) for subset in value.values() for check in one)


_FIELDS: dict[str, Callable[[object], bool]] = {
    "kind": _text,
    "protocol": _text,
    "dev": _score,
    "test": _score,
    "n_train": _count,
    "n_dev": _count,
    "n_test": _count,
    "l2": _weight,
    "seconds": _number,
}
_MEANS = _parts(_score, "mean", "wmean", "all")
_KINDS: dict[str, dict[str, Callable[[object], bool]]] = {
    "nested": {},
    "kfold": {},
    "split": {},
    "snli": {},
    "relatedness": {"pearson": _score, "spearman": _score, "dev_pearson": _score, "mse": _score},
    "similarity": {"pearson": _MEANS, "spearman": _MEANS, "subsets": _subsets},
    "retrieval": {"recalls": _parts(_number, *RECALLS), "median_rank": _parts(_number, "caption", "image")},
}


def fault(task: str, record: object) -> str | None:
    """What is wrong with ``record`` as a task's result, in a few words; None where nothing is."""
    if task not in PUBLISHED:
        return f"{task} is no task of SentEval"
    if not isinstance(record, Mapping):
        return f"{task} is not an object"
    kind = record.get("kind")
    if not isinstance(kind, str) or kind not in _KINDS:
        return f"{task}.kind must be one of {', '.join(_KINDS)}"
    fields = _FIELDS | _KINDS[kind] | ({"accuracy": _number, "f1": _number} if task == "MRPC" else {})
    for name, check in fields.items():
        if name not in record:
            return f"{task}.{name} is missing"
        if not check(record[name]):
            return f"{task}.{name} cannot be {record[name]!r}"
    return None
