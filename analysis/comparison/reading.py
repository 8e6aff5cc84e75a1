"""Reads the runs of a comparison from their folders; a run that failed carries the reason."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from analysis import runs
from analysis.figures.training import NOT_A_LOSS
from analysis.reporting.bootstrap import FOLDER as PREDICTIONS
from analysis.reporting.bootstrap import read_predictions
from analysis.reporting.printed import Key
from analysis.senteval.records import headlines
from analysis.senteval.results import FILE, Results, read_results
from analysis.senteval.scores import majority
from data.errors import UserError

BEFORE = "before training"  # in place of the objective of a run that leaves its encoder as it is
Points = tuple[np.ndarray, np.ndarray]  # tokens read so far, and values, of shape (n,) each


@dataclass(frozen=True)
class Run:
    """One pair of objective and encoder, trained with one seed.

    Attributes:
        command: trains it.
        folder: the run folder; None if there is none.
        possible: whether the pair can be trained at all.
        problem: one line that says why there is no finished run; "" if there is one.
        not_evaluated: one line that says why its evaluation failed; "" if it did not.
        row: the summary by ``analysis.runs.read``.
        metrics, timings: lines of its journals.
        results: SentEval results, if it was evaluated on SentEval.
        majority: scores of always answering the most frequent test class, by task and metric, of the
            classification tasks of ``results`` whose predictions are kept beside them.
    """

    objective: str
    encoder: str
    seed: int
    command: str
    folder: Path | None = None
    possible: bool = True
    problem: str = ""
    not_evaluated: str = ""
    row: Mapping[str, Any] = field(default_factory=dict)
    metrics: tuple[Mapping[str, Any], ...] = ()
    timings: tuple[Mapping[str, Any], ...] = ()
    results: Results | None = None
    majority: Mapping[Key, float] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Name of the pair in tables."""
        return f"{self.objective} · {self.encoder}"

    @property
    def finished(self) -> bool:
        return not self.problem

    @property
    def environment(self) -> Mapping[str, Any]:
        """Versions, commit and device."""
        found: Mapping[str, Any] = self.row.get("environment") or {}
        return found

    def curve(self, name: str) -> Points:
        """Returns the finite values of ``name`` over the tokens read until then."""
        tokens, found = 0.0, []
        for line in self.metrics:
            tokens = line.get("tokens", tokens)
            if (value := line.get(name)) is not None and math.isfinite(value):
                found.append((tokens, value))
        points = np.array(found, dtype=np.float64).reshape(-1, 2)
        return points[:, 0], points[:, 1]

    @property
    def loss_parts(self) -> list[str]:
        """Names of the parts of its loss, without accuracies."""
        names = dict.fromkeys(name for line in self.metrics if "loss" in line for name in line)
        return [name for name in names if name not in NOT_A_LOSS and not name.endswith("_accuracy")] or ["loss"]


def read(objective: str, encoder: str, seed: int, command: str, folder: Path, results: Path | None = None) -> Run:
    """Reads the run in ``folder``; ``problem`` is set if it is unfinished or cannot be read.

    ``results`` is the folder of its SentEval results, if they are not in ``folder``.
    """
    run = Run(objective, encoder, seed, command, folder)
    results = results or folder
    row = runs.read(folder)
    if row["state"] != "finished":
        return replace(run, problem=row["problem"] or "The run is not finished.")
    try:
        evaluated = read_results(results) if (results / FILE).exists() else None
        return replace(
            run,
            row=row,
            metrics=tuple(runs.read_lines(folder / "metrics.jsonl")),
            timings=tuple(runs.read_lines(folder / "timings.jsonl")),
            results=evaluated,
            majority=_majority(results, evaluated) if evaluated else {},
        )
    except (*runs.UNREADABLE, UserError) as error:
        return replace(run, problem=" ".join(str(error).split()))


def _majority(folder: Path, results: Results) -> dict[Key, float]:
    found: dict[Key, float] = {}
    for task, record in results.tasks.items():
        path = folder / PREDICTIONS / f"{task}.npz"
        if path.exists() and (predictions := read_predictions(path)).predicted.ndim == 2:
            scores = majority(task, predictions.gold)
            found |= {(task, metric): scores[metric] for metric in headlines(task, record)}
    return found


def finished(found: Iterable[Run]) -> list[Run]:
    """Returns the finished runs."""
    return [run for run in found if run.finished]


def leading(found: Iterable[Run]) -> list[Run]:
    """Returns the finished run with the lowest seed of each pair, in the order of the pairs."""
    best: dict[str, Run] = {}
    for run in finished(found):
        if run.name not in best or run.seed < best[run.name].seed:
            best[run.name] = run
    return list(best.values())
