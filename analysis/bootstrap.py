"""Intervals of differences between models: Student's t over seeds, and a bootstrap over test examples and seeds.

Test examples are resampled with replacement, the same ones for all models and seeds (Efron & Tibshirani 1993;
Koehn 2004). Subsets of STS12-16 and outer folds keep their sizes. Accuracy and F1 depend only on how many examples
have each combination of outcomes, and these counts are sampled from a multinomial.

Where a model has several seeds, each replicate also resamples the seeds: the pairs of seeds if both models have as
many, otherwise the seeds of each model (the pigeonhole bootstrap, Owen 2007, doi:10.1214/07-AOAS122). With S seeds
this makes the variance over seeds too small by (S - 1) / S, so the deviations of the seeds' weights from 1 / S are
multiplied by sqrt(S / (S - 1)) (Davison & Hinkley 1997, section 2.3). The percentile interval is then stretched
about the observed difference by t(f) / t(inf) at Satterthwaite's degrees of freedom f, which are S - 1 where all
of the variance comes from seeds, and many where it comes from test examples.

In simulations (400 trials for each of 16 settings) 95 % intervals contained the true difference in 91 to 100 % of
trials with three seeds, and in 94 to 100 % with five. They are narrowest where paired seeds differ far more than
test examples explain, and too wide where seeds differ only in which examples they get right, as this variance
counts for both. Without the two corrections the lowest are 76 % and 84 %.

Tasks are resampled independently, also for averages, whose intervals are therefore slightly too narrow if tasks
share examples (SICK-E and SICK-R). In averages, tasks without predictions (image-caption retrieval) count by their
scores.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import pandas as pd

from analysis.senteval.averages import AVERAGES, LISTED
from analysis.senteval.records import PUBLISHED, Results, headlines
from data.display import bar
from data.errors import UserError, reading

ERROR = 0.05  # probability that an interval misses the true value
LEAST = 3  # minimum number of seeds: two equal scores may be a coincidence
RESAMPLES = 10_000
FOLDER = "predictions"
METRICS = {  # by kind of task, where more than the headlines are compared
    "relatedness": ("spearman", "pearson"),
    "similarity": ("spearman.mean", "pearson.mean", "spearman.all"),
}
_CELLS = 100_000  # counts at a time: fits in the cache


class Predictions(NamedTuple):
    """Predictions of M models for n test examples.

    Attributes:
        gold: classes or gold scores, of shape (n,).
        predicted: probabilities of shape (M, n, C), or scores of shape (M, n).
        strata: subset or outer fold, of shape (n,); zeros if the task has neither.
    """

    gold: np.ndarray
    predicted: np.ndarray
    strata: np.ndarray


def read_predictions(results: Sequence[Results], task: str) -> Predictions | None:
    """Reads ``predictions/<task>.npz`` beside each of the results; None if one is missing.

    Raises:
        UserError: if one cannot be read, or is of other examples or classes than the others.
    """
    paths = [one.folder / FOLDER / f"{task}.npz" for one in results if one.folder]
    if len(paths) < len(results) or not all(path.exists() for path in paths):
        return None
    members = []
    for path in paths:
        with reading("file of predictions", path), np.load(path, allow_pickle=False) as arrays:
            gold, predicted = arrays["gold"], arrays["predicted"]
            strata = arrays.get("subset", arrays.get("fold", np.zeros(len(gold))))
            members.append((np.stack([gold, strata]), predicted))
            examples, shape = members[0][0], (len(gold), *members[0][1].shape[1:])
            if not np.array_equal(members[-1][0], examples) or predicted.shape != shape:
                raise ValueError(f"other examples or classes than in {paths[0]}")
    return Predictions(gold, np.stack([predicted for _, predicted in members]), strata)


def t_half_width(error: float, freedom: float, miss: float = ERROR) -> float:
    """Returns half the width of a t-interval.

    Args:
        error: standard error of the mean.
        freedom: degrees of freedom; infinite for the normal interval.
        miss: probability that the interval misses the true value.
    """
    from scipy.special import stdtrit  # late: takes half a second, and arguments are checked first

    return float(stdtrit(freedom, 1 - miss / 2)) * error if error else 0.0


def compare_results(first: Sequence[Results], second: Sequence[Results], seed: int = 0) -> pd.DataFrame:
    """Compares two models on all tasks and averages that their results share.

    Args:
        first, second: results of each model, one a seed. They are paired in their order if there are as many.
        seed: of the bootstrap.

    Returns:
        A row for each (task, metric), and for each of the averages LISTED as (name, "mean"). The columns are the
        means "first" and "second" in percent, "difference", "low" and "high" in points. Without predictions, the
        interval is Student's t over seeds, Welch's if seeds are not paired, and NaN for one result of each.

    Raises:
        UserError: if protocols differ, no task is in all results, or predictions are of other examples.
    """
    results = [*first, *second]
    if len(protocols := {one.protocol for one in results}) > 1:
        raise UserError(f"results of protocols {', '.join(sorted(protocols))} cannot be compared")
    keys = [
        (task, metric)
        for task, record in first[0].tasks.items()
        if all(task in one.tasks for one in results)
        for metric in METRICS.get(record.kind) or headlines(task, record)
    ]
    if not keys:
        raise UserError("the results have no task in common")
    keys += [(name, "mean") for name in LISTED if all(name in one.averages for one in results)]

    @cache
    def resample(task: str, metric: str) -> np.ndarray:
        """Returns each result's scores on the test set and on resamples, of shape (1 + R, M); R is 0 without."""
        if task in AVERAGES:
            groups = [[resample(*key) for key in group.items()] for group in AVERAGES[task].groups]
            return np.array(sum(sum(scores) / len(scores) for scores in groups) / len(groups))
        if "+" in metric:
            return np.array(sum(resample(task, part) for part in metric.split("+")) / 2)
        if predictions := read_predictions(results, task):
            rng = np.random.default_rng([seed, [*PUBLISHED].index(task)])
            return resample_scores(predictions, metric, RESAMPLES, rng)
        return np.array([[one.tasks[task].score(metric) for one in results]], float)

    rows = []
    with bar("resampling") as progress:
        for task, metric in keys:
            scores = [one.averages[task] if task in AVERAGES else one.tasks[task].score(metric) for one in results]
            means = [np.mean(side) for side in np.split(np.array(scores, float), [len(first)])]
            left, right = np.split(resample(task, metric), [len(first)], axis=1)
            interval = difference_interval(left, right, np.random.default_rng(seed))
            rows.append([*means, means[0] - means[1], *interval])
            progress(len(rows) / len(keys))
    index = pd.MultiIndex.from_tuples(keys, names=["task", "metric"])
    return pd.DataFrame(rows, index, ["first", "second", "difference", "low", "high"])


def difference_interval(first: np.ndarray, second: np.ndarray, rng: np.random.Generator) -> tuple[float, float]:
    """Returns the interval of the difference of two means over seeds and, with R above 0, over test examples.

    With R = 0 it is Student's t-interval or, unpaired, Welch's, where a single score counts as exact; NaN for one
    score of each.

    Args:
        first, second: scores of shapes (1 + R, S) and (1 + R, T): on the test set, then on R resamples of it.
            Column k of both is of one seed if S equals T.
        rng: for the seeds.
    """
    values, variance, denominator = np.zeros(len(first)), 0.0, 0.0
    for scores in [first - second] if first.shape == second.shape else [first, -second]:
        count = scores.shape[1]
        weights = np.full(scores.shape, 1 / count)
        if count > 1:
            drawn = rng.multinomial(count, weights[0], len(scores) - 1) / count
            weights[1:] += math.sqrt(count / (count - 1)) * (drawn - 1 / count)
            square = scores[0].var(ddof=1) / count
            variance, denominator = variance + square, denominator + square**2 / (count - 1)
        values += (weights * scores).sum(axis=1)
    observed, *replicates = values
    if not replicates:
        half = t_half_width(math.sqrt(variance), variance**2 / denominator) if denominator else math.nan
        return observed - half, observed + half
    freedom = float(np.var(replicates)) ** 2 / denominator if denominator else math.inf
    stretch = t_half_width(1, freedom) / t_half_width(1, math.inf)
    low, high = observed + stretch * (np.quantile(replicates, [ERROR / 2, 1 - ERROR / 2]) - observed)
    return low, high


def resample_scores(predictions: Predictions, metric: str, resamples: int, rng: np.random.Generator) -> np.ndarray:
    """Computes scores in percent on the test set, then on each resample, of shape (1 + resamples, M).

    An undefined correlation counts as 0.

    Args:
        predictions: of M models.
        metric: "accuracy", "test" (the same), "f1", "pearson" or "spearman", with ".all" of all examples;
            otherwise the score is the mean of the strata.
        resamples: their number.
        rng: for the examples.
    """
    gold, predicted, strata = predictions
    metric, _, way = metric.partition(".")
    classes = predicted.ndim == 3
    columns = np.stack([gold == 1, *(predicted.argmax(2) == gold)] if classes else [gold, *predicted])
    strata = np.zeros(len(gold)) if way == "all" else strata
    scores, names = np.zeros((1 + resamples, len(predicted))), np.unique(strata)
    for name in names:
        kinds = columns[:, strata == name]
        frequency: np.ndarray = np.ones(kinds.shape[1])
        if classes:
            kinds, frequency = np.unique(kinds, axis=1, return_counts=True)
        rows = max(1, _CELLS // len(frequency))
        scores[0] += _score(metric, frequency[None], kinds)[0]
        for start in range(1, 1 + resamples, rows):
            chunk = scores[start : start + rows]
            chunk += _score(metric, _sample_counts(frequency, len(chunk), rng), kinds)
    return 100 * scores / len(names)


def _sample_counts(frequency: np.ndarray, rows: int, rng: np.random.Generator) -> np.ndarray:
    """Samples n examples with replacement ``rows`` times; returns counts of shape (rows, kinds)."""
    n, kinds = int(frequency.sum()), len(frequency)
    if kinds < n:
        return rng.multinomial(n, frequency / n, size=rows).astype(float)
    places = rng.integers(n, size=(rows, n)) + n * np.arange(rows)[:, None]
    return np.bincount(places.ravel(), minlength=rows * n).reshape(rows, n).astype(float)


def _score(metric: str, counts: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Computes a metric of M models on R resamples, of shape (R, M).

    Args:
        metric: without its way of averaging.
        counts: how often each of K kinds of examples is in a resample, of shape (R, K).
        columns: gold and predicted scores of each kind, of shape (1 + M, K); of a classification, whether the
            class is 1, and whether each model is right.
    """
    if columns.dtype == bool:
        hits, errors = counts @ (columns[0] & columns[1:]).T, counts @ ~columns[1:].T
        total = 2 * hits + errors if metric == "f1" else counts.sum(axis=1)[:, None]
        return (total - errors) / np.maximum(total, 1)
    n = counts.sum(axis=1)[:, None]
    if metric == "pearson":
        x, y = np.split(columns - columns.mean(axis=1)[:, None], [1])
        mean_x, mean_y, xx, yy, xy = (counts @ part.T / n for part in (x, y, x * x, y * y, x * y))
        xx, yy, xy = xx - mean_x**2, yy - mean_y**2, xy - mean_x * mean_y
    else:
        x, *models = (_rank(column, counts) - n / 2 for column in columns)
        pairs = [(x, x)], [(y, y) for y in models], [(x, y) for y in models]
        xx, yy, xy = (np.stack([np.einsum("rn,rn,rn->r", counts, *pair) for pair in part], 1) for part in pairs)
    defined = np.minimum(xx, yy) > 1e-12
    return np.where(defined, xy / np.sqrt(np.where(defined, xx * yy, 1)), 0)


def _rank(values: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Returns ranks minus 1/2 (ties: mean) of values of shape (n,) that occur ``counts`` (R, n) times."""
    _, place, sizes = np.unique(values, return_inverse=True, return_counts=True)
    starts, order = np.cumsum(sizes) - sizes, np.argsort(place, kind="stable")
    tied = np.add.reduceat(counts[:, order], starts, axis=1)
    return (np.cumsum(tied, axis=1) - tied / 2)[:, place]
