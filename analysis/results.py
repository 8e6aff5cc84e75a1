"""Results of several models as a frame, the papers' printed rows beside them, and the commands that show them.

A wide frame has a row a result. Its columns are scores in percent: SentEval's as "<Task>.<metric>"
("STS12.spearman.mean"), "<Task>.comparable" where they may stand beside printed ones, and those of the quick
evaluation by their keys ("recall@1"). A sweep's begin with its label axes, "seed" and "run". A long frame has a
row a score.
"""

from __future__ import annotations

import csv
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from analysis import plots
from analysis.bootstrap import compare_results, t_half_width
from analysis.model_names import CONFIG, Names, run_folder, split_members
from analysis.runs import comparable
from analysis.senteval.averages import AVERAGES, LISTED
from analysis.senteval.records import (
    FILE,
    PUBLISHED,
    Record,
    Results,
    headlines,
    incomparable,
    read_results,
)
from analysis.senteval.tasks import find
from analysis.tables import Format, show
from data.display import flatten
from data.errors import UserError, reading
from data.files import read_yaml
from data.ranges import Count, Seed

PAPER_TABLES = Path(__file__).with_name("paper_tables")
Split = Literal["test", "dev"]


@cache
def read_table(name: str) -> tuple[dict[str, str], ...]:
    """Reads a CSV of ``analysis/paper_tables``: rows from column to text, as printed."""
    with (PAPER_TABLES / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return tuple(csv.DictReader(file))


def paper_rows(paper: str, split: str) -> pd.DataFrame:
    """Returns a paper's scores on "test" or "dev" as a wide frame, NaN where none is printed.

    The rows are named by (model, block of the table); printed averages are in columns of their names.
    """
    tables = [pd.DataFrame(read_table(path.stem)) for path in sorted(PAPER_TABLES.glob(f"{paper}_[St]*.csv"))]
    rows = pd.concat(tables).query("split == @split").set_index(["model", "group"])
    numbers = rows.apply(pd.to_numeric, errors="coerce")
    return numbers.groupby(level=[0, 1], sort=False).first().dropna(axis=1, how="all")


@dataclass(frozen=True)
class Measure:
    """A score of all rows of a frame.

    Attributes:
        values: by row, in percent; NaN where it is missing.
        label: its name, with the number of tasks of an average if some are missing.
        whole: False for an average over a part of its tasks.
        comparable: True if it is of SentEval's complete data and metrics, as printed scores are.
        tasks: tasks of an average.
    """

    values: pd.Series
    label: str
    whole: bool
    comparable: bool
    tasks: tuple[str, ...] = ()


def measure(frame: pd.DataFrame, metric: str) -> Measure:
    """Returns a score of a wide frame, of an average over the tasks that all rows have which have any.

    Args:
        frame, metric: see ``score``.
    """
    foreign = {task for task in PUBLISHED if not frame.get(f"{task}.comparable", pd.Series()).dropna().all()}
    task = metric.partition(".")[0]
    if metric not in AVERAGES:
        label = metric + " (not comparable)" * (task in foreign)
        return Measure(score(frame, metric), label, True, task in PUBLISHED and task not in foreign)
    rule = AVERAGES[metric]
    keys = [item for group in rule.groups for item in group.items()]
    rows = pd.DataFrame({task: score(frame, f"{task}.{name}") for task, name in keys}).dropna(how="all")
    tasks = tuple(rows.dropna(axis=1)) if len(rows) else ()
    whole = len(tasks) == len(keys)
    label = f"mean of {'' if whole else f'{len(tasks)} of '}{rule.title}"
    return Measure(score(frame, metric, tasks), label, whole, bool(tasks) and foreign.isdisjoint(tasks), tasks)


def score(frame: pd.DataFrame, metric: str, tasks: Collection[str] = PUBLISHED) -> pd.Series:
    """Returns a score of a wide frame by row, NaN where a part of it is missing.

    Args:
        frame: the wide frame.
        metric: a column, "<Task>.<metric>+<metric>" for the mean of two, or a name of ``AVERAGES``.
        tasks: those that an average is over. A printed average counts only if it is over all.
    """
    if metric not in AVERAGES:
        task, dot, names = metric.partition(".")
        parts = [frame.get(task + dot + name, pd.Series(np.nan, frame.index)) for name in names.split("+")]
        return sum(part.astype(float) for part in parts) / len(parts)
    rule, means = AVERAGES[metric], []
    for group in rule.groups:
        columns = {
            task: score(frame, f"{task}.{name}") - rule.baseline.get(task, 0)
            for task, name in group.items()
            if task in tasks
        }
        means.append(pd.DataFrame(columns, frame.index).mean(axis=1, skipna=False))
    values = sum(means) / len(means)
    return frame[metric].fillna(values) if metric in frame and {*rule.tasks} <= {*tasks} else values


def tidy(frame: pd.DataFrame, scores: Mapping[str, str]) -> pd.DataFrame:
    """Returns the long frame: label axes, seed, run, panel and score of each score that a row has.

    Args:
        frame: the wide frame of a sweep.
        scores: panel to metric, as ``score`` takes it.
    """
    labels = frame.loc[:, :"run"]
    panels = [labels.assign(panel=panel, score=measure(frame, metric).values) for panel, metric in scores.items()]
    return pd.concat(panels, ignore_index=True).dropna(subset="score", ignore_index=True)


def printed_scores(paper: str, split: str, measures: Mapping[str, Measure]) -> pd.DataFrame:
    """Returns a paper's scores, a row a model and a column for each label of our measures by metric.

    An average is over the same tasks as ours.
    """
    frame = paper_rows(paper, split)
    columns = {ours.label: score(frame, metric, ours.tasks) for metric, ours in measures.items()}
    return pd.DataFrame(columns).droplevel(1).rename_axis("model")


def flat_scores(records: Mapping[str, Record]) -> dict[str, float]:
    """Returns the numbers of records as a row of a wide frame."""
    rows = {
        task: {**dict(record), "comparable": not incomparable(task, record)} for task, record in records.items()
    }
    return {key: value for key, value in flatten(rows) if isinstance(value, (int, float))}


def read_frame(paths: Sequence[str], by: Sequence[str] = ()) -> pd.DataFrame:
    """Reads results as a frame: a row (model, protocol, seed) for each, columns (task, metric).

    Args:
        paths, by: see ``read_named``.

    Raises:
        UserError: if one cannot be read.
    """
    frame = to_frame(read_named(paths, by))
    keys = [(task, metric) for task, _, metric in frame.columns.str.partition(".")]
    return frame.set_axis(pd.MultiIndex.from_tuples(keys, names=["task", "metric"]), axis=1)


def to_frame(results: Sequence[Results]) -> pd.DataFrame:
    """Returns the wide frame of results, with rows (model, protocol, seed); seeds of no run count from 1."""
    index: list[tuple[Any, ...]] = []
    for one in results:
        name = one.model.get("name"), one.protocol
        number = sum(row[:2] == name for row in index) + 1
        index.append((*name, _configs(one)[0].get("seed", number)))
    names = ["model", "protocol", "seed"]
    return pd.DataFrame([flat_scores(one.tasks) for one in results], pd.MultiIndex.from_tuples(index, names=names))


def read_named(paths: Sequence[str], by: Sequence[str] = (), tasks: Sequence[str] | None = None) -> list[Results]:
    """Reads results, each under its model's name or another one.

    Args:
        paths: FOLDER or NAME=FOLDER; "*" and "?" in a folder stand for any letters.
        by: keys of the runs' configurations ("objective.task"), whose values name results without a NAME.
        tasks: names of tasks that are read; None: all.

    Raises:
        UserError: if no folder matches, or one cannot be read.
    """
    results, names = [], {task.name for task in find(tasks)}
    for text in paths:
        name, _, path = ("", "", text) if Path(text).exists() else text.rpartition("=")
        folders = [Path(path)]
        if not folders[0].exists():
            root = folders[0].anchor
            folders = sorted(file.parent for file in Path(root).glob(f"{path.removeprefix(root)}/{FILE}"))
        if not folders:
            raise UserError("no folder with results", key=path)
        for one in map(read_results, folders):
            one.model["name"] = name or run_label(one, by) or str(one.model.get("name"))
            one.tasks = {task: record for task, record in one.tasks.items() if task in names}
            results.append(one)
    return results


def run_label(results: Results, keys: Sequence[str]) -> str:
    """Returns the values of a run's configuration at dotted keys, as "D 2"; keys that it lacks are left out."""
    config = dict(flatten(_configs(results)[0])) if keys else {}
    return " ".join(str(config[key]) for key in keys if config.get(key) is not None)


def _configs(results: Results) -> list[dict[str, Any]]:
    """Reads the configurations of the runs whose encoders were evaluated; {"model": name} for other models."""
    members, folder = split_members(str(results.model.get("path"))), results.folder
    runs = [folder] if folder and (folder / CONFIG).is_file() else [run_folder(member) for member in members]
    with reading("run configuration", folder or members[0]):
        return [dict(read_yaml(run / CONFIG)) if run else {"model": members} for run in runs]


def group_results(results: Sequence[Results]) -> dict[tuple[str, str], list[Results]]:
    """Groups results by model and protocol, in the order of their runs' seeds.

    Raises:
        UserError: if results of one name are of different experiments: runs differ in more than their seed, or the
            encoders or their pooling and layers differ.
    """
    groups: dict[tuple[str, str], list[tuple[int, Results]]] = {}
    settings: dict[tuple[str, str], Any] = {}
    for one in results:
        key, configs = (str(one.model.get("name")), one.protocol), _configs(one)
        runs = [comparable(config) | {"seed": None} for config in configs]
        facts = runs, [one.model.get(name) for name in ("pooling", "layers", "vectors")]
        if settings.setdefault(key, facts) != facts:
            text = f"{groups[key][0][1].folder} and {one.folder} are of different experiments"
            raise UserError(text, key=f"results: {key[0]}", hint="Give them different names.")
        groups.setdefault(key, []).append((configs[0].get("seed", 0), one))
    return {key: [one for _, one in sorted(group, key=itemgetter(0))] for key, group in groups.items()}


def common_tasks(results: Sequence[Results]) -> list[str]:
    """Returns the tasks of results, in SentEval's order.

    Raises:
        UserError: if protocols, tasks or their files differ.
    """
    first = results[0]
    for one in results:
        files = [{task: record.files for task, record in each.tasks.items()} for each in (one, first)]
        if one.protocol != first.protocol or files[0] != files[1]:
            raise UserError(f"another protocol, other tasks or files than {first.folder}", key=str(one.folder))
    return [*first.tasks]


def tabulate(
    results: Sequence[Results], papers: Sequence[str] = (), split: Split = "test"
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Returns the scores of models, and those that papers print in the same columns.

    Args:
        results: of the models.
        papers: papers whose metrics and averages are the columns. Our scores that are not comparable with them are
            left out, and averages are over the tasks that all results have; without papers they are complete.
        split: "test" or "dev".

    Raises:
        UserError: if there is no score.
    """
    if papers:
        results = [
            one.model_copy(
                update={"tasks": {task: it for task, it in one.tasks.items() if not incomparable(task, it)}}
            )
            for one in results
        ]
    frame = to_frame(results)
    keys = [column for paper in papers for column in paper_rows(paper, split)] or [
        f"{task}.{metric}"
        for one in results
        for task, record in one.tasks.items()
        for metric in (headlines(task, record) if split == "test" else ["dev_pearson" if record.mse else "dev"])
    ]
    columns = [key for task in PUBLISHED for key in dict.fromkeys(keys) if key.partition(".")[0] == task]
    for name, rule in AVERAGES.items():
        shown = {*papers} & {*rule.papers} if papers else name.removesuffix("_dev") in LISTED
        columns += [name] if shown and rule.split == split else []
    measures = {}
    for column in columns:
        ours = measure(frame, column)
        if ours.values.notna().any() and (papers or ours.whole):
            measures[column] = ours
    if not measures:
        raise UserError(f"no {split} score that can be shown", key="results")
    table = pd.DataFrame({ours.label: ours.values for ours in measures.values()})
    printed = {paper: printed_scores(paper, split, measures).dropna(how="all") for paper in papers}
    rows = pd.concat(printed, names=["protocol"]).reset_index() if papers else table[:0].reset_index()
    frames = table, rows.assign(seed="").set_index(table.index.names)
    return tuple(it.rename(columns=lambda name: name.removesuffix(f".{split}")) for it in frames)


def average_seeds(frame: pd.DataFrame, *, interval: bool) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Returns means over the rows of a model and protocol, and their spreads; NaN where one of the rows is NaN.

    Args:
        frame: with rows (model, protocol, seed).
        interval: spreads are half of the means' 95 % intervals (Student's t), otherwise standard deviations.
    """
    groups = frame.groupby(level=["model", "protocol"], sort=False)
    sizes = groups.size()
    scale = sizes.map(lambda n: t_half_width(n**-0.5, n - 1)) if interval else sizes**0
    return groups.mean().where(groups.count().eq(sizes, axis=0)), groups.std().mul(scale, axis=0)


def report_table(
    *,
    results: Names,
    papers: Sequence[Literal["declutr", "declutr_v1", "conssent", "gensen"]] = (),
    split: Split = "test",
    tasks: Names | None = None,
    by: Sequence[str] = (),
    mean: bool = False,
    interval: bool = False,
    against: str | None = None,
    format: Format = "text",
    out: str | None = None,
) -> None:
    """Shows one table of several results.

    Args:
        results: folders of results, or NAME=FOLDER; "*" stands for any letters.
        papers: papers whose printed rows stand below; their protocol is the paper's.
        split: "test" or "dev".
        tasks: tasks that are shown; None: all.
        by: keys of the runs' configurations that name the rows.
        mean: a row for each name and protocol, with the standard deviation over seeds.
        interval: the same with half of the mean's 95 % interval (Student's t).
        against: name to which the differences of all others are shown, with 95 % intervals over test examples and
            seeds; see ``bootstrap.compare_results``.
        format, out: see ``tables.show``.

    Raises:
        UserError: if results cannot be read, or those of one name are of different experiments.
    """
    if mean + interval + (against is not None) > 1:
        raise UserError("mean, interval and against exclude each other", key="mean")
    stored = read_named(results, by, tasks)
    groups = group_results(stored) if mean or interval or against else {}
    if against is not None:
        show_differences(groups, against, format=format, out=out)
        return
    table, printed = tabulate(stored, papers, split)
    reasons = [
        f"{task} ({reason})"
        for one in stored
        for task, record in one.tasks.items()
        if (reason := incomparable(task, record))
    ]
    start = "Left out, as not comparable" if papers else "Not comparable with printed scores"
    notes = [f"{start}: {'; '.join(dict.fromkeys(reasons))}"] if reasons else []
    if groups:
        table, spread = average_seeds(table, interval=interval)
        printed = printed.droplevel("seed")
        name = "95 % interval (t), half" if interval else "standard deviation"
        notes.append(f"mean ± {name}, over seeds")
        if format == "csv":
            table = table.join(spread.add_suffix(".ci95" if interval else ".sd"))
        else:
            table = table.map("{:.2f}".format) + spread.map(" ± {:.2f}".format)
            table = table.replace([" ± nan", "^nan$"], ["", "–"], regex=True)
    show(pd.concat([table, printed]), format, out, title=f"SentEval, {split}", notes=notes)


def show_differences(groups: Mapping[tuple[str, str], list[Results]], against: str, **options: Any) -> None:
    """Shows the differences of models to one of them, by the same protocol.

    Args:
        groups: results by model and protocol.
        against: name of the model.
        options: of ``tables.show``.

    Raises:
        UserError: if there are no two models of one protocol.
    """
    tables, counts = {}, []
    for (name, protocol), results in groups.items():
        others = groups.get((against, protocol), [])
        if name != against and others:
            tables[name, protocol] = compare_results(results, others)
            counts.append(f"{name} {len(results)}, {against} {len(others)}")
    if not tables:
        raise UserError("must be one of two or more names of one protocol", key="against")
    notes = [
        "low, high: 95 % interval over test examples and seeds; without predictions over seeds only (Student's t)",
        f"results, paired by their seeds' order where as many: {'; '.join(counts)}",
    ]
    table = pd.concat(tables, names=["model", "protocol"])
    show(table.rename(columns={"first": "score", "second": against}), notes=notes, **options)


def report_differences(
    *, results: Names, tasks: Names | None = None, seed: Seed = 0, format: Format = "text", out: str | None = None
) -> None:
    """Shows the differences of two results, with 95 % intervals over the test examples.

    Args:
        results: two folders of results, or NAME=FOLDER.
        tasks: names of tasks; None: all that both have.
        seed: of the resamples.
        format, out: see ``tables.show``.

    Raises:
        UserError: if they are not two results of one protocol.
    """
    stored = read_named(results, tasks=tasks)
    if len(stored) != 2:
        raise UserError(f"two results are compared, {len(stored)} are named", key="results")
    title = " − ".join(one.model["name"] for one in stored)
    show(compare_results(stored[:1], stored[1:], seed), format, out, title=title)


def draw_results(
    *, results: Names, tasks: Names | None = None, split: Split = "test", title: str = "", out: str = "results"
) -> None:
    """Draws means over seeds with 95 % intervals (t) as ``out``.pdf and .png; writes the numbers to ``out``.csv.

    Args:
        results: folders of results, or NAME=FOLDER; "*" stands for any letters.
        tasks: tasks that are shown; None: all.
        split: "test" or "dev".
        title: of the picture.
        out: path of the files without their endings.

    Raises:
        UserError: if results cannot be read, or those of one name are of different experiments.
    """
    stored = read_named(results, tasks=tasks)
    group_results(stored)
    means, halves = average_seeds(tabulate(stored, split=split)[0], interval=True)
    with plots.suite_style():
        note = f"Bars: means, with 95 % intervals (t) over seeds; {split}, % or correlation x 100."
        figure = plots.new_figure(title, note, max(plots.PANEL, 0.22 * means.size))
        axes = figure.subplots()
        means.T.plot.barh(ax=axes, xerr=halves.T, capsize=2, color=plots.SERIES)
        axes.invert_yaxis()
        axes.legend([*map(" · ".join, means.index)], loc="upper left", bbox_to_anchor=(1, 1))
    numbers = means.join(halves.add_suffix(".ci95")).reset_index()
    print(*plots.save(figure, Path(out).expanduser(), numbers), sep="\n")


def report_ranking(
    *,
    results: Names,
    by: Sequence[str] = ("objective.task",),
    top: Count = 1,
    tasks: Names | None = None,
    format: Format = "text",
    out: str | None = None,
) -> None:
    """Shows results by their mean score on the dev sets (Brahma 2018, section 5), the best of each group first.

    The last line has the best of all groups as ``results=`` of the evaluation ensemble. STS12-16 have no dev set.

    Args:
        results: folders of results; "*" stands for any letters.
        by: keys of the runs' configurations that define groups; a run without them is in that of its objective.
        top: number of each group in the last line.
        tasks: names of tasks; None: all.
        format, out: see ``tables.show``.

    Raises:
        UserError: if results differ in protocol, tasks or files, or have no dev scores.
    """
    stored = read_named(results, tasks=tasks)
    common_tasks(stored)
    dev = to_frame(stored).filter(regex=r"\.dev$")
    if dev.empty or dev.isna().any(axis=None):
        raise UserError("not all have dev scores", key="results")
    labels = [run_label(one, by) or run_label(one, ["names.objective"]) for one in stored]
    folders = [str(one.folder) for one in stored]
    frame = pd.DataFrame({"group": labels, "results": folders, "dev": dev.mean(axis=1).values})
    frame = frame.sort_values(["group", "dev"], ascending=[True, False], kind="stable")
    notes = [f"mean of {', '.join(dev.columns)}"]
    show(frame.set_index(["group", "results"]), format, out, notes=notes)
    print(f"results=[{','.join(frame.groupby('group').head(top)['results'])}]")
