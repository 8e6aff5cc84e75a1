"""Tables of runs with the overrides and scores of each; selection, sorting, and means over seeds."""

from __future__ import annotations

import operator
import re
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from textwrap import wrap
from typing import Any

from rich.markup import escape
from rich.table import Table
from rich.text import Text

from analysis.quick import PERCENTAGES, Scores
from analysis.runs import NAMED, is_number, mixed_probes
from analysis.senteval.averages import LISTED, average_title
from data.display import is_number as reads_as_number
from data.display import printable
from data.errors import UserError
from data.schema import dotted

COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "<=": operator.le, ">=": operator.ge, "!=": operator.ne, "<": operator.lt, ">": operator.gt, "=": operator.eq
}  # fmt: skip
QUICK: dict[str, list[str]] = {}  # columns of quick scores; groups are shown as their mean
for _score in PERCENTAGES:
    QUICK.setdefault(f"{_score.group}s" if _score.group else _score.key, []).append(_score.key)
MOST_VALUES = 8  # of a key that are listed
HEADING = 24  # characters of a line of an average's heading


def fields(row: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values for sorting and selecting runs: names, amounts, scores, and the config's keys."""
    trained = row.get("trained") or {}
    names = ("run", "state", *NAMED, "weights", "steps", "tokens", "loss")
    return (
        dict(dotted(row.get("config") or {}))
        | {name: row.get(name) for name in names}
        | {column: _quick(column, trained) for column in QUICK}
        | {"senteval": next(iter(_averages(row).values()), None)}
    )


def select(rows: list[dict[str, Any]], where: str) -> list[dict[str, Any]]:
    """Returns those of ``rows`` for which all conditions hold: "objective=declutr,loss<3".

    Raises:
        UserError: if a condition is not of this form, or no run has its key.
    """
    every = rows
    for key, sign, value in _conditions(where):
        _require_key(every, key, "where")
        rows = [row for row in rows if _holds(fields(row).get(key), sign, value)]
    return rows


def _conditions(where: str) -> Iterator[list[str]]:
    """Yields key, sign and value of each condition."""
    for condition in filter(None, where.split(",")):
        parts = re.split("(<=|>=|!=|<|>|=)", condition, maxsplit=1)
        if len(parts) != 3 or not all(parts):
            raise UserError(f"where={where}: {condition} is not of the form key=value, key!=value or key<value.")
        yield parts


def none_selected(rows: list[dict[str, Any]], where: str) -> str:
    """Returns a line for a selection without runs: which values its keys have among all ``rows``."""
    there = []
    for key in dict.fromkeys(key for key, _, _ in _conditions(where)):
        found = [fields(row).get(key) for row in rows]
        texts, numbers = sorted({*map(_as_text, found)}), [value for value in found if is_number(value)]
        if len(texts) > MOST_VALUES and len(numbers) == len(found):
            there.append(f"{key} is from {min(numbers):g} to {max(numbers):g}")
        else:
            there.append(f"{key} is {', '.join(texts[:MOST_VALUES])}{', ...' * (len(texts) > MOST_VALUES)}")
    return printable(f"where={where} selects none of {len(rows)} runs: {'; '.join(there)}.")


def _holds(found: Any, sign: str, value: str) -> bool:
    if is_number(found) and reads_as_number(value):
        return COMPARISONS[sign](found, float(value))
    return sign in ("=", "!=") and COMPARISONS[sign](_as_text(found), value)


def sort(rows: list[dict[str, Any]], by: str) -> list[dict[str, Any]]:
    """Returns ``rows`` in order of a key of ``fields``, "-loss" from the highest; those without a value last.

    Raises:
        UserError: if no run has the key.
    """
    key = by.removeprefix("-")
    _require_key(rows, key, "sort")
    having = [row for row in rows if fields(row).get(key) is not None]

    def place(row: Mapping[str, Any]) -> tuple[bool, float, str]:
        value = fields(row)[key]
        return (not is_number(value), value if is_number(value) else 0.0, _as_text(value))

    return sorted(having, key=place, reverse=by != key) + [row for row in rows if fields(row).get(key) is None]


def _require_key(rows: list[dict[str, Any]], key: str, option: str) -> None:
    known = {name for row in rows for name in fields(row)}
    if rows and key not in known:
        close = get_close_matches(key, known, 1)
        hint = (
            f"Did you mean {close[0]}?"
            if close
            else f"Available, say: {', '.join(sorted(known & {*NAMED, *QUICK}))}."
        )
        raise UserError(f"{option}={key}: no run has such a key. {hint}")


def _as_text(value: Any) -> str:
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def shared(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns the overrides shared by all ``rows``, if there are several."""
    every = [row.get("special", []) for row in rows]
    return [text for text in every[0] if all(text in other for other in every)] if len(every) > 1 else []


def mean_table(rows: list[dict[str, Any]]) -> Table:
    """Builds a table of means and sample standard deviations over finished runs that differ only in their seed."""
    everywhere, newest = shared(rows), max((row.get("version") or 1 for row in rows), default=1)
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        if row["state"] == "finished":
            names = [str(row.get(name)) for name in NAMED if name != "seed"]
            changed = [text for text in row.get("special", ()) if text not in everywhere]
            earlier = ["(earlier probes)"] if row["version"] and row["version"] < newest else []
            groups.setdefault(" ".join([*names, *changed, *earlier]), []).append(row)
    columns = ("loss", *QUICK, "senteval")
    several = any(len(group) > 1 for group in groups.values())
    title = "mean ± standard deviation over seeds" if several else "scores of one run each"
    result = Table(title=title, title_justify="left", header_style="bold")
    result.add_column("configuration", no_wrap=True)
    for name in ("runs", *columns):
        result.add_column(name, justify="right")
    for name, group in groups.items():
        found = ([value for row in group if is_number(value := fields(row)[column])] for column in columns)
        result.add_row(_shown(name), str(len(group)), *(_mean(values) if values else "–" for values in found))
    return result


def _mean(values: Sequence[float]) -> str:
    spread = f" ± {statistics.stdev(values):.3g}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.4g}{spread}"


def table(rows: list[dict[str, Any]]) -> Table:
    """Builds the table of ``rows`` for the terminal: amounts, negatives per anchor, loss, scores."""
    result = Table(title=f"{len(rows)} run{'s' * (len(rows) != 1)}", title_justify="left", header_style="bold")
    result.add_column("run", no_wrap=True, overflow="ignore")  # users copy it into resume= and warm_start=
    result.add_column("weights")
    for name in ("steps", "tokens", "negatives", "loss", *(f"{column}, %" for column in QUICK)):
        result.add_column(name, justify="right")
    # Averages over different tasks are numbered, a column each.
    averages = sorted({key for row in rows for key in _averages(row)})
    labels, notes = [label for label, _ in averages], []
    for place, (label, tasks) in enumerate(averages):
        title = average_title(label)
        if labels.count(label) > 1:
            title = f"{title} #{labels[: place + 1].count(label)}"
            notes.append(f"{title}: {', '.join(tasks)}")
        result.add_column(Text("\n".join(wrap(printable(f"SentEval, {title}"), HEADING))), justify="right")
    everywhere = shared(rows)
    notes += [f"overrides of all runs: {' '.join(everywhere)}"] if everywhere else []
    notes += mixed_probes(rows)
    result.caption, result.caption_justify = "\n".join(escape(printable(note)) for note in notes) or None, "left"
    result.add_column("state")
    result.add_column("overrides")
    for row in rows:
        start, trained, found = row.get("start") or {}, row.get("trained") or {}, _averages(row)
        result.add_row(
            _shown(row["run"]),
            _shown(row.get("weights") or "–"),
            _number(row.get("steps"), ","),
            _number(row.get("tokens"), ","),
            _number((row.get("facts") or {}).get("negatives per anchor"), ","),
            _number(row.get("loss"), ".3f"),
            *(_change(_quick(column, start), _quick(column, trained)) for column in QUICK),
            *(_number(found.get(key), ".1f") for key in averages),
            row["state"]
            if row["problem"] is None
            else Text.assemble((row["state"], "red"), ": ", _shown(row["problem"])),
            _shown(" ".join(text for text in row.get("special", ()) if text not in everywhere)),
        )
    return result


def _averages(row: Mapping[str, Any]) -> dict[tuple[str, tuple[str, ...]], float]:
    """Returns the averages to list, by label and tasks."""
    over = row.get("over") or {}
    return {
        (label, tuple(over.get(label, {}).get("tasks") or ())): value
        for label, value in (row.get("senteval") or {}).items()
        if label.split(" (")[0] in LISTED
    }


def _quick(column: str, scores: Scores) -> float | None:
    """Returns the mean of a column's scores; None if one of them is None."""
    values = [scores[key] for key in QUICK[column] if key in scores]
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None


def _number(value: Any, form: str) -> str:
    return format(value, form) if is_number(value) else "–"


def _shown(text: str) -> Text:
    """Returns ``text`` from a run folder without rich's markup and with control characters made visible."""
    return Text(printable(text))


def _change(start: float | None, trained: float | None) -> str:
    return "–" if trained is None else f"{_number(start, '.1f')} → {trained:.1f}"
