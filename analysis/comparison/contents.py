"""What a comparison's page is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from analysis.comparison.geometry import Geometry, Sample
from analysis.comparison.marking import View
from analysis.comparison.reading import Run


@dataclass(frozen=True)
class TaskView:
    """What one task of an objective drew; ``unit``: from what ("document of corpus pydocs")."""

    name: str
    unit: str
    views: tuple[View, ...]


@dataclass(frozen=True)
class ObjectiveView:
    """What an objective does to text.

    Attributes:
        objective: its name.
        headline, equation: what its module says of itself.
        encoder: whose tokens are shown.
        tasks: what they drew.
        problem: why there is nothing to show; "" where there is.
    """

    objective: str
    headline: str = ""
    equation: str = ""
    encoder: str = ""
    tasks: tuple[TaskView, ...] = ()
    problem: str = ""


@dataclass(frozen=True)
class Comparison:
    """All that the page shows.

    Attributes:
        objectives, encoders: names, in order.
        budget: its name.
        equal: what all runs have the same amount of, in a sentence.
        command: that makes the page.
        runs: of all pairs and seeds, in order.
        views: of the objectives.
        sample: sentences of maps and neighbours; None where there are none.
        geometry: of the sample, by the name of the pair.
        problems: what else could not be shown, and why.
    """

    objectives: tuple[str, ...]
    encoders: tuple[str, ...]
    budget: str
    equal: str
    command: str
    runs: tuple[Run, ...]
    views: tuple[ObjectiveView, ...] = ()
    sample: Sample | None = None
    geometry: Mapping[str, Geometry] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
