"""Averages as each paper defines them: the tasks and metrics that each one covers.

DeCLUTR (Giorgi et al. 2021, appendix C.2; first version, supplement 3.2), ConsSent (Brahma 2018, tables 2 and 3,
figure 3), GenSen (Subramanian et al. 2018, table 2).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from itertools import product
from typing import Any, NamedTuple

# The tasks of the averages, which do not grow with tasks of one's own.
PROBING = (
    "Length", "WordContent", "Depth", "TopConstituents", "BigramShift", "Tense", "SubjNumber", "ObjNumber",
    "OddManOut", "CoordinationInversion",
)  # fmt: skip
STS = ("STS12", "STS13", "STS14", "STS15", "STS16")
LISTED = {  # shown without papers
    "declutr_downstream": "DeCLUTR's 17 downstream tasks",
    "probing": "the 10 probing tasks",
    "sts_spearman_mean": "STS12 to STS16, Spearman, subsets' mean",
}
Metrics = Mapping[str, str]  # task to a metric of ``records.Record.score``, or "accuracy+f1" for the mean of two


class Average(NamedTuple):
    """Definition of an average: the mean of the means of its groups of tasks.

    Attributes:
        groups: task to metric.
        baseline: score to subtract, by task.
    """

    groups: tuple[Metrics, ...]
    baseline: Mapping[str, float] = {}

    @property
    def tasks(self) -> tuple[str, ...]:
        """All tasks of all groups."""
        return tuple(task for group in self.groups for task in group)


def average(rule: Average, score: Callable[[str, str], Any], tasks: Collection[str] | None = None) -> Any:
    """Computes an average of numbers, arrays or series; NaN where one of its scores is NaN.

    Args:
        rule: definition of the average.
        score: returns the score of a task by a metric, NaN if it is missing.
        tasks: tasks that it is over; None: all.
    """
    means = []
    for group in rule.groups:
        scores = []
        for task, metric in group.items():
            if tasks is None or task in tasks:
                values = [score(task, name) for name in metric.split("+")]
                scores.append(sum(values) / len(values) - rule.baseline.get(task, 0.0))
        means.append(sum(scores) / len(scores) if scores else math.nan)
    return sum(means) / len(means)


def label_average(name: str, tasks: Collection[str]) -> str:
    """Returns the name of an average over ``tasks``, with their number unless they are all of its tasks."""
    count = len(AVERAGES[name].tasks)
    return name if len(tasks) == count else f"{name} ({len(tasks)} of {count})"


_SPEARMAN = dict.fromkeys(("SICKRelatedness", "STSBenchmark"), "spearman") | dict.fromkeys(STS, "spearman.mean")
_DECLUTR = {
    **dict.fromkeys(("CR", "MR", "MPQA", "SUBJ", "SST2", "SST5", "TREC", "SICKEntailment"), "test"),
    "MRPC": "accuracy+f1",
    "ImageCaptionRetrieval": "test",
    **_SPEARMAN,
}
# On dev the toolkit reports Pearson for the two trained similarity tasks and no F1; STS12-16 have no dev set.
_DECLUTR_DEV = {
    **dict.fromkeys(_DECLUTR, "dev"),
    **dict.fromkeys(("SICKRelatedness", "STSBenchmark"), "dev_pearson"),
    **dict.fromkeys(STS, "spearman.mean"),
}
_TEN = {
    **dict.fromkeys(("MR", "CR", "SUBJ", "MPQA", "SST2", "TREC"), "test"),
    "MRPC": "accuracy",
    "SICKEntailment": "test",
    "SICKRelatedness": "pearson",
    "STSBenchmark": "pearson",
}
# GenSen's table 2, the row of Infersent (AllNLI): accuracies, F1 of MRPC, Pearson x 100 of SICK-R and STS-B.
_ALLNLI = {
    "MR": 81.1, "CR": 86.3, "SUBJ": 92.4, "MPQA": 90.2, "SST2": 84.6, "TREC": 88.2, "MRPC": 83.1,
    "SICKEntailment": 86.3, "SICKRelatedness": 88.4, "STSBenchmark": 75.8,
}  # fmt: skip


def _declutr(split: str, end: str, metrics: Metrics) -> dict[str, Average]:
    probing, snli = dict.fromkeys(PROBING, split), {**metrics, "SNLI": split}
    return {
        f"declutr_downstream{end}": Average((metrics,)),
        f"declutr_downstream_with_snli{end}": Average((snli,)),
        f"probing{end}": Average((probing,)),
        f"declutr_v1_all{end}": Average((snli, probing)),
    }


AVERAGES = {
    **_declutr("test", "", _DECLUTR),
    **_declutr("dev", "_dev", _DECLUTR_DEV),
    "conssent_transfer": Average((_TEN,)),
    "conssent_all": Average(({**_TEN, **dict.fromkeys(PROBING, "test")},)),
    "gensen_delta": Average(({**_TEN, "MRPC": "f1"},), _ALLNLI),
    **{
        f"sts_{metric}_{way}": Average((dict.fromkeys(STS, f"{metric}.{way}"),))
        for metric, way in product(("spearman", "pearson"), ("mean", "wmean", "all"))
    },
}
