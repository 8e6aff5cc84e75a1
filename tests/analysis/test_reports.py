"""Commands of evaluations: table, file, undefined scores, checked settings; columns of files."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path
from typing import Unpack

import pytest

from analysis.models import Model
from analysis.reports import ReportOptions, make_command, read_columns
from data.errors import UserError
from experiments.config import parse


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


def test_a_command_has_the_settings_of_its_evaluation() -> None:
    values = {"models": ["a"], "size": 3, "format": "markdown", "device": "cpu", "encoder": {"vectors": "x"}}
    assert parse(command, values) == values
    for change, key in (({"size": "x"}, "size"), ({"format": "html"}, "format"), ({"wrong": 1}, "wrong")):
        with pytest.raises(UserError) as error:
            parse(command, values | change)
        assert [each.key for each in error.value.errors] == [key]
    with pytest.raises(UserError) as missing:
        command(size=3)
    assert missing.value.key == "models"


def test_columns_are_read_without_quoting(tmp_path: Path) -> None:
    path, columns = tmp_path / "x.tsv", {"a": str, "b": float}
    path.write_bytes(b'\xef\xbb\xbfnull"\t1\tmore\r\n\nb\t2.5\n')
    assert read_columns(path, columns, names=[*columns]).values.tolist() == [['null"', 1], ["b", 2.5]]
    for content in ("a\n", "a\tx\n"):
        path.write_text(content)
        with pytest.raises(UserError) as error:
            read_columns(path, columns, names=[*columns])
        assert error.value.key == str(path)
