"""Pictures of scores: means, deviations and single scores by panel, in one look; saved as PDF, PNG and CSV.

Frames are long: a row a score, with the columns "score", "seed", "panel" and the label axes. ``printed`` frames
hold a paper's printed values in the same columns; they are drawn as open marks. The label "" on the x axis marks
scores that the axis does not apply to, which are drawn as a level.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import cycle, repeat
from pathlib import Path
from textwrap import fill
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.claims import list_labels
from data.files import atomic_write

# One fixed colour for each objective, so that it is recognised across pictures. The hues are Okabe & Ito's (2008)
# and, as eight are not enough, darker and paler ones; a test checks that they differ under red-green blindness.
OBJECTIVES = {
    "declutr": "#0072B2",
    "contrastive_only": "#56B4E9",
    "mlm_only": "#E69F00",
    "conssent": "#CC79A7",
    "conssent_mt": "#8E3B6C",
    "gensen": "#00573F",
    "nsp": "#8C2F00",
    "sop": "#EFA48C",
    "simcse": "#B5A642",
    "tsdae": "#2B1B7E",
    "quick_thoughts": "#009E73",
    "nli": "#4A2C12",
    "pairs": "#D81B60",
    "language_model": "#BBBFC7",
    # ConsSent's single tasks: they differ from each other and conssent_mt, the only ones in their pictures.
    "conssent_d": "#5A4FCF",
    "conssent_p": "#CC6677",
    "conssent_i": "#117733",
    "conssent_r": "#C9A227",
    "conssent_n": "#88CCEE",
    "conssent_c": "#44AA99",
}
OTHER = "#4D4D4D"  # an objective without a colour of its own
SERIES = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#CC79A7",
    "#56B4E9",
    "#D55E00",
    "#4D4D4D",
)  # pictures without objectives
MARKERS = "os^Dv<>phP*"  # so that a picture can be read in grey
DASHES = ("-", "--", ":", "-.")
INK, MUTED, FAINT = "#1F2430", "#6B7280", "#D5D8DE"
ACCENT = "#D55E00"  # held-out text

WIDTH = 7.2  # inches: a page's two columns
SMALL = (3.4, 2.1)  # inches: a picture on a page
TALL = 3.5  # height in inches of a single panel
WIDE = 0.3  # width of all marks at a place, as a share of the step between places


def suite_style() -> AbstractContextManager[None]:
    """Gives figures made within it the suite's look: ``with suite_style(): figure = Figure(...)``."""
    return matplotlib.rc_context(fname=Path(__file__).with_name("suite.mplstyle"))


def colour(objective: str) -> str:
    """Returns the colour of ``objective`` in every picture."""
    return OBJECTIVES.get(objective, OTHER)


def save(figure: Figure, stem: Path, frame: pd.DataFrame) -> list[Path]:
    """Writes ``stem``.pdf and ``stem``.png, without a timestamp, and ``frame``, their numbers, as ``stem``.csv."""
    paths = [Path(f"{stem}.{kind}") for kind in ("pdf", "png", "csv")]
    for path in paths:
        with suite_style(), atomic_write(path, "wb") as file:
            if path.suffix == ".csv":
                frame.to_csv(file, index=False, lineterminator="\n")
            else:
                figure.savefig(file, format=path.suffix[1:], metadata={"CreationDate": None})
    return paths


def new_figure(title: str, note: str, height: float) -> Figure:
    """Returns a figure with ``title`` above and ``note`` below ``height`` inches for its axes."""
    text = "\n".join(fill(line, 132) for line in note.splitlines() if line)
    figure = Figure(figsize=(WIDTH, height + 0.5 + 0.135 * text.count("\n")))
    figure.suptitle(title, x=0.012, ha="left")
    figure.supxlabel(text, x=0.012, ha="left", fontsize=7, color=MUTED)
    return figure


def picture(draw: Callable[..., None], *arguments: Any) -> str:
    """Returns a small drawing as the address of an SVG picture."""
    with suite_style():
        figure = Figure(figsize=SMALL)
        draw(figure.subplots(), *arguments)
        return svg(figure)


def svg(figure: Figure) -> str:
    """Returns a figure as a ``data:`` address of an SVG picture; as a picture it can run no script."""
    file = io.BytesIO()
    figure.savefig(file, format="svg", metadata={"Date": None}, bbox_inches="tight", pad_inches=0.04)
    return f"data:image/svg+xml;base64,{base64.b64encode(file.getvalue()).decode()}"


def mark_styles(names: Sequence[str], objectives: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Returns a colour and a marker for each name: its objective's colour, else grey.

    If no name has an objective, each has a colour.

    Args:
        names: in order.
        objectives: name to objective, where lower case with underscores does not give it ("conssent_d").
    """
    keys = [objectives.get(name, name.lower().replace("-", "_")) for name in names]
    spare = cycle(SERIES) if OBJECTIVES.keys().isdisjoint(keys) else repeat(OTHER)
    return {
        name: {"color": OBJECTIVES.get(key) or next(spare), "marker": marker}
        for name, key, marker in zip(names, keys, cycle(MARKERS), strict=False)
    }


def lines(
    frame: pd.DataFrame,
    *,
    x: str,
    hue: str,
    panel: str = "panel",
    title: str,
    xlabel: str,
    ylabel: str,
    note: str = "",
    printed: pd.DataFrame | None = None,
    objectives: Mapping[str, str] | None = None,
    linear: bool = False,
    linestyle: str = "-",
) -> Figure:
    """Draws means over seeds and settings, with standard deviations and single scores, in a panel for each label.

    Printed values far from ours have a scale of their own above.

    Args:
        frame: long frame of scores.
        x, hue, panel: axes of the frame.
        title, note: head of the figure.
        xlabel, ylabel: labels of its axes.
        printed: long frame of printed values.
        objectives: label to the objective whose colour it has.
        linear: places x labels by their numbers.
        linestyle: of the lines between means; "" for none.
    """
    both = pd.concat([frame, printed])
    hues, xs = list_labels(both, hue), list_labels(both[both[x] != ""], x)
    places = [float(label) for label in xs] if linear else [*range(len(xs))]
    step = WIDE * min(np.diff(places), default=1) / len(hues)
    offsets = both[hue].map(hues.index) - (len(hues) - 1) / 2
    both["at"] = both[x].map(dict(zip(xs, places, strict=True))) + step * offsets
    panels, styles = list_labels(frame, panel), mark_styles(hues, objectives or {})
    key = "Filled: mean; bar: ± 1 standard deviation; small dots: single scores."
    if len(both) > len(frame):
        key += " Open: printed in the paper, far from ours on a scale of its own."
    with suite_style():
        figure = new_figure(title, f"{note}\n{key}", TALL)
        grid = figure.subplots(1, len(panels), squeeze=False, sharex=True)[0]
        for axes, name in zip(grid, panels, strict=True):
            ours, theirs = (rows[rows[panel] == name] for rows in (both[: len(frame)], both[len(frame) :]))
            low, high = ours["score"].min(), ours["score"].max()
            room = 0.2 * max(high - low, 1.0)
            limits = low - room, high + room
            near = theirs["score"].between(*limits).all()
            above = axes if near else axes.inset_axes((0, 1.06, 1, 0.36), sharex=axes)
            for label, style in styles.items():
                draw_means(axes, ours[ours[hue] == label], **style, linestyle=linestyle)
                points = theirs[theirs[hue] == label]
                above.plot(points["at"], points["score"], **style, linestyle="", markerfacecolor="white", zorder=4)
            axes.set(ylim=limits, xlabel=xlabel, xticks=places, xticklabels=xs)
            if not near:
                above.xaxis.set_visible(False)
                above.margins(y=0.3)
            above.set_title(name)
        for label, style in styles.items():
            grid[0].plot([], **style, linestyle=linestyle, label=label)
        figure.supylabel(ylabel)
        figure.legend(loc="outside right upper")
    return figure


def draw_means(axes: Axes, rows: pd.DataFrame, **style: Any) -> None:
    """Draws means at each place with standard deviations and single scores; scores without a place as a level."""
    means = rows.groupby("at")["score"].agg(["mean", "std"])
    axes.errorbar(means.index, means["mean"], means["std"], **style, markeredgecolor="white")
    axes.plot(rows["at"], rows["score"], ".", color=style["color"], markersize=4, alpha=0.45)
    axes.axhline(rows.loc[rows["at"].isna(), "score"].mean(), color=style["color"])
