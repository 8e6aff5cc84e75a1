"""Plans and verdicts of all figures and tables equal those recorded in ``fixtures/figures.json``.

The file has the rows of one seed at teaching size, and a digest of all rows at each size. It leaves out run names,
whose digits may change, but records which rows share a run. After an intended change,
``python -m tests.experiments.test_reproduce_golden`` rewrites it: read the difference before you commit.
"""

from __future__ import annotations

import csv
import hashlib
import json
import math
import os
import random
import tempfile
from pathlib import Path
from typing import Any

import pytest

from analysis.figures import catalogue
from analysis.figures.exhibits import Exhibit
from analysis.figures.scores import Point
from analysis.figures.verdicts import Verdict, decide
from analysis.reporting.intervals import ERROR
from analysis.senteval.tasks import TASKS
from experiments.reproduction.planning import plan
from experiments.reproduction.settings import Reproduction

FILE = Path(__file__).resolve().parents[1] / "fixtures" / "figures.json"
GOLDEN: dict[str, Any] = json.loads(FILE.read_text())
FIGURES = Path(__file__).resolve().parents[2] / "docs" / "figures"
# Seeds, standard deviation, difference between neighbours, and probability that a place has no scores.
MADE_UP = {"clear": (3, 0.2, 1.0, 0.0), "contrary": (3, 0.2, -1.0, 0.0), "noisy": (5, 0.5, 0.3, 0.2)}


def composed(overrides: list[str]) -> dict[str, Any]:
    """Stands in for composing: equal overrides are the same run. Only the bag of words has no pooling."""
    pooling = None if "encoder=bag_of_words" in overrides else "mean"
    return {
        "overrides": sorted(overrides),
        "names": dict.fromkeys(("objective", "encoder", "corpus"), "x"),
        "objective": {"_target_": "objectives.declutr.Declutr"},
        "encoder": {"pooling": pooling},
    }


def rows(exhibit: Exhibit, size: Any, seeds: tuple[int, ...] | None = None) -> list[list[Any]]:
    """Returns for each row and seed the run's labels, overrides, pooling and number, and those of joined runs."""
    (Path("v.txt")).write_text("a 1\n")
    (Path("n.tsv")).write_text("not empty\n")
    request = Reproduction(figure=exhibit.id, budget=size, seeds=seeds, vectors="v.txt", nli={"path": "n.tsv"})
    numbers: dict[str, int] = {}
    return [
        [
            "; ".join(f"{axis}={label}" for axis, label in run.labels.items()),
            " ".join(run.overrides),
            run.pooling,
            numbers.setdefault(run.name, len(numbers)),
            [numbers[name] for name in run.members],
        ]
        for run in plan(exhibit, request, [], composed)
    ]


def made_up_scores(exhibit: Exhibit, kind: str) -> list[Point]:
    """Returns scores for all points of a figure or rows of a table, the same on every machine."""
    seeds, deviation, step, missing = MADE_UP[kind]
    scores, rng = exhibit.over([]), random.Random(f"{exhibit.id} {kind}")
    points = []
    for panel in scores.panels or [""]:
        for number, group in enumerate(scores.groups):
            without_ticks = group == "Ensemble" or (exhibit.id == "declutr_v1/s1a" and group == "none")
            for place, x in enumerate([""] if without_ticks else scores.ticks or [""]):
                if rng.random() < missing:
                    continue
                mean = 50 + step * (place + 0.7 * number)
                points += [
                    Point(panel, group, x, seed, mean + 0.3 * seed + rng.gauss(0, deviation))
                    for seed in range(1, seeds + 1)
                ]
    return points


def summary(verdict: Verdict) -> list[Any]:
    """Returns claim and outcome, and of each finding value, 95 % interval, corrected interval and sample size."""
    numbers = [
        [round(number, 4) if math.isfinite(number) else str(number) for number in values]
        for values in (
            (finding.value, finding.low, finding.high, *finding.interval(ERROR / finding.tests), finding.n)
            for finding in verdict.findings
        )
    ]
    return [verdict.claim.id, verdict.outcome, *numbers]


def pretty(value: Any) -> str:
    """Returns JSON in lines short enough to read a difference."""
    line = json.dumps(value)
    if len(line) <= 400 or not isinstance(value, dict | list):
        return line
    if isinstance(value, list):
        return "[\n" + ",\n".join(map(pretty, value)) + "\n]"
    return "{\n" + ",\n".join(f"{json.dumps(key)}: {pretty(inner)}" for key, inner in value.items()) + "\n}"


def plans(name: str) -> dict[str, Any]:
    """Returns the rows of one seed at teaching size, and number and digest of all rows at each size."""
    exhibit = catalogue.EXHIBITS[name]
    sizes = {size: digest(rows(exhibit, size)) for size in exhibit.grids}
    return {"seed 1": rows(exhibit, "teaching", (1,))} | sizes


def digest(found: list[list[Any]]) -> list[Any]:
    return [len(found), hashlib.sha256(json.dumps(found).encode()).hexdigest()]


def verdicts(name: str) -> dict[str, list[Any]]:
    """Returns the verdicts on made-up scores by their kind."""
    exhibit = catalogue.EXHIBITS[name]
    return {
        kind: [summary(verdict) for verdict in decide(exhibit.claims, exhibit.over(made_up_scores(exhibit, kind)))]
        for kind in MADE_UP
    }


def verdicts_of_docs(path: Path) -> list[Any]:
    """Returns the verdicts on the scores in a CSV file of the docs."""
    exhibit = catalogue.EXHIBITS[path.stem.replace("-", "/", 1)]
    with path.open(encoding="utf-8", newline="") as file:
        ours = [row for row in csv.DictReader(file) if row.pop("source") == "ours"]
    points = [
        Point(**row | {"seed": int(row["seed"]), "score": float(row["score"])})  # type: ignore[arg-type]
        for row in ours
    ]
    return [summary(verdict) for verdict in decide(exhibit.claims, exhibit.over(points))]


PLANNED = [name for name in catalogue.names() if catalogue.EXHIBITS[name].grids]
CLAIMING = [name for name in catalogue.names() if catalogue.EXHIBITS[name].claims]
DRAWN = {path.stem.replace("-", "/", 1): path for path in sorted(FIGURES.glob("*-*.csv"))}


@pytest.mark.usefixtures("in_a_small_folder")
@pytest.mark.parametrize("name", PLANNED)
def test_plans_equal_the_recorded_ones(name: str) -> None:
    assert plans(name) == GOLDEN["plans"].get(name)


@pytest.mark.parametrize("name", CLAIMING)
def test_verdicts_equal_the_recorded_ones(name: str) -> None:
    assert json.loads(json.dumps(verdicts(name))) == GOLDEN["verdicts"].get(name)


@pytest.mark.parametrize("name", DRAWN)
def test_verdicts_on_the_scores_of_the_docs_equal_the_recorded_ones(name: str) -> None:
    assert json.loads(json.dumps(verdicts_of_docs(DRAWN[name]))) == GOLDEN["docs"].get(name)


def test_a_mean_over_all_tasks_is_of_both_kinds_at_teaching_size_too() -> None:
    exhibits = [one for one in catalogue.EXHIBITS.values() if "conssent_all" in one.scores.values()]
    assert {one.name for one in exhibits} == {"conssent-fig3", "conssent-table3"}
    for one in exhibits:
        assert {TASKS[name].group for name in one.tasks or ()} == {"downstream", "probing"}


def test_every_figure_is_recorded() -> None:
    assert {*GOLDEN["plans"]} == {*PLANNED} and {*GOLDEN["verdicts"]} == {*CLAIMING}
    assert {*GOLDEN["docs"]} == {*DRAWN} and len(DRAWN) >= 7
    assert len(catalogue.names()) >= 39


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        golden = {
            "plans": {name: plans(name) for name in PLANNED},
            "verdicts": {name: verdicts(name) for name in CLAIMING},
            "docs": {name: verdicts_of_docs(path) for name, path in DRAWN.items()},
        }
    FILE.write_text(pretty(golden) + "\n")
