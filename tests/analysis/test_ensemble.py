"""Ensembles: weights, plain sums of predictions, one solved by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from analysis.bootstrap import read_predictions
from analysis.ensemble import combine, ensemble, weights
from data.errors import UserError
from tests.analysis.senteval.example_results import make_evaluation

TASKS = ("CR", "TREC", "MRPC", "SICKRelatedness", "STS12", "ImageCaptionRetrieval")


def test_weights_solved_by_hand() -> None:
    assert weights([None, 0.0, -10.0]) == [1 / 3] * 3 and weights([90.0, 30.0]) == [0.75, 0.25]


def test_an_ensemble_equals_plain_sums(tmp_path: Path) -> None:
    for name, accuracy, dev in (("a", 0.7, 60.0), ("b", 0.6, 30.0)):
        make_evaluation(tmp_path / name, TASKS, accuracy, dev=dev)
    members = tmp_path / "a", tmp_path / "b"
    combined = ensemble(members)
    assert {*combined.tasks} == {"CR", "TREC", "MRPC", "SICKRelatedness"}  # with a dev set and predictions
    assert combined.model == {"name": "ensemble of 2", "members": [*map(str, members)]}
    with pytest.raises(UserError, match="'Cr'"):
        ensemble(members, ["CR", "Cr"])
    for task, result in combined.tasks.items():
        assert result.dev is None and result.weights == pytest.approx([2 / 3, 1 / 3])
        first, second = (np.load(folder / "predictions" / f"{task}.npz") for folder in members)
        predicted, gold = 2 / 3 * first["predicted"] + 1 / 3 * second["predicted"], first["gold"]
        right = predicted.argmax(-1) == gold
        if task == "CR":
            folds = [round(100 * right[first["fold"] == fold].mean(), 2) for fold in range(5)]
            assert result.test == np.mean(folds).round(2)
        elif task == "SICKRelatedness":
            assert result.pearson == pytest.approx(100 * stats.pearsonr(predicted, gold)[0])
            assert result.mse == pytest.approx(((predicted - gold) ** 2).mean())
        else:
            assert result.test == round(100 * right.mean(), 2)


def test_an_ensemble_solved_by_hand(tmp_path: Path) -> None:
    """Examples of classes 0 and 1 are right with a first weight between 2/3 and 4/5: it is 3/4."""
    rest = np.eye(2)[np.arange(2, 100) % 2].tolist()
    rows = [[0.4, 0.6], [0.3, 0.7]], [[0.9, 0.1], [0.9, 0.1]]
    both = [
        make_evaluation(tmp_path / name, ["SST2"], dev=dev, predicted=np.array(first + rest))
        for name, dev, first in zip("ab", (90.0, 30.0), rows, strict=True)
    ]
    for members in (both, both[::-1]):
        predictions = read_predictions(members, "SST2")
        assert predictions
        combined = combine("SST2", members, predictions)
        assert combined.test == 100 and sorted(combined.weights or ()) == [0.25, 0.75]
