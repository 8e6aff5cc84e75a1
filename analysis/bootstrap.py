"""Intervals of differences between models: Student's t over seeds, and a bootstrap over test examples and seeds.

Test examples are resampled with replacement 1,000 times, the same ones for all models and seeds (Efron &
Tibshirani 1993; Koehn 2004). Subsets of STS12-16 and outer folds keep their sizes.

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
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from analysis.senteval.averages import AVERAGES, LISTED, average, label_average
from analysis.senteval.records import PUBLISHED, Results, flat_scores, headlines
from data.display import bar
from data.errors import UserError, reading

ERROR = 0.05  # probability that an interval misses the true value
LEAST = 3  # minimum number of seeds: two equal scores may be a coincidence
RESAMPLES = 1_000


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
    paths = [result.folder / "predictions" / f"{task}.npz" for result in results if result.folder]
    if len(paths) < len(results) or not all(path.exists() for path in paths):
        return None
    with reading("predictions for the same examples", ", ".join(map(str, paths))):
        files: list[dict[str, Any]] = [dict(np.load(path)) for path in paths]
        gold, predicted = (np.stack([file[name] for file in files]) for name in ("gold", "predicted"))
        if np.ptp(gold, axis=0).any():
            raise ValueError("test examples differ")
    none = np.zeros(len(gold[0]))
    return Predictions(gold[0], predicted, files[0].get("subset", files[0].get("fold", none)))


def t_half_width(error: float, freedom: float, miss: float = ERROR) -> float:
    """Returns half the width of a t-interval.

    Args:
        error: standard error of the mean.
        freedom: degrees of freedom; infinite for the normal interval.
        miss: probability that the interval misses the true value.
    """
    from scipy.special import stdtrit  # late: takes half a second, and arguments are checked first

    return float(stdtrit(freedom, 1 - miss / 2)) * error if error else 0.0


def half_width(values: pd.Series) -> float:
    """Returns half of the 95 % t-interval of a mean; NaN for fewer than LEAST values, or if one is NaN."""
    return t_half_width(values.sem(skipna=False), len(values) - 1) if len(values) >= LEAST else math.nan


def shared_tasks(results: Sequence[Results]) -> list[str]:
    """Returns the tasks that all results have.

    Raises:
        UserError: if protocols differ, or there is none.
    """
    tasks = [task for task in results[0].tasks if all(task in result.tasks for result in results)]
    if not tasks or len({result.protocol for result in results}) > 1:
        raise UserError("of different protocols, or without a common task", key="results")
    return tasks


def compare_results(first: Sequence[Results], second: Sequence[Results]) -> pd.DataFrame:
    """Compares two models on all tasks and averages that their results share.

    Args:
        first, second: results of each model, one a seed. They are paired in their order if there are as many.

    Returns:
        A row for each "<Task>.<metric>", and for each of the averages LISTED, over two or more tasks that all
        results have. The columns are the means "first" and "second" in percent, "difference", "low" and "high" in
        points. Without predictions, the interval is Student's t over seeds, Welch's if seeds are not paired, and
        NaN for one result of each.

    Raises:
        UserError: if protocols differ, no task is in all results, or predictions are of other examples.
    """
    results, sides = [*first, *second], ["first"] * len(first) + ["second"] * len(second)
    scores = pd.DataFrame([flat_scores(result.tasks) for result in results], sides)
    tasks = {task: results[0].tasks[task] for task in shared_tasks(results)}

    @cache
    def resample(task: str, metric: str) -> np.ndarray:
        """Returns each result's scores on the test set and on resamples, of shape (1 + R, M); R is 0 without."""
        if predictions := read_predictions(results, task):
            rng = np.random.default_rng([0, [*PUBLISHED].index(task)])
            return resample_scores(predictions, metric, RESAMPLES, rng)
        return scores.reindex(columns=[f"{task}.{metric}"]).to_numpy().T

    samplers = {
        f"{task}.{metric}": partial(resample, task, metric)
        for task, record in tasks.items()
        for metric in headlines(task, record)
    }
    for name in LISTED:
        rule = AVERAGES[name]
        shared = tasks.keys() & {*rule.tasks}
        if len(shared) > 1:
            label = label_average(name, shared)
            scores[label] = average(rule, lambda *key: scores.get(".".join(key), math.nan), shared)
            samplers[label] = partial(average, rule, resample, shared)
    intervals = []
    with bar("resampling") as progress:
        for sample in samplers.values():
            left, right = np.split(sample(), [len(first)], axis=1)
            intervals.append(difference_interval(left, right, np.random.default_rng(0)))
            progress(len(intervals) / len(samplers))
    frame = scores.reindex(columns=[*samplers]).groupby(level=0).mean(skipna=False).T.rename_axis("score")
    frame["difference"] = frame["first"] - frame["second"]
    frame[["low", "high"]] = intervals
    return frame


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
        free, weights = max(count - 1, 1), np.full(scores.shape, 1 / count)
        drawn = rng.multinomial(count, weights[0], len(scores) - 1) / count
        weights[1:] += math.sqrt(count / free) * (drawn - weights[1:])
        values += (weights * scores).sum(axis=1)
        square = scores[0].var() / free
        variance, denominator = variance + square, denominator + square**2 / free
    observed, replicates = values[0], values[1:]
    if not len(replicates):
        half = t_half_width(math.sqrt(variance), variance**2 / denominator) if denominator else math.nan
        return observed - half, observed + half
    freedom = replicates.var() ** 2 / denominator if denominator else math.inf
    stretch = t_half_width(1, freedom) / t_half_width(1, math.inf)
    low, high = observed + stretch * (np.quantile(replicates, [ERROR / 2, 1 - ERROR / 2]) - observed)
    return low, high


def resample_scores(predictions: Predictions, metric: str, resamples: int, rng: np.random.Generator) -> np.ndarray:
    """Computes scores in percent on the test set, then on each resample, of shape (1 + resamples, M).

    Args:
        predictions: of M models.
        metric: "accuracy", "test" (the same), "f1" or "spearman", with ".all" of all examples; otherwise the score
            is the mean of the strata.
        resamples: their number.
        rng: for the examples.
    """
    gold, predicted, strata = predictions
    metric, _, way = metric.partition(".")
    compute = {"f1": f1, "spearman": spearman}.get(metric, accuracy)
    models = predicted.argmax(axis=2) if predicted.ndim == 3 else predicted
    names = np.unique(np.zeros_like(strata) if way == "all" else strata)
    scores = np.zeros((1 + resamples, len(models)))
    for name in names:
        rows = np.flatnonzero((strata == name) | (way == "all"))
        draws = np.vstack([rows, rng.choice(rows, (resamples, len(rows)))])
        scores += np.stack([compute(gold[draws], model[draws]) for model in models], axis=1)
    return 100 * scores / len(names)


def accuracy(gold: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """Computes the accuracy of each row of two (R, n) arrays of classes."""
    return (gold == predicted).mean(axis=1)


def f1(gold: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """Computes the F1 of class 1 of each row of two (R, n) arrays of classes; 0 without any."""
    hits, errors = (gold * predicted == 1).sum(axis=1), (gold != predicted).sum(axis=1)
    return 2 * hits / np.maximum(2 * hits + errors, 1)


def spearman(gold: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """Computes the Spearman correlation of each row of two (R, n) arrays.

    Where it is undefined it is 0, and NaN in all rows if it is in the first, that of the test set itself.
    """
    from scipy.stats import pearsonr, rankdata  # late, as above

    values = pearsonr(rankdata(gold, axis=1), rankdata(predicted, axis=1), axis=1).statistic
    return np.nan_to_num(values) + 0 * values[0]
