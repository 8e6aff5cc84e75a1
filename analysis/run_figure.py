"""Picture of one run: its losses and speed, and the encoder's quick scores before and after."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from analysis import plots
from analysis.quick import PERCENTAGES
from analysis.runs import read_lines, read_run
from data.errors import UserError

BESIDE = {"lr": "learning rate", "gradient_norm": "gradient norm", "tokens_per_second": "tokens / s"}
NOT_A_LOSS = (
    "step",
    "loss",
    "tokens",
    "seconds",
    "memory_gib",
    *BESIDE,
)  # keys of journals
SMOOTHING = 0.04  # width of the running mean, as a share of the run


def draw(folder: Path) -> list[Path]:
    """Draws a run folder into its ``figures``: training.pdf, training.png, training.csv.

    Raises:
        UserError: if the run has no step with a finite loss, or its files cannot be read.
    """
    lines = read_lines(folder / "metrics.jsonl")
    if not any(np.isfinite(line.get("loss", np.nan)) for line in lines):
        raise UserError("no step with a finite loss", key=str(folder / "metrics.jsonl"))
    frame = read_curves(lines + read_lines(folder / "timings.jsonl"))
    run = read_run(folder)
    scores = read_scores(run)
    with plots.look():
        figure = _picture(run, frame, scores)
    table = scores.rename_axis("x").reset_index().melt("x", var_name="series", value_name="y").dropna()
    numbers = pd.concat([frame, table.assign(panel="quick scores")])
    return plots.save(figure, folder / "figures" / "training", numbers)


def read_curves(lines: list[dict[str, Any]]) -> pd.DataFrame:
    """Returns the finite values of a journal: panel, series ("step" or "held out"), x (the step) and y."""
    frame = pd.DataFrame(lines).melt("step", var_name="panel", value_name="y").rename(columns={"step": "x"})
    frame["y"] = pd.to_numeric(frame["y"], errors="coerce")
    frame["series"] = np.where(frame["panel"].str.startswith("dev_"), "held out", "step")
    frame["panel"] = frame["panel"].str.removeprefix("dev_")
    return frame[np.isfinite(frame["y"])]


def read_scores(run: dict[str, Any]) -> pd.DataFrame:
    """Returns a row for each quick score in percent: its start, trained and chance level."""
    kinds = {kind: run[kind] or {} for kind in ("start", "trained", "chance")}
    rows = {score.label: {kind: kinds[kind].get(score.key) for kind in kinds} for score in PERCENTAGES}
    return pd.DataFrame.from_dict(rows, orient="index", columns=[*kinds], dtype=float).dropna(subset="trained")


def _picture(run: dict[str, Any], frame: pd.DataFrame, scores: pd.DataFrame) -> Figure:
    training = frame[frame["series"] == "step"]
    parts = [name for name in training["panel"].unique() if name not in NOT_A_LOSS]
    if len(parts) > 6:
        parts = [name for name in parts if not name.endswith("_accuracy")]
    panels = [*(parts or ["loss"]), *(name for name in BESIDE if (training["panel"] == name).any())]
    rows, hue = -(-len(panels) // 3), plots.colour(run["objective"])
    title = " · ".join(str(run[key]) for key in ("objective", "encoder", "corpus") if run[key]) or run["run"]
    seconds = training.loc[training["panel"] == "seconds", "y"]
    facts = [f"weights: {run['weights']}", f"{run['steps']:,} steps", f"{plots.short(run['tokens'] or 0)} tokens"]
    facts += [f"{seconds.iloc[-1] / 60:,.1f} min"] if len(seconds) else []
    figure = plots.new_figure(title, " · ".join([*facts, f"seed {run['seed']}"]), 1.9 * rows + 0.3)
    grid = figure.add_gridspec(rows, 4 if len(scores) else 3)
    for number, name in enumerate(panels):
        axes = figure.add_subplot(grid[number // 3, number % 3])
        _draw_curve(axes, name, frame[frame["panel"] == name], plots.MUTED if name in BESIDE else hue)
        axes.set_xlim(0, run["steps"])
        axes.xaxis.set_major_locator(MaxNLocator(3, integer=True))
    figure.axes[0].legend(handlelength=1.4)
    if len(scores):
        _draw_scores(figure.add_subplot(grid[:, 3]), scores, hue)
    return figure


def running_mean(values: pd.Series) -> pd.Series:
    """Returns the mean around each value, over a share SMOOTHING of the run."""
    return values.rolling(max(1, round(SMOOTHING * len(values))), center=True, min_periods=1).mean()


def _draw_curve(axes: Axes, name: str, frame: pd.DataFrame, hue: str) -> None:
    axes.set_title(BESIDE.get(name, name.replace("_", " ")))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: plots.short(value)))
    training, held_out = (frame[frame["series"] == series].set_index("x")["y"] for series in ("step", "held out"))
    # Single steps of a long run go into the PDF as an image, as curves would take megabytes.
    axes.plot(training, color=hue, alpha=0.25, linewidth=0.6, rasterized=len(training) > 5000)
    mean = running_mean(training)
    axes.plot(mean, color=hue, marker="." if len(mean) == 1 else None, label="running mean")
    if len(held_out):
        axes.plot(held_out, "o-", color=plots.ACCENT, linewidth=1, markersize=3.6, label="held out")
        axes.set_xlabel(f"held out {held_out.iloc[0]:.2f} → {held_out.iloc[-1]:.2f}", color=plots.ACCENT)
    # Outlying steps may leave the panel; the mean and the held-out points never do.
    values = [*training.quantile([0.005, 0.995]), *mean, *held_out]
    low = 0.0 if name in BESIDE else min(values)
    margin = 0.06 * (max(values) - low) or 0.5
    axes.set_ylim(low - margin * (name not in BESIDE), max(values) + margin)


def _draw_scores(axes: Axes, scores: pd.DataFrame, hue: str) -> None:
    """Draws a row for each score: open circle before, full one after, a stroke at chance level."""
    axes.set_title("quick scores, %")
    axes.hlines(scores.index, scores["start"], scores["trained"], color=hue, alpha=0.5)
    marks = {"trained": ("o", hue), "start": ("o", "white"), "chance": ("|", plots.MUTED)}
    for kind, (marker, face) in marks.items():
        edge = plots.MUTED if kind == "chance" else hue
        axes.plot(scores[kind], scores.index, marker, color=face, markeredgecolor=edge, label=kind)
    for label, value in scores["trained"].items():
        axes.annotate(f"{value:.1f}", (value, label), (0, 6), textcoords="offset points", ha="center", fontsize=7)
    axes.set_xlim(left=0)
    axes.margins(y=0.1)
    axes.invert_yaxis()
    axes.legend(loc="upper center", bbox_to_anchor=(0.4, -0.12), ncols=3, handletextpad=0.1, columnspacing=0.8)
