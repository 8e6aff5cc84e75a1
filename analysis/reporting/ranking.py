"""The best encoders of a sweep by their mean score on the dev sets of SentEval's tasks (Brahma 2018, section 5).

Results are grouped by keys of their runs' configurations. By default that is ``objective.task``, else the name of
the objective (MT, which the paper's ensemble lacks).

A task's dev score is that of model selection: accuracy; Pearson x 100 for SICK-R and STS-B; mean recall for
image-caption retrieval. STS12-16 have no dev set and are left out. All results are over one set of tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from rich.markup import escape
from rich.table import Table

from analysis.reporting.matching import StoredResults, config_of, expanded, is_bundled, label, read_matching
from analysis.settings import RankingSettings
from data.display import printable, wide_console
from data.errors import UserError

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


def rank(paths: Sequence[Path | str], by: Sequence[str] = (GROUP,), tasks: Sequence[str] | None = None) -> Ranking:
    """Ranks results by their mean dev score, within each group.

    Args:
        paths: folders of results, or their senteval.json.
        by: keys of the runs' configurations that define groups; none: all are one group. A run without the
            default key is grouped by its objective's name.
        tasks: names of tasks; None: all tasks of any of the results.

    Raises:
        UserError: in one line, if results differ in protocol, tasks or data, one has no dev score, or the run of
            one has none of the keys.
    """
    stored, names = read_matching(paths, tasks)
    without = [name for name in names if stored[0].results.tasks[name]["kind"] == "similarity"]
    counted = [name for name in names if name not in without]
    if not counted:
        raise UserError(f"None of the tasks has a dev set: {', '.join(names) or 'there are none'}.")
    groups: dict[str, list[Candidate]] = {}
    for one in stored:
        scores = []
        for name in counted:
            score = one.results.tasks[name]["dev"]
            if score is None:
                raise UserError(f"{one.folder} has no dev score of {name}, as an ensemble has none: leave it out.")
            scores.append(score)
        group = label(one, by) if by else "all"
        if list(by) == [GROUP]:
            group = group or label(one, [NAME])
        if group is None:
            raise UserError(f"{one.folder} cannot be grouped by {', '.join(by)}: {_why_not(one)}")
        groups.setdefault(group, []).append(Candidate(one.folder, sum(scores) / len(scores)))
    return Ranking(
        {name: sorted(group, key=lambda one: -one.dev) for name, group in groups.items()}, counted, without
    )


def _why_not(stored: StoredResults) -> str:
    if config_of(stored):
        return "its run's config.yaml has no such key; by=[<key>] names another, by=[] makes one group."
    name = str(stored.results.model.get("name"))
    kind = "a bundled model" if is_bundled(name) else "no run whose config.yaml is there"
    return f"it is the result of {name}, {kind}; leave it out, or by=[] makes one group."


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


def run(settings: RankingSettings) -> None:
    """Prints the ranking, and ``ensemble=`` with the best."""
    ranking = rank(expanded(settings.results), settings.by, settings.tasks)
    shown = table(ranking, settings.top)
    wide_console(shown).print(shown)
    chosen = [one.folder for group in ranking.groups.values() for one in group[: settings.top]]
    print(printable(f"ensemble=[{','.join(map(str, chosen))}]"))
