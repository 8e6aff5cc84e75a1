"""Results of an evaluation: scores and averages as a table, a dictionary, CSV, and senteval.json."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
from rich.markup import escape
from rich.table import Table

from analysis.senteval.averages import averages
from analysis.senteval.records import PUBLISHED, Record, fault, headlines, incomparable, measure, metric_of
from analysis.senteval.scores import metric_name
from data.display import printable, wide_console
from data.errors import UserError, reading
from data.files import atomic_write, read_json, write_json

FILE = "senteval.json"


@dataclass
class Results:
    """Scores of an encoder; printed, a table of them.

    Attributes:
        protocol: name of the protocol of all tasks.
        model: facts of the encoder; ``name`` is shown in tables, as is ``weights`` if "bundled" or "random".
        data: facts of the data (folders, say), any JSON.
        tasks: records by task, in SentEval's order.
        missing: by task that could not be evaluated, the first file that is not there.
    """

    protocol: str
    model: dict[str, Any]
    data: Any = None
    tasks: dict[str, Record] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    def table(self) -> Table:
        """Returns the scores as a table for a terminal."""
        from analysis.senteval.display import task_table  # late: it imports this module

        weights = self.model.get("weights")
        mark = f"; weights: {weights}" if weights in ("bundled", "random") else ""
        return task_table(self.tasks, title=f"SentEval: {self.model.get('name')} ({self.protocol}{mark})")

    def __str__(self) -> str:
        return _as_text(self.table())

    @property
    def scores(self) -> dict[str, float | None]:
        """Test scores in percent by task (of MRPC also "MRPC.f1"), and the averages that are complete."""
        found = {}
        for task, record in self.tasks.items():
            for place, metric in enumerate(headlines(task, record)):
                found[f"{task}.{metric}" if place else task] = measure(record, metric)
        return found | {one.label: one.value for one in averages(self.tasks) if one.complete}

    def to_dict(self) -> dict[str, Any]:
        """Returns everything that senteval.json holds: plain dictionaries, lists, numbers and texts."""
        return _document(self)

    def to_csv(self, path: Path | str | None = None) -> str:
        """Returns a line "task,metric,score" for each of ``scores`` (averages have no metric), after that header.

        The text is also written to ``path``, if there is one.
        """
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["task", "metric", "score"])
        for name, score in self.scores.items():
            task, _, metric = name.partition(".")
            record = self.tasks.get(task)
            metric = metric_name(metric) if metric else metric_of(record) if record else ""
            writer.writerow([name, metric, "" if score is None else f"{score:.2f}"])
        if path is not None:
            with atomic_write(path) as file:
                file.write(text.getvalue())
        return text.getvalue()

    def compare(self, other: Results) -> Comparison:
        """Compares the scores with those of ``other``.

        Raises:
            UserError: if the protocols differ, or no task is in both.
        """
        if self.protocol != other.protocol:
            raise UserError(f"results of protocols {self.protocol} and {other.protocol} cannot be compared")
        theirs = other.scores
        shared = {
            name: (score, second)
            for name, score in self.scores.items()
            if score is not None and (second := theirs.get(name)) is not None
        }
        if not shared:
            raise UserError("the results have no task in common")
        return Comparison(str(self.model.get("name")), str(other.model.get("name")), shared)


@dataclass(frozen=True)
class Comparison:
    """Scores of two encoders side by side; printed, a table.

    Attributes:
        first, second: names of the encoders.
        scores: by task or average, the score of each in percent.
    """

    first: str
    second: str
    scores: Mapping[str, tuple[float, float]]

    @property
    def differences(self) -> dict[str, float]:
        """First minus second, in points, by task or average."""
        return {name: first - second for name, (first, second) in self.scores.items()}

    def __str__(self) -> str:
        table = Table(header_style="bold")
        table.add_column("task", no_wrap=True)
        for name in (self.first, self.second, "difference"):
            table.add_column(escape(printable(name)), justify="right")
        for name, difference in self.differences.items():
            first, second = self.scores[name]
            table.add_row(escape(name), f"{first:.2f}", f"{second:.2f}", f"{difference:+.2f}")
        return _as_text(table)


def _as_text(table: Table) -> str:
    file = io.StringIO()
    wide_console(table, file=file).print(table)
    return file.getvalue().rstrip("\n")


def write_results(path: Path | str, results: Results) -> None:
    """Writes senteval.json, atomically.

    Raises:
        ValueError: if a record is not a valid ``records.Record``.
    """
    write_json(path, _document(results))


def completed(task: str, record: Mapping[str, Any]) -> Record:
    """Returns ``record`` as plain values (None for NaN), and sets ``comparable`` and ``reason``.

    Raises:
        ValueError: if it is not a valid ``records.Record``.
    """
    plain = _plain(record)
    if found := fault(task, plain):
        raise ValueError(found)
    reason = incomparable(task, plain)
    return plain | {"comparable": reason is None, "reason": reason}


def _document(results: Results) -> dict[str, Any]:
    """Returns the content of senteval.json: completed records and their averages.

    ``averages`` has a number by label: the rule's name if it is complete and comparable, else
    "<name> (15 of 17)"; ``averages_over`` has the tasks behind each.
    """
    found = {name: completed(name, record) for name, record in results.tasks.items()}
    tasks = {name: found[name] for name in PUBLISHED if name in found}
    found_averages = averages(tasks)
    return {
        "tasks": tasks,
        "averages": {one.label: one.value for one in found_averages},
        "averages_over": {
            one.label: {
                "source": one.rule.source,
                "tasks": one.tasks,
                "missing": one.missing,
                "not_comparable": one.apart,
            }
            for one in found_averages
        },
        "model": results.model,
        "protocol": results.protocol,
        "missing": results.missing,
        "data": results.data,
    }


def read_results(path: Path | str) -> Results:
    """Reads a senteval.json, or the one in a folder.

    Raises:
        UserError: if it cannot be read.
    """
    path = Path(path)
    if path.is_dir():
        path = path / FILE
    with reading(FILE, path):
        content = read_json(path, _Document)
        for name, record in content["tasks"].items():
            if why := fault(name, record):
                raise ValueError(why)
        tasks = cast(dict[str, Record], content["tasks"])
        return Results(
            content["protocol"], content["model"], content.get("data"), tasks, content.get("missing", {})
        )


@dataclass
class _Document:
    """Keys of senteval.json that are read."""

    protocol: str
    model: dict[str, Any]
    tasks: dict[str, Any]
    missing: dict[str, str] = field(default_factory=dict)


def _plain(value: Any) -> Any:
    """Converts ``value`` to what JSON can hold: nothing of NumPy and no NaN."""
    if isinstance(value, (np.generic, np.ndarray)):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    return None if isinstance(value, float) and math.isnan(value) else value
