"""Plans and verdicts of all figures and tables stay as ``fixtures/figures.json`` has them.

It has rows of one seed at teaching size in full, and a digest of all rows of both sizes. Run names are left out,
as their digits may change; which rows share a run is kept.
"""

from __future__ import annotations

import csv
import hashlib
import json
import math
import random
from pathlib import Path
from typing import Any

import pytest

from analysis.figures import catalogue
from analysis.figures.exhibits import Exhibit, Figure
from analysis.figures.scores import Point
from analysis.figures.verdicts import ERROR, Verdict, decide
from experiments.reproduction.planning import plan
from experiments.reproduction.settings import Reproduction

GOLDEN: dict[str, Any] = json.loads((Path(__file__).parents[1] / "fixtures" / "figures.json").read_text())
FIGURES = Path(__file__).parents[2] / "docs" / "figures"
# Seeds, standard deviation, difference between neighbours, and probability that a place has no scores.
MADE_UP = {"clear": (3, 0.2, 1.0, 0.0), "contrary": (3, 0.2, -1.0, 0.0), "noisy": (5, 0.5, 0.3, 0.2)}


def composed(overrides: list[str]) -> dict[str, Any]:
    """Stands in for composing: equal overrides are the same run, pooled by the mean."""
    pooling = None if "encoder=bag_of_words" in overrides else "mean"
    names = dict.fromkeys(("objective", "encoder", "corpus"), "x")
    return {"overrides": sorted(overrides), "names": names, "encoder": {"pooling": pooling}}


def rows(exhibit: Exhibit, size: Any, seeds: tuple[int, ...] | None = None) -> list[list[Any]]:
    """Labels, overrides, pooling, number of the run and of those that it joins, of each row and seed."""
    (Path("v.txt")).write_text("a 1\n")
    (Path("n.tsv")).write_text("not empty\n")
    asked = Reproduction(figure=exhibit.id, budget=size, seeds=seeds, vectors="v.txt", nli={"path": "n.tsv"})
    number: dict[str, int] = {}
    return [
        [
            "; ".join(f"{axis}={label}" for axis, label in run.labels.items()),
            " ".join(run.overrides),
            run.pooling,
            number.setdefault(run.name, len(number)),
            [number[name] for name in run.members],
        ]
        for run in plan(exhibit, asked, [], composed)
    ]


def made_up(exhibit: Exhibit, kind: str) -> list[Point]:
    """Scores for all places of a figure or rows of a table, the same everywhere."""
    seeds, deviation, step, missing = MADE_UP[kind]
    scores, rng = exhibit.over([]), random.Random(f"{exhibit.id} {kind}")
    points = []
    for panel in scores.panels or [""]:
        for number, group in enumerate(scores.groups):
            level = group == "Ensemble" or (exhibit.id == "declutr_v1/s1a" and group == "none")
            for place, x in enumerate([""] if level else scores.ticks or [""]):
                if rng.random() < missing:
                    continue
                mean = 50 + step * (place + 0.7 * number)
                points += [
                    Point(panel, group, x, seed, mean + 0.3 * seed + rng.gauss(0, deviation))
                    for seed in range(1, seeds + 1)
                ]
    return points


def summary(verdict: Verdict) -> list[Any]:
    """The outcome, and of each finding its value, 95 % interval and the one that refutes."""
    numbers = [
        [round(number, 4) if math.isfinite(number) else str(number) for number in values]
        for values in (
            (one.value, one.low, one.high, *one.interval(ERROR / one.tests), one.n) for one in verdict.findings
        )
    ]
    return [verdict.claim.id, verdict.outcome, *numbers]


@pytest.mark.usefixtures("in_a_small_folder")
@pytest.mark.parametrize("name", catalogue.names())
def test_plans(name: str) -> None:
    exhibit = catalogue.EXHIBITS[name]
    if not exhibit.grids:
        assert name not in GOLDEN["plans"]
        return
    golden = GOLDEN["plans"][name]
    assert golden["seed 1"] == rows(exhibit, "teaching", (1,))
    for size in exhibit.grids:
        assert golden[size] == digest(rows(exhibit, size))


def digest(found: list[list[Any]]) -> list[Any]:
    return [len(found), hashlib.sha256(json.dumps(found).encode()).hexdigest()]


@pytest.mark.parametrize("name", [name for name in catalogue.names() if catalogue.EXHIBITS[name].claims])
def test_verdicts(name: str) -> None:
    exhibit = catalogue.EXHIBITS[name]
    for kind in MADE_UP:
        found = [summary(verdict) for verdict in decide(exhibit.claims, exhibit.over(made_up(exhibit, kind)))]
        assert json.loads(json.dumps(found)) == GOLDEN["verdicts"][name][kind]


@pytest.mark.parametrize("path", sorted(FIGURES.glob("*-*.csv")), ids=lambda path: path.stem)
def test_verdicts_on_the_scores_of_the_docs(path: Path) -> None:
    exhibit = catalogue.EXHIBITS[path.stem.replace("-", "/", 1)]
    with path.open(encoding="utf-8", newline="") as file:
        ours = [row for row in csv.DictReader(file) if row.pop("source") == "ours"]
    points = [
        Point(**row | {"seed": int(row["seed"]), "score": float(row["score"])})  # type: ignore[arg-type]
        for row in ours
    ]
    found = [summary(verdict) for verdict in decide(exhibit.claims, exhibit.over(points))]
    assert json.loads(json.dumps(found)) == GOLDEN["docs"][exhibit.id]


def test_every_figure_is_there() -> None:
    assert {*GOLDEN["plans"]} | {*GOLDEN["verdicts"]} <= {*catalogue.names()}
    assert len(GOLDEN["docs"]) == 7
    assert len(catalogue.names()) == 39
    assert sum(isinstance(exhibit, Figure) for exhibit in catalogue.EXHIBITS.values()) == 15
