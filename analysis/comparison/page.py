"""The whole page of a comparison: one HTML file that needs nothing besides, to project, mail, print or hold."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from matplotlib.colors import to_hex, to_rgb

from analysis.comparison import explained, sections
from analysis.comparison.contents import Comparison
from analysis.comparison.markup import Html, element, joined, text
from analysis.comparison.reading import finished
from analysis.figures import style
from analysis.projection_map import COLOURS

FOLDER = Path(__file__).resolve().parent
LEAST_LIGHT = 0.24  # relative luminance of a colour on dark ground: 4.5 times as bright as that, as WCAG 2.1 asks

_SECTIONS: tuple[tuple[str, str, Callable[[Comparison], Html]], ...] = (
    ("pairs", "Which pairs were trained", sections.pairs),
    ("views", "What each objective does to a text", lambda page: explained.section(page.views)),
    ("curves", "Losses", sections.curves),
    ("costs", "What training costs", sections.costs),
    ("scores", "Scores", sections.judgement),
    ("map", "The same sentences under each encoder", sections.maps),
    ("neighbours", "Nearest neighbours of the same queries", sections.neighbours),
    ("settings", "Settings", sections.settings),
)


def render(page: Comparison) -> str:
    """The page as HTML."""
    done = finished(page.runs)
    title = f"{len(page.objectives)} objectives × {len(page.encoders)} encoders"
    weights = sorted({str(run.row.get("weights")) for run in done})
    facts = [
        f"budget: {page.budget}",
        f"{len(done)} of {len(page.runs)} runs",
        f"seeds: {', '.join(map(str, sorted({run.seed for run in page.runs})))}",
        f"corpus: {', '.join(sorted({str(run.row.get('corpus')) for run in done})) or '–'}",
        f"weights that training began with: {', '.join(weights) or '–'}",
    ]
    contents = [element("li", element("a", text(name), href=f"#{key}")) for key, name, _ in _SECTIONS]
    main = [
        element("section", element("h2", text(name)), build(page), id=key, aria_label=name)
        for key, name, build in _SECTIONS
    ]
    body = [
        element(
            "header",
            element("h1", text(f"Sentence encoders compared: {title}")),
            element("p", text(" · ".join(facts)), class_="facts"),
            element("p", text(page.equal)),
            element(
                "p",
                text("Small runs for teaching: compare these numbers with each other, never with a paper's."),
                class_="note",
            ),
        ),
        element("nav", element("ul", *contents), _filters(page), aria_label="Contents"),
        element("main", *main),
        element("script", Html((FOLDER / "script.js").read_text(encoding="utf-8"))),
    ]
    css = (FOLDER / "style.css").read_text(encoding="utf-8") + _colours(page)
    head = [
        Html('<meta charset="utf-8">'),
        Html('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Html('<meta name="color-scheme" content="light dark">'),
        element("title", text(f"{title}, compared")),
        element("style", Html(css)),
    ]
    whole = element("html", element("head", *head), element("body", *body), lang="en")
    return f"<!DOCTYPE html>\n{whole}\n"


def _filters(page: Comparison) -> Html:
    """A box for each objective and encoder, whose parts of pictures, maps and neighbours it shows or hides."""

    def boxes(kind: str, names: tuple[str, ...]) -> Html:
        return joined(
            element("label", Html(f'<input type="checkbox" checked data-{kind}="{text(name)}">'), text(f" {name}"))
            for name in names
        )

    return element(
        "fieldset",
        element("legend", text("Show")),
        boxes("shows-objective", page.objectives),
        boxes("shows-encoder", page.encoders),
    )


def _colours(page: Comparison) -> str:
    """Rules for the colour of each objective and label, and what they are on dark ground."""
    named = {f"o-{name}": style.colour(name) for name in page.objectives}
    named |= {f"label{number}": colour for number, colour in enumerate(COLOURS)}
    light = "".join(f".{name}{{--c:{colour}}}" for name, colour in named.items())
    dark = "".join(f".{name}{{--c:{lightened(colour)}}}" for name, colour in named.items())
    return f"{light}@media screen and (prefers-color-scheme:dark){{{dark}}}"


def lightened(colour: str) -> str:
    """``colour`` mixed with as little white as makes it LEAST_LIGHT at least."""
    red, green, blue = to_rgb(colour)
    for share in np.linspace(0, 1, 26):
        mixed = (red + (1 - red) * share, green + (1 - green) * share, blue + (1 - blue) * share)
        if _luminance(mixed) >= LEAST_LIGHT:
            break
    return to_hex(mixed)


def _luminance(rgb: tuple[float, ...]) -> float:
    """Relative luminance by WCAG 2.1."""
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in rgb]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
