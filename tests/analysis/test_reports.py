"""Commands of evaluations: their table, undefined scores."""

from __future__ import annotations

import csv
import io
import math
from typing import Unpack

import pytest

from analysis.models import Model
from analysis.reports import ReportOptions, make_command


def evaluate(model: Model, *, size: int = 2, **options: Unpack[ReportOptions]) -> dict[str, float]:
    """Returns made-up scores."""
    return {"a.mean": model.encoder.dimension / 3, "a.count": size, "b.mean": math.nan}


command = make_command(evaluate)


def test_scores_of_several_models_are_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    table = command(models=["random_vectors"] * 2, size=7, format="csv")
    text = capsys.readouterr().out
    assert [*csv.reader(io.StringIO(text))] == [
        ["score", "random_vectors", "random_vectors"],
        ["a.mean", "128.00000000", "128.00000000"],
        ["a.count", "7", "7"],
        ["b.mean", "", ""],
    ]
    assert table.iloc[:2].values.tolist() == [[128, 128], [7, 7]]
