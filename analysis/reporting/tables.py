"""One table from several senteval.json: models by tasks, averages, means over seeds, the papers' rows.

With a paper's rows only scores of the paper's own metrics on SentEval's complete data are shown. An average over
fewer tasks than the paper's is marked; the papers' rows are then averaged from their printed cells over the same
tasks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from math import sqrt
from statistics import fmean, stdev
from typing import Literal

from analysis.model_names import Names
from analysis.reporting.intervals import reach, welch
from analysis.reporting.matching import read_named, require_equal
from analysis.reporting.printed import Cell, Key, PrintedRow, paper_rows
from analysis.reporting.rendering import Grid, Row, heading, score_cell, show
from analysis.senteval.averages import RULES, Rule, Scores, average, shown_averages
from analysis.senteval.records import PUBLISHED, Record, headlines, incomparable, measure
from analysis.senteval.results import Results
from analysis.senteval.tasks import find
from data.errors import UserError

Paper = Literal["declutr", "declutr_v1", "conssent", "gensen"]

REMARKS = {  # on a task's printed scores, by (paper, task)
    (
        "conssent",
        "SICKEntailment",
    ): "conssent: SICK-E and SICK-R of Untrained LSTM, FastText BoW and SkipThought-LN look swapped in print."
}
PAPER_PROTOCOLS = {"declutr": "default", "declutr_v1": "default", "conssent": "conssent", "gensen": "gensen"}


def comparison(
    results: Sequence[Results],
    papers: Sequence[str] = (),
    split: str = "test",
    *,
    tasks: Collection[str] | None = None,
    mean: bool = False,
    interval: bool = False,
    against: str | None = None,
) -> Grid:
    """Builds the table of ``results``, one row each, with the rows of ``papers`` below.

    Args:
        results: evaluations; equal names are distinguished by protocol or number.
        papers: papers whose rows are added; on test they also define the columns.
        split: "test" or "dev".
        tasks: tasks whose columns are shown; averages still cover all tasks. None: all.
        mean: if true, results of equal name and protocol are one row of means and standard deviations.
        interval: as ``mean``, with half of the 95 % interval instead of the standard deviation.
        against: name to which the differences of all others are shown (``differences``).

    Raises:
        UserError: if there is nothing to show, or to compare with ``against``.
    """
    printed = [row for paper in papers for row in paper_rows(paper, split)]
    scores = [_scores(one, only_comparable=bool(papers)) for one in results]
    theirs = [key for row in printed for key in row.cells if key[0]]
    wanted = _ordered(theirs or [key for one in results for key in _keys(one, split)])
    wanted = [key for key in wanted if tasks is None or key[0] in tasks]
    all_shown = split == "test" and not papers  # a missing score is then undefined
    columns = [key for key in wanted if all_shown or any(score(*key) is not None for score in scores)]
    names = _names(results, numbered=not (mean or interval or against))
    ours = [Row(name, {}, protocol=one.protocol) for name, one in zip(names, results, strict=True)]
    below = [Row(row.model, {}, row.paper, PAPER_PROTOCOLS[row.paper]) for row in printed]
    for key in columns:
        for row, score in zip(ours, scores, strict=True):
            if (value := score(*key)) is not None:
                row.cells[key] = score_cell(value)
        for row, source in zip(below, printed, strict=True):
            if key in source.cells:
                row.cells[key] = source.cells[key]

    notes = [_protocols(results)]
    if any(
        measure(one.tasks[task], metric) is None
        for one in results
        for task, metric in _keys(one, "test")
        if metric.startswith(("pearson", "spearman"))
    ):
        notes.append("–: no correlation is defined where all predictions, or all gold scores, are equal.")
    apart = {task for one in results for task, record in one.tasks.items() if incomparable(task, record)}
    evaluated = {task for one in results for task in one.tasks}
    for rule in _rules(papers, split, [one.protocol for one in results], evaluated):
        columns += _add_average(rule, scores, apart, ours, list(zip(below, printed, strict=True)), notes)
    if not columns:
        beside = f" that can stand beside {' and '.join(papers)}" if papers else ""
        raise UserError(f"There is no {split} score{beside} in the results of {', '.join(names)}.")
    below = [row for row in below if row.cells]
    for paper in papers:
        if any(row.source == paper for row in below):
            protocol = PAPER_PROTOCOLS[paper]
            other = "" if all(one.protocol == protocol for one in results) else ", another than ours"
            notes.append(f"{paper}: as printed, protocol {protocol}{other}.")
        else:
            notes.append(f"{paper}: nothing to compare.")
    shown = {task for task, _ in columns}
    notes += [remark for (paper, task), remark in REMARKS.items() if paper in papers and task in shown]
    notes += _data_notes(results, names, left_out=bool(papers))
    grid = Grid(f"SentEval, {split}", columns, ours, below, notes)
    if against is not None:
        return differences(grid, against)
    return merged(grid, interval=interval) if mean or interval else grid


def _add_average(
    rule: Rule,
    scores: Sequence[Scores],
    apart: set[str],
    ours: Sequence[Row],
    printed: Sequence[tuple[Row, PrintedRow]],
    notes: list[str],
) -> list[Key]:
    """Adds the cells of an average to the rows and remarks on it to ``notes``; returns its columns.

    The average is over the tasks of the row with most of them; rows that lack one of these get no cell. A printed
    average over all tasks without printed cells gets its own column if the own average is incomplete.
    """
    found = [one for score in scores if (one := average(rule, score, apart))]
    fullest = max(found, key=lambda one: len(one.tasks), default=None)
    if fullest is None or len(fullest.tasks) < 2 or not (printed or fullest.telling):
        return []
    key = "", fullest.label
    for row, score in zip(ours, scores, strict=True):
        if one := average(rule, score, apart, fullest.tasks):
            row.cells[key] = score_cell(one.value)
    whole = "", rule.name
    recomputed = separate_column = False
    for row, source in printed:
        if fullest.complete and whole in source.cells:
            row.cells[key] = source.cells[whole]
        elif one := average(rule, source.score, (), fullest.tasks):
            row.cells[key] = score_cell(one.value)
            recomputed = True
        elif whole in source.cells:
            row.cells[whole] = source.cells[whole]
            separate_column = True
    if not fullest.complete:
        notes.append(f"{heading(whole)} is over {fullest.describe()} ({rule.source}).")
    if recomputed:
        notes.append(f"In printed rows, {heading(key)} is computed from their cells over the same tasks.")
    if separate_column:
        tasks = len(rule.tasks)
        notes.append(
            f"{heading(whole)} as printed is over all {tasks} tasks: not to be compared with one over fewer."
        )
    return [key, whole] if separate_column else [key]


def _scores(results: Results, only_comparable: bool) -> Scores:
    def score(task: str, metric: str) -> float | None:
        record = results.tasks.get(task)
        if record is None or (only_comparable and incomparable(task, record)):
            return None
        if metric == "dev_spearman":  # the dev score of plain cosine only
            return measure(record, "dev") if _dev_metric(record) == metric else None
        return measure(record, metric)

    return score


def _keys(results: Results, split: str) -> list[Key]:
    return [
        (task, metric)
        for task, record in results.tasks.items()
        for metric in (headlines(task, record) if split == "test" else (_dev_metric(record),))
    ]


def _dev_metric(record: Record) -> str:
    """Returns the metric of a task on dev: Pearson of trained relatedness, Spearman of plain cosine."""
    if record["kind"] != "relatedness":
        return "dev"
    return "dev_spearman" if record.get("mse") is None else "dev_pearson"


def _ordered(keys: Iterable[Key]) -> list[Key]:
    """Removes duplicates and sorts by SentEval's order of tasks; metrics of a task keep their order."""
    place = {task: number for number, task in enumerate(PUBLISHED)}
    return sorted(dict.fromkeys(keys), key=lambda key: place[key[0]])


def _rules(
    papers: Sequence[str], split: str, protocols: Collection[str], evaluated: Collection[str]
) -> list[Rule]:
    if papers:
        return [rule for rule in RULES.values() if rule.split == split and set(rule.papers) & set(papers)]
    if split == "test":
        return [RULES[name] for name in shown_averages(protocols, evaluated)]
    return [RULES[f"{name}_dev"] for name in shown_averages((), evaluated) if f"{name}_dev" in RULES]


def _names(results: Sequence[Results], *, numbered: bool) -> list[str]:
    """Returns the rows' names: the model's, with its protocol if these differ; equal ones are ``numbered``."""
    several = len({one.protocol for one in results}) > 1
    names = [str(one.model.get("name", "?")) + (f" ({one.protocol})" if several else "") for one in results]
    count, seen = Counter(names), Counter[str]()
    for index, name in enumerate(names):
        seen[name] += 1
        if numbered and count[name] > 1:
            names[index] = f"{name} #{seen[name]}"
    return names


def _protocols(results: Sequence[Results]) -> str:
    names = list(dict.fromkeys(one.protocol for one in results))
    return f"Protocol: {names[0]}." if len(names) == 1 else f"Protocols, not to be compared: {', '.join(names)}."


def _data_notes(results: Sequence[Results], names: Sequence[str], left_out: bool) -> list[str]:
    """Returns notes on scores not comparable with printed ones, with reasons, and on missing tasks."""
    reasons: dict[str, dict[str, None]] = {}
    for one in results:
        for task, record in one.tasks.items():
            if reason := incomparable(task, record):
                reasons.setdefault(reason, {})[task] = None
    notes = []
    if reasons:
        reasons_text = "; ".join(f"{', '.join(tasks)} ({reason})" for reason, tasks in reasons.items())
        notes.append(f"{'Left out' if left_out else 'Not comparable with printed scores'}: {reasons_text}.")
    lacking: dict[str, list[str]] = {}
    for one, name in zip(results, names, strict=True):
        if one.missing:
            lacking.setdefault(", ".join(one.missing), []).append(name)
    return notes + [
        f"No files of {tasks} for {', '.join(dict.fromkeys(models))}." for tasks, models in lacking.items()
    ]


def merged(grid: Grid, *, interval: bool = False) -> Grid:
    """Merges the own rows of equal name and protocol into one, at the place of the first.

    A cell missing in one of them stays empty. A note gives the number of results in each row.

    Args:
        interval: if true, means have the half-width of their 95 % interval (Student's t); otherwise the scores'
            standard deviation (n - 1).
    """
    groups = _groups(grid)
    rows = [_merged(group, interval) for group in groups.values()]
    if len(rows) == len(grid.ours):
        return grid
    counts = ", ".join(f"{name} ({len(group)})" for (name, _), group in groups.items())
    spread = "half of its 95 % interval (t)" if interval else "standard deviation"
    note = f"Mean ± {spread} over the results of each name: {counts}."
    printed = {key for key in grid.columns if not any(key in row.cells for row in grid.ours)}
    columns = [key for key in grid.columns if key in printed or any(key in row.cells for row in rows)]
    return replace(
        grid, ours=rows, columns=columns, notes=[*grid.notes, note], spread="ci95" if interval else "sd"
    )


def differences(grid: Grid, base: str) -> Grid:
    """Computes the differences of all names' means to ``base``, with half of their 95 % interval (Student's t).

    If both names have equally many results, these are paired in order, like seeds that share their data.
    Otherwise the interval is Welch's or, if one name has a single result, that of the other mean. One against one
    has no interval. Names without a result of ``base`` by the same protocol are left out.

    Raises:
        UserError: if nothing is left.
    """
    groups = _groups(grid)
    pairs = [
        (rows, groups[base, protocol])
        for (name, protocol), rows in groups.items()
        if name != base and (base, protocol) in groups
    ]
    if not pairs:
        names = ", ".join(dict.fromkeys(name for name, _ in groups))
        raise UserError(f"against must be one of two or more names of one protocol: {names}. Got {base} instead.")
    counts = ", ".join(f"{rows[0].name} ({len(rows)}, {len(of)})" for rows, of in pairs)
    rows = [_difference(*pair) for pair in pairs]
    note = f"Difference to {base}: one result of each, so that there is no interval."
    if any(row.deviations for row in rows):
        note = (
            f"Difference to {base} ± half of its 95 % interval (t), and the numbers of results, which are paired "
            f"in their order where there are as many of both: {counts}."
        )
    columns = [key for key in grid.columns if any(key in row.cells for row in rows)]
    return Grid(f"{grid.title}, difference to {base}", columns, rows, [], [*grid.notes, note], "ci95")


def _groups(grid: Grid) -> dict[tuple[str, str], list[Row]]:
    """Groups the own rows by name and protocol."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in grid.ours:
        groups.setdefault((row.name, row.protocol), []).append(row)
    return groups


def _difference(rows: list[Row], base: list[Row]) -> Row:
    cells, deviations = {}, {}
    for key in (key for key in rows[0].cells if all(key in row.cells for row in rows + base)):
        ours, theirs = ([row.cells[key].value for row in side] for side in (rows, base))
        value, half = fmean(ours) - fmean(theirs), None
        if len(ours) == len(theirs) > 1:
            half = reach(stdev(a - b for a, b in zip(ours, theirs, strict=True)) / sqrt(len(ours)), len(ours) - 1)
        elif sides := [(stdev(side), len(side)) for side in (ours, theirs) if len(side) > 1]:
            half = reach(*welch(*sides))
        cells[key] = Cell(value, f"{value:+.2f}" + ("" if half is None else f" ± {half:.2f}"))
        if half is not None:
            deviations[key] = half
    return replace(rows[0], cells=cells, deviations=deviations, count=len(rows))


def _merged(rows: list[Row], interval: bool) -> Row:
    if len(rows) == 1:
        return rows[0]
    shared: list[Key] = [key for key in rows[0].cells if all(key in row.cells for row in rows)]
    values = {key: [row.cells[key].value for row in rows] for key in shared}
    n = len(rows)
    deviations = {
        key: reach(stdev(found) / sqrt(n), n - 1) if interval else stdev(found) for key, found in values.items()
    }
    cells = {key: score_cell(fmean(found), deviations[key]) for key, found in values.items()}
    return replace(rows[0], cells=cells, deviations=deviations, count=len(rows))


def report_table(
    *,
    results: Names,
    papers: Sequence[Paper] = (),
    split: Literal["test", "dev"] = "test",
    tasks: Names | None = None,
    by: Sequence[str] = (),
    mean: bool = False,
    interval: bool = False,
    against: str | None = None,
    format: Literal["text", "md", "csv", "latex"] = "text",
) -> None:
    """Prints one table of several results.

    Args:
        results: folders of results, or NAME=FOLDER; "*" stands for any letters.
        papers: papers whose printed rows stand below.
        split: "test" or "dev".
        tasks: tasks that are shown; None: all.
        by: keys of the runs' configurations that name the rows.
        mean, interval, against: at most one of them, see ``comparison``.
        format: of the table.

    Raises:
        UserError: if results cannot be read, or those of one name are of different experiments.
    """
    if mean + interval + (against is not None) > 1:
        raise UserError("mean, interval and against exclude each other", key="mean")
    shown = {task.name for task in find(tasks)} if tasks else None
    stored = read_named(results, by)
    if mean or interval or against is not None:
        require_equal(stored)
    grid = comparison(
        [one.results for one in stored], papers, split, tasks=shown, mean=mean, interval=interval, against=against
    )
    show(grid, format)
