"""Reads run folders and lists them with their scores; a broken folder is listed as such."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import StringConstraints
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from data.display import printable
from data.errors import UserError
from data.files import JOURNAL_BYTES, read_json, read_text, read_yaml
from data.schema import mismatch

# What reading a file that was cut short, altered or locked may raise.
UNREADABLE = (OSError, ValueError)
OF_A_RUN = ("config.yaml", "metrics.jsonl")
# What may differ between two runs that are the same experiment.
FREE = {
    "names", "evaluation", "run_dir", "resume", "device", "processes", "threads", "workers", "trackers", "cache",
    "log_every", "deterministic",
}  # fmt: skip
# Names of components, after which run folders are named.
Name = Annotated[str, StringConstraints(pattern=r"^[^/\x00-\x1f]*$", max_length=200)]
Scores = dict[str, float | None]
MOST_NUMBERS = 256  # in a line of a journal
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


def scan(root: Path) -> list[dict[str, Any]]:
    """One ``read`` for each run folder in ``root`` (or ``root`` itself, where it is one), by name.

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
    """What is known of one run.

    Returns:
        ``run`` (its name), ``path``, ``state`` ("finished", "unfinished", "broken"), ``problem`` (a line, where
        it is broken), and where known ``objective``, ``encoder``, ``corpus``, ``budget`` (names), ``seed``,
        ``weights``, ``vectors`` (file of word vectors to begin with), ``steps``, ``tokens``, ``loss``, ``start``,
        ``trained`` and ``chance`` (scores of quick.json), ``facts`` (what they depend on), ``senteval`` (averages
        of senteval.json) and ``over`` (which tasks).
    """
    row: dict[str, Any] = {"run": folder.name, "path": str(folder), "state": "unfinished", "problem": None}
    try:
        config = _checked(Config, read_yaml(folder / "config.yaml"), "config.yaml")
        names = config.get("names") or {}
        row |= {key: names.get(key) for key in ("objective", "encoder", "corpus", "budget", "origin")}
        row |= {"seed": config.get("seed"), "vectors": (config.get("encoder") or {}).get("vectors")}
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
        row["weights"] = quick.get("weights", config.get("weights"))  # what "auto" came to
        if (folder / "encoder").is_dir():
            row["state"] = "finished"
    except UNREADABLE as error:
        row |= {"state": "broken", "problem": " ".join(str(error).split())[:300] or type(error).__name__}
    return row


def _checked(kind: type[Any], value: Any, name: str) -> dict[str, Any]:
    """``value``, read from the file ``name``, if it is a mapping that fits ``kind``.

    Raises:
        ValueError: naming the file and the first key that does not fit.
    """
    if not isinstance(value, dict):
        raise ValueError(f"{name} is not a {'mapping' if name.endswith('yaml') else 'JSON object'}")
    if found := mismatch(kind, value):
        raise ValueError(f"{name}: {' '.join(found)}")
    return value


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The lines of a journal that may not be there; a last line cut short by a kill is left out.

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


def _is_number(value: Any) -> bool:
    """Returns whether ``value`` is a float or an integer of 64 bits; truth values are neither."""
    return isinstance(value, float) or (type(value) is int and abs(value) < 2**63)


def table(rows: list[dict[str, Any]]) -> Table:
    """``rows`` of ``scan`` for the terminal: amounts, negatives per anchor, loss, scores before and after."""
    result = Table(title=f"{len(rows)} runs", title_justify="left", header_style="bold")
    result.add_column("run", no_wrap=True, overflow="ignore")  # it is copied into resume= and warm_start=
    result.add_column("weights")
    for name in ("steps", "tokens", "negatives", "loss", "recall@1, %", "recall@5, %", "probes, %"):
        result.add_column(name, justify="right")
    # A label tells how many tasks an average is over: those over others are numbered, each with a column.
    averages = sorted({key for row in rows for key in _averages(row)})
    labels, notes = [label for label, _ in averages], []
    for place, (label, tasks) in enumerate(averages):
        if labels.count(label) > 1:
            label = f"{label} #{labels[: place + 1].count(label)}"
            notes.append(f"{label}: {', '.join(tasks)}")
        result.add_column(_shown(f"SentEval {label}"), justify="right")
    result.caption, result.caption_justify = "\n".join(escape(printable(note)) for note in notes) or None, "left"
    result.add_column("state")
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
        )
    return result


def _averages(row: dict[str, Any]) -> dict[tuple[str, tuple[str, ...]], float]:
    """The averages that are listed, by label and tasks."""
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
    """``text`` from a run folder: brackets are no markup of rich, and control characters are visible."""
    return Text(printable(text))


def _change(start: float | None, trained: float | None) -> str:
    return "–" if trained is None else f"{_number(start, '.1f')} → {trained:.1f}"
