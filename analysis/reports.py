"""Commands that evaluate several models: one table and one JSON file for every evaluation."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.model_names import Names
from analysis.models import ModelOptions, open_models
from analysis.tables import Format, show
from data.errors import UserError
from data.files import write_json

Records = list[dict[str, Any]]


class ReportOptions(ModelOptions, total=False):
    """Options of evaluations of several models; further ones are ``analysis.models.ModelOptions``.

    Attributes:
        models: names of models, as in ``analysis.models.open_encoder``.
        format: of the table: text (the default), csv, markdown or latex.
        out: JSON file of scores and settings; default: none.
    """

    models: Names
    format: Format
    out: str | None


def make_command(
    evaluate: Callable[..., Mapping[str, float]], notes: Sequence[str] = (), decimals: int = 2
) -> Callable[..., Records]:
    """Returns a function that evaluates several models and prints a table: a row for each score, a column a model.

    It takes the keyword-only arguments of ``evaluate`` and returns a record of each model: {"model": its facts,
    "scores": {name: score, None if it is undefined}}.

    Args:
        evaluate: takes a ``Model``, settings and ``ReportOptions``; returns scores by name, NaN if undefined.
        notes: a line each below the table.
        decimals: decimals of scores in the table.
    """

    @wraps(evaluate)
    def command(
        *, models: Names | None = None, format: Format = "text", out: str | None = None, **settings: Any
    ) -> Records:
        if not models:
            raise UserError("missing: a list of models", key="models")
        options: Any = {key: settings[key] for key in settings.keys() & ModelOptions.__annotations__}
        records, columns = [], []
        for model in open_models(models, **options):
            values = evaluate(model, **settings).items()
            scores = {key: None if math.isnan(value) else value for key, value in values}
            records.append({"model": model.facts(), "scores": scores})
            columns.append(pd.Series(scores, dtype=object, name=model.name))
        name = evaluate.__module__.rpartition(".")[2]
        show(pd.concat(columns, axis=1).rename_axis("score"), format, title=name, notes=notes, decimals=decimals)
        if out is not None:
            path = Path(out).expanduser()
            path.parent.mkdir(parents=True, exist_ok=True)
            write_json(path, {"evaluation": name, **settings, "results": records})
        return records

    return command
