"""The runs behind a figure: a pure function of its YAML and the command line; equal names are the same run."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from data.errors import UserError
from experiments import compose
from experiments.overrides import key_of, quoted
from experiments.reproduction.settings import Reproduction
from experiments.reproduction.specification import MODEL, Grid, Specification, Value
from experiments.side_by_side import joined_name, name_of

# Floating-point operations that a core does in a second of training, for the shares of the hour: budget=teaching's
# 2.5e13 are about 5 minutes of 2 cores. Estimates that are shown are measured instead.
CORE = 2.5e13 / (2 * 300)

# What stands in overrides for a file that the command line names, and how it is asked for.
VECTORS, NLI = "{vectors}", "{nli}"
ASKED = {VECTORS: "vectors=<file of word vectors>", NLI: "nli='{path: [<SNLI and MultiNLI train>]}'"}
STARTED = 30.0  # seconds of a core that a run takes beside its training where nothing but that is asked
LENGTHS = {f"budget.{unit}" for unit in ("steps", "tokens", "epochs", "flops")}  # of a run: one of them counts

Check = Callable[[list[str]], dict[str, Any]]


@dataclass(frozen=True)
class Run:
    """A run of a figure.

    Attributes:
        labels: axis to label.
        seed: its seed.
        overrides: of experiments/run.py, without a folder.
        flops: its training, where the budget counts in them; else an estimate, 0 where there is none and where
            another one, judged by another pooling, has the same name and so is the same training.
        name: of its folder: what it trains, and the fingerprint of its configuration.
        pooling: by which it is judged; "": by its encoder's own.
        members: names of the runs whose encoders it joins; it is not trained itself.
        judged: whether it is itself shown, not only joined to others.
    """

    labels: Mapping[str, str] = field(hash=False)
    seed: int
    overrides: tuple[str, ...]
    flops: float
    name: str = ""
    pooling: str = ""
    members: tuple[str, ...] = ()
    judged: bool = True


def grid_of(specification: Specification, wanted: Reproduction) -> Grid:
    """The grid that ``wanted`` asks for: of grid=paper at another budget, only its values are the paper's.

    ``wanted.only`` may also name what a value of the grid joins.

    Raises:
        UserError: if ``wanted.only`` names what the grid has not.
    """
    ours, values = specification.grids[wanted.budget], specification.grids[wanted.grid or wanted.budget]
    axes = dict(values.axes) | ({MODEL: ours.axes[MODEL]} if MODEL in ours.axes else {})
    for axis, labels in wanted.only.items():
        if axis not in axes:
            raise UserError(f"only.{axis}: {specification.id} has no such axis. It has {', '.join(axes)}.")
        chosen = [str(label) for label in (labels if isinstance(labels, list) else [labels])]
        values_of = specification.axes[axis]
        there = dict.fromkeys([*axes[axis], *(one for label in axes[axis] for one in values_of[label].joins)])
        unknown = [label for label in chosen if label not in there]
        if unknown or not chosen:
            raise UserError(
                f"only.{axis} must be of {' | '.join(there)}. Got {' | '.join(unknown) or 'none'} instead."
            )
        axes[axis] = tuple(label for label in there if label in chosen)
    return replace(ours, axes=axes, without=values.without)


def combinations(specification: Specification, grid: Grid, passed: Sequence[str] = ()) -> Iterator[list[Value]]:
    """The values of all axes, in the order of the axes, one list for each setting of the grid.

    Raises:
        UserError: where ``passed`` sets what the grid varies; encoder= instead takes the place of the models.
    """
    given = {key_of(text): text.partition("=")[2] for text in passed}
    values = []
    for axis, labels in grid.axes.items():
        chosen = [specification.axes[axis][label] for label in labels]
        if axis == MODEL and "encoder" in given:
            chosen = [Value(given["encoder"])]
        for value in chosen:
            for key in (key_of(text) for one in _trained(specification, axis, value) for text in one.texts):
                if key in given and axis != MODEL:
                    raise UserError(f"{key}: {specification.id} sets it itself ({axis}: {', '.join(labels)}).")
        values.append(chosen)
    for combination in itertools.product(*values):
        at = {axis: value.label for axis, value in zip(grid.axes, combination, strict=True)}
        if not any(all(at.get(axis) in labels for axis, labels in part.items()) for part in grid.without):
            yield list(combination)


def settings_of(specification: Specification, axes: Iterable[str], values: Sequence[Value]) -> list[list[Value]]:
    """The settings that are trained for one of ``combinations``: it alone, or those whose encoders it joins."""
    parts = [_trained(specification, axis, value) for axis, value in zip(axes, values, strict=True)]
    return [list(part) for part in itertools.product(*parts)]


def _trained(specification: Specification, axis: str, value: Value) -> list[Value]:
    """What is trained for ``value``: itself, or what it joins."""
    return [specification.axes[axis][label] for label in value.joins] or [value]


def plan(
    specification: Specification,
    wanted: Reproduction,
    passed: Sequence[str] = (),
    check: Check = compose.check,
    *,
    joined: bool = True,
) -> list[Run]:
    """All runs of the figure, each once for each pooling, in the order of its axes and then of the seeds.

    What joins encoders comes after these; not ``joined``, each of them is a row of its own in its place.

    Raises:
        UserError: if ``passed`` does not fit the figure or a run.
    """
    if not specification.grids:
        return []
    grid = grid_of(specification, wanted)
    seeds = wanted.seeds or grid.seeds
    checked = cache(lambda *overrides: check(list(overrides)))  # several rows may join the same setting
    found: dict[tuple[str, str], Run] = {}
    for combination in combinations(specification, grid, passed):
        settings = settings_of(specification, grid.axes, combination)
        runs = [_runs(specification, grid, wanted, values, passed, checked, seeds) for values in settings]
        if not all(runs):
            continue
        joins = joined and len(runs) > 1
        for alike in zip(*runs, strict=True):  # of one seed
            for run in alike:
                _add(found, replace(run, judged=not joins))
            if joins:
                labels = dict(zip(grid.axes, (value.label for value in combination), strict=True))
                members = tuple(dict.fromkeys(run.name for run in alike))
                joined_run = Run(labels, alike[0].seed, (), 0.0, joined_name(members), members=members)
                # With encoder= two may be the same, which is no more than one of them.
                _add(found, joined_run if len(members) > 1 else replace(alike[0], labels=labels))
    return list(found.values())


def _runs(
    specification: Specification,
    grid: Grid,
    wanted: Reproduction,
    values: Sequence[Value],
    passed: Sequence[str],
    check: Callable[..., dict[str, Any]],
    seeds: Sequence[int],
) -> list[Run]:
    """The runs of one setting, one a seed; none where it needs a file that the command line does not name."""
    labels = dict(zip(grid.axes, (value.label for value in values), strict=True))
    overrides, flops = _overrides(specification, grid, wanted, values, labels, passed)
    if overrides is None:
        return []
    config = check(*overrides)
    pooling = next((value.pooling for value in values if value.pooling), "")
    if pooling and pooling == config["encoder"].get("pooling"):
        pooling = ""  # the encoder's own: judged as it is, as in other figures
    return [
        Run(labels, seed, (*overrides, f"seed={seed}"), flops, name_of(config | {"seed": seed}), pooling)
        for seed in seeds
    ]


def _add(found: dict[tuple[str, str], Run], run: Run) -> None:
    """Adds what is not there; of a run that was there to be joined alone, that it is judged too."""
    there = found.get((run.name, run.pooling))
    if there is None:
        again = any(other.name == run.name for other in found.values())  # judged by another pooling
        found[run.name, run.pooling] = replace(run, flops=0.0) if again else run
    elif run.judged and not there.judged:
        found[run.name, run.pooling] = replace(run, flops=there.flops)


def left_out(specification: Specification, wanted: Reproduction) -> list[str]:
    """A line for each row or group that is not trained because it needs a file."""
    if not specification.grids:
        return []
    grid = grid_of(specification, wanted)
    found = []
    for axis, labels in grid.axes.items():
        for label in labels:
            parts = _trained(specification, axis, specification.axes[axis][label])
            lacking = dict.fromkeys(_lacking(part.overrides, wanted) for part in parts)
            found += [f"{label}: needs {ASKED[file]}" for file in lacking if file is not None]
    return found


def not_taken(specification: Specification, wanted: Reproduction) -> list[str]:
    """The keys of files that the command line names and no value of the axes takes."""
    taken = [text for values in specification.axes.values() for value in values.values() for text in value.texts]
    return [file.strip("{}") for file in _files(wanted) if not any(file in text for text in taken)]


def _lacking(overrides: Sequence[str], wanted: Reproduction) -> str | None:
    """The file that these overrides need and the command line does not name."""
    given = _files(wanted)
    # At teaching size a run learns inference from a grammar's sentences where there is no data.
    needed = [file for file in ASKED if file not in given and (file != NLI or wanted.budget == "paper")]
    return next((file for file in needed if any(file in text for text in overrides)), None)


def _files(wanted: Reproduction) -> dict[str, str]:
    """What the command line names, as it stands in an override."""
    given = {VECTORS: wanted.vectors, NLI: wanted.nli}
    return {file: quoted(value) for file, value in given.items() if value is not None}


def _overrides(
    specification: Specification,
    grid: Grid,
    wanted: Reproduction,
    combination: Sequence[Value],
    labels: Mapping[str, str],
    passed: Sequence[str],
) -> tuple[tuple[str, ...] | None, float]:
    """What experiments/run.py gets but the seed (None: a file is needed that is not named), and its compute."""
    if any(value.other_encoder for value in combination):
        passed = [text for text in passed if not key_of(text).startswith("encoder.")]
    given = {key_of(text): text.partition("=")[2] for text in passed}
    own = []
    for axis, value in zip(labels, combination, strict=True):
        more = (text for other, part in value.by.items() for text in part.get(labels[other], ()))
        texts = (*value.overrides, *more)
        own += [text for text in texts if axis != MODEL or not _replaced(key_of(text), given)]

    share = epochs = documents = 1.0
    for value in combination:
        share, epochs, documents = share * value.share, epochs * value.epochs, documents * value.documents
    scaled: list[str] = []
    flops = share * _number(given, "budget.flops", grid.flops)
    if flops and (wanted.budget == "teaching" or "budget.flops" in given):
        scaled.append(f"budget.flops={flops:.4g}")
    most = min(value.most_epochs for value in combination)
    passes = min(most, epochs * _number(given, "budget.epochs", grid.epochs))
    if passes and (wanted.budget == "paper" or "budget.epochs" in given):
        scaled.append(f"budget.epochs={passes:g}")
    size = documents * _number(given, "budget.documents", grid.documents)
    if size and size != Grid.documents:
        scaled.append(f"budget.documents={size:g}")
    if _lacking(own, wanted) is not None:
        return None, flops
    for file, name in _files(wanted).items():
        own = [text.replace(file, name) for text in own]
    own = [text for text in own if NLI not in text]
    again = {key_of(text) for text in scaled}
    base = [text for text in (*specification.base, *grid.base) if not _replaced(key_of(text), given)]
    rest = [text for text in passed if key_of(text) not in again]
    return (*base, f"budget={wanted.budget}", *own, *scaled, *rest), flops


def _replaced(key: str, given: Mapping[str, str]) -> bool:
    """Whether the command line sets ``key`` itself, another choice of its group, or a run's length otherwise."""
    length = key in LENGTHS and not LENGTHS.isdisjoint(given)
    return length or key in given or ("." in key and key.split(".")[0] in given)


def _number(given: Mapping[str, str], key: str, default: float) -> float:
    """The number given for ``key``; what is none is the run's to refuse (or, as null, to take)."""
    if key not in given:
        return default
    try:
        return float(given[key])
    except ValueError:
        return 0.0


def timed(grid: Grid, passed: Sequence[str]) -> bool:
    """Whether it is known what a run costs: not where the command line gives its length in something else."""
    return bool(grid.flops) and {key_of(text) for text in passed}.isdisjoint(LENGTHS - {"budget.flops"})


def core_seconds(planned: Sequence[Run], grid: Grid, speed: float = CORE) -> float:
    """What training, starting and judging ``planned`` takes of a core that does ``speed`` operations a second."""
    return sum(run.flops / speed + (grid.judged if run.judged else STARTED) for run in planned)


def cost(specification: Specification, wanted: Reproduction, speed: float = CORE) -> tuple[int, float]:
    """How many runs the grid of ``wanted`` has, and ``core_seconds`` of all; no run is composed."""
    grid, seconds = grid_of(specification, wanted), 0.0
    trained: list[tuple[str, ...] | None] = []
    for combination in combinations(specification, grid):
        seconds += grid.judged
        settings = settings_of(specification, grid.axes, combination)
        for values in settings:
            labels = dict(zip(grid.axes, (value.label for value in values), strict=True))
            overrides, flops = _overrides(specification, grid, wanted, values, labels, ())
            if overrides is None or overrides not in trained:  # else it is joined, or judged by another pooling
                seconds += flops / speed + STARTED * (len(settings) > 1)
                trained.append(overrides)
    seeds = len(wanted.seeds or grid.seeds)
    return seeds * len(trained), seeds * seconds
