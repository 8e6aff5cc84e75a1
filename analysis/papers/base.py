"""Figures and tables of the papers as records: their runs at two sizes, their drawing and their claims."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from analysis.claims import Claims
from analysis.results import join_spreads, paper_rows, read_table, select_scores, tabulate, tidy
from analysis.senteval.averages import AVERAGES
from analysis.senteval.records import PUBLISHED

Axes = Mapping[str, Mapping[str, str | Sequence[str]]]  # axis to label to overrides of run.py


@dataclass(frozen=True)
class Run:
    """One encoder of a figure or table.

    Attributes:
        labels: axis to label.
        overrides: of run.py; empty where nothing is trained.
        model: a model that is evaluated as it is.
        members: trained runs whose encoders are evaluated side by side, as one.
        evaluation: further overrides of evaluate.py.
        seed: of training. Runs of equal seed are paired; a model is repeated for each seed, too.
    """

    labels: Mapping[str, str]
    overrides: tuple[str, ...] = ()
    model: str = ""
    members: tuple[Run, ...] = ()
    evaluation: tuple[str, ...] = ()
    seed: int = 1

    def repeat(self, seed: int) -> Run:
        """Returns the run with a seed."""
        overrides = (*self.overrides, f"seed={seed}") if self.overrides else ()
        members = tuple(member.repeat(seed) for member in self.members)
        return replace(self, overrides=overrides, members=members, seed=seed)


def sweep(
    base: str | Sequence[str], axes: Axes, more: Callable[[dict[str, str]], str | None] = lambda labels: ""
) -> list[Run]:
    """Returns a run for each combination of labels, in the order of the axes.

    Args:
        base: overrides of all runs: a list, or a text in which spaces separate them.
        axes: axis to label to overrides.
        more: labels of a combination to overrides that several axes decide; None leaves it out.
    """
    runs = []
    for values in itertools.product(*axes.values()):
        labels = dict(zip(axes, values, strict=True))
        if (extra := more(labels)) is not None:
            parts = [base, *(axes[axis][label] for axis, label in labels.items()), extra]
            runs.append(Run(labels, tuple(text for part in parts for text in split(part))))
    return runs


def split(overrides: str | Sequence[str]) -> Sequence[str]:
    """Splits a text of overrides at the spaces before their keys."""
    return re.findall(r"\S+=.*?(?= +[+\w.]+=|\s*$)", overrides) if isinstance(overrides, str) else overrides


@dataclass(frozen=True)
class Options:
    """Settings of the command line that a figure's runs depend on.

    Attributes:
        budget: "teaching" or "paper".
        seeds: None for the figure's own.
        flops: compute of a run in floating-point operations; None for the figure's own.
        vectors: file of word vectors.
        nli: inference data, as the text of an override.
        data: file or folder of a figure that needs other data than SentEval's.
        runs: folder of the run folders.
        models: models that are further rows of a table.
    """

    budget: str = "teaching"
    seeds: Sequence[int] | None = None
    flops: float | None = None
    vectors: str | None = None
    nli: str | None = None
    data: Path | None = None
    runs: Path = Path("runs/reproduced")
    models: Sequence[str] = ()

    @property
    def teaching(self) -> bool:
        return self.budget == "teaching"

    def compute(self, flops: float, share: float = 1.0) -> str:
        """Returns the override of a run's compute: a ``share`` of ``flops``, or of what the command line sets.

        At the paper's size there is none unless the command line sets it: epochs end a run.
        """
        return f"budget.flops={share * (self.flops or flops):.4g}" if self.teaching or self.flops else ""


Tabulate = Callable[[pd.DataFrame, Options], pd.DataFrame]


@dataclass(frozen=True)
class Reproduction:
    """A figure or table.

    The long frame has a row a score: the label axes, seed, run, panel and score. The wide frame has a row a run,
    with a column for each score ("TREC.test").

    Attributes:
        id: "<paper>/<name>".
        title: of the picture or table.
        rows: options to the runs of one seed; None where nothing is trained.
        sizes: budgets that it has runs for.
        seeds: None for three at teaching size and one at the paper's.
        search: (long frame, options) to the runs that these scores call for, until none of them is new.
        draw: (long frame, title=, ylabel=, note=, printed=) to the picture; None for a table.
        ylabel: label of the y axis, if SentEval scores are shown.
        extend: (wide frame, options) to the wide frame with further rows or scores, such as ensembles of others.
        long: (wide frame, options) to the long frame, where it is not ``results.tidy`` of the scores.
        table: (wide frame, options) to the table, its rows named by the index; None for SentEval scores above the
            printed ones. The frame is empty without runs, and long if a picture is above the table.
        examples: overrides of each part of a table of sampled examples.
        scores: panel to metric on SentEval: "<task>.<metric>" or an average of ``senteval.averages.AVERAGES``.
        paper, split: printed tables that a table shows ("declutr", "test" or "dev"), and that a picture marks.
        columns: SentEval tasks that a table shows. Its averages cover all.
        printed: model to labels, of the printed rows that a picture marks or a table's claims compare with.
        quick: panel to a score of quick.json, where there is no SentEval data.
        tasks: SentEval tasks evaluated at teaching size; None for all.
        protocol: of SentEval.
        claims: statements of the paper, checked on the long frame; of a table, see ``select_compared``.
        needs: description of ``data``, where it is not SentEval's.
        notes: departures from the paper that a reader of the result must know.
    """

    id: str
    title: str
    rows: Callable[[Options], list[Run]] | None = None
    sizes: Sequence[str] = ("teaching", "paper")
    seeds: Sequence[int] | None = None
    search: Callable[[pd.DataFrame, Options], list[Run]] | None = None
    draw: Callable[..., Figure] | None = None
    ylabel: str = ""
    extend: Tabulate | None = None
    long: Tabulate | None = None
    table: Tabulate | None = None
    examples: Sequence[str] = ()
    scores: Mapping[str, str] = field(default_factory=dict)
    paper: str = ""
    split: str = "test"
    columns: Collection[str] = tuple(PUBLISHED)
    printed: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    quick: Mapping[str, str] = field(default_factory=lambda: {"": "recall@1"})
    tasks: Sequence[str] | None = None
    protocol: str = "default"
    claims: Claims = field(default_factory=dict)
    needs: str = ""
    notes: Sequence[str] = ()

    def runs(self, options: Options) -> list[Run]:
        """Returns the runs of all seeds; where nothing is trained there is one."""
        runs = [*(self.rows(options) if self.rows else ())]
        runs += [Run({"row": model}, model=model) for model in options.models]
        seeds = options.seeds or self.seeds or ((1, 2, 3) if options.teaching else (1,))
        trained = any(run.overrides or run.members for run in runs)
        return [run.repeat(seed) for run in runs for seed in (seeds if trained else (1,))]

    def marks(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Returns the long frame of the paper's values, of averages over the tasks that the wide ``frame`` has."""
        _, printed, _ = select_scores(frame, self.scores.values(), self.printed_rows())
        rows = [
            {"panel": panel, **labels, "score": printed.loc[model, metric]}
            for model, labels in self.printed.items()
            for panel, metric in self.scores.items()
        ]
        return pd.DataFrame(rows).dropna()

    def select_compared(self, frame: pd.DataFrame, options: Options) -> pd.DataFrame:
        """Returns the long frame that a table's claims are checked on, of all columns if ``scores`` names none.

        At the paper's size each seed also has the ``printed`` rows, which are of far larger encoders than those of
        teaching size.
        """
        ours = tidy(frame, self.scores or {name: name for name in frame.columns[3:]})
        if options.teaching or not self.printed:
            return ours
        return pd.concat([ours, self.marks(frame).merge(ours[["seed"]].drop_duplicates(), "cross")])

    def score_table(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Returns a table of our rows, mean and deviation over seeds, above the paper's."""
        paper = self.printed_rows()
        metrics = [key for key in paper if key in AVERAGES or key.partition(".")[0] in self.columns]
        values, printed = tabulate(frame, [*metrics, *self.quick.values()], paper)
        groups = values.groupby(frame["row"], sort=False)
        ours = join_spreads(groups.mean(), groups.std())
        return pd.concat([ours, printed.rename("{} (printed)".format).map("{:.2f}".format).replace("nan", None)])

    def printed_rows(self) -> pd.DataFrame:
        """Returns the paper's scores, a row a model."""
        return paper_rows(self.paper, self.split).groupby(level=0, sort=False).last()


def printed_table(name: str, frame: pd.DataFrame, options: Options) -> pd.DataFrame:
    """Returns a table as printed."""
    table = read_table(name)
    return table.set_index(table.columns[0])
