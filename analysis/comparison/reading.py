"""What the runs of a comparison left behind, read from their folders; a run that failed is known by its reason."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from analysis import runs
from analysis.figures.training import NOT_A_LOSS
from analysis.senteval.results import FILE, Results, read_results
from data.errors import UserError
from data.files import read_json
from data.schema import mismatch

Points = tuple[np.ndarray, np.ndarray]  # tokens read by then, and values, of shape (n,) each


@dataclass(frozen=True, kw_only=True)
class Environment:
    """A run's environment.json, as far as it is taken apart."""

    commit: str | None = None
    packages: dict[str, str] | None = None


@dataclass(frozen=True)
class Run:
    """One pair of objective and encoder, with one seed.

    Attributes:
        command: that trains it.
        folder: of the run; None where there is none.
        possible: whether the pair can be trained at all.
        problem: why it is not there, in a line; "" where it is.
        unjudged: why some of its judgement is not there, in a line; "" where nothing failed.
        row: what ``analysis.runs.read`` says of it.
        metrics, timings: lines of its journals.
        environment: versions, commit, device.
        results: of SentEval, where it was judged on it.
    """

    objective: str
    encoder: str
    seed: int
    command: str
    folder: Path | None = None
    possible: bool = True
    problem: str = ""
    unjudged: str = ""
    row: Mapping[str, Any] = field(default_factory=dict)
    metrics: tuple[Mapping[str, Any], ...] = ()
    timings: tuple[Mapping[str, Any], ...] = ()
    environment: Mapping[str, Any] = field(default_factory=dict)
    results: Results | None = None

    @property
    def name(self) -> str:
        """Of the pair, as tables have it."""
        return f"{self.objective} · {self.encoder}"

    @property
    def finished(self) -> bool:
        return not self.problem

    def curve(self, name: str) -> Points:
        """``name`` over the tokens read, where it is there and finite; of a measurement, those read before it."""
        tokens, found = 0.0, []
        for line in self.metrics:
            tokens = line.get("tokens", tokens)
            if (value := line.get(name)) is not None and math.isfinite(value):
                found.append((tokens, value))
        points = np.array(found, dtype=np.float64).reshape(-1, 2)
        return points[:, 0], points[:, 1]

    @property
    def loss_parts(self) -> list[str]:
        """Names of the parts of its loss; shares of right answers are none."""
        names = dict.fromkeys(name for line in self.metrics if "loss" in line for name in line)
        return [name for name in names if name not in NOT_A_LOSS and not name.endswith("_accuracy")] or ["loss"]


def read(objective: str, encoder: str, seed: int, command: str, folder: Path, judged: Path | None = None) -> Run:
    """The finished run in ``folder``; one that cannot be read, or is not finished, has that as its problem.

    ``judged`` is the folder of SentEval's results, where that is another one.
    """
    judged = judged or folder
    row = runs.read(folder)
    if row["state"] != "finished":
        problem = row["problem"] or "The run is not finished."
        return Run(objective, encoder, seed, command, folder, problem=problem)
    try:
        return Run(
            objective,
            encoder,
            seed,
            command,
            folder,
            row=row,
            metrics=tuple(runs.read_lines(folder / "metrics.jsonl")),
            timings=tuple(runs.read_lines(folder / "timings.jsonl")),
            environment=environment(folder),
            results=read_results(judged) if (judged / FILE).exists() else None,
        )
    except (*runs.UNREADABLE, UserError) as error:
        return Run(objective, encoder, seed, command, folder, problem=" ".join(str(error).split()))


def environment(folder: Path) -> Mapping[str, Any]:
    """Returns a run's environment.json.

    Raises:
        OSError: if it cannot be read.
        ValueError: if it is damaged.
    """
    found = read_json(folder / "environment.json")
    if not isinstance(found, dict) or mismatch(Environment, found):
        raise ValueError("environment.json is not one that a run writes")
    return found


def finished(found: Iterable[Run]) -> list[Run]:
    return [run for run in found if run.finished]


def leading(found: Iterable[Run]) -> list[Run]:
    """Of each pair the finished run of its lowest seed, in the order of the pairs."""
    best: dict[str, Run] = {}
    for run in finished(found):
        if run.name not in best or run.seed < best[run.name].seed:
            best[run.name] = run
    return list(best.values())
