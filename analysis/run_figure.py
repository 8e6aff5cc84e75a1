"""Picture of one run: its losses and speed, and the encoder's quick scores before and after."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from analysis import plots
from analysis.quick import PERCENTAGES, chance_levels
from analysis.runs import read_lines, read_run
from data.errors import UserError

BESIDE = ("lr", "gradient_norm", "tokens_per_second")
NOT_A_LOSS = ("step", "loss", "tokens", "seconds", "memory_gib", *BESIDE)  # keys of journals
SMOOTHING = 0.04  # width of the running mean, as a share of the run


def draw(folder: Path) -> list[Path]:
    """Draws a run folder into its ``figures``: training.pdf, training.png, training.csv.

    Raises:
        UserError: if the run has no step with a finite loss, or its files cannot be read.
    """
    lines = [line for name in ("metrics", "timings") for line in read_lines(folder / f"{name}.jsonl")]
    frame = pd.DataFrame(lines).replace(np.inf, np.nan).dropna(axis="columns", how="all")
    if "loss" not in frame:
        raise UserError("no step with a finite loss", key=str(folder / "metrics.jsonl"))
    frame, run = frame.groupby("step").first(), read_run(folder)
    parts = [name for name in frame if name not in NOT_A_LOSS and not name.startswith("dev_")] or ["loss"]
    panels = [*parts, *(name for name in BESIDE if name in frame)]
    labels = {label.key: label.label.removeprefix("probe: ") for label in PERCENTAGES}
    columns = {"start": run["start"], "trained": run["trained"], "chance": chance_levels(run["trained"])}
    scores = pd.DataFrame(columns, [*labels], dtype=float).rename(labels)
    hue, rows = plots.colour(run["objective"]), -(-len(panels) // 3)
    title = " · ".join(str(run[key]) for key in ("objective", "encoder", "corpus", "weights"))
    note = (
        f"{run['steps']:,} steps, seed {run['seed']}. Losses: single steps and running mean; orange: held out. "
        "Scores: bars after training, dots before it, strokes at chance level."
    )
    with plots.suite_style():
        figure = plots.new_figure(title, note, 1.9 * rows + 0.3)
        grid = figure.add_gridspec(rows, 4)
        for number, name in enumerate(panels):
            axes = figure.add_subplot(grid[number // 3, number % 3], title=name.replace("_", " "))
            held_out = frame.get(f"dev_{name}", frame[name][:0])
            draw_curve(axes, frame[name].dropna(), held_out.dropna(), plots.MUTED if name in BESIDE else hue)
        axes = figure.add_subplot(grid[:, 3], title="quick scores, %")
        axes.barh(scores.index, scores["trained"], color=hue, alpha=0.5)
        axes.plot(scores["start"], scores.index, "o", scores["chance"], scores.index, "|", color=plots.INK)
        axes.invert_yaxis()
    return plots.save(figure, folder / "figures" / "training", frame.reset_index())


def running_mean(values: pd.Series) -> pd.Series:
    """Returns the mean around each value, over a share SMOOTHING of the run."""
    return values.rolling(max(1, round(SMOOTHING * len(values))), center=True, min_periods=1).mean()


def draw_curve(axes: Axes, training: pd.Series, held_out: pd.Series, hue: str) -> None:
    """Draws the values of single steps, their running mean, and those on held-out text."""
    mean = running_mean(training)
    # Single steps of a long run go into the PDF as an image, as curves would take megabytes.
    axes.plot(training, color=hue, alpha=0.25, linewidth=0.6, rasterized=True)
    axes.plot(mean, color=hue)
    axes.plot(held_out, "o-", color=plots.ACCENT, markersize=3)
    # Outlying steps may leave the panel; the mean and the held-out points never do.
    shown = pd.concat([training.clip(*training.quantile([0.005, 0.995])), mean, held_out])
    if margin := 0.06 * np.ptp(shown):
        axes.set_ylim(shown.min() - margin, shown.max() + margin)
