"""Correlations, cosines and averages of STS; accuracies and F1."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import encoders
from analysis.senteval.scores import (
    accuracy,
    classification,
    correlation,
    cosines,
    mean,
    similarity,
)
from analysis.senteval.tasks import TASKS
from analysis.senteval.vectors import CheckedEncoder, embed
from tests.encoders.models import minilm
from tests.real_data import suite_data

TOOLKIT = {  # Pearson and Spearman of the published toolkit for all-MiniLM-L6-v2
    "STS12": {
        "MSRpar": (0.583889, 0.578373),
        "MSRvid": (0.931813, 0.936085),
        "SMTeuroparl": (0.575495, 0.636871),
        "surprise.OnWN": (0.749606, 0.690194),
        "surprise.SMTnews": (0.676159, 0.658672),
        "mean": (0.703392, 0.700039),
        "wmean": (0.718443, 0.710625),
    },
    "STS14": {
        "OnWN": (0.868873, 0.845131),
        "deft-forum": (0.599189, 0.592773),
        "deft-news": (0.807679, 0.763194),
        "headlines": (0.791574, 0.763473),
        "images": (0.903232, 0.862548),
        "tweet-news": (0.806758, 0.728718),
        "mean": (0.796217, 0.759306),
        "wmean": (0.810604, 0.772162),
    },
    "STS16": {
        "answer-answer": (0.725895, 0.724363),
        "headlines": (0.795998, 0.812517),
        "plagiarism": (0.829518, 0.836036),
        "postediting": (0.857314, 0.879092),
        "question-question": (0.805617, 0.813842),
        "mean": (0.802868, 0.813170),
        "wmean": (0.801795, 0.812129),
    },
}
# Subsets with many pairs of identical sentences. Their Spearman ranks in the toolkit depend on the last bit of two
# vectors of one sentence, computed in different batches.
REPEATED = ("SMTeuroparl", "surprise.SMTnews")


def pairs(n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    first = random.standard_normal((n, 5)).astype(np.float32)
    second = (first + random.standard_normal((n, 5))).astype(np.float32)
    return first, second, random.integers(0, 11, size=n) / 2


def test_cosines_solved_by_hand() -> None:
    first = np.array([[3, 4], [1, 0], [1, 0], [0, 0], [0, 0]], np.float32)
    second = np.array([[4, 3], [0, 2], [-3, 0], [1, 1], [0, 0]], np.float32)
    np.testing.assert_allclose(cosines(first, second), [0.96, 0, -1, 0, 0], atol=1e-7)


def test_cosines_equal_the_toolkits_to_the_last_bit() -> None:
    first, second, _ = pairs(40, 1)
    second[::4] = first[::4]  # cosines equal 1 except in the last bit, which decides their ranks
    expected = [np.dot(u, v) / (np.linalg.norm(u) * np.linalg.norm(v)) for u, v in zip(first, second, strict=True)]
    np.testing.assert_array_equal(cosines(first, second), np.array(expected, np.float64))


def scored(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Predicted and gold scores of n pairs."""
    first, second, gold = pairs(n, seed)
    return cosines(first, second), gold


def test_sts_has_mean_weighted_mean_and_overall_correlation() -> None:
    subsets = {"a": scored(20, 1), "b": scored(90, 2), "c": scored(40, 3)}
    result = similarity(subsets, cosine=False)
    assert {name: scores["n"] for name, scores in result["subsets"].items()} == {"a": 20, "b": 90, "c": 40}
    for name, measure in (("pearson", stats.pearsonr), ("spearman", stats.spearmanr)):
        each = [100 * measure(*subset)[0] for subset in subsets.values()]
        assert [scores[name] for scores in result["subsets"].values()] == pytest.approx(each)
        assert result[name]["mean"] == pytest.approx(sum(each) / 3)
        assert result[name]["wmean"] == pytest.approx((20 * each[0] + 90 * each[1] + 40 * each[2]) / 150)
        pooled = map(np.concatenate, zip(*subsets.values(), strict=True))
        assert result[name]["all"] == pytest.approx(100 * measure(*pooled)[0])
        assert len({round(figure, 4) for figure in result[name].values()}) == 3
    assert result["test"] == result["spearman"]["mean"]
    assert similarity(subsets, cosine=True)["test"] == result["spearman"]["all"]


def test_accuracy_solved_by_hand() -> None:
    gold, predicted = np.array([0, 1, 1]), np.array([[2, 1], [0, 1], [0.5, 0.2]])
    assert accuracy(gold, predicted) == 66.67
    assert accuracy(gold, predicted, np.array([0, 0, 1])) == 50  # mean of 100 and 0, the accuracies of the folds
    result = classification("MRPC", gold, predicted)
    assert result == {"test": 66.67, "accuracy": 66.67, "f1": 66.67}
    assert {*classification("CR", gold, predicted)} == {"test"}
    ones = classification("MRPC", np.array([1, 1, 0, 1]), np.eye(2)[[1, 1, 1, 1]])
    assert ones["f1"] == round(100 * 2 * 0.75 / 1.75, 2)
    assert mean([66.66, 66.67]) == 66.66  # halves to even, as NumPy rounds


@pytest.mark.filterwarnings("error")
def test_an_undefined_correlation_is_nan() -> None:
    for flat in (np.ones(4), 1 + 1e-7 * np.arange(4)):
        assert (
            np.isnan(correlation(flat, np.arange(4.0))).all() and np.isnan(correlation(np.arange(4.0), flat)).all()
        )
    assert correlation(1 + 1e-4 * np.arange(4), np.arange(4.0)) == pytest.approx((1, 1))
    result = similarity({"same": (np.ones(10), np.ones(10)), "other": scored(10, 1)}, cosine=False)
    for name in ("pearson", "spearman"):
        assert np.isnan([result[name]["mean"], result[name]["wmean"]]).all() and not np.isnan(result[name]["all"])


@pytest.mark.slow
@pytest.mark.parametrize("year", list(TOOLKIT))
def test_scores_on_real_data_equal_the_toolkits(year: str) -> None:
    parts: Any = TASKS[year].load(suite_data("senteval/downstream"))
    sentences = [sentence for part in parts.values() for sentence in (*part.first, *part.second)]
    vectors = embed(CheckedEncoder(encoders.load(str(minilm()))), sentences)
    scored = {
        name: (cosines(vectors.rows(part.first), vectors.rows(part.second)), part.targets)
        for name, part in parts.items()
    }
    result = similarity(scored, cosine=False)
    figures = {name: (scores["pearson"], scores["spearman"]) for name, scores in result["subsets"].items()}
    figures |= {name: (result["pearson"][name], result["spearman"][name]) for name in ("mean", "wmean")}
    assert figures.keys() == TOOLKIT[year].keys()
    for name, (pearson, spearman) in TOOLKIT[year].items():
        assert figures[name][0] == pytest.approx(100 * pearson, abs=1e-3), name
        assert figures[name][1] == pytest.approx(100 * spearman, abs=1e-1 if name in REPEATED else 1e-2), name
