"""The page's other parts: which pairs were trained, curves, costs, scores, maps, neighbours, settings."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from statistics import fmean

import numpy as np

from analysis.comparison import charts, scores
from analysis.comparison.charts import Curve, short
from analysis.comparison.contents import Comparison
from analysis.comparison.geometry import Geometry
from analysis.comparison.markup import Html, element, joined, score_table, table, text
from analysis.comparison.reading import Run, finished, leading
from analysis.figures.training import smooth
from analysis.figures.verdicts import LEAST
from analysis.projection_map import COLOURS, NEIGHBOURS

SMOOTHING, POINTS = 0.08, 150  # of a curve: its running mean's share of the run, and the points that are drawn


def pairs(page: Comparison) -> Html:
    """Which pairs were trained, and of the others why not."""

    def state(objective: str, encoder: str) -> Html:
        found = [run for run in page.runs if (run.objective, run.encoder) == (objective, encoder)]
        done = finished(found)
        if done:
            seeds = ", ".join(str(run.seed) for run in done)
            return text(f"trained, seed{'s' * (len(done) > 1)} {seeds}")
        return element("em", text("failed" if any(run.possible for run in found) else "not possible"))

    rows = [(name, [state(name, encoder) for encoder in page.encoders]) for name in page.objectives]
    parts = [table("Pairs of objective and encoder", ["objective", *page.encoders], rows)]
    problems = [
        element("li", element("b", text(f"{run.name}, seed {run.seed}")), text(f": {problem}"))
        for run in page.runs
        if (problem := run.problem or (run.unjudged and f"not judged ({run.unjudged})"))
    ] + [element("li", text(problem)) for problem in page.problems]
    if problems:
        parts += [element("h3", text("What is not here, and why")), element("ul", *problems, class_="problems")]
    return joined(parts)


def curves(page: Comparison) -> Html:
    """A panel for each part of each objective's loss, a line for each encoder and seed, dots on held-out text."""
    legend = [
        element("li", charts.key("plain", _dash(page, encoder)), text(f" {encoder}"), data_encoder=encoder)
        for encoder in page.encoders
    ]
    legend.append(element("li", text("● held-out text")))
    parts = []
    for objective in page.objectives:
        runs = [run for run in finished(page.runs) if run.objective == objective]
        for name in dict.fromkeys(name for run in runs for name in run.loss_parts):
            if drawn := [curve for run in runs for curve in _curves(page, run, name)]:
                title = f"{objective}: {name.replace('_', ' ')}" + " loss" * (name != "loss")
                picture = charts.panel(f"{title} over tokens read", drawn, x="tokens")
                caption = element("figcaption", text(title), class_=f"o-{objective}")
                parts.append(element("figure", caption, picture, data_objective=objective))
    if not parts:
        return element("p", text("There is no curve: no run is finished."))
    return joined([element("ul", *legend, class_="legend"), element("div", *parts, class_="panels")])


def _curves(page: Comparison, run: Run, name: str) -> list[Curve]:
    about, colour = f"{run.name}, seed {run.seed}", f"o-{run.objective}"
    found = []
    tokens, values = run.curve(name)
    if len(values):
        mean = smooth(values, max(1, round(SMOOTHING * len(values))))
        few = np.unique(np.linspace(0, len(mean) - 1, min(POINTS, len(mean))).astype(int))
        found.append(Curve(about, tokens[few], mean[few], colour, _dash(page, run.encoder), encoder=run.encoder))
    held_out = run.curve(f"dev_{name}")
    if len(held_out[0]):
        found.append(Curve(f"{about}, held out", *held_out, colour, points=True, encoder=run.encoder))
    return found


def _dash(page: Comparison, encoder: str) -> str | None:
    return charts.DASHES[page.encoders.index(encoder) % len(charts.DASHES)]


def costs(page: Comparison) -> Html:
    """A row a pair: means over seeds of what training took."""
    groups: dict[str, list[Run]] = {}
    for run in finished(page.runs):
        groups.setdefault(run.name, []).append(run)
    longest = max((_last(run, "seconds") for run in finished(page.runs)), default=0.0)
    rows = []
    for name, runs in groups.items():
        seconds = fmean(_last(run, "seconds") for run in runs)
        shown = text(f"{seconds:,.0f}" if seconds >= 10 else f"{seconds:.1f}")
        bar = element("meter", text(f"{seconds:.0f} s"), min=0, max=f"{longest:.3g}", value=f"{seconds:.3g}")
        tokens = fmean(run.row.get("tokens") or 0 for run in runs)
        width = page.geometry[name].dimension if name in page.geometry else None
        cells = [
            text(f"{fmean(run.row.get('steps') or 0 for run in runs):,.0f}"),
            text(f"{tokens:,.0f}"),
            joined([shown, text(" "), bar]),
            text(f"{tokens / seconds:,.0f}" if seconds else "–"),
            text(f"{max(_last(run, 'memory_gib') for run in runs):.2f}"),
            text(width or "–"),
        ]
        rows.append((name, cells))
    columns = [
        "pair",
        "steps",
        "tokens",
        "seconds of training",
        "tokens/s",
        "peak memory, GiB",
        "width of a vector",
    ]
    caption = "Cost of a run" + (", mean over seeds" if any(len(runs) > 1 for runs in groups.values()) else "")
    return table(caption, columns, rows, class_="costs")


def _last(run: Run, name: str) -> float:
    return float(next((line[name] for line in reversed(run.timings) if name in line), 0.0))


def judgement(page: Comparison) -> Html:
    """Quick scores and SentEval, and below each who is best at what."""
    parts: list[Html] = []
    counts = scores.questions(page.runs)
    for grid in (scores.quick_grid(page.runs), scores.senteval_grid(page.runs)):
        if grid is None:
            continue
        parts.append(score_table(grid, scores.UNRANKED))
        if best := scores.winners(grid, counts):
            rows = [
                (one.task, [text(one.name), text(f"{one.score:.2f}"), text(f"{one.lead:+.2f}"), text(one.second),
                            text(one.verdict)])
                for one in best
            ]  # fmt: skip
            columns = ["task", "best", "score", "lead, points", "runner-up", "verdict"]
            parts.append(table(f"Best per task: {grid.title.partition(',')[0]}", columns, rows, class_="winners"))
            averages = {name for task, name in grid.columns if not task} - {*scores.QUICK.values()}
            single = [one for one in best if one.task not in averages]
            wins = Counter(one.name for one in single if one.verdict == scores.CLEAR)
            told = ", ".join(f"{name} {count}" for name, count in wins.most_common()) or "none"
            note = (
                f"Clear leads: {told}, of {len(single)} scores. A lead is clear beyond its 95 % interval: Welch's "
                f"over seeds from {LEAST} of them on, else that of as many questions as were asked, which knows "
                "nothing of seeds. Where many pairs and tasks are compared, some leads are clear by chance."
            )
            parts.append(element("p", text(note), class_="note"))
    return joined(parts) if parts else element("p", text("There is no score: no run was judged."))


def maps(page: Comparison) -> Html:
    """A map a pair of the same sentences; what the pointer is at is read below, and shown in all of them."""
    shown = page.sample
    if shown is None or not page.geometry:
        return element("p", text("There is no map: no encoder is finished."))
    legend = []
    for number, label in enumerate(shown.labels):
        form = " square" * (number // len(COLOURS) % 2)
        dot = element("i", class_=f"dot label{number % len(COLOURS)}{form}")
        legend.append(element("li", dot, text(f" {label}")))
    figures: list[Html | None] = []
    for run, found in _by_pair(page):
        if run is None or found is None or found.places is None or found.scores is None:
            figures.append(None)
            continue
        title = f"{run.name}: {len(shown.sentences)} sentences"
        told = (
            f"same label nearby: {found.scores.vectors:.0f} % in the vectors, {found.scores.map:.0f} % in the map"
        )
        caption = element("figcaption", element("b", text(run.name)), element("small", text(told)))
        figures.append(joined([charts.scatter(title, found.places, shown.groups, len(COLOURS)), caption]))
    data = json.dumps(
        {"sentences": shown.sentences, "groups": shown.groups, "labels": shown.labels}, ensure_ascii=False
    )
    guess = next((found.scores.guess for found in page.geometry.values() if found.scores), 0.0)
    note = (
        f"t-SNE of the same {len(shown.sentences)} held-out sentences; colour and shape say which have something "
        "in common. Near each other means alike to the encoder; sizes of clusters and distances between them mean "
        f"nothing. Same label nearby: how often most of the {NEIGHBOURS} nearest have a sentence's label; "
        f"guessing gives {guess:.0f} %.{_seed(page)}"
    )
    return joined(
        [
            element("p", text(note), class_="note"),
            element("ol", *legend, class_="legend"),
            _grid(page, "figure", "maps", figures),
            element("output", text("Point at a dot to read its sentence in all maps."), id="readout"),
            element("script", Html(data.replace("<", "\\u003c")), type="application/json", id="sentences"),
        ]
    )


def neighbours(page: Comparison) -> Html:
    """The nearest sentences to each query, a card a pair."""
    if page.sample is None or not page.geometry:
        return element("p", text("There are no neighbours: no encoder is finished."))
    note = f"The nearest of {len(page.sample.searched):,} held-out sentences, by cosine.{_seed(page)}"
    parts = [element("p", text(note), class_="note")]
    for number, query in enumerate(page.sample.queries):
        cards: list[Html | None] = []
        for run, found in _by_pair(page):
            if run is None or found is None:
                cards.append(None)
                continue
            near = [
                element("li", element("small", text(f"{one.cosine:.2f}")), text(f" {one.text}"))
                for one in found.nearest[number]
            ]
            cards.append(
                joined([element("h4", text(run.name), class_=f"o-{run.objective}"), element("ol", *near)])
            )
        parts += [element("h3", element("q", text(query))), _grid(page, "div", "cards", cards)]
    return joined(parts)


def _by_pair(page: Comparison) -> list[tuple[Run | None, Geometry | None]]:
    """The leading run of each pair and what its encoder makes of the sentences, an objective after another."""
    there = {(run.objective, run.encoder): run for run in leading(page.runs)}
    runs = [there.get((objective, encoder)) for objective in page.objectives for encoder in page.encoders]
    return [(run, page.geometry.get(run.name) if run else None) for run in runs]


def _grid(page: Comparison, name: str, kind: str, parts: Sequence[Html | None]) -> Html:
    """``parts`` of all pairs, a row an objective and a column an encoder; a pair without one says so."""
    pairs = [(objective, encoder) for objective in page.objectives for encoder in page.encoders]
    cells = []
    for (objective, encoder), part in zip(pairs, parts, strict=True):
        none = element("p", text(f"{objective} · {encoder}: nothing to show"), class_="note")
        named = {"data_objective": objective, "data_encoder": encoder}
        cells.append(element(name, part or none, class_="cell" if part else "cell none", **named))
    return element("div", *cells, class_=kind, style=f"--columns:{len(page.encoders)}")


def _seed(page: Comparison) -> str:
    return " Of several seeds, those of the lowest." if len({run.seed for run in page.runs}) > 1 else ""


def settings(page: Comparison) -> Html:
    """The commands, weights and versions behind the numbers."""
    rows = []
    for run in finished(page.runs):
        facts = {
            name: value for name, value in (run.row.get("facts") or {}).items() if not isinstance(value, dict)
        }
        told = ", ".join(
            f"{name}: {short(value) if isinstance(value, float) else value}" for name, value in facts.items()
        )
        cells = [
            text(run.row.get("origin") or run.row.get("weights") or "–"),
            text(told or "–"),
            element("code", text(run.command)),
        ]
        rows.append((f"{run.name}, seed {run.seed}", cells))
    parts = [
        element("p", text("This page: "), element("code", text(page.command))),
        element("p", text(page.equal)),
        table("Runs", ["run", "weights it began with", "facts", "command"], rows, class_="settings"),
    ]
    if machines := _machines(finished(page.runs)):
        parts.append(table("Machine and versions", ["", *machines[0]], machines[1]))
    return joined(parts)


def _machines(runs: Sequence[Run]) -> tuple[list[str], list[tuple[str, list[Html]]]] | None:
    """A column for each different environment: its name, and rows of what it is made of."""
    different: dict[str, dict[str, str]] = {}
    for run in runs:
        packages = run.environment.get("packages") or {}
        names = ("commit", "python", "platform", "device", "precision", "processes", "threads", "packing")
        facts = {name: str(run.environment.get(name)) for name in names} | {
            name: str(v) for name, v in packages.items()
        }
        different.setdefault(json.dumps(facts), facts)
    found = list(different.values())
    if not found:
        return None
    columns = ["all runs"] if len(found) == 1 else [f"environment {number + 1}" for number in range(len(found))]
    return columns, [(name, [text(facts.get(name, "–")) for facts in found]) for name in found[0]]
