"""Look of all pictures: colours, sizes, fonts; saves them as PDF and PNG, and their numbers as CSV."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure

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
OTHER = "#4D4D4D"  # an objective that has no colour of its own yet
# For pictures without objectives (the notebooks' documents and curves).
SERIES = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#4D4D4D")
MARKERS = "os^Dv<>phP*"  # so that a picture can be read in grey
DASHES: tuple[Any, ...] = ("-", (0, (4, 1.5)), (0, (1.5, 1.2)), (0, (5, 1.2, 1.2, 1.2)))
INK = "#1F2430"
MUTED = "#6B7280"
FAINT = "#D5D8DE"
ACCENT = "#D55E00"  # held-out text

WIDTH = 7.2  # inches: a page's two columns
DPI = 200

_LOOK: dict[Any, Any] = {
    "font.family": "DejaVu Sans",  # comes with matplotlib: pictures are the same everywhere
    "font.size": 8,
    "text.color": INK,
    "text.parse_math": False,  # a dollar sign in a label is one
    "axes.titlesize": 8.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlecolor": INK,
    "axes.labelsize": 8,
    "axes.labelcolor": MUTED,
    "axes.edgecolor": MUTED,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": FAINT,
    "grid.linewidth": 0.5,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "lines.linewidth": 1.6,
    "lines.solid_capstyle": "round",
    "legend.frameon": False,
    "legend.fontsize": 7.5,
    "figure.constrained_layout.use": True,
    "figure.constrained_layout.w_pad": 0.07,
    "pdf.fonttype": 42,  # embeds fonts, so that text can be selected
    "path.simplify_threshold": 0.2,
}


def look() -> AbstractContextManager[None]:
    """Gives figures made within it the suite's look: ``with look(): figure = Figure(...)``."""
    return matplotlib.rc_context(_LOOK)


def colour(objective: str | None) -> str:
    """Returns the colour of ``objective`` in every picture."""
    return OBJECTIVES.get(objective or "", OTHER)


def lighter(hue: str, share: float = 0.35) -> str:
    """Returns ``hue`` mixed with ``share`` of white."""
    red, green, blue = (value + (1 - value) * share for value in to_rgb(hue))
    return to_hex((red, green, blue))


def ramp(count: int) -> list[str]:
    """Returns ``count`` colours for ordered values, dark to light also in grey (cividis: Nunez et al. 2018)."""
    colours = matplotlib.colormaps["cividis"](np.linspace(0.05, 0.85, count))
    return [to_hex(colour) for colour in colours]


def short(value: float, digits: int = 3) -> str:
    """Returns ``value`` as axes show it: 2.5M, 400k, 0.5, 4e-5."""
    for size, sign in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.{digits}g}{sign}"
    return f"{value:.{digits}g}".replace("e-0", "e-")


def save_pictures(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Writes ``name``.pdf and ``name``.png, without a timestamp."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{name}.{kind}" for kind in ("pdf", "png")]
    with look():
        for path, metadata in ((paths[0], {"CreationDate": None}), (paths[1], {"Software": None})):
            with atomic_write(path, "wb") as file:
                figure.savefig(file, format=path.suffix[1:], dpi=DPI, metadata=metadata)
    return paths


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Writes ``name``.pdf, ``name``.png and ``name``.csv (panel, series, x, y of every labelled line).

    Panels are named by the labels of their axes, series by those of their lines; unlabelled lines are left out.
    """
    paths = [*save_pictures(figure, folder, name), folder / f"{name}.csv"]
    with atomic_write(paths[2]) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["panel", "series", "x", "y"])
        for axes in figure.axes:
            writer.writerows(_rows(axes))
    return paths


def _rows(axes: Axes) -> Iterator[tuple[str, str, Any, Any]]:
    for line in axes.lines:
        series = str(line.get_label())
        if not series.startswith("_"):
            xs, ys = line.get_xdata(orig=True), line.get_ydata(orig=True)
            for x, y in zip(np.asarray(xs), np.asarray(ys), strict=True):
                yield str(axes.get_label()), series, x, y
