"""Picture of one run: its losses, its speed, and the encoder's scores before and after."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from textwrap import shorten
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.ticker import FuncFormatter, MaxNLocator, MultipleLocator

from analysis import runs
from analysis.figures import style
from analysis.quick import PERCENTAGES, Score, Scores, chance
from data.errors import UserError

NOT_A_LOSS = ("step", "loss", "lr", "gradient_norm", "tokens")  # keys of a training line beside the loss parts
SMOOTHING = 0.04  # width of the running mean, as a share of the run
GEOMETRY = ("alignment", "uniformity")
SMALL = {
    "lr": "learning rate",
    "gradient_norm": "gradient norm",
    "tokens_per_second": "tokens / s",
    "stsb_dev_cosine": "STS-B dev, ρ of cosine",
}
PARTS_A_ROW = 3
MOST_PARTS = 6  # with more, accuracies have no panels
HEAD, LOSS_ROW, SMALL_ROW = 0.5, 2.25, 1.3  # heights in inches
LINE = 96  # characters below the title

Points = tuple[np.ndarray, np.ndarray]


def draw(run_folder: Path) -> list[Path]:
    """Draws ``run_folder`` into its ``figures``: training.pdf, training.png, training.csv.

    Every part of the loss has a panel (single steps faint, their running mean strong, held-out text as points); if
    there are many parts, accuracies have none. Below are learning rate, gradient norm and speed, and beside them
    quick scores and geometry before and after. Panels without data are left out.

    Raises:
        UserError: if the run has no step with a finite loss, or its files cannot be read.
    """
    run_folder = Path(run_folder)
    try:
        lines = runs.read_lines(run_folder / "metrics.jsonl")
        timings = runs.read_lines(run_folder / "timings.jsonl")
    except runs.UNREADABLE as error:
        raise UserError(f"The run {run_folder} cannot be drawn: {error}.") from error
    if not any(math.isfinite(line.get("loss", math.nan)) for line in lines):
        raise UserError(f"There is nothing to draw in {run_folder}: metrics.jsonl has no step with a finite loss.")
    with style.look():
        return style.save(_picture(runs.read(run_folder), lines, timings), run_folder / "figures", "training")


def smooth(values: np.ndarray, width: int) -> np.ndarray:
    """Returns the running mean of ``values`` (n,) over ``width`` steps around each, cut off at both ends."""
    centre, reach = np.arange(len(values)), width // 2
    low, high = np.maximum(centre - reach, 0), np.minimum(centre + reach + 1, len(values))
    sums = np.concatenate([[0.0], np.cumsum(values)])
    return (sums[high] - sums[low]) / (high - low)


def _picture(run: dict[str, Any], lines: list[dict[str, Any]], timings: list[dict[str, Any]]) -> Figure:
    """Draws a head, loss parts beside quick scores, and small panels beside the geometry of the vectors."""
    training = [line for line in lines if "loss" in line]
    names = dict.fromkeys(name for line in training for name in line if name not in NOT_A_LOSS)
    accuracies = {f"{name}_accuracy" for name in names}
    if len(names) > MOST_PARTS:
        names = dict.fromkeys(name for name in names if name not in accuracies)
    parts = _present({name: training for name in names}) or _present({"loss": training})
    small = _present(
        {"lr": training, "gradient_norm": training, "tokens_per_second": timings, "stsb_dev_cosine": lines}
    )
    start, trained = run.get("start") or {}, run.get("trained") or {}
    scores = [score for score in PERCENTAGES if trained.get(score.key) is not None]
    geometry = all(values.get(name) is not None for values in (start, trained) for name in GEOMETRY)
    colour = style.colour(run.get("objective"))

    rows = -(-len(parts) // PARTS_A_ROW)
    heights = [HEAD, LOSS_ROW * rows] + [SMALL_ROW] * bool(small)
    figure = Figure(figsize=(style.WIDTH, sum(heights)))
    head, *bands = figure.subfigures(len(heights), 1, squeeze=False, height_ratios=heights)[:, 0]
    _head(head, run, training[-1], timings)
    # Without scores the left half takes the whole width.
    halves = [tuple(band.subfigures(1, 2, width_ratios=(2.2, 1))) if scores else (band, band) for band in bands]

    across = min(len(parts), PARTS_A_ROW)
    panels = list(halves[0][0].subplots(rows, across, squeeze=False).flat)
    for axes, (part, points) in zip(panels, parts.items(), strict=False):
        _, right = _points(lines, f"dev_{part}_accuracy")
        accuracy = f", {100 * right[-1]:.0f} %" if len(right) and f"{part}_accuracy" not in names else ""
        _loss(axes, part, points, _points(lines, f"dev_{part}"), colour, accuracy)
    for axes in panels[len(parts) :]:
        axes.set_visible(False)
    panels[0].legend(loc="best", handlelength=1.4, borderaxespad=0.1)
    if small:
        panels += (below := list(halves[1][0].subplots(1, len(small), squeeze=False).flat))
        for axes, (name, points) in zip(below, small.items(), strict=True):
            _curve(axes, name, points)
    for axes in panels:
        _steps(axes, training[-1]["step"])
    if scores:
        _scores(halves[0][1].subplots(), scores, start, trained, colour)
        if small and geometry:
            _geometry(halves[1][1].subplots(), start, trained, colour)
    return figure


def _points(lines: Sequence[dict[str, Any]], name: str) -> Points:
    """Returns steps and values of ``name``, each of shape (n,), where it is there and finite."""
    found = [(line["step"], line[name]) for line in lines if line.get(name) is not None and "step" in line]
    points = np.array(found, dtype=np.float64).reshape(-1, 2)
    points = points[np.isfinite(points[:, 1])]
    return points[:, 0], points[:, 1]


def _present(sources: dict[str, list[dict[str, Any]]]) -> dict[str, Points]:
    """Returns the points of each named value in its lines, where there are any."""
    found = {name: _points(lines, name) for name, lines in sources.items()}
    return {name: points for name, points in found.items() if len(points[0])}


def _loss(axes: Axes, part: str, training: Points, held_out: Points, colour: str, more: str) -> None:
    axes.set_label(part)
    axes.set_title(part.replace("_", " "), loc="left")
    axes.set_xlabel("step")
    _curve_and_mean(axes, training, colour)
    if len(held_out[0]):
        axes.plot(
            *held_out,
            color=style.ACCENT,
            linewidth=1.0,
            marker="o",
            markersize=3.6,
            markeredgecolor="white",
            markeredgewidth=0.6,
            label="held out",
        )
        first, last = held_out[1][[0, -1]]
        axes.set_title(
            f"{first:.2f} → {last:.2f}{more}",
            loc="right",
            color=style.ACCENT,
            fontsize=7.5,
            fontweight="normal",
        )
    # Outlying steps may leave the panel; the mean and the held-out points never do.
    values = np.concatenate([np.quantile(training[1], [0.005, 0.995]), axes.lines[1].get_ydata(), held_out[1]])
    low, high = float(values.min()), float(values.max())
    margin = 0.06 * (high - low) or 0.5
    axes.set_ylim(low - margin, high + margin)


def _curve(axes: Axes, name: str, points: Points) -> None:
    axes.set_label(name)
    axes.set_title(SMALL[name], fontweight="normal", color=style.MUTED)
    _curve_and_mean(axes, points, style.MUTED, noisy=name not in ("lr", "stsb_dev_cosine"))
    axes.set_ylim(0, 1.08 * float(np.max(points[1])) or 1.0)
    axes.yaxis.set_major_locator(MaxNLocator(3))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: style.short(value)))


def _curve_and_mean(axes: Axes, points: Points, colour: str, noisy: bool = True) -> None:
    steps, values = points
    marker = "." if len(steps) == 1 else None
    # Single steps of a long run go into the PDF as an image, as curves would take megabytes.
    axes.plot(steps, values, color=colour, alpha=0.25, linewidth=0.6, label="step", rasterized=len(steps) > 5000)
    mean = smooth(values, round(SMOOTHING * len(values)) if noisy else 1)
    axes.plot(steps, mean, color=colour, marker=marker, label="running mean")


def _scores(axes: Axes, shown: Sequence[Score], start: Scores, trained: Scores, colour: str) -> None:
    """Draws a row for each score: open circle before, full one after, a stroke at chance level."""
    axes.set_label("quick scores")
    axes.set_title("quick scores, %")
    after = {score.label: value for score in shown if (value := trained[score.key]) is not None}
    before = {score.label: value for score in shown if (value := start.get(score.key)) is not None}
    guess = {score.label: value for score in shown if (value := chance(score.key, trained)) is not None}
    # The strings are matplotlib's categories and go into the CSV.
    axes.plot(list(after.values()), list(after), "o", color=colour, markersize=6.5, zorder=3, label="trained")
    axes.plot(
        list(before.values()),
        list(before),
        "o",
        color="white",
        markeredgecolor=colour,
        markersize=5.5,
        zorder=3.5,
        label="start",
    )
    axes.plot(list(guess.values()), list(guess), "|", color=style.MUTED, markersize=9, label="chance")
    for label, value in after.items():
        axes.plot(
            [before.get(label, value), value], [label, label], color=colour, linewidth=1.4, alpha=0.5, zorder=2
        )
        axes.annotate(
            f"{value:.1f}",
            (value, label),
            (0, 6),
            textcoords="offset points",
            ha="center",
            fontsize=7,
            color=style.INK,
        )
    axes.set_xlim(
        0, min(105.0, max(60.0, *(1.15 * value for group in (after, before, guess) for value in group.values())))
    )
    axes.set_ylim(len(after) - 0.5, -0.7)
    axes.xaxis.set_major_locator(MultipleLocator(20))
    axes.tick_params(axis="y", length=0, labelcolor=style.INK)
    axes.spines["left"].set_visible(False)
    axes.grid(axis="y", visible=False)
    axes.legend(loc="upper center", bbox_to_anchor=(0.3, -0.1), ncols=3, handletextpad=0.1, columnspacing=0.8)


def _geometry(axes: Axes, start: Scores, trained: Scores, colour: str) -> None:
    """Draws the plane of Wang & Isola (2020, figure 3): better is down and to the left."""
    axes.set_label("geometry")
    axes.set_xlabel("alignment")
    axes.set_ylabel("uniformity")
    before, after = ((values["alignment"] or 0.0, values["uniformity"] or 0.0) for values in (start, trained))
    axes.annotate(
        "", after, before, arrowprops={"arrowstyle": "-|>", "color": colour, "alpha": 0.6, "shrinkB": 3.5}
    )
    for (x, y), label, face in ((after, "trained", colour), (before, "start", "white")):
        axes.plot([x], [y], "o", color=face, markeredgecolor=colour, markersize=6, label=label)
    axes.margins(0.35)
    axes.xaxis.set_major_locator(MaxNLocator(3))
    axes.yaxis.set_major_locator(MaxNLocator(3))


def _head(head: SubFigure, run: dict[str, Any], last: dict[str, Any], timings: list[dict[str, Any]]) -> None:
    names = [str(run[key]) for key in ("objective", "encoder", "corpus") if run.get(key)]
    if task := (run.get("facts") or {}).get("task"):
        names[0] += f" {task}"
    weights = run.get("weights")
    if weights == "random":  # after a fallback it is not the named model
        weights = run.get("origin") or weights
    facts = [f"{last['step']:,} steps"]
    if last.get("tokens"):
        facts.append(f"{style.short(last['tokens'])} tokens")
    if timings:
        facts.append(f"{timings[-1]['seconds'] / 60:,.1f} min")  # since the run's first step
    if run.get("seed") is not None:
        facts.append(f"seed {run['seed']}")
    if weights:
        room = LINE - len(" · ".join(facts))
        facts.insert(0, shorten(f"weights: {weights}", room, placeholder=" …"))
    head.text(0.012, 0.86, " · ".join(names) or run["run"], va="top", fontsize=11, fontweight="bold")
    head.text(0.012, 0.36, " · ".join(facts), va="top", color=style.MUTED)


def _steps(axes: Axes, last: int) -> None:
    axes.set_xlim(-0.03 * last, 1.04 * last)
    axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
