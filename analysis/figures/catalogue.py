"""All figures and tables that can be reproduced, by name."""

from __future__ import annotations

import difflib
import re

from analysis.figures import conssent, conssent_tables, declutr, declutr_tables, declutr_v1, gensen, suite
from analysis.figures.exhibits import Exhibit
from data.errors import UserError

MODULES = (conssent, conssent_tables, declutr, declutr_tables, declutr_v1, gensen, suite)
EXHIBITS: dict[str, Exhibit] = {exhibit.id: exhibit for module in MODULES for exhibit in module.EXHIBITS}
# Figures of the first version that the final one left out are also known by the paper's plain name.
ALIASES = {"declutr/s1a": "declutr_v1/s1a", "declutr/s1b": "declutr_v1/s1b"}


def names() -> list[str]:
    """Returns the names of all figures and tables."""
    return sorted(EXHIBITS)


def find(wanted: str) -> Exhibit:
    """Returns the figure or table that ``wanted`` names, in any case, with or without "fig".

    Raises:
        UserError: if there is none, with the nearest name.
    """
    known = {_plain(name): name for name in EXHIBITS} | {_plain(name): target for name, target in ALIASES.items()}
    if (found := known.get(_plain(wanted))) is not None:
        return EXHIBITS[found]
    if of_paper := [name for name in names() if name.startswith(f"{wanted.lower()}/")]:
        what = "a paper" if EXHIBITS[of_paper[0]].of_paper else "this suite"
        raise UserError(f"figure={wanted}: {what}, not one of its figures. Available: {', '.join(of_paper)}.")
    lowered = {name.lower(): name for name in [*names(), *ALIASES]}
    ends = [name for name in lowered if name.endswith(f"/{wanted.lower()}")]
    near = ends[:1] or difflib.get_close_matches(wanted.lower(), lowered, n=1, cutoff=0.6)
    hint = f"Did you mean {lowered[near[0]]}?" if near else f"Available: {', '.join(names())}."
    raise UserError(f"figure={wanted}: no such figure or table. {hint}")


def _plain(name: str) -> str:
    return re.sub(r"/(fig(ure)?)?[_-]?", "/", name.lower())
