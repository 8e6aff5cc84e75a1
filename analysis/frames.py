"""Frames of scores: a wide one has a row a run, a long one a row a score.

The columns of a wide frame are the label axes, then "seed", "run", "weights", "tokens" and the scores in percent:
those of the quick evaluation by their keys ("recall@1"), SentEval's as "<Task>.<metric>" ("STS12.spearman.mean").
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import pandas as pd

from analysis.senteval.averages import RULES, Rule, average, average_title
from analysis.senteval.records import PUBLISHED
from data.display import flatten, printable


@dataclass(frozen=True)
class Measure:
    """A score of all rows.

    Attributes:
        values: by row, in percent; NaN where there is none.
        label: its name, with the number of tasks of an average where some are missing.
        whole: False for an average over a part of its tasks.
        comparable: True if it is of SentEval's complete data and metrics, as printed scores are.
        tasks: tasks of an average.
    """

    values: pd.Series
    label: str
    whole: bool
    comparable: bool
    tasks: tuple[str, ...] = ()


def numeric_scores(record: Mapping[str, Any]) -> dict[str, float]:
    """Returns the numbers in nested mappings by their dotted keys."""
    return {key: value for key, value in flatten(record) if isinstance(value, (int, float))}


def measure(frame: pd.DataFrame, metric: str) -> Measure:
    """Returns a score of a wide frame.

    Args:
        frame: the wide frame.
        metric: a score of the quick evaluation, "<Task>.<metric>" ("MRPC.accuracy+f1" for a mean), or an average
            in ``senteval.averages.RULES``, which is over the tasks that all evaluated rows have.
    """
    apart = {
        task for task in PUBLISHED if not frame.get(f"{task}.comparable", pd.Series(dtype=float)).dropna().all()
    }
    if metric in RULES:
        return _average(frame, RULES[metric], apart)
    task = metric.partition(".")[0]
    label = f"{metric} (not comparable)" if task in apart else metric
    return Measure(_column(frame, metric), label, whole=True, comparable=task in PUBLISHED and task not in apart)


def tidy(frame: pd.DataFrame, scores: Mapping[str, str]) -> pd.DataFrame:
    """Returns the long frame: label axes, seed, run, panel and score of each score that a row has.

    Args:
        frame: the wide frame.
        scores: panel to metric, as ``measure`` takes it.
    """
    labels = frame[[*axes(frame), "seed", "run"]]
    panels = [labels.assign(panel=panel, score=measure(frame, metric).values) for panel, metric in scores.items()]
    return pd.concat(panels, ignore_index=True).dropna(subset="score", ignore_index=True)


def axes(frame: pd.DataFrame) -> list[str]:
    """Returns the label axes of a wide frame: the columns before "seed"."""
    return [*frame.columns[: frame.columns.get_loc("seed")]]


def as_markdown(frame: pd.DataFrame) -> str:
    """Returns a table in Markdown, its numbers with one decimal; the index is the first column."""
    table = frame.reset_index().map(_cell)
    rows = [[printable(str(name)) for name in table.columns], ["---"] * len(table.columns), *table.values.tolist()]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _cell(value: Any) -> str:
    if pd.isna(value):
        return ""
    return f"{value:.1f}" if isinstance(value, float) else printable(str(value)).replace("|", "\\|")


def _column(frame: pd.DataFrame, metric: str) -> pd.Series:
    """Scores of a metric; "accuracy+f1" is the mean of two."""
    task, dot, names = metric.partition(".")
    columns = [f"{task}.{name}" for name in names.split("+")] if dot else [metric]
    return frame.reindex(columns=columns).astype(float).mean(axis=1, skipna=False)


def _look_up(scores: pd.Series, task: str, metric: str) -> float:
    return float(scores[task])


def _average(frame: pd.DataFrame, rule: Rule, apart: set[str]) -> Measure:
    metrics = {task: f"{task}.{metric}" for group in rule.groups for task, metric in group.items()}
    columns = pd.DataFrame({task: _column(frame, metric) for task, metric in metrics.items()})
    evaluated = frame.filter(items=[f"{task}.test" for task in PUBLISHED]).notna().any(axis=1)
    tasks = {task for task in columns if evaluated.any() and columns.loc[evaluated, task].notna().all()}
    values, mean = pd.Series(float("nan"), index=frame.index), None
    for row in frame.index[evaluated] if tasks else ():
        mean = average(rule, partial(_look_up, columns.loc[row]), apart, tasks)
        values[row] = float("nan") if mean is None else mean.value
    if mean is None:
        return Measure(values, f"{average_title(rule.name)} (no task in common)", whole=False, comparable=False)
    return Measure(values, mean.title, mean.complete, not mean.apart, mean.tasks)
