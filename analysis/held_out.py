"""Table of one run's scores on held-out text, before and after training."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from analysis.quick import GEOMETRY, PERCENTAGES, Scores, chance_levels


def tabulate_scores(quick: Mapping[str, Scores]) -> pd.DataFrame:
    """Returns a row of texts for each score in quick.json: percentages, alignment, uniformity, held-out metrics.

    Isotropy has neither a better side nor a chance level, and is shown on the page of a comparison only.

    Args:
        quick: scores by "start", "trained" and "chance": those of ``analysis.quick.evaluate`` and dev metrics
            (``dev_*``); any may be missing.

    Returns:
        The columns "start", "trained", "change" and "chance", by name of the score.
    """
    start, trained, chance = (quick.get(column) or {} for column in ("start", "trained", "chance"))
    latest = {**start, **trained}
    columns = {"start": start, "trained": trained, "chance": {**chance_levels(latest), **chance}}
    names = {key: f"{name}, % ↑" for key, name in PERCENTAGES.items()}
    names |= {key: f"{name} ↓" for key, name in GEOMETRY.items()}
    keys = [key for key in latest if key in names or (key.startswith("dev_") and not key.endswith("_unigram"))]
    frame = pd.DataFrame(columns, keys, dtype=float)
    frame.insert(2, "change", frame["trained"] - frame["start"])
    frame = frame.rename(names).rename_axis("held-out text")
    is_percent = frame.index.str.contains("%")
    texts = frame.map("{:.3f}".format)
    texts[is_percent] = frame[is_percent].map("{:.1f}".format)
    return texts.replace("nan", "–")
