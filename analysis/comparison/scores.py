"""Score tables of a comparison over seeds, the leads in them with their intervals, and a conclusion in words."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from analysis.comparison.reading import BEFORE, Run, finished
from analysis.quick import PERCENTAGES, SCORES, Scores, chance
from analysis.reporting.intervals import LEAST, reach, welch
from analysis.reporting.printed import Cell, Key
from analysis.reporting.rendering import Grid, Row, heading, score_cell
from analysis.reporting.tables import comparison, merged
from analysis.runs import mixed_probes
from analysis.senteval.records import headlines
from analysis.senteval.results import Results

UNRANKED = frozenset(("", score.label) for score in SCORES.values() if not score.percent)
CLEAR = "clear"
SHARES = ("nested", "kfold", "split", "snli")  # kinds of SentEval tasks whose score is a share of correct answers


class Lead(NamedTuple):
    """The best pair of a column.

    Attributes:
        key: the column.
        name: the pair.
        score: its mean, in percent.
        second: the runner-up.
        lead: difference between the two, in percentage points.
        reach: half of the lead's 95 % interval, over seeds or else over questions; None if neither is known.
        seeds: number of seeds of the two pairs, the smaller one.
    """

    key: Key
    name: str
    score: float
    second: str
    lead: float
    reach: float | None
    seeds: int

    @property
    def verdict(self) -> str:
        """Returns in words whether the lead exceeds its interval."""
        if self.reach is None:
            return f"unknown: fewer than {LEAST} seeds"
        return CLEAR if self.lead > self.reach else "within the noise"


def quick_grid(runs: Sequence[Run]) -> Grid | None:
    """Returns quick scores of the finished ``runs``, a row per pair, and of the encoders before training.

    Over several seeds scores are means with standard deviations. None if there are no scores.
    """
    done = finished(runs)
    rows = [Row(run.name, _cells(run.row.get("trained") or {}), protocol="quick") for run in done]
    before: dict[str, Row] = {}
    for run in done:
        before.setdefault(run.encoder, Row(run.encoder, _cells(run.row.get("start") or {}), BEFORE))
    known: list[Key] = [("", score.label) for score in SCORES.values()]
    columns = [key for key in known if any(key in row.cells for row in rows)]
    if not columns:
        return None
    trained = done[0].row.get("trained") or {}
    levels = ((score.label, chance(score.key, trained)) for score in PERCENTAGES)
    by_chance = ", ".join(f"{label} {value:.3g}" for label, value in levels if value)
    printed = [row for row in before.values() if row.cells]
    notes = [f"Chance level, %: {by_chance}."] if by_chance else []
    notes += mixed_probes([run.row for run in done])
    others = " and ".join(name for _, name in known if ("", name) in UNRANKED)
    title = f"Quick evaluation on held-out text, % ({others} are no percentages)"
    return merged(Grid(title, columns, rows, printed, notes))


def _cells(found: Scores) -> dict[Key, Cell]:
    known = {score.label: value for key, score in SCORES.items() if (value := found.get(key)) is not None}
    return {("", label): score_cell(value) for label, value in known.items()}


def questions(runs: Sequence[Run]) -> dict[Key, int]:
    """Returns the number of questions behind each score that is a share of correct answers, by column."""
    counts: dict[Key, int] = {}
    for run in finished(runs):
        for score in PERCENTAGES:
            if count := (run.row.get("trained") or {}).get(score.count):
                counts["", score.label] = int(count)
        for task, record in run.results.tasks.items() if run.results else ():
            if record["kind"] in SHARES:
                counts[task, headlines(task, record)[0]] = record["n_test"]
    return counts


def senteval_grid(runs: Sequence[Run], before: Sequence[Run] = ()) -> Grid | None:
    """Returns SentEval test scores in the form of ``quick_grid``, with a row of majority baselines where known.

    None if there are no scores. ``before`` are runs that left an encoder as it is before training.
    """
    found = _results(runs, "name")
    if not found:
        return None
    grid = comparison(found, mean=True)
    printed = list[Row]()
    if start := _results(before, "encoder"):
        printed += [replace(row, source=BEFORE) for row in comparison(start, mean=True).ours]
    notes = grid.notes
    if shares := {key: value for run in finished(runs) for key, value in run.majority.items()}:
        cells = {key: score_cell(value) for key, value in shares.items()}
        printed.append(Row("most frequent class", cells, "baseline"))
        notes = [
            *notes,
            "Baseline: the score of always answering the class that is most frequent among the test examples.",
        ]
    return replace(grid, printed=printed, notes=notes)


def _results(runs: Sequence[Run], name: str) -> list[Results]:
    """Returns the SentEval results of the finished runs that have some, under the run's attribute ``name``."""
    return [
        replace(run.results, model=run.results.model | {"name": getattr(run, name)})
        for run in finished(runs)
        if run.results is not None and run.results.tasks
    ]


def leads(grid: Grid, counts: Mapping[Key, int]) -> list[Lead]:
    """Returns the best pair of each ranked column with its lead over the runner-up.

    The interval of a lead is Welch's over seeds if both pairs have at least LEAST results; otherwise that of two
    proportions of ``counts`` questions each, by column, for any number of seeds.
    """
    found = []
    for key in (key for key in grid.columns if key not in UNRANKED):
        ranked = sorted((row for row in grid.ours if key in row.cells), key=lambda row: -row.cells[key].value)
        if len(ranked) < 2:
            continue
        best, second = ranked[:2]
        half = None
        if all(key in row.deviations and row.count >= LEAST for row in (best, second)):
            half = reach(*welch(*((row.deviations[key], row.count) for row in (best, second))))
        elif key in counts:
            half = _half(best.cells[key].value, second.cells[key].value, counts[key])
        score, seeds = best.cells[key].value, min(best.count, second.count)
        found.append(Lead(key, best.name, score, second.name, score - second.cells[key].value, half, seeds))
    return found


def clear_leads(found: Sequence[Lead]) -> tuple[Counter[str], int]:
    """Counts clear leads by pair, and all leads, averages excluded."""
    quick = {score.label for score in PERCENTAGES}
    single = [lead for lead in found if lead.key[0] or lead.key[1] in quick]
    return Counter(lead.name for lead in single if lead.verdict == CLEAR), len(single)


def conclusion(runs: Sequence[Run]) -> list[str]:
    """Returns what the scores show, in a few careful sentences."""
    counts, quick, senteval = questions(runs), quick_grid(runs), senteval_grid(runs)
    if quick is None and senteval is None:
        return ["No run has been evaluated, so there is nothing to conclude."]
    columns = leads(quick, counts) if quick else []
    tasks = leads(senteval, counts) if senteval else []
    averages = [lead for lead in tasks if not lead.key[0]] or tasks
    useless = _no_gain(quick, counts) if quick else []
    first = useless or [f"On held-out text, {_lead(one)}." for one in columns[:1]]
    second = [f"On SentEval, {_lead(one)}." for one in averages[:1]]
    if quick and not useless and not second:
        second = _training_effect(quick)
    if not columns and not tasks:
        return [*first, *second, "Only one pair has scores, so there is nothing to compare it with."]
    wins, total = clear_leads([*columns, *tasks])
    names = ", ".join(f"{name} {count}" for name, count in wins.most_common())
    count = sum(wins.values())
    clear = f"{count} of {total} leads {'is' if count == 1 else 'are'} clear" + (f" ({names})" if names else "")
    seeds = min(lead.seeds for lead in [*columns, *tasks])
    caution = (
        f"with fewer than {LEAST} seeds for each pair, another seed may change the order"
        if seeds < LEAST
        else "where many scores are compared, some leads may be clear by chance"
    )
    return [*first, *second, f"In all, {clear}; {caution}."]


def _lead(lead: Lead) -> str:
    """Returns a clause on who leads in a column, and how far that can be trusted."""
    name = heading(lead.key)
    if round(lead.lead, 2) == 0:
        return f"no pair leads in {name}: {lead.name} and {lead.second} both score {lead.score:.2f} %"
    clause = f"{lead.name} has the highest {name}, {lead.score:.2f} %, {lead.lead:.2f} points above {lead.second}"
    if lead.reach is None:
        return f"{clause}, but there are too few seeds to tell this lead from noise"
    inside = lead.verdict != CLEAR
    if lead.seeds >= LEAST:
        over = f"interval over {lead.seeds} seeds (± {lead.reach:.2f})"
        return f"{clause}, which is {'within' if inside else 'beyond'} its 95 % {over}"
    over = f"95 % interval of a test of this size (± {lead.reach:.2f})"
    if inside:
        return f"{clause}, which is within the {over}, so that the order is open"
    return f"{clause}, which is beyond the {over}, but may not repeat with other seeds"


def _before_and_after(grid: Grid, key: Key) -> dict[str, tuple[float, float]]:
    """Returns the score in column ``key`` of each pair's encoder before training, and of the pair."""
    before = {row.name: row.cells[key].value for row in grid.printed if key in row.cells}
    return {
        row.name: (before[encoder], row.cells[key].value)
        for row in grid.ours
        if key in row.cells and (encoder := row.name.split(" · ")[-1]) in before
    }


def _no_gain(grid: Grid, counts: Mapping[Key, int]) -> list[str]:
    """Returns a sentence if no pair's first score is above its encoder's before training, beyond noise.

    A second sentence names the clearest gain in another score, if there is one.
    """
    key, found = grid.columns[0], _before_and_after(grid, grid.columns[0])
    if not found or key not in counts:
        return []
    if any(after - before > _half(before, after, counts[key]) for before, after in found.values()):
        return []
    name, (before, after) = max(found.items(), key=lambda item: item[1][1] - item[1][0])
    change = f"{after - before:+.2f} points, of {name}"
    if after > before:
        half = _half(before, after, counts[key])
        change += f", within the 95 % interval of a test of this size (± {half:.2f})"
    others = [
        (gain - half, heading(other), pair, gain, half)
        for other in grid.columns[1:]
        if other in counts
        for pair, (before, after) in _before_and_after(grid, other).items()
        if (gain := after - before) > (half := _half(before, after, counts[other]))
    ]
    start = "than its encoder was before training: the best change"
    if not others:
        return [f"On held-out text, no pair is clearly better {start} in {heading(key)} is {change}."]
    _, score, pair, gain, half = max(others, key=lambda one: one[0])
    sentence = f"On held-out text, no pair is clearly better in {heading(key)} {start} is {change}."
    return [f"{sentence} The clearest gain is in {score}: {gain:+.2f} points (± {half:.2f}), of {pair}."]


def _half(first: float, second: float, count: int) -> float:
    """Returns half of the 95 % interval of a difference of two percentages of ``count`` questions each."""
    return reach(math.sqrt(sum(share * (100 - share) for share in (first, second)) / count), math.inf)


def _training_effect(grid: Grid) -> list[str]:
    """Returns a sentence on the first score before and after training."""
    found = _before_and_after(grid, grid.columns[0])
    gains = {name: after - before for name, (before, after) in found.items()}
    if not gains:
        return []
    most = max(gains, key=lambda name: abs(gains[name]))
    higher = sum(gain > 0 for gain in gains.values())
    return [
        f"After training, {heading(grid.columns[0])} is higher than before for {higher} of {len(gains)} pairs; "
        f"the largest change is {gains[most]:+.2f} points, of {most}."
    ]
