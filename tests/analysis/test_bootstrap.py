"""Bootstrap intervals: plain loops with the same draws, coverage over seeds and test examples, refused input."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from scipy.stats import spearmanr
from sklearn.metrics import f1_score

from analysis import bootstrap
from analysis.bootstrap import Predictions, compare_results, difference_interval, resample_scores, t_half_width
from data.errors import UserError
from tests.analysis.senteval.example_results import make_evaluation, results


def noisy_labels(rng: np.random.Generator, gold: np.ndarray, accuracy: float) -> np.ndarray:
    """Returns probabilities whose classes are right in a share of the examples."""
    return np.eye(2, dtype=np.float32)[np.where(rng.random(len(gold)) < accuracy, gold, 1 - gold)]


def naive_score(metric: str, gold: np.ndarray, predicted: np.ndarray) -> float:
    if predicted.ndim == 1:
        return 100 * float(spearmanr(gold, predicted)[0])
    classes = predicted.argmax(axis=1)
    return 100 * float(f1_score(gold, classes) if metric == "f1" else np.mean(gold == classes))


@pytest.mark.parametrize("metric", ["spearman", "spearman.mean", "spearman.all", "test", "f1"])
def test_resamples_equal_a_plain_loop_with_the_same_draws(metric: str) -> None:
    data, strata = np.random.default_rng(3), np.repeat([0, 1, 2], [30, 40, 50]) * (metric != "f1")
    gold = data.integers(2, size=120) if metric in ("test", "f1") else data.integers(11, size=120) / 2  # ties
    if metric in ("test", "f1"):
        predicted = np.stack([noisy_labels(data, gold, accuracy) for accuracy in (0.9, 0.8, 0.6)])
    else:
        predicted = np.stack([np.round(gold + noise * data.normal(size=120), 1) for noise in (1, 2, 3)])
    scores = resample_scores(Predictions(gold, predicted, strata), metric, 40, np.random.default_rng(1))
    groups = [np.arange(120)] if metric == "spearman.all" else [np.flatnonzero(strata == n) for n in {*strata}]
    rng, naive = np.random.default_rng(1), np.zeros((41, 3))
    for rows in groups:
        for replicate, draw in enumerate([rows, *rng.choice(rows, (40, len(rows)))]):
            naive[replicate] += [naive_score(metric, gold[draw], model[draw]) / len(groups) for model in predicted]
    assert scores == pytest.approx(naive)


def test_an_undefined_score_has_no_interval() -> None:
    gold = np.arange(20.0)
    predicted = np.stack([gold, np.zeros(20)])
    scores = resample_scores(Predictions(gold, predicted, np.zeros(20)), "spearman", 9, np.random.default_rng(0))
    assert np.isfinite(scores[:, 0]).all() and np.isnan(scores[:, 1]).all()


@pytest.mark.parametrize("sizes", [(3, 3), (5, 3), (1, 4), (1, 1)])
def test_two_levels_equal_a_plain_loop_with_the_same_draws(sizes: tuple[int, int]) -> None:
    """Each replicate takes the difference of means over drawn seeds on the same drawn examples."""
    data, replicates = np.random.default_rng(0), 500
    right = [data.random((size, 200)) < 0.8 - 0.05 * side for side, size in enumerate(sizes)]
    draws = [np.arange(200), *data.integers(200, size=(replicates, 200))]
    first, second = (np.array([[100 * seed[draw].mean() for seed in side] for draw in draws]) for side in right)
    paired = sizes[0] == sizes[1]
    rng, seeds = np.random.default_rng(1), []
    for size in sizes[: 1 if paired else 2]:  # counts of each seed in each replicate
        seeds.append(
            rng.multinomial(size, np.full(size, 1 / size), replicates) if size > 1 else [[1]] * replicates
        )
    naive = []
    for replicate in range(1, 1 + replicates):
        means = []
        for scores, counts in zip((first, second), seeds * (2 if paired else 1), strict=True):
            size, row, mean = len(counts[0]), scores[replicate], scores[replicate].mean()
            drawn = sum([score * count for score, count in zip(row, counts[replicate - 1], strict=True)]) / size
            means.append(mean + math.sqrt(size / max(size - 1, 1)) * (drawn - mean))
        naive.append(means[0] - means[1])
    observed = first[0].mean() - second[0].mean()
    sides = [first[0] - second[0]] if paired else [first[0], second[0]]
    errors = [(side.var(ddof=1) / len(side), len(side) - 1) for side in sides if len(side) > 1]
    freedom = np.var(naive) ** 2 / sum(error**2 / free for error, free in errors) if errors else math.inf
    stretch = stats.t.ppf(0.975, freedom) / stats.norm.ppf(0.975)
    expected = observed + stretch * (np.quantile(naive, [0.025, 0.975]) - observed)
    assert difference_interval(first, second, np.random.default_rng(1)) == pytest.approx(expected)


@pytest.mark.parametrize("seeds", [3, 5])
@pytest.mark.parametrize("paired", [True, False])
def test_intervals_over_seeds_and_examples_cover_the_true_difference(seeds: int, paired: bool) -> None:
    """Accuracies of probit models whose seeds, examples and both together vary; their true means are known."""
    rng, covered = np.random.default_rng(seeds), 0
    means, true = (0.8, 0.7), stats.norm.cdf([0.8, 0.7], scale=math.sqrt(0.05**2 + 0.8**2 + 0.5**2 + 0.3**2))
    for _ in range(150):
        easy, scores = 0.8 * rng.normal(size=400), []
        counts = np.vstack([np.ones(400), rng.multinomial(400, np.full(400, 1 / 400), size=300)])
        for side, mean in enumerate(means):
            count = seeds if paired else seeds + side
            ease = mean + easy + 0.5 * rng.normal(size=400) + 0.05 * rng.normal(size=(count, 1))
            scores.append(counts @ (ease + 0.3 * rng.normal(size=(count, 400)) > 0).T / 4)
        low, high = difference_interval(scores[0], scores[1], rng)
        covered += low <= 100 * (true[0] - true[1]) <= high
    assert 0.9 <= covered / 150 <= 0.995


def test_without_resamples_intervals_are_students_and_welchs() -> None:
    rng, first, second = np.random.default_rng(0), np.array([80.0, 83, 86]), np.array([79.0, 81, 83])
    paired = stats.ttest_rel(first, second).confidence_interval()
    assert difference_interval(first[None], second[None], rng) == pytest.approx((paired.low, paired.high))
    welch = stats.ttest_ind(first[:2], second, equal_var=False).confidence_interval()
    assert difference_interval(first[None, :2], second[None], rng) == pytest.approx((welch.low, welch.high))
    single = stats.ttest_1samp(70 - second, 0).confidence_interval()
    assert difference_interval(np.array([[70.0]]), second[None], rng) == pytest.approx((single.low, single.high))
    assert np.isnan(difference_interval(first[None, :1], second[None, :1], rng)).all()
    assert t_half_width(2.0, 2) == pytest.approx(2 * stats.t.ppf(0.975, 2)) and t_half_width(0.0, 1) == 0


TASKS = ("CR", "MRPC", "STS12", "STS13", "STS14", "STS15", "STS16", "STSBenchmark")


def test_results_are_compared_by_task_and_average(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap, "RESAMPLES", 400)
    first, second = make_evaluation(tmp_path / "a", TASKS, 0.9), make_evaluation(tmp_path / "b", TASKS, 0.6)
    frame = compare_results([first], [second])
    tests = [result.scores["CR"] or 0.0 for result in (first, second)]
    assert frame.loc["CR.test", "difference"] == tests[0] - tests[1]
    assert (frame["low"] < frame["high"]).all() and frame.loc["CR.test", "low"] > 0
    widths = frame["high"] - frame["low"]  # tasks are resampled independently, so their variances add up
    parts = [widths[f"STS1{year}.spearman.mean"] for year in range(2, 7)]
    assert widths["sts_spearman_mean"] == pytest.approx(np.sqrt(np.square(parts).sum()) / 5, rel=0.2)
    headlines = ["CR.test", "STSBenchmark.spearman", *(f"STS1{year}.spearman.mean" for year in range(2, 7))]
    total = frame.loc[headlines, "difference"].sum() + frame.loc[["MRPC.accuracy", "MRPC.f1"], "difference"].mean()
    assert frame.loc["declutr_downstream (8 of 17)", "difference"] == pytest.approx(total / 8)
    assert not compare_results([first], [first])[["difference", "low", "high"]].any(axis=None)


def test_seeds_stand_in_for_missing_predictions(tmp_path: Path) -> None:
    first, second = (
        [make_evaluation(tmp_path / f"{x}", ["CR"], x) for x in side] for side in ((0.9, 0.7), (0.6, 0.61))
    )
    (tmp_path / "0.7" / "predictions" / "CR.npz").unlink()
    student = compare_results(first, second).loc["CR.test"]
    scores = [[one.tasks["CR"].test for one in side] for side in (first, second)]
    assert student["low"] == pytest.approx(stats.ttest_rel(*scores).confidence_interval().low)


def test_results_that_cannot_be_compared_are_refused(tmp_path: Path) -> None:
    first, second = (make_evaluation(tmp_path / name, ["CR"]) for name in "ab")
    with pytest.raises(UserError):
        compare_results([first], [results("m", protocol="simcse")])
    path = tmp_path / "b" / "predictions" / "CR.npz"
    np.savez(path, gold=1 - np.arange(100) % 2, predicted=np.eye(2)[np.arange(100) % 2], fold=np.arange(100) % 5)
    with pytest.raises(UserError) as error:
        compare_results([first], [second])
    assert str(path) in error.value.key
