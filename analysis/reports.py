"""Evaluations of several models: one reader of data and one table for all of them."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.model_names import Names
from analysis.models import ModelOptions, open_models
from analysis.tables import Format, render
from data.errors import UserError, reading


class ReportOptions(ModelOptions, total=False):
    """Options of evaluations of several models; further ones are ``analysis.models.ModelOptions``.

    Attributes:
        models: names of models, as in ``analysis.models.open_encoder``.
        format: of the table: text (the default), csv (with eight decimals), markdown or latex.
    """

    models: Names
    format: Format


def read_columns(path: Path, columns: Mapping[str, type], **options: Any) -> pd.DataFrame:
    """Reads columns of a text file, packed or not, without quoting.

    Args:
        path: the file.
        columns: type of each column.
        options: further ones of ``pandas.read_table``, as the names of columns where no header has them.

    Raises:
        UserError: if a column is missing or of another type.
    """
    with reading(f"table of {', '.join(columns)}", path):
        return pd.read_table(
            path, usecols=[*columns], dtype=columns, quoting=csv.QUOTE_NONE, keep_default_na=False, **options
        )


def make_command(evaluate: Callable[..., Mapping[str, float]]) -> Callable[..., pd.DataFrame]:
    """Returns a function that evaluates several models and prints a table: a row for each score, a column a model.

    It takes the keyword-only arguments of ``evaluate`` and returns the table.

    Args:
        evaluate: takes a ``Model``, settings and ``ReportOptions``; returns scores by name, NaN if undefined.
    """

    @wraps(evaluate)
    def command(*, models: Names | None = None, format: Format = "text", **settings: Any) -> pd.DataFrame:
        if not models:
            raise UserError("missing: a list of models", key="models")
        options: Any = {key: settings[key] for key in settings.keys() & ModelOptions.__annotations__}
        columns = [
            pd.Series(evaluate(model, **settings), dtype=object, name=model.name)
            for model in open_models(models, **options)
        ]
        table = pd.concat(columns, axis=1).rename_axis("score")
        title = evaluate.__module__.rpartition(".")[2]
        print(render(table, format, title=title, decimals=8 if format == "csv" else 3))
        return table

    return command
