"""Progress and scores of an evaluation: a live table on a terminal, a line for each task elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from analysis.senteval.averages import averages, shown_averages
from analysis.senteval.records import PUBLISHED, Record, headlines, incomparable, measure, metric_of
from analysis.senteval.results import Results
from analysis.senteval.scores import metric_name
from data.display import Clock, Pace, printable

EMBEDDING = "embedding"


class Watch:
    """Callbacks of a running evaluation; a display overrides those that it shows."""

    def embedding(self, share: float) -> None:
        """A share (0 to 1) of the sentences has been embedded."""

    def begin(self, results: Results, running: Sequence[str], waiting: Sequence[str]) -> None:
        """Another task begins, the last of those that are ``running``."""

    def progress(self, share: float) -> None:
        """A share (0 to 1) of all tasks together is done."""

    def end(self, results: Results, task: str) -> None:
        """The task is done and its result written."""


def task_table(
    records: Mapping[str, Record], pending: Mapping[str, str] | None = None, *, title: str = "SentEval"
) -> Table:
    """Returns one model's table: the scores of finished tasks, the tasks that are pending, the averages below.

    Args:
        records: of finished tasks, by name.
        pending: by name of a task that is not finished, its state ("waiting", "training, 40 %").
        title: of the table.
    """
    pending = pending or {}
    table = Table(title=escape(printable(title)), title_justify="left", title_style="bold", header_style="bold")
    table.add_column("task", no_wrap=True)
    table.add_column("metric")
    for name in ("dev", "test", "n test", "L2", "seconds"):
        table.add_column(name, justify="right")
    table.add_column("note")
    for task in [task for task in PUBLISHED if task in records or task in pending]:
        if task not in records:
            table.add_row(task, *[""] * 6, escape(printable(pending[task])), style="dim")
            continue
        record = records[task]
        others = [f"{metric_name(key)} {_show(measure(record, key))}" for key in headlines(task, record)[1:]]
        others += ["not comparable"] if incomparable(task, record) else []
        table.add_row(
            task,
            metrics_of(record),
            _show(measure(record, "dev")),
            _show(measure(record, "test")),
            f"{record['n_test']:,}",
            _weight(record["l2"]),
            f"{record['seconds']:,.1f}",
            ", ".join(others),
        )
    lines = remarks(records)
    if any(record["l2"] for record in records.values()):
        lines.append("L2: weight of the penalty, chosen on dev; after ~ the most frequent one of several folds.")
    table.caption = "\n".join(map(escape, map(printable, lines)))
    table.caption_justify = "left"
    return table


def remarks(records: Mapping[str, Record]) -> list[str]:
    """Returns the averages of ``records``, and which scores are undefined or not comparable: a line each."""
    wanted = shown_averages([record["protocol"] for record in records.values()], records)
    shown = (one for one in averages(records) if one.rule.name in wanted and one.telling)
    lines = [f"{one.title}: {one.value:.2f}" for one in shown]
    if lacking := [task for task, record in records.items() if measure(record, "test") is None]:
        lines.append(f"Undefined, as all similarities or gold scores of a set are equal: {', '.join(lacking)}.")
    reasons = {task: reason for task, record in records.items() if (reason := incomparable(task, record))}
    if reasons:
        listed = "; ".join(f"{task}: {reason}" for task, reason in reasons.items())
        lines.append(f"Not comparable with published scores: {listed}.")
    return lines


def metrics_of(record: Record) -> str:
    """Returns the name of the metric of ``record``'s test score, and of its dev score where that is another."""
    return metric_of(record) + " (dev: Pearson)" * (record.get("mse") is not None)


def _show(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _weight(l2: float | list[float] | None) -> str:
    """The L2 chosen; of several folds the most frequent, marked by "~" where they differ."""
    if l2 is None or l2 == []:
        return "–"
    if not isinstance(l2, list):
        return f"{l2:g}"
    [(common, count)] = Counter(l2).most_common(1)
    return f"{'' if count == len(l2) else '~'}{common:g}"


@contextmanager
def progress_on(console: Console) -> Iterator[Watch]:
    """Yields a watch that shows the progress of an evaluation on ``console``."""
    if not console.is_terminal:
        yield _Lines(console)
        return
    with Live(console=console, transient=True, refresh_per_second=4) as live:
        yield _LiveTable(live)


class _Lines(Watch):
    """Prints a line when a task is done, and now and then meanwhile."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._clock, self._pace = Clock(), Pace()
        self._what = ""

    def embedding(self, share: float) -> None:
        self._show(EMBEDDING, share)

    def begin(self, results: Results, running: Sequence[str], waiting: Sequence[str]) -> None:
        if self._what == EMBEDDING:
            self._clock.restart()
        self._what = ", ".join(running)

    def progress(self, share: float) -> None:
        self._show(self._what, share)

    def end(self, results: Results, task: str) -> None:
        record = results.tasks[task]
        scores = "  ".join(
            f"{split} {value:.2f}" for split in ("dev", "test") if (value := record[split]) is not None
        )
        self._print(f"{task:<22} {scores}  {record['seconds']:.1f} s")

    def _show(self, what: str, share: float) -> None:
        self._what, self._clock.share = what, share
        if self._pace.due():
            self._print(f"{what:<22} {share:4.0%}  {self._clock.left()}")

    def _print(self, line: str) -> None:
        self._console.print(line, markup=False, emoji=False, highlight=False, soft_wrap=True)


class _LiveTable(Watch):
    """Shows the results so far, the task being evaluated, and the time left."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._clock = Clock()
        self._table: Any = ""
        self._what = ""

    def embedding(self, share: float) -> None:
        self._what = EMBEDDING
        self.progress(share)

    def begin(self, results: Results, running: Sequence[str], waiting: Sequence[str]) -> None:
        self._table = task_table(
            results.tasks, dict.fromkeys(waiting, "waiting") | dict.fromkeys(running, "running")
        )
        if self._what == EMBEDDING:
            self._clock.restart()
        self._what = f"{', '.join(running)}, {len(waiting)} more"

    def progress(self, share: float) -> None:
        self._clock.share = share
        self._live.update(Group(self._table, Text(f"{self._what}  {share:4.0%}  {self._clock.left()}")))
