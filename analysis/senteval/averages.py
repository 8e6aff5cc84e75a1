"""Averages as each paper defines them: the tasks and metrics that each one covers.

DeCLUTR (Giorgi et al. 2021, appendix C.2; first version, supplement 3.2), ConsSent (Brahma 2018, tables 2 and 3,
figure 3), GenSen (Subramanian et al. 2018, table 2).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product
from typing import NamedTuple

# The tasks of the averages, which do not grow with tasks of one's own.
PROBING = (
    *("Length", "WordContent", "Depth", "TopConstituents", "BigramShift", "Tense", "SubjNumber", "ObjNumber"),
    *("OddManOut", "CoordinationInversion"),
)
STS = ("STS12", "STS13", "STS14", "STS15", "STS16")
LISTED = ("declutr_downstream", "probing", "sts_spearman_mean")  # shown without papers
Score = Callable[[str, str], float | None]  # (task, metric) to percent
Metrics = Mapping[str, str]  # task to metric, as ``records.Record.score`` takes it


class Average(NamedTuple):
    """Definition of an average: the mean of the means of its groups of tasks.

    Attributes:
        name: key of its values.
        title: description of what it averages.
        groups: task to metric.
        papers: papers whose tables show it.
        split: "test" or "dev".
        baseline: score to subtract, by task.
    """

    name: str
    title: str
    groups: tuple[Metrics, ...]
    papers: tuple[str, ...] = ()
    split: str = "test"
    baseline: Mapping[str, float] = {}

    @property
    def tasks(self) -> tuple[str, ...]:
        """All tasks of all groups."""
        return tuple(task for group in self.groups for task in group)


def average(rule: Average, score: Score) -> float | None:
    """Computes an average in percent; None if one of its tasks has no score.

    Args:
        rule: definition of the average.
        score: returns the score of a task by a metric, or None.
    """
    means = []
    for group in rule.groups:
        scores = {task: value for task, metric in group.items() if (value := score(task, metric)) is not None}
        if len(scores) < len(group):
            return None
        means.append(sum(value - rule.baseline.get(task, 0.0) for task, value in scores.items()) / len(group))
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
_BOTH = ("declutr", "declutr_v1")


def _declutr(split: str, end: str, words: str, metrics: Metrics) -> list[Average]:
    probing, snli = dict.fromkeys(PROBING, split), {**metrics, "SNLI": split}
    without, conssent = (_BOTH, ()) if end else (_BOTH[:1], ("conssent",))  # S6 prints dev averages without SNLI
    first = f"the 18 downstream tasks of DeCLUTR's first version{words}"
    return [
        Average(f"declutr_downstream{end}", f"DeCLUTR's 17 downstream tasks{words}", (metrics,), without, split),
        Average(f"declutr_downstream_with_snli{end}", first, (snli,), _BOTH[1:], split),
        Average(f"probing{end}", f"the 10 probing tasks{words}", (probing,), (*_BOTH, *conssent), split),
        Average(
            f"declutr_v1_all{end}",
            f"the means of downstream and probing tasks{words}",
            (snli, probing),
            _BOTH[1:],
            split,
        ),
    ]


_WAYS = {"mean": "subsets' mean", "wmean": "subsets' mean weighted by size", "all": "all pairs of a year"}
AVERAGES = {
    rule.name: rule
    for rule in (
        *_declutr("test", "", "", _DECLUTR),
        *_declutr("dev", "_dev", ", on dev", _DECLUTR_DEV),
        Average("conssent_transfer", "ConsSent's 10 transfer tasks", (_TEN,), ("conssent",)),
        Average(
            "conssent_all",
            "ConsSent's 20 tasks",
            ({**_TEN, **dict.fromkeys(PROBING, "test")},),
            ("conssent",),
        ),
        Average(
            "gensen_delta",
            "10 differences to Infersent (AllNLI)",
            ({**_TEN, "MRPC": "f1"},),
            ("gensen",),
            baseline=_ALLNLI,
        ),
        *(
            Average(
                f"sts_{metric}_{way}",
                f"STS12 to STS16, {metric.title()}, {words}",
                (dict.fromkeys(STS, f"{metric}.{way}"),),
            )
            for metric, (way, words) in product(("spearman", "pearson"), _WAYS.items())
        ),
    )
}
