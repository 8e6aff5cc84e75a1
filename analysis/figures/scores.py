"""Scores of trained encoders, by panel, group and place on the x axis, and selections of them for claims."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

AXES = ("panel", "group", "x")  # what a selection chooses by


class Point(NamedTuple):
    """One score of one trained encoder, in percent (in a density figure: one length in tokens).

    ``x`` is the place on the x axis as text ("2", "128", "none"); "" is a level that belongs to no place, such as
    a method without the quantity of the axis. ``setting`` names the other axes of the grid ("P=2, tau=0.05"):
    scores of equal setting and seed are paired. ``run`` is the name of the run folder.
    """

    panel: str
    group: str
    x: str
    seed: int
    score: float
    setting: str = ""
    run: str = ""


class Mark(NamedTuple):
    """A value that the paper prints, in percent."""

    panel: str
    group: str
    x: str
    score: float


class NoScoresError(Exception):
    """A selection is empty."""


@dataclass(frozen=True)
class Scores:
    """The scores of a figure or table, on which its claims are evaluated.

    ``scores(group="MLM only", x=["10", "40"])`` selects; an axis that is not named is not restricted.

    Attributes:
        points: the scores.
        panels, groups, ticks: known names of each axis, in order; empty: any.
        replicates: what ``Point.seed`` counts.
    """

    points: Sequence[Point]
    panels: Sequence[str] = ()
    groups: Sequence[str] = ()
    ticks: Sequence[str] = ()
    replicates: str = "seeds"

    def order(self, axis: str) -> Sequence[str]:
        """Returns the known names of ``axis``."""
        return {"panel": self.panels, "group": self.groups, "x": self.ticks}[axis]

    def __call__(self, **chosen: str | Sequence[str]) -> Selection:
        """Selects scores by ``panel``, ``group`` and ``x``.

        Raises:
            ValueError: if a name is not one of the axis.
        """
        found = {axis: (names,) if isinstance(names, str) else tuple(names) for axis, names in chosen.items()}
        for axis, names in found.items():
            known = self.order(axis)
            if unknown := [name for name in names if known and name and name not in known]:
                raise ValueError(f"There is no {axis} {unknown[0]!r}; there are {', '.join(known)}.")
        return Selection(self, tuple(found.items()))


@dataclass(frozen=True)
class Selection:
    """Some of the ``scores``: ``chosen`` are the axes that are restricted, each with the names it may have."""

    scores: Scores
    chosen: tuple[tuple[str, tuple[str, ...]], ...]

    def get(self, axis: str) -> tuple[str, ...] | None:
        """Returns the names chosen of ``axis``, None where it is not restricted."""
        return dict(self.chosen).get(axis)

    def at(self, **axes: str) -> Selection:
        """Returns this selection with the given axes restricted to one name each."""
        return Selection(
            self.scores, tuple((dict(self.chosen) | {a: (name,) for a, name in axes.items()}).items())
        )

    @property
    def points(self) -> list[Point]:
        """The selected scores.

        Raises:
            NoScoresError: if there are none.
        """
        found = [p for p in self.scores.points if all(getattr(p, axis) in names for axis, names in self.chosen)]
        if not found:
            raise NoScoresError(str(self))
        return found

    def names(self, axis: str) -> list[str]:
        """Returns the names of ``axis`` among the selected scores, in the figure's order."""
        return in_order(self.scores.order(axis), (getattr(point, axis) for point in self.points))

    @property
    def is_level(self) -> bool:
        """True if the scores belong to no place on the x axis, and so are compared with each of them."""
        return all(not point.x for point in self.points)

    @property
    def missing(self) -> list[tuple[str, str]]:
        """Chosen names without any score, each with its axis."""
        there = {(axis, getattr(point, axis)) for point in self.scores.points for axis in AXES}
        return [(axis, name) for axis, names in self.chosen for name in names if (axis, name) not in there]

    def __str__(self) -> str:
        """Names the selection: "ConsSent-R at 2", "DeCLUTR-small, DeCLUTR-base", "everything"."""
        panel, group, x = (", ".join(filter(None, self.get(axis) or ())) for axis in AXES)
        subject = f"{group} at {x}" if group and x else group or x
        return ": ".join(filter(None, (panel, subject))) or "everything"

    def only(self, axes: Iterable[str]) -> Selection:
        """Returns the selection by these axes only."""
        kept = set(axes)
        return Selection(self.scores, tuple(item for item in self.chosen if item[0] in kept))


def in_order(known: Sequence[str], found: Iterable[str]) -> list[str]:
    """Returns those of ``known`` that are ``found``, in their order, then the others as they come."""
    there = dict.fromkeys(found)
    return [name for name in known if name in there] + [name for name in there if name not in known]
