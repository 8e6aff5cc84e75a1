"""Renders a comparison of objectives and encoders as one HTML file that needs no network: see ``page.html``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from analysis.comparison import charts, scores, views
from analysis.comparison.charts import Curve
from analysis.comparison.formulas import typeset
from analysis.comparison.geometry import Geometry, Sample
from analysis.comparison.reading import Run, finished, leading
from analysis.comparison.views import ObjectiveView
from analysis.figures import style
from analysis.figures.training import smooth
from analysis.projection_map import COLOURS, NEIGHBOURS
from analysis.quick import SCORES
from analysis.reporting.intervals import LEAST
from analysis.reporting.printed import Key
from analysis.reporting.rendering import Grid, Row, heading

SMOOTHING, POINTS = 0.08, 150  # width of a curve's running mean as a share of the run; points drawn

_TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).resolve().parent),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_TEMPLATES.filters |= {"typeset": typeset, "example": views.shown}


@dataclass(frozen=True)
class Page:
    """Everything that the page shows.

    Attributes:
        objectives, encoders: names, in order.
        budget: its name.
        equal: a sentence on the amount that is equal for all runs.
        command: makes the page.
        runs: of all pairs and seeds, in order.
        before: runs that left each encoder as it is before training, for its scores on SentEval.
        views: examples of the objectives.
        sample: sentences of maps and neighbours; None if there are none.
        geometry: the sample in each vector space, by pair.
        problems: lines on what else could not be shown.
    """

    objectives: tuple[str, ...]
    encoders: tuple[str, ...]
    budget: str
    equal: str
    command: str
    runs: tuple[Run, ...]
    before: tuple[Run, ...] = ()
    views: tuple[ObjectiveView, ...] = ()
    sample: Sample | None = None
    geometry: Mapping[str, Geometry] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


def render(page: Page) -> str:
    """Returns the page as HTML."""
    done = finished(page.runs)
    return _TEMPLATES.get_template("page.html").render(
        page=page,
        title=" × ".join(
            f"{len(names)} {kind}{'s' * (len(names) > 1)}"
            for names, kind in ((page.objectives, "objective"), (page.encoders, "encoder"))
        ),
        facts={
            "budget": page.budget,
            "runs": f"{len(done)} of {len(page.runs)}",
            "seeds": ", ".join(map(str, sorted({run.seed for run in page.runs}))),
            "corpus": ", ".join(sorted({str(run.row.get("corpus")) for run in done})) or "–",
            "weights before training": ", ".join(sorted({str(run.row.get("weights")) for run in done})) or "–",
        },
        conclusion=scores.conclusion(page.runs),
        widths=_widths(page),
        colours={f"o{number}": style.colour(name) for number, name in enumerate(page.objectives)}
        | {f"label{number}": colour for number, colour in enumerate(COLOURS)},
        dashes=dict(zip(page.encoders, charts.DASHES * len(page.encoders), strict=False)),
        kinds=range(views.KINDS),
        meaning=views.MEANING,
        marks=views.legend(page.views),
        pairs=[(name, [_state(page, name, encoder) for encoder in page.encoders]) for name in page.objectives],
        curves=_curves(page),
        costs=_costs(page),
        scores=_scores(page),
        definitions={score.label: score for score in SCORES.values()},
        least=LEAST,
        cells=_cells(page),
        seeds=len({run.seed for run in page.runs}),
        label_colours=len(COLOURS),
        neighbours=NEIGHBOURS,
        settings=[(f"{run.name}, seed {run.seed}", _settings(run)) for run in done],
        environments=_environments(done),
    )


def _widths(page: Page) -> str:
    """Returns a sentence if the encoders' vectors differ in width; "" if they do not."""
    widths: dict[str, set[int]] = {}
    for run in leading(page.runs):
        if run.name in page.geometry:
            widths.setdefault(run.encoder, set()).add(page.geometry[run.name].dimension)
    if len(set().union(*widths.values())) < 2:
        return ""
    each = ", ".join(f"{name} {' or '.join(map(str, sorted(own)))}" for name, own in widths.items())
    return (
        f"The vectors differ in width ({each}): classifiers have more weights on wider ones, so that part of a "
        "difference between encoders may be due to width."
    )


def _state(page: Page, objective: str, encoder: str) -> tuple[str, bool]:
    """Returns whether a pair was trained, in words, and whether that is a problem."""
    found = [run for run in page.runs if (run.objective, run.encoder) == (objective, encoder)]
    if done := finished(found):
        seeds = ", ".join(str(run.seed) for run in done)
        return f"trained, seed{'s' * (len(done) > 1)} {seeds}", False
    return "failed" if any(run.possible for run in found) else "not possible", True


def _curves(page: Page) -> list[tuple[str, str, dict[str, Any]]]:
    """Returns objective, title and chart for each part of each objective's loss."""
    found = []
    for objective in page.objectives:
        runs = [run for run in finished(page.runs) if run.objective == objective]
        for part in dict.fromkeys(part for run in runs for part in run.loss_parts):
            if curves := [curve for run in runs for curve in _curves_of(run, part)]:
                title = f"{objective}: {part.replace('_', ' ')}" + " loss" * (part != "loss")
                found.append((objective, title, charts.panel(curves, _chance_level(runs, part))))
    return found


def _chance_level(runs: Sequence[Run], part: str) -> float | None:
    """Returns the chance level of a part of the loss; None if it is unknown or the runs differ in it."""
    levels = {(run.row.get("chance") or {}).get(f"dev_{part}") for run in runs}
    return levels.pop() if len(levels) == 1 else None


def _curves_of(run: Run, part: str) -> list[Curve]:
    name = f"{run.name}, seed {run.seed}"
    curves = []
    tokens, values = run.curve(part)
    if len(values):
        mean = smooth(values, max(1, round(SMOOTHING * len(values))))
        few = np.unique(np.linspace(0, len(mean) - 1, min(POINTS, len(mean))).astype(int))
        curves.append(Curve(name, tokens[few], mean[few], run.encoder, points=len(few) == 1))
    held_out = run.curve(f"dev_{part}")
    if len(held_out[0]):
        curves.append(Curve(f"{name}, held out", *held_out, run.encoder, points=True))
    return curves


def _costs(page: Page) -> list[tuple[str, list[Any]]]:
    """Returns what each pair cost, in means over seeds; of the seconds, their number and the longest."""
    groups: dict[str, list[Run]] = {}
    for run in finished(page.runs):
        groups.setdefault(run.name, []).append(run)
    longest = max((_last(run, "seconds") for run in finished(page.runs)), default=0.0)
    rows = []
    for name, runs in groups.items():
        seconds = fmean(_last(run, "seconds") for run in runs)
        tokens = fmean(run.row.get("tokens") or 0 for run in runs)
        cells: list[Any] = [
            f"{fmean(run.row.get('steps') or 0 for run in runs):,.0f}",
            f"{tokens:,.0f}",
            {"seconds": f"{seconds:.3g}", "longest": f"{longest:.3g}", "shown": f"{seconds:,.{seconds < 10:d}f}"},
            f"{tokens / seconds:,.0f}" if seconds else "–",
            f"{max(_last(run, 'memory_gib') for run in runs):.2f}",
            f"{max((line.get('lr', 0.0) for run in runs for line in run.metrics), default=0.0):.2g}",
            page.geometry[name].dimension if name in page.geometry else "–",
        ]
        rows.append((name, cells))
    return rows


def _last(run: Run, name: str) -> float:
    return float(next((line[name] for line in reversed(run.timings) if name in line), 0.0))


def _scores(page: Page) -> list[dict[str, Any]]:
    """Returns the tables of quick scores and SentEval, each with its leads."""
    counts = scores.questions(page.runs)
    found = []
    for grid in filter(None, (scores.quick_grid(page.runs), scores.senteval_grid(page.runs, page.before))):
        leads = scores.leads(grid, counts)
        wins, total = scores.clear_leads(leads)
        found.append(
            {
                "caption": grid.title,
                "columns": [heading(key) for key in grid.columns],
                "rows": [
                    (row.label, [_score(grid, row, key) for key in grid.columns])
                    for row in grid.ours + grid.printed
                ],
                "notes": grid.notes,
                "leads": [
                    (heading(one.key), [one.name, f"{one.score:.2f}", f"{one.lead:+.2f}", one.second, one.verdict])
                    for one in leads
                ],
                "wins": ", ".join(f"{name} {count}" for name, count in wins.most_common()) or "none",
                "total": total,
            }
        )
    return found


def _score(grid: Grid, row: Row, key: Key) -> tuple[str, bool]:
    """Returns a score as shown, and whether it is the best of a ranked column."""
    if key not in row.cells:
        return "–", False
    return row.cells[key].text, key not in scores.UNRANKED and grid.is_best(row, key)


def _cells(page: Page) -> list[dict[str, Any]]:
    """Returns a cell for each pair, objective by objective: its name, vector space and points on the map."""
    names = {(run.objective, run.encoder): run.name for run in leading(page.runs)}
    found = []
    for objective in page.objectives:
        for encoder in page.encoders:
            geometry = page.geometry.get(names.get((objective, encoder), ""))
            points = None
            if page.sample is not None and geometry is not None and geometry.places is not None:
                points = charts.scatter(geometry.places, page.sample.groups, len(COLOURS))
            found.append({"objective": objective, "encoder": encoder, "geometry": geometry, "points": points})
    return found


def _settings(run: Run) -> list[str]:
    """Returns the weights, facts and command of a run."""
    facts = {name: value for name, value in (run.row.get("facts") or {}).items() if not isinstance(value, dict)}
    shown = ", ".join(
        f"{name}: {style.short(value) if isinstance(value, float) else value}" for name, value in facts.items()
    )
    return [str(run.row.get("origin") or run.row.get("weights") or "–"), shown or "–", run.command]


def _environments(runs: Sequence[Run]) -> tuple[list[str], list[tuple[str, list[str]]]] | None:
    """Returns columns and rows of machine and versions, a column for each environment that differs."""
    different: dict[str, dict[str, str]] = {}
    for run in runs:
        names = ("commit", "python", "platform", "device", "precision", "processes", "threads", "packing")
        facts = {name: run.environment.get(name) for name in names} | (run.environment.get("packages") or {})
        shown = {name: str(value) for name, value in facts.items()}
        different.setdefault(json.dumps(shown), shown)
    found = list(different.values())
    if not found:
        return None
    columns = [f"environment {number}" for number in range(1, len(found) + 1)] if len(found) > 1 else ["all runs"]
    return ["", *columns], [(name, [facts.get(name, "–") for facts in found]) for name in found[0]]
