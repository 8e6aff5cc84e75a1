"""Reads run folders and lists them with their scores; a broken folder is listed as such."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml
from rich.table import Table

from data.errors import UserError

# What reading a file that was cut short, altered or locked may raise.
UNREADABLE = (OSError, ValueError, yaml.YAMLError)
OF_A_RUN = ("config.yaml", "metrics.jsonl")
# What may differ between two runs that are the same experiment.
FREE = {
    "names", "evaluation", "run_dir", "resume", "device", "threads", "workers", "trackers", "cache", "log_every",
}  # fmt: skip
AVERAGES = ("declutr_downstream", "probing", "sts_spearman_mean")  # of senteval.json, those listed


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
        config = yaml.safe_load((folder / "config.yaml").read_text(encoding="utf-8"))
        if not isinstance(config, dict):
            raise ValueError("config.yaml is not a mapping")
        row |= {key: (config.get("names") or {}).get(key) for key in ("objective", "encoder", "corpus", "budget")}
        row |= {"seed": config.get("seed"), "weights": config.get("weights")}
        last: dict[str, Any] = next(
            (line for line in reversed(read_lines(folder / "metrics.jsonl")) if "loss" in line), {}
        )
        row |= {"steps": last.get("step"), "tokens": last.get("tokens"), "loss": last.get("loss")}
        quick = _read_json(folder / "quick.json")
        row |= {column: quick.get(column, {}) for column in ("start", "trained", "chance")}
        row["facts"] = quick.get("facts", {})
        senteval = _read_json(folder / "senteval.json")
        row |= {"senteval": senteval.get("averages", {}), "over": senteval.get("averages_over", {})}
        row["weights"] = quick.get("weights", row["weights"])  # what "auto" came to
        row["origin"] = (config.get("names") or {}).get("origin")
        row["vectors"] = (config.get("encoder") or {}).get("vectors")
        if (folder / "encoder").is_dir():
            row["state"] = "finished"
    except UNREADABLE as error:
        row |= {"state": "broken", "problem": " ".join(str(error).split()) or type(error).__name__}
    return row


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The lines of a JSON-lines file that may not be there; a last line cut short by a kill is left out.

    Raises:
        ValueError: naming file and line, if any other line is not a JSON object.
    """
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines()
    result = []
    for number, line in enumerate(lines, start=1):
        try:
            value = json.loads(line)
        except ValueError:
            if number == len(lines):
                break
            raise ValueError(f"{path.name}:{number} is not JSON") from None
        if not isinstance(value, dict):
            raise ValueError(f"{path.name}:{number} is not a JSON object")
        result.append(value)
    return result


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
        result.add_column(f"SentEval {label}", justify="right")
    result.caption, result.caption_justify = "\n".join(notes) or None, "left"
    result.add_column("state")
    for row in rows:
        start, trained, found = row.get("start") or {}, row.get("trained") or {}, _averages(row)
        result.add_row(
            row["run"],
            str(row.get("weights") or "–"),
            _number(row.get("steps"), ","),
            _number(row.get("tokens"), ","),
            _number((row.get("facts") or {}).get("negatives per anchor"), ","),
            _number(row.get("loss"), ".3f"),
            _change(start.get("recall@1"), trained.get("recall@1")),
            _change(start.get("recall@5"), trained.get("recall@5")),
            _change(_probe_mean(start), _probe_mean(trained)),
            *(_number(found.get(key), ".1f") for key in averages),
            row["state"] if row["problem"] is None else f"[red]{row['state']}[/red]: {row['problem']}",
        )
    return result


def _averages(row: dict[str, Any]) -> dict[tuple[str, tuple[str, ...]], float]:
    """The averages that are listed, by label and tasks."""
    over = row.get("over") or {}
    return {
        (label, tuple(over.get(label, {}).get("tasks", ()))): value
        for label, value in (row.get("senteval") or {}).items()
        if label.split(" (")[0] in AVERAGES
    }


def _read_json(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    value = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(value, dict):
        raise ValueError(f"{path.name} is not a JSON object")
    return value


def _probe_mean(scores: dict[str, float | None]) -> float | None:
    values = [value for name, value in scores.items() if name.startswith("probe_")]
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None


def _number(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)


def _change(start: float | None, trained: float | None) -> str:
    return "–" if trained is None else f"{_number(start, '.1f')} → {trained:.1f}"
