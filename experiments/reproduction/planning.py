"""Plans the runs of a figure or table from its grid and the command line; equal names are the same run."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any

from analysis.figures.exhibits import MODEL, NLI, VECTORS, Exhibit, Grid, Value
from data.errors import UserError
from experiments import compose
from experiments.overrides import guess, key_of, quoted
from experiments.planned_runs import joined_name, name_of
from experiments.reproduction.settings import Reproduction

# Floating-point operations per second of one core in training, for the shares of the hour: the 2.5e13 of
# budget=teaching are about 5 minutes of 2 cores. Shown estimates are measured instead.
CORE = 2.5e13 / (2 * 300)

ASKED = {VECTORS: "vectors=<file of word vectors>", NLI: "nli='{path: [<SNLI and MultiNLI train>]}'"}
STARTED = 30.0  # seconds that one core needs to start a run that is not evaluated
LENGTHS = {f"budget.{unit}" for unit in ("steps", "tokens", "epochs", "flops")}  # of a run: one of them counts

Check = Callable[[list[str]], dict[str, Any]]


@dataclass(frozen=True)
class Run:
    """A run of a figure.

    Attributes:
        labels: axis to label.
        seed: its seed.
        overrides: of experiments/run.py, without a folder.
        flops: its training compute, where the budget counts it; else an estimate. 0 where there is none, and where
            an earlier run of the same name, evaluated with another pooling, is the same training.
        name: of its folder: what it trains, and the fingerprint of its configuration.
        pooling: with which it is evaluated; "": its encoder's own.
        members: names of the runs whose encoders it joins; it is not trained itself.
        evaluated: whether it is shown itself, not only joined to others.
    """

    labels: Mapping[str, str] = field(hash=False)
    seed: int
    overrides: tuple[str, ...]
    flops: float
    name: str = ""
    pooling: str = ""
    members: tuple[str, ...] = ()
    evaluated: bool = True


def grid_of(exhibit: Exhibit, wanted: Reproduction) -> Grid:
    """Returns the grid asked for; with grid=paper at another budget, only its values are the paper's.

    ``wanted.only`` may also name what a value of the grid joins.

    Raises:
        UserError: if there is no such size, or ``wanted.only`` names an axis or value that the grid does not have.
    """
    for key in ("budget", "grid"):
        if (size := getattr(wanted, key)) and size not in exhibit.grids:
            raise UserError(f"{key}={size}: {exhibit.id} has {key}={', '.join(exhibit.grids)} only.")
    ours, values = exhibit.grids[wanted.budget], exhibit.grids[wanted.grid or wanted.budget]
    axes = dict(values.axes) | ({MODEL: ours.axes[MODEL]} if MODEL in ours.axes else {})
    for axis, labels in wanted.only.items():
        if axis not in axes:
            raise UserError(f"only.{axis}: {exhibit.id} has no such axis. It has {', '.join(axes)}.")
        chosen = [str(label) for label in (labels if isinstance(labels, list) else [labels])]
        there = {value.label: value for value in axes[axis]}
        there |= {part.label: part for value in axes[axis] for part in value.joins if part.label not in there}
        unknown = [label for label in chosen if label not in there]
        if unknown or not chosen:
            near = guess(unknown[0], there) if unknown else ""
            raise UserError(
                f"only.{axis} must be of {' | '.join(there)}. Got {' | '.join(unknown) or 'none'} instead.{near}"
            )
        axes[axis] = [value for label, value in there.items() if label in chosen]
    return replace(ours, axes=axes, without=values.without)


def combinations(exhibit: Exhibit, grid: Grid, passed: Sequence[str] = ()) -> Iterator[list[Value]]:
    """Yields the values of all axes, in the order of the axes, one list for each setting of the grid.

    Raises:
        UserError: where ``passed`` sets what the grid varies; encoder= replaces the models instead.
    """
    given = _values(passed)
    values = []
    for axis, chosen in grid.axes.items():
        if axis == MODEL and "encoder" in given:
            chosen = [Value(given["encoder"])]
        elif axis != MODEL:
            for key in (
                key_of(text) for value in chosen for part in value.trained for text in part.every_override
            ):
                if key in given:
                    labels = ", ".join(value.label for value in chosen)
                    raise UserError(f"{key}: {exhibit.id} sets it itself ({axis}: {labels}).")
        values.append(chosen)
    for combination in itertools.product(*values):
        at = _labels(grid, combination)
        if not any(all(at.get(axis) in labels for axis, labels in part.items()) for part in grid.without):
            yield list(combination)


def settings_of(combination: Sequence[Value]) -> list[list[Value]]:
    """Returns the settings that are trained for a combination: itself, or those whose encoders it joins."""
    return [list(part) for part in itertools.product(*(value.trained for value in combination))]


def plan(
    exhibit: Exhibit,
    wanted: Reproduction,
    passed: Sequence[str] = (),
    check: Check = compose.check,
    *,
    joined: bool = True,
) -> list[Run]:
    """Returns all runs of the figure, each once for each pooling, in the order of its axes and then of the seeds.

    A run that joins encoders comes after theirs; unless ``joined``, each of these is a row of its own instead.

    Args:
        exhibit: the figure or table.
        wanted: what is asked for.
        passed: overrides for all runs.
        check: composes and checks a run's overrides.
        joined: whether encoders are joined.

    Raises:
        UserError: if ``passed`` does not fit the figure or a run.
    """
    if not exhibit.grids:
        return []
    settings = _Settings(exhibit, wanted, passed)
    checked = cache(lambda *overrides: check(list(overrides)))  # several rows may join the same setting
    found: dict[tuple[str, str], Run] = {}
    for combination in combinations(exhibit, settings.grid, passed):
        runs = [settings.runs(values, checked) for values in settings_of(combination)]
        if not all(runs):
            continue
        joins = joined and len(runs) > 1
        for same_seed in zip(*runs, strict=True):
            for run in same_seed:
                _add(found, replace(run, evaluated=not joins))
            if joins:
                labels = _labels(settings.grid, combination)
                members = tuple(dict.fromkeys(run.name for run in same_seed))
                joined_run = Run(labels, same_seed[0].seed, (), 0.0, joined_name(members), members=members)
                # With encoder= two may be the same encoder, which is not joined to itself.
                _add(found, joined_run if len(members) > 1 else replace(same_seed[0], labels=labels))
    return list(found.values())


@dataclass(frozen=True)
class _Settings:
    """The settings of a figure's grid, each one value of every axis, as overrides and runs."""

    exhibit: Exhibit
    wanted: Reproduction
    passed: Sequence[str] = ()

    @cached_property
    def grid(self) -> Grid:
        """The grid that is asked for."""
        return grid_of(self.exhibit, self.wanted)

    @property
    def seeds(self) -> Sequence[int]:
        """The seeds of each setting."""
        return self.wanted.seeds or self.grid.seeds

    def runs(self, values: Sequence[Value], check: Callable[..., dict[str, Any]]) -> list[Run]:
        """Returns the runs of a setting, one for each seed; none where a file that it needs is not named."""
        overrides, flops = self.overrides(values)
        if overrides is None:
            return []
        labels, config = _labels(self.grid, values), check(*overrides)
        pooling = next((value.pooling for value in values if value.pooling), "")
        if pooling and pooling == config["encoder"].get("pooling"):
            pooling = ""  # the encoder's own: evaluated as it is, as in other figures
        return [
            Run(labels, seed, (*overrides, f"seed={seed}"), flops, name_of(config | {"seed": seed}), pooling)
            for seed in self.seeds
        ]

    def overrides(self, values: Sequence[Value]) -> tuple[tuple[str, ...] | None, float]:
        """Returns a run's overrides but the seed (None: a file is needed that is not named), and its compute."""
        passed, grid, budget = self.passed, self.grid, self.wanted.budget
        if any(value.other_encoder for value in values):
            passed = [text for text in passed if not key_of(text).startswith("encoder.")]
        given, labels = _values(passed), _labels(grid, values)
        own: list[str] = []
        for axis, value in zip(labels, values, strict=True):
            more = (text for other, part in value.by.items() for text in part.get(labels[other], ()))
            texts = (*value.overrides, *more)
            own += [text for text in texts if axis != MODEL or not _replaced(key_of(text), given)]

        flops = math.prod(value.share for value in values) * _number(given, "budget.flops", grid.flops)
        epochs = math.prod(value.epochs for value in values) * _number(given, "budget.epochs", grid.epochs)
        epochs = min(epochs, *(value.most_epochs for value in values))
        documents = math.prod(value.documents for value in values)
        documents *= _number(given, "budget.documents", grid.documents)
        base = [text for text in (*self.exhibit.base, *grid.base) if not _replaced(key_of(text), given)]
        counted = [text for text in (*base, *own, *passed) if not text.endswith("=null")]
        lengths = {key_of(text) for text in counted} & LENGTHS  # one of them counts
        scaled: list[str] = []
        if flops and ("budget.flops" in given or (budget == "teaching" and not lengths)):
            scaled.append(f"budget.flops={flops:.4g}")
        if epochs and (budget == "paper" or "budget.epochs" in given):
            scaled.append(f"budget.epochs={epochs:g}")
        if documents and documents != Grid.documents:
            scaled.append(f"budget.documents={documents:g}")
        if any(_lacking(value, self.wanted) for value in values):
            return None, flops
        for file, name in _files(self.wanted).items():
            own = [text.replace(file, name) for text in own]
        own = [text for text in own if NLI not in text]
        again = {key_of(text) for text in scaled}
        rest = [text for text in passed if key_of(text) not in again]
        return (*base, f"budget={budget}", *own, *scaled, *rest), flops


def _labels(grid: Grid, values: Iterable[Value]) -> dict[str, str]:
    return dict(zip(grid.axes, (value.label for value in values), strict=True))


def _values(passed: Sequence[str]) -> dict[str, str]:
    """The given overrides: key to value."""
    return {key_of(text): text.partition("=")[2] for text in passed}


def _add(found: dict[tuple[str, str], Run], run: Run) -> None:
    """Adds a run that is not there; marks one that was only joined as evaluated."""
    there = found.get((run.name, run.pooling))
    if there is None:
        again = any(other.name == run.name for other in found.values())  # evaluated with another pooling
        found[run.name, run.pooling] = replace(run, flops=0.0) if again else run
    elif run.evaluated and not there.evaluated:
        found[run.name, run.pooling] = replace(run, flops=there.flops)


def left_out(exhibit: Exhibit, wanted: Reproduction) -> list[str]:
    """Returns a line for each row or group that is not trained because it needs a file."""
    if not exhibit.grids:
        return []
    found = []
    for values in grid_of(exhibit, wanted).axes.values():
        for value in values:
            lacking = dict.fromkeys(file for part in value.trained for file in _lacking(part, wanted))
            found += [f"{value.label}: needs {ASKED[file]}" for file in lacking]
    return found


def not_taken(exhibit: Exhibit, wanted: Reproduction) -> list[str]:
    """Returns the keys of files that the command line names and no value of the axes takes."""
    taken = {file for value in exhibit.values() for file in value.files}
    return [file.strip("{}") for file in _files(wanted) if file not in taken]


def _lacking(value: Value, wanted: Reproduction) -> list[str]:
    """The files that a value needs and the command line does not name."""
    given = _files(wanted)
    # At teaching size a run without inference data learns from generated pairs.
    return [file for file in value.files if file not in given and (file != NLI or wanted.budget == "paper")]


def _files(wanted: Reproduction) -> dict[str, str]:
    """The files that the command line names, each as part of an override."""
    given = {VECTORS: wanted.vectors, NLI: wanted.nli}
    return {file: quoted(value) for file, value in given.items() if value is not None}


def _replaced(key: str, given: Mapping[str, str]) -> bool:
    """Returns whether the command line sets ``key``, another choice of its group, or a run's length otherwise."""
    length = key in LENGTHS and not LENGTHS.isdisjoint(given)
    return length or key in given or ("." in key and key.split(".")[0] in given)


def _number(given: Mapping[str, str], key: str, default: float) -> float:
    """The number given for ``key``; the run itself refuses (or, of null, accepts) anything else."""
    if key not in given:
        return default
    try:
        return float(given[key])
    except ValueError:
        return 0.0


def timed(grid: Grid, passed: Sequence[str]) -> bool:
    """Returns whether a run's cost is known: not where the command line gives its length in another unit."""
    return bool(grid.flops) and {key_of(text) for text in passed}.isdisjoint(LENGTHS - {"budget.flops"})


def core_seconds(planned: Sequence[Run], grid: Grid, speed: float = CORE) -> float:
    """Returns the seconds in which one core of ``speed`` operations a second trains and evaluates ``planned``."""
    return sum(run.flops / speed + (grid.evaluation if run.evaluated else STARTED) for run in planned)


def cost(exhibit: Exhibit, wanted: Reproduction, speed: float = CORE) -> tuple[int, float]:
    """Returns the number of runs of the grid of ``wanted``, and ``core_seconds`` of all; no run is composed."""
    settings, seconds = _Settings(exhibit, wanted), 0.0
    trained: list[tuple[str, ...] | None] = []
    for combination in combinations(exhibit, settings.grid):
        seconds += settings.grid.evaluation
        parts = settings_of(combination)
        for values in parts:
            overrides, flops = settings.overrides(values)
            if overrides is None or overrides not in trained:  # else another row has it too
                seconds += flops / speed + STARTED * (len(parts) > 1)
                trained.append(overrides)
    return len(settings.seeds) * len(trained), len(settings.seeds) * seconds
