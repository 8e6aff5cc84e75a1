"""Results of several models as a frame, the papers' printed rows beside them, and the commands that show them.

A wide frame has a row a result. Its columns are scores in percent: SentEval's as "<Task>.<metric>"
("STS12.spearman.mean"), "<Task>.comparable" where they may stand beside printed ones, and those of the quick
evaluation by their keys ("recall@1"). A sweep's begin with its label axes, "seed" and "run". A long frame has a
row a score.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

from analysis.bootstrap import compare_results, half_width
from analysis.model_names import CONFIG, Names, run_folder, split_members
from analysis.runs import comparable
from analysis.senteval.averages import AVERAGES, average, label_average
from analysis.senteval.records import FILE, flat_scores, read_results
from analysis.senteval.tasks import find
from analysis.tables import Format, render
from data.errors import UserError
from data.files import read_yaml
from data.sources.reading import find_files

PAPER_TABLES = Path(__file__).with_name("paper_tables")


def read_table(name: str) -> pd.DataFrame:
    """Reads a CSV of ``analysis/paper_tables``: texts as printed."""
    return pd.read_csv(PAPER_TABLES / f"{name}.csv", dtype=str, keep_default_na=False)


def paper_rows(paper: str, split: str) -> pd.DataFrame:
    """Returns a paper's scores on "test" or "dev" as a wide frame, NaN where none is printed.

    The rows are named by (model, block of the table); printed averages are in columns of their names.
    """
    tables = [read_table(path.stem) for path in sorted(PAPER_TABLES.glob(f"{paper}_[St]*.csv"))]
    rows = pd.concat(tables).query("split == @split").set_index(["model", "group"])
    numbers = rows.apply(pd.to_numeric, errors="coerce")
    return numbers.groupby(level=[0, 1], sort=False).first().dropna(axis=1, how="all")


def select_scores(
    frame: pd.DataFrame, metrics: Iterable[str], paper: pd.DataFrame
) -> tuple[pd.DataFrame, pd.DataFrame, dict[str, str]]:
    """Selects scores of a wide frame, and a paper's beside them.

    Averages are over the tasks that all rows of ours have which have any of them.

    Args:
        frame: the wide frame.
        metrics: columns, and names of ``AVERAGES``.
        paper: wide frame of printed scores. A printed average counts only if it is over the same tasks as ours.

    Returns:
        A frame of our scores and one of the paper's, with a column for each metric, NaN where a score is missing
        or ours are not comparable with the paper's; and labels of the metrics.
    """
    count, everything, columns, labels = len(frame), pd.concat([frame, paper], ignore_index=True), {}, {}

    def column(*key: str) -> pd.Series:
        return everything.get(".".join(key), pd.Series(np.nan, everything.index)).astype(float)

    for metric in metrics:
        values, label, tasks = column(metric), metric.removesuffix(".test"), [metric.partition(".")[0]]
        if rule := AVERAGES.get(metric):
            tests = frame.reindex(columns=[f"{task}.test" for task in rule.tasks])
            tasks = [*tests.dropna(how="all").dropna(axis=1).columns.str.removesuffix(".test")]
            whole = len(tasks) == len(rule.tasks)
            computed = pd.Series(average(rule, column, tasks), everything.index)
            values, label = values.fillna(computed) if whole else computed, label_average(metric, tasks)
        if frame.reindex(columns=[f"{task}.comparable" for task in tasks]).eq(False).any(axis=None):
            values[count:], label = np.nan, f"{label} (not comparable)"
        columns[metric], labels[metric] = values, label
    table = pd.DataFrame(columns, everything.index)
    return table[:count].set_axis(frame.index), table[count:].set_axis(paper.index), labels


def tidy(frame: pd.DataFrame, scores: Mapping[str, str]) -> pd.DataFrame:
    """Returns the long frame: label axes, seed, run, panel and score of each score that a row has.

    Args:
        frame: the wide frame of a sweep.
        scores: panel to metric, as ``select_scores`` takes it.
    """
    labels, (ours, _, _) = frame.loc[:, :"run"], select_scores(frame, scores.values(), pd.DataFrame())
    panels = [labels.assign(panel=panel, score=ours[metric]) for panel, metric in scores.items()]
    return pd.concat(panels, ignore_index=True).dropna(subset="score", ignore_index=True)


def tabulate(
    frame: pd.DataFrame, metrics: Iterable[str], paper: pd.DataFrame
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Returns our scores and printed ones as ``select_scores`` does, in columns named by labels.

    Scores that no row of ours has, and rows without scores, are left out.
    """
    ours, printed, labels = select_scores(frame, metrics, paper)
    ours = ours.dropna(axis=1, how="all")
    return ours.rename(columns=labels), printed[ours.columns].dropna(how="all").rename(columns=labels)


def read_frame(paths: Sequence[str]) -> pd.DataFrame:
    """Reads results as a frame: a row (model, protocol, seed) for each, columns (task, metric).

    Args:
        paths: see ``read_named``.

    Raises:
        UserError: if one cannot be read.
    """
    frame = flatten_results(read_named(paths))
    frame.columns = frame.columns.str.split(".", n=1, expand=True).set_names(["task", "metric"])
    return frame


def flatten_results(results: pd.Series) -> pd.DataFrame:
    """Returns the wide frame of results."""
    return pd.DataFrame([flat_scores(result.tasks) for result in results], results.index)


def read_named(paths: Sequence[str], tasks: Sequence[str] | None = None) -> pd.Series:
    """Reads results as a series of ``Results`` by model, protocol and seed; seeds of no run count from 1.

    Args:
        paths: FOLDER, or NAME=FOLDER to rename its model; "*" and "?" in a folder stand for any letters.
        tasks: names of tasks that are read; None: all.

    Raises:
        UserError: if no folder matches, one cannot be read, or results of one name are of runs that differ in more
            than their seed.
    """
    chosen, rows = find(tasks), []
    for text in paths:
        name, _, folder = ("", "", text) if Path(text).exists() else text.rpartition("=")
        for result in map(read_results, find_files(f"{folder}/{FILE}", [".json"], folder)):
            member = split_members(str(result.model.get("path")))[0]
            run = run_folder(str(result.folder)) or run_folder(member)
            config = read_yaml(run / CONFIG) if run else {}
            settings = str(comparable(config) | {"seed": None})
            result.model["name"] = name or str(result.model.get("name"))
            result.tasks = {task.name: result.tasks[task.name] for task in chosen if task.name in result.tasks}
            rows.append((result.model["name"], result.protocol, config.get("seed"), settings, result))
    frame = pd.DataFrame(rows, columns=["model", "protocol", "seed", "settings", "result"])
    groups = frame.groupby(["model", "protocol"], sort=False)
    frame = frame.assign(seed=frame["seed"].fillna(groups.cumcount() + 1), group=groups.ngroup())
    if (groups["settings"].nunique() > 1).any():
        raise UserError("different experiments have one name", key="results", hint="Name them: NAME=FOLDER.")
    return frame.sort_values(["group", "seed"], kind="stable").set_index(["model", "protocol", "seed"])["result"]


def average_seeds(frame: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Returns means over the rows of a model and protocol, and their ``half_width``; NaN where a row is NaN.

    Args:
        frame: with rows (model, protocol, seed).
    """
    groups = frame.groupby(level=["model", "protocol"], sort=False)
    return groups.mean(skipna=False), groups.agg(half_width)


def join_spreads(means: pd.DataFrame, spreads: pd.DataFrame) -> pd.DataFrame:
    """Returns texts "mean ± spread"; only the mean without a spread, and None without a mean."""
    texts = means.map("{:.2f}".format) + spreads.map(" ± {:.2f}".format)
    return texts.replace(" ± nan", "", regex=True).replace("nan", None)


def report_table(
    *,
    results: Names,
    paper: Literal["declutr", "declutr_v1", "conssent", "gensen"] | None = None,
    split: Literal["test", "dev"] = "test",
    tasks: Names | None = None,
    against: str | None = None,
    format: Format = "text",
) -> None:
    """Shows one table of several results: a row a model, its mean over seeds with half of the 95 % interval (t).

    Args:
        results: folders of results, or NAME=FOLDER; "*" stands for any letters. Those of one name are seeds.
        paper: paper whose metrics are the columns, and whose printed rows stand below. An average is over the
            tasks that all results have; where ours are not comparable, its column has no printed scores.
        split: "test" or "dev".
        tasks: tasks that are shown; None: all.
        against: name to which the differences of all others are shown, on test, with 95 % intervals over examples
            and seeds; see ``bootstrap.compare_results``.
        format: see ``tables.render``.

    Raises:
        UserError: if results cannot be read, or those of one name are of different experiments.
    """
    named = read_named(results, tasks)
    if against is not None:
        show_differences(named, against, format)
        return
    shown = [
        {task: record.dev for task, record in result.tasks.items()} if split == "dev" else result.scores
        for result in named
    ]
    scores, printed = pd.DataFrame(shown, named.index, dtype=float), None
    if paper:
        rows = paper_rows(paper, split).rename(index=f"{paper}, {{}}".format, level=1)
        scores, printed = tabulate(flatten_results(named), rows, rows.rename_axis(["model", "protocol"]))
    if scores.empty:
        raise UserError("none has these scores", key="results")
    means, halves = average_seeds(scores)
    if format == "csv":
        means = means.join(halves.dropna(axis=1, how="all").add_suffix(".ci95"))
    else:
        means = join_spreads(means, halves)
    title = f"SentEval, {split}: mean ± half of the 95 % interval (t) over seeds"
    print(render(pd.concat([means, printed]), format, title=title))


def show_differences(results: pd.Series, against: str, format: Format) -> None:
    """Shows the differences of models to that named ``against``, by the same protocol.

    Raises:
        UserError: if there are no two models of one protocol.
    """
    groups = results.groupby(level=["model", "protocol"], sort=False).agg(list)
    tables = {
        (name, protocol): compare_results(group, groups[against, protocol])
        for (name, protocol), group in groups.items()
        if name != against and (against, protocol) in groups
    }
    if not tables:
        names = ", ".join(results.index.unique("model"))
        raise UserError(f"must be one of two or more names of one protocol, of {names}", key="against")
    table = pd.concat(tables, names=["model", "protocol"]).rename(columns={"first": "mean", "second": against})
    notes = ["low, high: 95 % interval over test examples and seeds; without predictions over seeds (Student's t)"]
    print(render(table, format, notes=notes))
