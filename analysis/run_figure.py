"""Picture of one run: its losses, learning rate, gradients and speed."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from analysis import plots
from analysis.runs import read_lines, read_run

NOT_DRAWN = ("loss", "tokens", "steps", "seconds", "memory_gib")  # of a journal; the loss is drawn by its parts
SMOOTHING = 0.04  # width of the running mean, as a share of the run


def draw(folder: Path) -> list[Path]:
    """Draws a run folder into its ``figures``: training.pdf, training.png, training.csv.

    Raises:
        UserError: if its files cannot be read.
    """
    run = read_run(folder)
    lines = [line for name in ("metrics", "timings") for line in read_lines(folder / f"{name}.jsonl")]
    frame = pd.DataFrame(lines).groupby("step").first()
    panels = [name for name in frame if name not in NOT_DRAWN and not name.startswith("dev_")]
    hue, rows = plots.colour(run["objective"]), -(-len(panels) // 3)
    note = f"Weights: {run['weights']}. Pale: single steps; lines: running means; dots: held-out text."
    with plots.suite_style():
        figure = plots.new_figure(run["run"], note, 1.9 * rows + 0.3)
        for number, name in enumerate(panels, start=1):
            axes = figure.add_subplot(rows, 3, number, title=name.replace("_", " "))
            values = frame[name].dropna().astype(float)
            # Single steps of a long run go into the PDF as an image, as curves would take megabytes.
            axes.plot(values.clip(*values.quantile([0.005, 0.995])), color=hue, alpha=0.25, rasterized=True)
            axes.plot(running_mean(values), color=hue)
            axes.plot(frame.get(f"dev_{name}", values[:0]).dropna(), "o", color=plots.ACCENT, markersize=3)
    return plots.save(figure, folder / "figures" / "training", frame.reset_index())


def running_mean(values: pd.Series) -> pd.Series:
    """Returns the mean around each value, over a share SMOOTHING of the run."""
    return values.rolling(max(1, round(SMOOTHING * len(values))), center=True, min_periods=1).mean()
