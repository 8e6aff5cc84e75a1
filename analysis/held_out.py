"""Scores of one run on held-out text, before and after training: for the terminal, and for its model card."""

from __future__ import annotations

from collections.abc import Mapping
from math import nan
from typing import Any

import numpy as np
import pandas as pd
from rich.text import Text

from analysis.quick import GEOMETRY, LABELS, PERCENTAGES, Scores, chance_levels
from analysis.tables import render


def tabulate_scores(quick: Mapping[str, Scores]) -> pd.DataFrame:
    """Returns a row of texts for each score in quick.json: percentages, held-out losses, measures of geometry.

    Args:
        quick: scores by "start", "trained" and "chance": those of ``analysis.quick.evaluate`` and dev losses
            (``dev_*``); any may be missing.

    Returns:
        The columns "start", "trained", "change", "chance" and "n", the number of questions, by name of the score.
    """
    start, trained, chance = (quick.get(column) or {} for column in ("start", "trained", "chance"))
    latest = {**start, **trained}
    pairs = latest.get("n_pairs", nan)
    columns = start, trained, {**chance_levels(latest), **chance}
    losses = sorted(key for key in latest if key.startswith("dev_") and not key.endswith("_unigram"))
    percentages, geometry = ([label.key for label in labels] for labels in (PERCENTAGES, GEOMETRY))
    rows = {}
    for key in filter(latest.__contains__, [*percentages, *losses, *geometry]):
        share = key.endswith("_accuracy")
        percent = share or key in percentages
        values = np.array([scores.get(key) for scores in columns], float) * (100 if share else 1)
        cells = [
            *np.insert(values, 2, values[1] - values[0]),
            latest.get(f"n_{key}", pairs if key in LABELS else nan),
        ]
        digits = [1 if percent else 3] * 4 + [0]
        name = LABELS[key].label if key in LABELS else key.replace("_", " ")
        name = f"{name}, % ↑" if percent else f"{name} ↓"
        rows[name] = [f"{value:.{places}f}" for value, places in zip(cells, digits, strict=True)]
    frame = pd.DataFrame.from_dict(rows, "index", columns=["start", "trained", "change", "chance", "n"])
    return frame.replace("nan", "–").rename_axis("held-out text")


def quick_table(quick: Mapping[str, Scores], *, title: str, facts: Mapping[str, Any]) -> Text:
    """Returns a table of the scores in quick.json for a terminal.

    Args:
        quick: as ``tabulate_scores`` takes it.
        title: objective, encoder and text of the training.
        facts: settings of the scores (weights, negatives per anchor, tokens seen), printed below the table.
    """
    notes = " · ".join(f"{name}: {value}" for name, value in facts.items())
    return Text(render(tabulate_scores(quick), title=title, notes=[notes]))


def card_scores(quick: Mapping[str, Scores]) -> Any:
    """Returns the same values for a model's card, by "start" and "trained" and by name of the score."""
    return tabulate_scores(quick)[["start", "trained"]].to_dict()
