"""The best encoders of a sweep by their mean score on the dev sets of SentEval's tasks (Brahma 2018, section 5).

Results are grouped by keys of their runs' configurations. By default that is ``objective.task``, else the name of
the objective (MT, which the paper's ensemble lacks).

A task's dev score is that of model selection: accuracy; Pearson x 100 for SICK-R and STS-B; mean recall for
image-caption retrieval. STS12-16 have no dev set and are left out. All results are over one set of tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from rich.markup import escape
from rich.table import Table

from analysis.model_names import Names
from analysis.reporting.matching import StoredResults, label, read_named, require_matching
from data.display import printable, wide_console
from data.errors import UserError
from data.ranges import Count

GROUP, NAME = "objective.task", "names.objective"


class Candidate(NamedTuple):
    """A result with its mean dev score in percent."""

    folder: Path
    dev: float


class Ranking(NamedTuple):
    """Ranked results of a sweep.

    Attributes:
        groups: candidates by label, the best first; ties keep the order given.
        tasks: tasks that ``dev`` is the mean over.
        without: tasks without a dev set.
    """

    groups: dict[str, list[Candidate]]
    tasks: list[str]
    without: list[str]


def rank(
    stored: Sequence[StoredResults], by: Sequence[str] = (GROUP,), tasks: Sequence[str] | None = None
) -> Ranking:
    """Ranks results by their mean dev score, within each group.

    Args:
        stored: results.
        by: keys of the runs' configurations that define groups; none: all are one group. A run without the
            default key is grouped by its objective's name.
        tasks: names of tasks; None: all tasks of any of the results.

    Raises:
        UserError: if results differ in protocol, tasks or data, one has no dev score, or the run of one has none
            of the keys.
    """
    names = require_matching(stored, tasks)
    without = [name for name in names if stored[0].results.tasks[name]["kind"] == "similarity"]
    counted = [name for name in names if name not in without]
    if not counted:
        raise UserError("none of the tasks has a dev set", key="tasks")
    groups: dict[str, list[Candidate]] = {}
    for one in stored:
        scores = [one.results.tasks[name]["dev"] for name in counted]
        if None in scores:
            raise UserError(f"no dev score of {counted[scores.index(None)]}", key=str(one.folder))
        group = label(one, by) or (label(one, [NAME]) if list(by) == [GROUP] else None) if by else "all"
        if group is None:
            raise UserError(f"no run with one of the keys {', '.join(by)}", key=str(one.folder))
        mean = fmean(score for score in scores if score is not None)
        groups.setdefault(group, []).append(Candidate(one.folder, mean))
    ranked = {name: sorted(group, key=lambda one: -one.dev) for name, group in groups.items()}
    return Ranking(ranked, counted, without)


def table(ranking: Ranking, top: int = 1) -> Table:
    """Builds the terminal's table of ``ranking``, with the ``top`` of each group in bold."""
    result = Table(title="mean dev score, %", title_justify="left", header_style="bold")
    result.add_column("group")
    result.add_column("dev", justify="right")
    result.add_column("results", no_wrap=True, overflow="ignore")  # users copy them
    for name, group in ranking.groups.items():
        for place, one in enumerate(group):
            style = "bold" if place < top else "dim"
            result.add_row(
                escape(printable(name)), f"{one.dev:.2f}", escape(printable(str(one.folder))), style=style
            )
        result.add_section()
    left = f"; no dev set: {', '.join(ranking.without)}" if ranking.without else ""
    result.caption = f"over {len(ranking.tasks)} tasks: {', '.join(ranking.tasks)}{left}"
    result.caption_justify = "left"
    return result


def report_ranking(
    *,
    results: Names,
    by: Sequence[str] = (GROUP,),
    top: Count = 1,
    tasks: Names | None = None,
) -> None:
    """Prints the ranking, and the best ``top`` of each group as ``results=`` of the evaluation ensemble.

    Args:
        results: folders of results; "*" stands for any letters.
        by: see ``rank``.
        top: number of each group.
        tasks: names of tasks; None: all.

    Raises:
        UserError: as ``rank`` does.
    """
    ranking = rank(read_named(results), by, tasks)
    shown = table(ranking, top)
    wide_console(shown).print(shown)
    best = [str(one.folder) for group in ranking.groups.values() for one in group[:top]]
    print(printable(f"results=[{','.join(best)}]"))
