"""Figures and tables of a paper as objects: the grid of runs, which scores fill it, what is printed and claimed.

Each paper has a module of this package, or two where it has many tables, with one object for each figure and
table, listed in its ``EXHIBITS``; analysis.figures.catalogue has all. To add a figure, add an object there: the
grid, the scores, the labels of the picture, and the claims as functions of analysis.figures.claims.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from analysis.figures.scores import Mark, Point, Scores
from analysis.figures.verdicts import Claim
from data.views.spans import SpanSampler

MODEL = "model"  # the axis that encoder= replaces
ROW = "row"  # the axis that names a table's rows
# Placeholders in overrides for files that the command line names.
VECTORS, NLI = "{vectors}", "{nli}"

Kind = Literal["line", "distribution", "bars", "density", "map"]
Overrides = Sequence[str]


@dataclass(frozen=True)
class Value:
    """A value of an axis.

    Attributes:
        label: its name in pictures, tables and lists.
        overrides: of the runs that have it.
        by: axis to label to further overrides, where two axes decide together.
        share: of compute against a run of share 1, so that all runs see as many documents at teaching size.
        epochs, documents: factors on the number of epochs, and of documents in a batch (the controls of DeCLUTR's
            section 5.2).
        most_epochs: the most epochs of its runs.
        pooling: with which its runs are evaluated ("": their encoder's own): one run serves several poolings.
        other_encoder: whether keys encoder.* of the command line do not apply, as its encoder is of another kind.
        joins: values whose encoders are evaluated side by side, as one; nothing is trained for it itself.
    """

    label: str
    overrides: Overrides = ()
    by: Mapping[str, Mapping[str, Overrides]] = field(default_factory=dict, kw_only=True)
    share: float = field(default=1.0, kw_only=True)
    epochs: float = field(default=1.0, kw_only=True)
    documents: float = field(default=1.0, kw_only=True)
    most_epochs: float = field(default=math.inf, kw_only=True)
    pooling: str = field(default="", kw_only=True)
    other_encoder: bool = field(default=False, kw_only=True)
    joins: Sequence[Value] = field(default=(), kw_only=True)

    @property
    def every_override(self) -> list[str]:
        """All overrides that a run of it may have."""
        more = (text for part in self.by.values() for overrides in part.values() for text in overrides)
        return [*self.overrides, *more]

    @property
    def files(self) -> list[str]:
        """The placeholders of files in its overrides."""
        return [file for file in (VECTORS, NLI) if any(file in text for text in self.overrides)]

    @property
    def trained(self) -> Sequence[Value]:
        """The values to train for it: itself, or those that it joins."""
        return self.joins or (self,)


@dataclass(frozen=True)
class Grid:
    """The runs of a figure at one size: all combinations of the values of its axes.

    Attributes:
        axes: axis to its values.
        without: combinations that are left out, as axis to labels.
        seeds: of each combination.
        base: overrides of all runs.
        flops: of a run of share 1: its budget at teaching size, where ``base`` names no other length; else an
            estimate.
        epochs, documents: of a run at the paper's size, and in a batch.
        evaluation: seconds that one core needs to start and evaluate a run, for estimates.
    """

    axes: Mapping[str, Sequence[Value]]
    without: Sequence[Mapping[str, Sequence[str]]] = field(default=(), kw_only=True)
    seeds: Sequence[int] = field(default=(1,), kw_only=True)
    base: Overrides = field(default=(), kw_only=True)
    flops: float = field(default=0.0, kw_only=True)
    epochs: float = field(default=1.0, kw_only=True)
    documents: int = field(default=16, kw_only=True)
    evaluation: float = field(default=90.0, kw_only=True)


@dataclass(frozen=True)
class PrintedRows:
    """Rows of a paper's tables (by their model) that stand in a figure, each with its place there."""

    paper: str
    places: Mapping[str, Mapping[str, str]]
    split: str = "test"


@dataclass(frozen=True)
class Ensemble:
    """The ensemble of the best run of each kind, shown as ``group``.

    ``axis`` is the axis whose labels begin with the ``members``, of each of which the run with the best mean dev
    score takes part.
    """

    group: str
    axis: str
    members: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class Exhibit:
    """A figure or table.

    Attributes:
        id: "<paper>/<name>".
        title: of the picture or table.
        teaching, paper: the runs at both sizes; None where nothing is trained.
        base: overrides of all runs.
        point: the axes of the grid that give a point's panel, group and x; in a table, rows are groups.
        scores: panel to what it shows on SentEval: a rule of analysis.senteval.averages, or <task>.<metric>. Of a
            table: what its claims are about.
        quick: panel to a score of the quick evaluation, where there is no SentEval data.
        tasks: evaluated at teaching size; None: all.
        protocol: of SentEval.
        needs: what data= must be, where scores are not SentEval's.
        ensemble: of runs, shown beside them.
        claims: what the paper states of it.
        departures: what is not as in the paper, and why.
    """

    id: str
    title: str
    teaching: Grid | None = None
    paper: Grid | None = None
    base: Overrides = ()
    point: Mapping[str, str] = field(default_factory=lambda: {"group": ROW})
    scores: Mapping[str, str] = field(default_factory=dict)
    quick: Mapping[str, str] = field(default_factory=lambda: {"": "recall@1"})
    tasks: Sequence[str] | None = None
    protocol: str = "default"
    needs: str = ""
    ensemble: Ensemble | None = None
    claims: Sequence[Claim] = ()
    departures: Sequence[str] = ()

    @property
    def name(self) -> str:
        """The name of its files: "declutr-2a"."""
        return self.id.replace("/", "-")

    @property
    def of_paper(self) -> bool:
        """Returns whether a paper has it, not only this suite."""
        return not self.id.startswith("suite/")

    @property
    def grids(self) -> dict[str, Grid]:
        """Its grids by size."""
        return {size: grid for size in ("teaching", "paper") if (grid := getattr(self, size)) is not None}

    @property
    def on_senteval(self) -> bool:
        """True if it shows SentEval's scores, or without SentEval's data those of the quick evaluation."""
        return bool(self.grids) and not self.needs

    def values(self, axis: str | None = None) -> Iterator[Value]:
        """Yields all values of ``axis`` (None: of each axis) in any grid, then those that they join, each once."""
        axes = [(name, values) for grid in self.grids.values() for name, values in grid.axes.items()]
        chosen = [value for name, values in axes for value in values if axis in (None, name)]
        joined = [part for value in chosen for part in value.joins]
        yield from {id(value): value for value in [*chosen, *joined]}.values()

    def over(self, points: Sequence[Point]) -> Scores:
        """Returns ``points`` as scores on which its claims can be evaluated; groups are rows."""
        rows = [value.label for value in self.values(ROW)]
        if self.ensemble is not None:
            rows.append(self.ensemble.group)
        return Scores(points, tuple(self.scores), rows)


@dataclass(frozen=True, kw_only=True)
class Figure(Exhibit):
    """A figure.

    Attributes:
        kind: how it is drawn.
        x, y: labels of the axes; y states which average and split.
        panels, groups, ticks: names in order; groups are the legend's entries, ticks the places on the x axis. In
            "bars", groups stand on the x axis and ticks are the bars in each.
        printed: values that the paper prints, drawn as open marks.
        printed_rows: rows of the paper's tables from which these are taken.
        legend: title of the legend ("temperature").
        scale: of the x axis: ticks "even"ly spaced, or "linear" in their numbers.
        colours: group to the objective whose colour it has, where the group's name does not give it.
        spans: the sampler whose lengths a "density" shows.
        classes: SentEval's tasks that a "map" shows, with the names of their classes.
    """

    kind: Kind
    x: str
    y: str
    panels: Sequence[str] = ("",)
    groups: Sequence[str] = ()
    ticks: Sequence[str] = ()
    printed: Sequence[Mark] = ()
    printed_rows: PrintedRows | None = None
    legend: str = ""
    scale: Literal["even", "linear"] = "even"
    colours: Mapping[str, str] = field(default_factory=dict)
    spans: SpanSampler | None = None
    classes: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def over(self, points: Sequence[Point]) -> Scores:
        """Returns ``points`` as scores on which its claims can be evaluated."""
        panels = () if tuple(self.panels) == ("",) else self.panels
        replicates = "documents" if self.kind == "density" else "seeds"
        return Scores(points, panels, self.groups, self.ticks, replicates)


@dataclass(frozen=True, kw_only=True)
class Table(Exhibit):
    """A table: SentEval scores of the axis "row" above the paper's, unless it has another content.

    Attributes:
        printed_paper: the paper whose printed rows stand below.
        split: "test" or "dev".
        columns: SentEval's tasks shown; None: the paper's.
        evaluation: name of another evaluation than SentEval's, whose output for all models is the table.
        settings: of that evaluation; "{data}" becomes data=.
        sizes: row to an encoder (name, vocabulary, positions) whose parameters are counted.
        examples: text of the table from a run's config and its corpus.
        printed: a file of analysis/paper_tables whose rows are shown as printed.
        note: shown below printed rows.
    """

    printed_paper: str = ""
    split: Literal["test", "dev"] = "test"
    columns: Sequence[str] | None = None
    evaluation: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    sizes: Mapping[str, tuple[str, int, int] | str] = field(default_factory=dict)
    examples: Callable[[Mapping[str, Any], Any], str] | None = None
    printed: str = ""
    note: str = ""
