"""Bootstrap intervals of differences: plain loops, known cases, coverage, degenerate input, error messages."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import pearsonr, rankdata, spearmanr
from sklearn.metrics import f1_score

from analysis.reporting import bootstrap
from analysis.reporting.bootstrap import Difference, Predictions, compare_folders, metrics, report_differences
from analysis.senteval.results import Results, write_results
from data.errors import UserError


def compare(a: Predictions, b: Predictions, metric: str, *, resamples: int = 10_000, seed: int = 0) -> Difference:
    return bootstrap._difference(bootstrap._resampled(a, b, metric, resamples, np.random.default_rng(seed)))


def class_predictions(gold: np.ndarray, predicted: np.ndarray, strata: np.ndarray | None = None) -> Predictions:
    """Returns predictions of the classes ``predicted`` with probability 1."""
    strata = np.zeros(len(gold), dtype=int) if strata is None else strata
    return Predictions(
        gold, np.eye(max(gold.max(), predicted.max()) + 1, dtype=np.float32)[predicted], strata, False
    )


def score_predictions(gold: np.ndarray, predicted: np.ndarray, subset: np.ndarray | None = None) -> Predictions:
    return Predictions(gold, predicted, np.zeros(len(gold)) if subset is None else subset, subset is not None)


def noisy_labels(rng: np.random.Generator, gold: np.ndarray, accuracy: float) -> np.ndarray:
    return np.where(rng.random(len(gold)) < accuracy, gold, 1 - gold)


def naive_differences(metric: str, a: Predictions, b: Predictions, resamples: int, seed: int) -> np.ndarray:
    """Returns the score difference of each resample, drawn stratum by stratum."""
    rng = np.random.default_rng(seed)
    strata = np.zeros(len(a.gold)) if metric.endswith("all") else a.strata
    result = np.zeros(resamples)
    groups = [np.flatnonzero(strata == value) for value in np.unique(strata)]
    for r in range(resamples):
        for members in groups:
            drawn = rng.choice(members, len(members))
            gold, sides = a.gold[drawn], (a.predicted[drawn], b.predicted[drawn])
            if metric == "accuracy":
                one, two = (np.mean(side.argmax(1) == gold) for side in sides)
            elif metric == "f1":
                one, two = (2 * (gold @ side.argmax(1)) / (gold + side.argmax(1)).sum() for side in sides)
            elif metric == "accuracy+f1":
                one, two = (
                    (np.mean(side.argmax(1) == gold) + f1_score(gold, side.argmax(1))) / 2 for side in sides
                )
            else:
                correlate = spearmanr if metric.startswith("spearman") else pearsonr
                one, two = (correlate(gold, side)[0] for side in sides)
            result[r] += 100 * (one - two) / len(groups)
    return result


@pytest.mark.parametrize(
    "metric", ["accuracy", "f1", "accuracy+f1", "pearson", "spearman", "spearman.mean", "spearman.all"]
)
def test_intervals_equal_a_plain_loop(metric: str) -> None:
    rng = np.random.default_rng(3)
    n, strata = 120, np.repeat([0, 1, 2], [30, 40, 50])
    gold: np.ndarray
    if metric.endswith(("accuracy", "f1")):
        gold = rng.integers(2, size=n)
        a, b = (
            class_predictions(gold, noisy_labels(rng, gold, accuracy), strata if metric == "accuracy" else None)
            for accuracy in (0.8, 0.7)
        )
    else:
        gold = rng.integers(11, size=n) / 2  # scores with ties
        subset = strata if "." in metric else None
        a, b = (
            score_predictions(gold, np.round(gold + noise * rng.normal(size=n), 1), subset) for noise in (1.5, 2.5)
        )
    found = compare(a, b, metric, resamples=4000)
    drawn = naive_differences(metric, a, b, 1000, seed=1)
    spread = drawn.std()
    assert found.low == pytest.approx(np.quantile(drawn, 0.025), abs=0.2 * spread)
    assert found.high == pytest.approx(np.quantile(drawn, 0.975), abs=0.2 * spread)
    assert found.share_above_zero == pytest.approx(np.mean(drawn > 0), abs=0.05)


def test_the_difference_equals_that_of_the_scores() -> None:
    rng = np.random.default_rng(0)
    gold = rng.integers(2, size=200)
    better, worse = noisy_labels(rng, gold, 0.9), noisy_labels(rng, gold, 0.6)
    a, b = class_predictions(gold, better), class_predictions(gold, worse)
    assert compare(a, b, "accuracy").difference == pytest.approx(
        100 * (np.mean(better == gold) - np.mean(worse == gold))
    )
    assert compare(a, b, "f1").difference == pytest.approx(100 * (f1_score(gold, better) - f1_score(gold, worse)))
    scores, subset = rng.integers(6, size=200).astype(float), np.repeat([0, 1], [50, 150])
    x, y = scores + rng.normal(size=200), rng.normal(size=200)
    means = [np.mean([spearmanr(scores[subset == s], v[subset == s])[0] for s in (0, 1)]) for v in (x, y)]
    pair = score_predictions(scores, x, subset), score_predictions(scores, y, subset)
    assert compare(*pair, "spearman.mean").difference == pytest.approx(100 * (means[0] - means[1]))
    overall = 100 * (spearmanr(scores, x)[0] - spearmanr(scores, y)[0])
    assert compare(*pair, "spearman.all").difference == pytest.approx(overall)


def test_accuracy_with_many_classes() -> None:
    gold = np.arange(6).repeat(10)
    found = compare(class_predictions(gold, gold), class_predictions(gold, np.zeros(60, dtype=int)), "accuracy")
    assert found.difference == pytest.approx(100 * 5 / 6)


def test_ranks_of_resamples() -> None:
    rng = np.random.default_rng(0)
    values = rng.integers(5, size=12).astype(float)
    drawn = rng.integers(12, size=12)
    counts = np.bincount(drawn, minlength=12)[None].astype(float)
    ranks = bootstrap._ranker(values)(counts)[0][drawn]
    assert ranks == pytest.approx(rankdata(values[drawn]) - 6.5)


@pytest.mark.parametrize("metric", ["accuracy", "f1", "pearson", "spearman", "pearson.mean", "spearman.all"])
def test_equal_models_have_no_difference(metric: str) -> None:
    rng = np.random.default_rng(1)
    gold = rng.integers(2, size=90)
    predictions = class_predictions(gold, noisy_labels(rng, gold, 0.7))
    if metric not in ("accuracy", "f1"):
        predictions = score_predictions(gold + rng.random(90), rng.random(90), np.repeat([0, 1], 45))
    assert compare(predictions, predictions, metric) == Difference(0, 0, 0, 0)


def test_swapping_the_models_reverses_the_difference() -> None:
    gold = np.array([0, 1] * 50)
    right, wrong = class_predictions(gold, gold), class_predictions(gold, 1 - gold)
    assert compare(right, wrong, "accuracy") == Difference(100, 100, 100, 1)
    assert compare(wrong, right, "accuracy") == Difference(-100, -100, -100, 0)
    rng = np.random.default_rng(0)
    a, b = (
        class_predictions(gold, noisy_labels(rng, gold, 0.8)),
        class_predictions(gold, noisy_labels(rng, gold, 0.7)),
    )
    forward, backward = compare(a, b, "accuracy"), compare(b, a, "accuracy")
    assert backward.difference == -forward.difference
    assert (backward.low, backward.high) == pytest.approx((-forward.high, -forward.low), abs=1.01)


def test_constant_predictions_count_as_zero_correlation() -> None:
    gold = np.arange(20.0)
    for metric in ("pearson", "spearman"):
        found = compare(
            score_predictions(gold, gold), score_predictions(gold, np.full(20, 0.1, dtype=np.float32)), metric
        )
        assert found == pytest.approx((100, 100, 100, 1))
        assert compare(
            score_predictions(gold[:1], gold[:1]), score_predictions(gold[:1], gold[:1]), metric
        ) == Difference(0, 0, 0, 0)


def test_intervals_depend_only_on_the_seed() -> None:
    rng = np.random.default_rng(0)
    gold = rng.random(50)
    pair = score_predictions(gold, gold + rng.random(50)), score_predictions(gold, rng.random(50))
    assert compare(*pair, "pearson", seed=1) == compare(*pair, "pearson", seed=1)
    assert compare(*pair, "pearson", seed=1) != compare(*pair, "pearson", seed=2)


def test_chunk_size_does_not_change_the_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    gold = rng.random(50)
    pair = score_predictions(gold, gold + rng.random(50)), score_predictions(gold, rng.random(50))
    in_one_chunk = compare(*pair, "spearman", resamples=777)
    monkeypatch.setattr(bootstrap, "_CELLS", 1)
    assert compare(*pair, "spearman", resamples=777) == in_one_chunk


def test_intervals_of_accuracy_have_nominal_coverage() -> None:
    """95 % intervals contain the true difference of 5 points in about 95 % of test sets."""
    rng = np.random.default_rng(5)
    covered = 0
    for trial in range(400):
        gold = np.ones(300, dtype=int)
        easy = rng.random(300)  # shared, so that the errors of the two models correlate
        a, b = (
            class_predictions(gold, (easy + 0.3 * rng.random(300) > threshold).astype(int))
            for threshold in (0.30, 0.35)  # the accuracy is 1.15 - threshold
        )
        _, low, high, _ = compare(a, b, "accuracy", resamples=600, seed=trial)
        covered += low <= 5 <= high
    assert 0.91 <= covered / 400 <= 0.985


def test_intervals_of_pearson_have_nominal_coverage() -> None:
    rng = np.random.default_rng(6)
    covered = 0
    true = 100 * (1 / np.sqrt(2) - 1 / np.sqrt(5))  # correlations with noise of deviation 1 and 2
    for trial in range(200):
        gold = rng.normal(size=150)
        a, b = (score_predictions(gold, gold + deviation * rng.normal(size=150)) for deviation in (1, 2))
        _, low, high, _ = compare(a, b, "pearson", resamples=400, seed=trial)
        covered += low <= true <= high
    assert 0.89 <= covered / 200 <= 0.99


def save_predictions(folder: Path, task: str, **arrays: np.ndarray) -> None:
    (folder / "predictions").mkdir(parents=True, exist_ok=True)
    np.savez(folder / "predictions" / f"{task}.npz", **arrays)  # type: ignore[arg-type]


def two_result_folders(tmp_path: Path) -> tuple[Path, Path]:
    rng = np.random.default_rng(0)
    for name, accuracy in (("a", 0.9), ("b", 0.6)):
        gold = np.arange(100) % 2
        probabilities = np.eye(2, dtype=np.float32)[noisy_labels(rng, gold, accuracy)]
        save_predictions(tmp_path / name, "MRPC", gold=gold, predicted=probabilities)
        save_predictions(tmp_path / name, "CR", gold=gold, predicted=probabilities, fold=np.arange(100) % 10)
        scores = np.arange(100) / 20
        noise = rng.normal(size=100).astype(np.float32)
        save_predictions(
            tmp_path / name, "STS12", gold=scores, predicted=scores + noise, subset=np.arange(100) % 3
        )
        save_predictions(tmp_path / name, "STSBenchmark", gold=scores, predicted=scores + noise)
    save_predictions(tmp_path / "a", "TREC", gold=gold, predicted=probabilities)
    return tmp_path / "a", tmp_path / "b"


def test_two_result_folders_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = two_result_folders(tmp_path)
    shares: list[float] = []
    found = compare_folders(a, b, resamples=200, progress=shares.append)
    assert list(found) == [
        ("CR", "accuracy"),
        ("MRPC", "f1"),
        ("MRPC", "accuracy"),
        ("STSBenchmark", "spearman"),
        ("STSBenchmark", "pearson"),
        ("STS12", "spearman.mean"),
        ("STS12", "pearson.mean"),
        ("STS12", "spearman.all"),
    ]
    assert shares == [0.25, 0.5, 0.75, 1.0]
    assert found["CR", "accuracy"].low > 0
    assert list(compare_folders(a, b, ["MRPC"], resamples=10)) == [("MRPC", "f1"), ("MRPC", "accuracy")]
    for folder in (a, b):
        write_results(folder / "senteval.json", Results("default", {"name": folder.name}))
    report_differences(results=[f"left={a}", str(b)], tasks=["CR"])
    shown = capsys.readouterr().out
    assert "left (default) − b (default)" in shown and "100.0%" in shown


def test_averages_are_compared(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    tasks = ("STS12", "STS13", "STS14", "STS15", "STS16", "CR", "MRPC", "TREC")
    for name, noise in (("a", 1.0), ("b", 1.5)):
        for task in tasks[:5]:
            gold, subset = np.arange(200) / 40, np.arange(200) % 2
            save_predictions(
                tmp_path / name, task, gold=gold, predicted=gold + noise * rng.normal(size=200), subset=subset
            )
        for task in tasks[5:]:
            labels = np.arange(90) % 2
            probabilities = np.eye(2, dtype=np.float32)[noisy_labels(rng, labels, 1 - noise / 5)]
            save_predictions(tmp_path / name, task, gold=labels, predicted=probabilities)
    found = compare_folders(tmp_path / "a", tmp_path / "b", resamples=3000)
    spearman = [found[task, "spearman.mean"] for task in tasks[:5]]
    mean = found["sts_spearman_mean", "mean"]
    assert mean.difference == pytest.approx(np.mean([interval.difference for interval in spearman]))
    widths = np.array([interval.high - interval.low for interval in spearman])
    # Tasks are resampled independently, so their variances add up.
    assert mean.high - mean.low == pytest.approx(np.sqrt((widths**2).sum()) / 5, rel=0.08)
    assert list(found)[-1] == ("sts_spearman_mean", "mean")  # 8 of 17 tasks are too few for a downstream average
    save_predictions(tmp_path / "a", "SST2", gold=labels, predicted=probabilities)
    save_predictions(tmp_path / "b", "SST2", gold=labels, predicted=probabilities)
    found = compare_folders(tmp_path / "a", tmp_path / "b", resamples=50)
    parts = [interval.difference for interval in spearman] + [
        found[task, "accuracy"].difference for task in ("CR", "TREC")
    ]
    parts += [0.0, (found["MRPC", "accuracy"].difference + found["MRPC", "f1"].difference) / 2]
    assert found["declutr_downstream (9 of 17)", "mean"].difference == pytest.approx(np.mean(parts))


def test_metrics_of_each_kind_of_task() -> None:
    binary = class_predictions(np.array([0, 1]), np.array([0, 1]))
    assert metrics("MR", binary) == ("accuracy",) and metrics("MRPC", binary) == ("f1", "accuracy")


def test_scores_in_place_of_mrpcs_classes_are_compared_as_scores(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    for folder in (a, b):
        save_predictions(folder, "MRPC", gold=np.arange(20) % 2, predicted=np.linspace(0, 1, 20))
    assert compare_folders(a, b)["MRPC", "pearson"] == Difference(0, 0, 0, 0)


def test_results_that_cannot_be_compared_are_refused(tmp_path: Path) -> None:
    a, b = two_result_folders(tmp_path)
    save_predictions(tmp_path / "c", "TREC", gold=np.arange(3), predicted=np.zeros((3, 6)))
    for second, tasks in (
        (b, ["TREC"]),
        (b, ["ImageCaptionRetrieval"]),
        (tmp_path / "nowhere", []),
        (tmp_path / "c", []),  # other test examples
    ):
        with pytest.raises(UserError):
            compare_folders(a, second, tasks)
    with pytest.raises(UserError):  # no common task
        compare_folders(b, tmp_path / "c")
    for folder, protocol in ((a, "default"), (b, "simcse")):
        write_results(folder / "senteval.json", Results(protocol, {"name": "m"}))
    for results in ([str(a)], [str(a), str(b)]):
        with pytest.raises(UserError):
            report_differences(results=results)


@pytest.mark.parametrize(
    "arrays",
    [
        {"gold": np.zeros(2)},
        {"gold": np.zeros(2), "predicted": np.zeros(3)},
        {"gold": np.zeros(0), "predicted": np.zeros(0)},
        {"gold": np.zeros(2), "predicted": np.array([0.0, np.nan])},
        {"gold": np.zeros(1), "predicted": np.array(["x"])},
        {"gold": np.zeros(1), "predicted": np.array([{}])},
    ],
)
def test_broken_predictions_are_refused(tmp_path: Path, arrays: dict[str, np.ndarray]) -> None:
    save_predictions(tmp_path, "CR", **arrays)
    with pytest.raises(UserError, match="CR"):
        bootstrap.read_predictions(tmp_path / "predictions" / "CR.npz")


@pytest.mark.parametrize("content", [b"PK\x03\x04 cut", b"text", b"", None])
def test_files_of_another_kind_are_refused(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "x.npz").write_bytes(content)
    with pytest.raises(UserError) as error:
        bootstrap.read_predictions(tmp_path / "x.npz")
    assert error.value.key == str(tmp_path / "x.npz")
