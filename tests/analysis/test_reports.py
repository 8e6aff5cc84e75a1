"""Commands of evaluations: table, JSON file, undefined scores, models of one name, checked settings."""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path
from typing import Unpack

import pytest

from analysis.models import Model
from analysis.reports import ReportOptions, make_command
from data.errors import UserError
from experiments.config import parse


def evaluate(model: Model, *, size: int = 2, **options: Unpack[ReportOptions]) -> dict[str, float]:
    """Returns made-up scores."""
    dimension = model.encoder.dimension
    return {"a.mean": dimension / 3, "a.count": size, "b.mean": math.nan}


command = make_command(evaluate, ["a note"], decimals=1)


def test_scores_are_printed_and_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "new" / "scores.json"
    records = command(models=["random_vectors"] * 2, size=7, format="csv", out=str(out), cache=None)
    output = capsys.readouterr()
    assert [*csv.reader(io.StringIO(output.out))] == [
        ["score", "random_vectors", "random_vectors"],
        ["a.mean", "128.0", "128.0"],
        ["a.count", "7", "7"],
        ["b.mean", "", ""],
    ]
    assert "a note" in output.err
    assert records[0]["scores"] == {"a.mean": 128, "a.count": 7, "b.mean": None}
    content = json.loads(out.read_text())
    assert content["results"] == records and content["evaluation"] == "test_reports" and content["size"] == 7


def test_a_command_has_the_settings_of_its_evaluation() -> None:
    values = {"models": ["a"], "size": 3, "format": "markdown", "device": "cpu", "encoder": {"vectors": "x"}}
    assert parse(command, values) == values
    assert command.__doc__ == evaluate.__doc__
    for change, key in (
        ({"size": "x"}, "size"),
        ({"format": "html"}, "format"),
        ({"wrong": 1}, "wrong"),
    ):
        with pytest.raises(UserError) as error:
            parse(command, values | change)
        assert [each.key for each in error.value.errors] == [key]
    with pytest.raises(UserError) as missing:
        command(size=3)
    assert missing.value.key == "models"
