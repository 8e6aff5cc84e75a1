"""Run folders, listed with what is special about each and with its scores; a broken folder is listed as such."""

from __future__ import annotations

import json
import operator
import re
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, TypeGuard

from pydantic import StringConstraints
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from data.display import printable
from data.errors import UserError
from data.files import JOURNAL_BYTES, read_json, read_text, read_yaml
from data.schema import mismatch

# Exceptions of reading a file that was cut short, altered or locked.
UNREADABLE = (OSError, ValueError)
OF_A_RUN = ("config.yaml", "metrics.jsonl")
# Keys that may differ between two runs of the same experiment.
FREE = {
    "names", "evaluation", "run_dir", "resume", "device", "processes", "threads", "workers", "trackers", "cache",
    "log_every", "deterministic",
}  # fmt: skip
# Names of components, after which run folders are named.
Name = Annotated[str, StringConstraints(pattern=r"^[^/\x00-\x1f]*$", max_length=200)]
Scores = dict[str, float | None]
MOST_NUMBERS = 256  # in a line of a journal
NAMED = ("objective", "encoder", "corpus", "budget", "seed")  # listed apart from other overrides
COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "<=": operator.le, ">=": operator.ge, "!=": operator.ne, "<": operator.lt, ">": operator.gt, "=": operator.eq
}  # fmt: skip
AVERAGES = ("declutr_downstream", "probing", "sts_spearman_mean")  # of senteval.json, those listed


@dataclass(frozen=True, kw_only=True)
class Names:
    """``names`` in a run's config.yaml, as far as this module and a resumed run read it."""

    objective: Name | None = None
    encoder: Name | None = None
    corpus: Name | None = None
    budget: Name | None = None
    origin: str | None = None
    store: str | None = None


@dataclass(frozen=True, kw_only=True)
class EncoderKeys:
    """``encoder`` in a run's config.yaml, likewise."""

    vectors: str | None = None


@dataclass(frozen=True, kw_only=True)
class Config:
    """A run's config.yaml, likewise."""

    names: Names | None = None
    seed: int | None = None
    weights: str | None = None
    encoder: EncoderKeys | None = None


@dataclass(frozen=True, kw_only=True)
class Environment:
    """A run's environment.json, likewise."""

    command: str | None = None
    overrides: list[str] | None = None


@dataclass(frozen=True, kw_only=True)
class Quick:
    """A run's quick.json."""

    start: Scores
    trained: Scores | None = None
    chance: Scores | None = None
    weights: str | None = None
    facts: dict[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class Tasks:
    """The tasks that an average is over."""

    tasks: list[str] | None = None


@dataclass(frozen=True, kw_only=True)
class SentEval:
    """A run's senteval.json, as far as it is listed."""

    averages: Scores | None = None
    averages_over: dict[str, Tasks] | None = None


def comparable(config: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings that decide what a run computes: without ``FREE`` and limits on its text."""
    kept = {key: value for key, value in config.items() if key not in FREE}
    if isinstance(kept.get("corpus"), dict):
        kept["corpus"] = {key: value for key, value in kept["corpus"].items() if key != "max_bytes"}
    return kept


def special(overrides: Sequence[str]) -> list[str]:
    """Returns those of a run's ``overrides`` that decide what it computes and are not among its names."""
    kept = []
    for text in overrides:
        key, equals, _ = text.lstrip("+~").partition("=")
        if equals and key not in {*NAMED, *FREE} and not key.startswith("hydra"):
            kept.append(text)
    return kept


def scan(root: Path) -> list[dict[str, Any]]:
    """Reads each run folder in ``root`` (or ``root`` itself, if it is one), in order of their names.

    Raises:
        UserError: if there is no folder ``root``.
    """
    root = Path(root)
    if not root.is_dir():
        raise UserError(f"There is no folder {root}: name the folder that holds the run folders (runs, say).")
    if (root / "config.yaml").exists():
        return [read(root)]
    # Beside runs there may be folders of other things: pictures, tables, what a sweep leaves.
    return [read(path) for path in sorted(root.iterdir()) if any((path / name).exists() for name in OF_A_RUN)]


def read(folder: Path) -> dict[str, Any]:
    """Reads the facts and scores of one run.

    Returns:
        ``run`` (its name), ``path``, ``state`` ("finished", "unfinished", "broken"), ``problem`` (a line, where
        it is broken), and where known ``objective``, ``encoder``, ``corpus``, ``budget`` (names), ``seed``,
        ``weights``, ``vectors`` (file of word vectors to begin with), ``steps``, ``tokens``, ``loss``, ``start``,
        ``trained`` and ``chance`` (scores of quick.json), ``facts`` (what they depend on), ``senteval`` (averages
        of senteval.json), ``over`` (which tasks), ``special`` (its overrides, as ``special`` returns them) and
        ``config``.
    """
    row: dict[str, Any] = {"run": folder.name, "path": str(folder), "state": "unfinished", "problem": None}
    try:
        config = _checked(Config, read_yaml(folder / "config.yaml"), "config.yaml")
        names = config.get("names") or {}
        row |= {key: names.get(key) for key in ("objective", "encoder", "corpus", "budget", "origin")}
        row |= {"seed": config.get("seed"), "config": config}
        row |= {"vectors": (config.get("encoder") or {}).get("vectors")}
        if (folder / "environment.json").exists():
            about = _checked(Environment, read_json(folder / "environment.json"), "environment.json")
            command = (about.get("command") or "").split()  # all that version 0.1 wrote
            row["special"] = special(command if about.get("overrides") is None else about["overrides"])
        last: dict[str, Any] = next(
            (line for line in reversed(read_lines(folder / "metrics.jsonl")) if "loss" in line), {}
        )
        row |= {"steps": last.get("step"), "tokens": last.get("tokens"), "loss": last.get("loss")}
        read_lines(folder / "timings.jsonl")
        quick, senteval = (
            _checked(kind, read_json(folder / name), name) if (folder / name).exists() else {}
            for kind, name in ((Quick, "quick.json"), (SentEval, "senteval.json"))
        )
        row |= {column: quick.get(column) or {} for column in ("start", "trained", "chance", "facts")}
        row |= {"senteval": senteval.get("averages") or {}, "over": senteval.get("averages_over") or {}}
        row["weights"] = quick.get("weights", config.get("weights"))  # "auto" resolved
        if (folder / "encoder").is_dir():
            row["state"] = "finished"
    except UNREADABLE as error:
        row |= {"state": "broken", "problem": " ".join(str(error).split())[:300] or type(error).__name__}
    return row


def _checked(kind: type[Any], value: Any, name: str) -> dict[str, Any]:
    """Returns ``value``, read from the file ``name``, if it is a mapping that fits ``kind``.

    Raises:
        ValueError: naming the file and the first key that does not fit.
    """
    if not isinstance(value, dict):
        raise ValueError(f"{name} is not a {'mapping' if name.endswith('yaml') else 'JSON object'}")
    if found := mismatch(kind, value):
        raise ValueError(f"{name}: {' '.join(found)}")
    return value


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Returns the lines of a journal, none if it is missing; a last line cut short by a kill is left out.

    Raises:
        OSError: if it cannot be read.
        ValueError: naming file and line, if any other line is not a JSON object of a step and its numbers.
    """
    if not path.exists():
        return []
    lines = read_text(path, JOURNAL_BYTES).splitlines()
    result = []
    for number, line in enumerate(lines, start=1):
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            if number == len(lines):
                break
            raise ValueError(f"{path.name}:{number} is not JSON") from None
        if not isinstance(value, dict):
            raise ValueError(f"{path.name}:{number} is not a JSON object")
        known = [one for one in value.values() if one is not None]
        plain = len(value) <= MOST_NUMBERS and all(key.isascii() and key.isprintable() for key in value)
        needed = [value.get(key, 0) for key in ("step", "loss", "tokens")]
        if not plain or "step" not in value or None in needed or not all(map(_is_number, known)):
            raise ValueError(f"{path.name}:{number} is not a step and its numbers")
        result.append(value)
    return result


def _is_number(value: Any) -> TypeGuard[float]:
    """Returns whether ``value`` is a float or an integer of 64 bits, and not a truth value."""
    return isinstance(value, float) or (type(value) is int and abs(value) < 2**63)


def fields(row: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what runs are sorted and selected by: names, amounts, scores, and the keys of the configuration."""
    trained = row.get("trained") or {}
    names = ("run", "state", *NAMED, "weights", "steps", "tokens", "loss")
    return (
        dict(_dotted(row.get("config") or {}))
        | {name: row.get(name) for name in names}
        | {
            "recall@1": trained.get("recall@1"),
            "recall@5": trained.get("recall@5"),
            "probes": _probe_mean(trained),
            "senteval": next(iter(_averages(row).values()), None),
        }
    )


def select(rows: list[dict[str, Any]], where: str) -> list[dict[str, Any]]:
    """Returns those of ``rows`` for which all conditions hold: "objective=declutr,loss<3".

    Raises:
        UserError: if a condition is not of this form, or no run has its key.
    """
    for condition in filter(None, where.split(",")):
        parts = re.split("(<=|>=|!=|<|>|=)", condition, maxsplit=1)
        if len(parts) != 3 or not all(parts):
            raise UserError(f"where={where}: {condition} is not of the form key=value, key!=value or key<value.")
        key, sign, value = parts
        _require_key(rows, key, "where")
        rows = [row for row in rows if _holds(fields(row).get(key), sign, value)]
    return rows


def _holds(found: Any, sign: str, value: str) -> bool:
    number = _as_number(value)
    if _is_number(found) and number is not None:
        return COMPARISONS[sign](found, number)
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
        return (not _is_number(value), value if _is_number(value) else 0.0, _as_text(value))

    return sorted(having, key=place, reverse=by != key) + [row for row in rows if fields(row).get(key) is None]


def _require_key(rows: list[dict[str, Any]], key: str, option: str) -> None:
    known = {name for row in rows for name in fields(row)}
    if rows and key not in known:
        close = get_close_matches(key, known, 1)
        hint = f" Did you mean {close[0]}?" if close else ""
        raise UserError(f"{option}={key}: no run has such a key.{hint}")


def _dotted(node: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in node.items():
        if isinstance(value, dict):
            yield from _dotted(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _as_number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _as_text(value: Any) -> str:
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def mean_table(rows: list[dict[str, Any]]) -> Table:
    """Means and sample standard deviations over the finished runs that differ in nothing but their seed."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        if row["state"] == "finished":
            names = [str(row.get(name)) for name in NAMED if name != "seed"]
            groups.setdefault(" ".join([*names, *row.get("special", ())]), []).append(row)
    columns = ("loss", "recall@1", "recall@5", "probes", "senteval")
    result = Table(title="mean ± standard deviation over seeds", title_justify="left", header_style="bold")
    result.add_column("configuration", no_wrap=True)
    for name in ("runs", *columns):
        result.add_column(name, justify="right")
    for name, group in groups.items():
        found = ([value for row in group if _is_number(value := fields(row)[column])] for column in columns)
        result.add_row(_shown(name), str(len(group)), *(_mean(values) if values else "–" for values in found))
    return result


def _mean(values: Sequence[float]) -> str:
    spread = f" ± {statistics.stdev(values):.3g}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.4g}{spread}"


def table(rows: list[dict[str, Any]]) -> Table:
    """Table of ``rows`` for the terminal: amounts, negatives per anchor, loss, scores before and after."""
    result = Table(title=f"{len(rows)} runs", title_justify="left", header_style="bold")
    result.add_column("run", no_wrap=True, overflow="ignore")  # it is copied into resume= and warm_start=
    result.add_column("weights")
    for name in ("steps", "tokens", "negatives", "loss", "recall@1, %", "recall@5, %", "probes, %"):
        result.add_column(name, justify="right")
    # A label has the number of tasks of an average. Averages over other tasks are numbered, each with a column.
    averages = sorted({key for row in rows for key in _averages(row)})
    labels, notes = [label for label, _ in averages], []
    for place, (label, tasks) in enumerate(averages):
        if labels.count(label) > 1:
            label = f"{label} #{labels[: place + 1].count(label)}"
            notes.append(f"{label}: {', '.join(tasks)}")
        result.add_column(_shown(f"SentEval {label}"), justify="right")
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
            _change(start.get("recall@1"), trained.get("recall@1")),
            _change(start.get("recall@5"), trained.get("recall@5")),
            _change(_probe_mean(start), _probe_mean(trained)),
            *(_number(found.get(key), ".1f") for key in averages),
            row["state"]
            if row["problem"] is None
            else Text.assemble((row["state"], "red"), ": ", _shown(row["problem"])),
            _shown(" ".join(row.get("special", ()))),
        )
    return result


def _averages(row: Mapping[str, Any]) -> dict[tuple[str, tuple[str, ...]], float]:
    """Averages to list, by label and tasks."""
    over = row.get("over") or {}
    return {
        (label, tuple(over.get(label, {}).get("tasks") or ())): value
        for label, value in (row.get("senteval") or {}).items()
        if label.split(" (")[0] in AVERAGES
    }


def _probe_mean(scores: dict[str, float | None]) -> float | None:
    values = [value for name, value in scores.items() if name.startswith("probe_")]
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None


def _number(value: Any, form: str) -> str:
    return format(value, form) if _is_number(value) else "–"


def _shown(text: str) -> Text:
    """Returns ``text`` from a run folder without rich's markup and with control characters made visible."""
    return Text(printable(text))


def _change(start: float | None, trained: float | None) -> str:
    return "–" if trained is None else f"{_number(start, '.1f')} → {trained:.1f}"
