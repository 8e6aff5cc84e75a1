"""Pictures of scores: lines and strips of single scores by panel, in one look; saved as PDF, PNG and CSV.

Frames are long: a row a score, with the columns "score", "seed", "panel" and the label axes. ``printed`` frames
hold a paper's printed values in the same columns; they are drawn as open marks. The label "" on the x axis marks
scores that the axis does not apply to, which are drawn as a level.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
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
PANEL, TALL = 2.5, 3.5  # heights in inches of one of several panels, and of a single one


def suite_style() -> AbstractContextManager[None]:
    """Gives figures made within it the suite's look: ``with suite_style(): figure = Figure(...)``."""
    return matplotlib.rc_context(fname=Path(__file__).with_name("suite.mplstyle"))


def colour(objective: str | None) -> str:
    """Returns the colour of ``objective`` in every picture."""
    return OBJECTIVES.get(objective or "", OTHER)


def shorten(value: float, digits: int = 3) -> str:
    """Returns ``value`` as axes show it: 2.5M, 400k, 0.5, 4e-5."""
    for size, sign in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if float(f"{abs(value):.{digits}g}") >= size:
            return f"{value / size:.{digits}g}{sign}"
    return f"{value:.{digits}g}".replace("e-0", "e-")


def save(figure: Figure, stem: Path, frame: pd.DataFrame) -> list[Path]:
    """Writes ``stem``.pdf and ``stem``.png, without a timestamp, and ``frame``, their numbers, as ``stem``.csv."""
    paths = [Path(f"{stem}.{kind}") for kind in ("pdf", "png", "csv")]
    stem.parent.mkdir(parents=True, exist_ok=True)
    with suite_style():
        for path in paths[:2]:
            with atomic_write(path, "wb") as file:
                figure.savefig(file, format=path.suffix[1:], dpi=200, metadata={"CreationDate": None})
    with atomic_write(paths[2]) as file:
        frame.to_csv(file, index=False, lineterminator="\n")
    return paths


def new_figure(title: str, note: str, height: float) -> Figure:
    """Returns a figure with ``title`` above and ``note`` below ``height`` inches for its axes."""
    text = "\n".join(fill(line, 132) for line in note.splitlines() if line)
    figure = Figure(figsize=(WIDTH, height + 0.5 + 0.135 * text.count("\n")))
    figure.suptitle(title, x=0.012, ha="left")
    figure.supxlabel(text, x=0.012, ha="left", fontsize=7, color=MUTED)
    return figure


def picture(draw: Callable[..., None], *arguments: Any, size: tuple[float, float] = SMALL) -> str:
    """Returns a drawing in axes of ``size`` inches as the address of an SVG picture."""
    with suite_style():
        figure = Figure(figsize=size)
        draw(figure.subplots(), *arguments)
        return svg(figure)


def svg(figure: Figure) -> str:
    """Returns a figure as a ``data:`` address of an SVG picture; as a picture it can run no script."""
    file = io.BytesIO()
    figure.savefig(file, format="svg", metadata={"Date": None}, bbox_inches="tight", pad_inches=0.04)
    return f"data:image/svg+xml;base64,{base64.b64encode(file.getvalue()).decode()}"


def mark_styles(names: Sequence[str], objectives: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Returns a colour, marker and line style for each name: its objective's colour, else grey.

    If no name has an objective, each has a colour. Of several names of one colour the later ones are paler and
    dashed.

    Args:
        names: in order.
        objectives: name to objective, where lower case with underscores does not give it ("conssent_d").
    """
    keys = [objectives.get(name, name.lower().replace("-", "_")) for name in names]
    spare = repeat(OTHER) if any(key in OBJECTIVES for key in keys) else cycle(SERIES)
    hues = [OBJECTIVES.get(key) or next(spare) for key in keys]
    ranks = [hues[:number].count(hue) for number, hue in enumerate(hues)]
    return {
        name: {
            "color": (hue, max(1 - 0.35 * rank, 0.4)),
            "marker": marker,
            "linestyle": DASHES[rank % len(DASHES)],
        }
        for name, hue, rank, marker in zip(names, hues, ranks, cycle(MARKERS), strict=False)
    }


def _panels(
    draw: Callable[[Axes, pd.DataFrame, dict[str, Any], float], None],
    key: str,
    frame: pd.DataFrame,
    *,
    share: float,
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
) -> Figure:
    """Draws a panel for each label of an axis; printed values far from ours have a scale of their own above.

    Args:
        draw: draws the scores of one label of a panel.
        key: explanation of the marks.
        frame: long frame of scores.
        share: width of all labels of ``hue`` at one place, as a share of the step between places.
        x, hue, panel: axes of the frame.
        title, note: head of the figure.
        xlabel, ylabel: labels of its axes.
        printed: long frame of printed values.
        objectives: label to the objective whose colour it has.
        linear: places x labels by their numbers.
    """
    both = pd.concat([frame, frame[:0] if printed is None else printed])
    xs, hues = ([label for label in list_labels(both, axis) if label] for axis in (x, hue))
    places = {label: float(label) if linear else float(number) for number, label in enumerate(xs)}
    width = share * min(np.diff([*places.values()]), default=1.0) / len(hues)
    offsets = {label: (number - (len(hues) - 1) / 2) * width for number, label in enumerate(hues)}
    both["at"] = both[x].map(places) + both[hue].map(offsets)
    panels, styles = list_labels(frame, panel), mark_styles(hues, objectives or {})
    if len(both) > len(frame):
        key += " Open: printed in the paper, far from ours on a scale of its own."
    with suite_style():
        figure = new_figure(title, f"{note}\n{key}", TALL)
        grid = figure.subplots(1, len(panels), squeeze=False, sharex=True)[0]
        for axes, name in zip(grid, panels, strict=True):
            scores, values = (rows[rows[panel] == name] for rows in (both[: len(frame)], both[len(frame) :]))
            low, high = scores["score"].min(), scores["score"].max()
            room = 0.2 * max(high - low, 1.0)
            near = values["score"].between(low - room, high + room).all()
            above = axes if near else axes.inset_axes((0, 1.06, 1, 0.36), sharex=axes)
            for label, style in styles.items():
                if (part := scores[hue] == label).any():
                    draw(axes, scores[part], style, width)
                for at, score in values.loc[values[hue] == label, ["at", "score"]].values:
                    above.plot(at, score, **style, markerfacecolor="white", zorder=4)
            axes.set(ylim=(low - room, high + room), xlabel=xlabel, xticks=[*places.values()], xticklabels=xs)
            if not near:
                above.xaxis.set_visible(False)
                above.margins(y=0.3)
            above.set_title(name)
        for label, style in styles.items():
            grid[0].plot([], **style, label=label)
        figure.supylabel(ylabel)
        figure.legend(loc="outside right upper")
    return figure


def _line(axes: Axes, rows: pd.DataFrame, style: dict[str, Any], width: float) -> None:
    means = rows.groupby("at")["score"].agg(["mean", "std"])
    axes.errorbar(means.index, means["mean"], means["std"], **style, markeredgecolor="white")
    axes.plot(rows["at"], rows["score"], ".", color=style["color"], markersize=3, alpha=0.45)
    axes.axhline(rows.loc[rows["at"].isna(), "score"].mean(), **style | {"marker": ""})


def _strip(axes: Axes, rows: pd.DataFrame, style: dict[str, Any], width: float) -> None:
    places = rows.groupby("at")["score"]
    axes.boxplot(
        [scores for _, scores in places],
        positions=[at for at, _ in places],
        widths=0.75 * width,
        manage_ticks=False,
    )
    # Golden-ratio steps spread any number of dots evenly and reproducibly.
    spread = (places.cumcount() * 0.618034 + 0.5) % 1 - 0.5
    axes.plot(rows["at"] + 0.5 * width * spread, rows["score"], **style | {"linestyle": ""})


# Means over seeds and settings with their standard deviations.
lines = partial(_panels, _line, "Filled: mean; bar: ± 1 standard deviation; small dots: single scores.", share=0.3)
# Single scores beside a box of their quartiles.
strip = partial(
    _panels,
    _strip,
    "Dots: single scores; box: quartiles and median, whiskers to 1.5 times the box; dotted: mean.",
    share=0.8,
)
