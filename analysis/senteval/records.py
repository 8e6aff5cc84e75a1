"""The record of one task: scores, settings, and comparability with published scores."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, NotRequired, TypedDict

from analysis.senteval.protocols import PROTOCOLS
from analysis.senteval.scores import METRICS
from analysis.senteval.tasks import STS_SUBSETS, TASKS

PUBLISHED = {task.name: task.sizes for task in TASKS.values()}
# Those of the averages. They do not grow with tasks of one's own.
PROBING = (
    *("Length", "WordContent", "Depth", "TopConstituents", "BigramShift", "Tense", "SubjNumber", "ObjNumber"),
    *("OddManOut", "CoordinationInversion"),
)
STS = tuple(STS_SUBSETS)
# By their README the probing files hold 100k / 10k / 10k sentences, "in some cases a few more" for balance.
PROBING_TOLERANCE = 0.01


class Subset(TypedDict):
    """Scores of one subset of STS12-16: correlations x 100, None if undefined."""

    n: int
    pearson: float | None
    spearman: float | None


class Record(TypedDict):
    """Result of one task. Scores are percentages, correlations x 100; None means missing or undefined.

    Attributes:
        kind: "nested", "kfold", "split", "snli", "relatedness", "similarity" or "retrieval".
        protocol: name of the protocol, see ``protocols.PROTOCOLS``.
        dev: score for model selection. Accuracy; relatedness: Pearson (with plain cosine: Spearman); retrieval:
            mean of the six recalls (the toolkit reports their sum); similarity: None.
        test: main score. Accuracy (MRPC too); relatedness: Spearman; similarity: mean of the subsets' Spearman
            (if the protocol uses plain cosine: one Spearman over all pairs); retrieval: mean of six recalls.
        n_train, n_dev, n_test: numbers of examples as the toolkit counts them (``tasks.Task.sizes``); similarity
            has n_train 0.
        l2: chosen L2 weight; nested k-fold: one per outer fold; None if none is chosen.
        seconds: time of everything after embedding the sentences.
        hidden, dropout, pooling: the choices on dev, if the protocol makes them.
        accuracy, f1: only MRPC. Other metrics of ``scores.METRICS`` may stand beside a test score in the same way.
        pearson, spearman: relatedness: a number; similarity: {"mean", "wmean", "all"} over its subsets.
        dev_pearson, mse: only relatedness; mse is None if nothing is trained.
        subsets: only similarity, by name.
        recalls: only retrieval: "caption_r1", "caption_r5", "caption_r10" (captions of an image) and
            "image_r1", ... (images of a caption).
        median_rank: only retrieval: {"caption", "image"}; a rank, not a percentage.
        splits: only retrieval: number of sets of test images that scores are averaged over.
        weights: weights of an ensemble's members.
        files: SHA-256 of the task's files.
        comparable: true if it is comparable with printed scores (SentEval's complete data, by counts, and the
            papers' metric), see ``incomparable``.
        reason: why it is not comparable, in one line; None if it is.
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


def metric_of(record: Record) -> str:
    """Returns the name of the metric of ``record``'s test score."""
    match record["kind"]:
        case "relatedness":
            return "Spearman"
        case "similarity":
            return "Spearman" if "all" in headlines("", record)[0] else "mean Spearman"
        case "retrieval":
            return "mean recall"
        case _:
            return "accuracy"


def measure(record: Mapping[str, Any], metric: str) -> float | None:
    """Returns a score of ``record``: a field ("f1"), a part of one ("spearman.mean") or a mean ("accuracy+f1").

    Returns None if the record has no such score.
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


def scorer(records: Mapping[str, Mapping[str, Any]]) -> Callable[[str, str], float | None]:
    """Returns a function of task and metric that returns the score in ``records`` (see ``measure``), or None."""
    return lambda task, metric: measure(records[task], metric) if task in records else None


def headlines(task: str, record: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the metrics that tables of test scores show for ``record`` (see ``measure``), ``test``'s first."""
    own = "accuracy" if task == "MRPC" else "spearman" if record["kind"] == "relatedness" else "test"
    if record["kind"] == "similarity":
        protocol = PROTOCOLS.get(record["protocol"].split("+")[0])
        own = "spearman.all" if protocol and protocol.cosine else "spearman.mean"
    # An older record lacks a metric that was added later.
    beside = (key for key, one in METRICS.items() if task in one.beside and key.partition(".")[0] in record)
    return own, *beside


def incomparable(task: str, record: Mapping[str, Any]) -> str | None:
    """Returns in one line why ``record`` is not comparable with printed scores; None if it is."""
    if record["kind"] == "relatedness" and record["mse"] is None:
        return "plain cosine, nothing trained"
    tolerance = PROBING_TOLERANCE if task in PROBING else 0.0
    sizes = record["n_train"], record["n_test"]
    for part, found, published in zip(("training", "test"), sizes, PUBLISHED[task], strict=True):
        if abs(found - published) > tolerance * published:
            return f"{found:,} {part} examples, SentEval has {published:,}"
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
    """Returns what is invalid in ``record`` as a task's result, in a few words; None if it is valid."""
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
