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
    *("Length", "WordContent", "Depth", "TopConstituents", "BigramShift", "Tense", "SubjNumber", "ObjNumber"),
    *("OddManOut", "CoordinationInversion"),
)
STS = ("STS12", "STS13", "STS14", "STS15", "STS16")
LISTED = ("declutr_downstream", "probing", "sts_spearman_mean")  # shown without papers
Metrics = Mapping[str, str]  # task to a metric of ``records.Record.score``, or "accuracy+f1" for the mean of two


class Average(NamedTuple):
    """Definition of an average: the mean of the means of its groups of tasks.

    Attributes:
        title: description of what it averages.
        groups: task to metric.
        baseline: score to subtract, by task.
    """

    title: str
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
    **{"MRPC": "accuracy", "SICKEntailment": "test", "SICKRelatedness": "pearson", "STSBenchmark": "pearson"},
}
# GenSen's table 2, the row of Infersent (AllNLI): accuracies, F1 of MRPC, Pearson x 100 of SICK-R and STS-B.
_ALLNLI = {
    **{"MR": 81.1, "CR": 86.3, "SUBJ": 92.4, "MPQA": 90.2, "SST2": 84.6, "TREC": 88.2, "MRPC": 83.1},
    **{"SICKEntailment": 86.3, "SICKRelatedness": 88.4, "STSBenchmark": 75.8},
}


def _declutr(split: str, end: str, words: str, metrics: Metrics) -> dict[str, Average]:
    probing, snli = dict.fromkeys(PROBING, split), {**metrics, "SNLI": split}
    first = f"the 18 downstream tasks of DeCLUTR's first version{words}"
    return {
        f"declutr_downstream{end}": Average(f"DeCLUTR's 17 downstream tasks{words}", (metrics,)),
        f"declutr_downstream_with_snli{end}": Average(first, (snli,)),
        f"probing{end}": Average(f"the 10 probing tasks{words}", (probing,)),
        f"declutr_v1_all{end}": Average(f"the means of downstream and probing tasks{words}", (snli, probing)),
    }


_WAYS = {"mean": "subsets' mean", "wmean": "subsets' mean weighted by size", "all": "all pairs of a year"}
AVERAGES = {
    **_declutr("test", "", "", _DECLUTR),
    **_declutr("dev", "_dev", ", on dev", _DECLUTR_DEV),
    "conssent_transfer": Average("ConsSent's 10 transfer tasks", (_TEN,)),
    "conssent_all": Average("ConsSent's 20 tasks", ({**_TEN, **dict.fromkeys(PROBING, "test")},)),
    "gensen_delta": Average("10 differences to Infersent (AllNLI)", ({**_TEN, "MRPC": "f1"},), _ALLNLI),
    **{
        f"sts_{metric}_{way}": Average(
            f"STS12 to STS16, {metric.title()}, {words}", (dict.fromkeys(STS, f"{metric}.{way}"),)
        )
        for metric, (way, words) in product(("spearman", "pearson"), _WAYS.items())
    },
}
