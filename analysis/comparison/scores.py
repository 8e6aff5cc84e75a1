"""Tables of a comparison: quick scores and SentEval over seeds, and who is best at what by how much."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from analysis.comparison.reading import Run, finished
from analysis.figures.verdicts import LEAST, reach, welch
from analysis.quick import chance
from analysis.senteval.printed import Cell, Key
from analysis.senteval.records import headlines
from analysis.senteval.rendering import Grid, Row, heading, score_cell
from analysis.senteval.spreads import merged
from analysis.senteval.tables import comparison

QUICK = {  # scores of quick.json, in percent
    "recall@1": "recall@1",
    "recall@5": "recall@5",
    "probe_length": "sentence length",
    "probe_word_content": "word content",
    "probe_bigram_shift": "bigram shift",
}
GEOMETRY = ("alignment", "uniformity")  # both better when smaller, and at each other's expense: neither is ranked
UNRANKED = frozenset(("", name) for name in GEOMETRY)
CLEAR = "clear"
CLASSIFIED = ("nested", "kfold", "split", "snli")  # kinds of SentEval's tasks whose score is a share


class Winner(NamedTuple):
    """The best of a column.

    Attributes:
        task: the column.
        name: of the pair.
        score: its mean, in percent.
        second: the pair behind it.
        lead: percentage points before that.
        reach: half of the lead's 95 % interval, over seeds or else over questions; None where neither is known.
    """

    task: str
    name: str
    score: float
    second: str
    lead: float
    reach: float | None

    @property
    def verdict(self) -> str:
        if self.reach is None:
            return f"fewer than {LEAST} seeds: no spread known"
        return CLEAR if self.lead > self.reach else "within the noise"


def quick_grid(runs: Sequence[Run]) -> Grid | None:
    """Quick scores of the finished ``runs``, a row a pair, and of the encoders as they began; None without any.

    Over several seeds scores are means with their standard deviations.
    """
    done = finished(runs)
    rows = [Row(run.name, _cells(run.row.get("trained") or {}), protocol="quick") for run in done]
    began: dict[str, Row] = {}
    for run in done:
        began.setdefault(run.encoder, Row(run.encoder, _cells(run.row.get("start") or {}), "before training"))
    known: list[Key] = [("", name) for name in (*QUICK.values(), *GEOMETRY)]
    columns = [key for key in known if any(key in row.cells for row in rows)]
    if not columns:
        return None
    guesses = ((label, chance(name, done[0].row.get("trained") or {})) for name, label in QUICK.items())
    told = ", ".join(f"{label} {value:.3g}" for label, value in guesses if value)
    below = [row for row in began.values() if row.cells]
    title = "Quick judgement on held-out text, % (alignment and uniformity: smaller is better)"
    return merged(Grid(title, columns, rows, below, [f"By guessing, %: {told}."] if told else []))


def _cells(scores: Mapping[str, float | None]) -> dict[Key, Cell]:
    named = QUICK | {name: name for name in GEOMETRY}
    known = {label: value for name, label in named.items() if (value := scores.get(name)) is not None}
    return {("", label): score_cell(value) for label, value in known.items()}


def questions(runs: Sequence[Run]) -> dict[Key, int]:
    """How many questions stand behind each score that is a share of right answers, by column."""
    counts: dict[Key, int] = {}
    for run in finished(runs):
        scores = run.row.get("trained") or {}
        for name, label in QUICK.items():
            if count := scores.get(f"n_{name}" if name.startswith("probe_") else "n_pairs"):
                counts["", label] = int(count)
        for task, record in run.results.tasks.items() if run.results else ():
            if record["kind"] in CLASSIFIED:
                counts[task, headlines(task, record)[0]] = record["n_test"]
    return counts


def senteval_grid(runs: Sequence[Run]) -> Grid | None:
    """SentEval's test scores, as ``quick_grid`` has them; None without any."""
    found = [
        replace(run.results, model=run.results.model | {"name": run.name})
        for run in finished(runs)
        if run.results is not None and run.results.tasks
    ]
    return comparison(found, mean=True) if found else None


def winners(grid: Grid, counts: Mapping[Key, int]) -> list[Winner]:
    """Who is best in each column that is ranked, and whether the lead is more than noise.

    The interval of a lead is Welch's over seeds where both pairs have LEAST or more results, else that of two
    shares of ``counts`` questions each, by column, whatever the number of seeds that were asked them.
    """
    found = []
    for key in (key for key in grid.columns if key not in UNRANKED):
        ranked = sorted((row for row in grid.ours if key in row.cells), key=lambda row: -row.cells[key].value)
        if len(ranked) < 2:
            continue
        best, second = ranked[:2]
        far = None
        if all(key in row.deviations and row.count >= LEAST for row in (best, second)):
            far = reach(*welch(*((row.deviations[key], row.count) for row in (best, second))))
        elif key in counts:
            shares = [row.cells[key].value for row in (best, second)]
            far = reach(math.sqrt(sum(share * (100 - share) / counts[key] for share in shares)), math.inf)
        score = best.cells[key].value
        found.append(Winner(heading(key), best.name, score, second.name, score - second.cells[key].value, far))
    return found
