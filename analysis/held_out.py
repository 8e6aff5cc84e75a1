"""Scores of one run on held-out text, before and after training: for the terminal, and for its model card."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
from rich.text import Text

from analysis.quick import GEOMETRY, PERCENTAGES, Scores, chance_levels
from analysis.tables import render


def tabulate_scores(quick: Mapping[str, Scores]) -> pd.DataFrame:
    """Returns a row of texts for each score in quick.json: percentages, measures of geometry, held-out metrics.

    Args:
        quick: scores by "start", "trained" and "chance": those of ``analysis.quick.evaluate`` and dev metrics
            (``dev_*``); any may be missing.

    Returns:
        The columns "start", "trained", "change" and "chance", by name of the score.
    """
    start, trained, chance = (quick.get(column) or {} for column in ("start", "trained", "chance"))
    latest = {**start, **trained}
    columns = {"start": start, "trained": trained, "chance": {**chance_levels(latest), **chance}}
    keys = [key for key in latest if not key.startswith("n_") and not key.endswith("_unigram")]
    frame = pd.DataFrame(columns, keys, dtype=float)
    frame.insert(2, "change", frame["trained"] - frame["start"])
    names = {key: f"{name}, % ↑" for key, name in PERCENTAGES.items()}
    names |= {key: f"{name} ↓" for key, name in GEOMETRY.items()}
    frame = frame.rename(names).rename_axis("held-out text")
    is_percent = frame.index.str.contains("%")
    texts = frame.map("{:.3f}".format)
    texts[is_percent] = frame[is_percent].map("{:.1f}".format)
    return texts.replace("nan", "–")


def quick_table(quick: Mapping[str, Scores], *, title: str, facts: Mapping[str, Any]) -> Text:
    """Returns a table of the scores in quick.json for a terminal.

    Args:
        quick: as ``tabulate_scores`` takes it.
        title: objective, encoder and text of the training.
        facts: settings of the scores (weights, negatives per anchor, tokens seen), printed below the table.
    """
    notes = " · ".join(f"{name}: {value}" for name, value in facts.items())
    return Text(render(tabulate_scores(quick), title=title, notes=[notes]))
