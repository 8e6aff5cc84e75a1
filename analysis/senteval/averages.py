"""Averages as each paper defines them, with the tasks that each one covers.

DeCLUTR (Giorgi et al. 2021, appendix C.2; first version, supplement 3.2), ConsSent (Brahma 2018, tables 2 and 3,
figure 3), GenSen (Subramanian et al. 2018, table 2).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from analysis.senteval.records import PROBING, STS, Record, incomparable, scorer

WITH_SNLI = "declutr_downstream_with_snli"
LISTED = ("declutr_downstream", "probing", "sts_spearman_mean")  # in listings of runs, and compared by bootstrap
# Averages in tables without papers; SHOWN_OF: if all results are of that protocol, on test.
SHOWN = (
    "declutr_downstream",
    WITH_SNLI,
    "probing",
    "sts_spearman_mean",
    "sts_spearman_wmean",
    "sts_spearman_all",
)
SHOWN_OF = {"conssent": ("conssent_transfer", "probing", "conssent_all")}
Scores = Callable[[str, str], float | None]  # (task, metric) to percent
Metrics = Mapping[str, str]


@dataclass(frozen=True)
class Rule:
    """Definition of an average.

    Attributes:
        name: name of the complete average.
        title: description of what it averages.
        source: paper and section that define it.
        groups: task to metric; the average is the mean of the groups' means.
        papers: papers whose tables show it.
        split: "test" or "dev".
        baseline: score to subtract, by task.
    """

    name: str
    title: str
    source: str
    groups: tuple[Metrics, ...]
    papers: tuple[str, ...] = ()
    split: str = "test"
    baseline: Mapping[str, float] | None = None

    @property
    def tasks(self) -> tuple[str, ...]:
        return tuple(task for group in self.groups for task in group)


@dataclass(frozen=True)
class Average:
    """Average in percent over ``tasks``, without ``missing``; ``apart`` are not comparable with printed scores."""

    rule: Rule
    value: float
    tasks: tuple[str, ...]
    missing: tuple[str, ...] = ()
    apart: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """True if it covers all tasks of its rule and all are comparable."""
        return not self.missing and not self.apart

    @property
    def label(self) -> str:
        """The rule's name, marked if incomplete: "declutr_downstream (15 of 17)"."""
        marks = [f"{len(self.tasks)} of {len(self.rule.tasks)}"] if self.missing else []
        marks += ["not comparable"] if self.apart else []
        return f"{self.rule.name} ({', '.join(marks)})" if marks else self.rule.name

    @property
    def title(self) -> str:
        """The label in words, as ``average_title`` writes it."""
        return average_title(self.label)

    @property
    def telling(self) -> bool:
        """True if it covers at least half of the rule's tasks; otherwise a table of one model omits it."""
        return len(self.tasks) >= len(self.missing)

    def describe(self) -> str:
        """Lists the tasks covered: "2 of 17: CR, MR", "16 of 17; without SNLI; not comparable: Length"."""
        parts = [f"{len(self.tasks)} of {len(self.rule.tasks)}"]
        if not self.telling:
            parts[0] += f": {', '.join(self.tasks)}"
        elif self.missing:
            parts.append(f"without {', '.join(self.missing)}")
        if self.apart:
            parts.append(
                "all not comparable" if self.apart == self.tasks else f"not comparable: {', '.join(self.apart)}"
            )
        return "; ".join(parts)


_ACCURACIES = ("CR", "MR", "MPQA", "SUBJ", "SST2", "SST5", "TREC", "SICKEntailment")
_SPEARMAN = dict.fromkeys(("SICKRelatedness", "STSBenchmark"), "spearman") | dict.fromkeys(STS, "spearman.mean")
_DECLUTR: Metrics = {
    **dict.fromkeys(_ACCURACIES, "test"),
    "MRPC": "accuracy+f1",
    "ImageCaptionRetrieval": "test",
    **_SPEARMAN,
}
# On dev the toolkit reports Pearson for the two trained similarity tasks and no F1; STS12-16 have no dev set.
_DECLUTR_DEV: Metrics = {
    **dict.fromkeys(_DECLUTR, "dev"),
    **dict.fromkeys(("SICKRelatedness", "STSBenchmark"), "dev_pearson"),
    **dict.fromkeys(STS, "spearman.mean"),
}
_TEN: Metrics = dict.fromkeys(("MR", "CR", "SUBJ", "MPQA", "SST2", "TREC"), "test") | {
    "MRPC": "accuracy",
    "SICKEntailment": "test",
    "SICKRelatedness": "pearson",
    "STSBenchmark": "pearson",
}
# GenSen's table 2, the row of Infersent (AllNLI): accuracies, F1 of MRPC, Pearson x 100 of SICK-R and STS-B.
_ALLNLI = {
    "MR": 81.1,
    "CR": 86.3,
    "SUBJ": 92.4,
    "MPQA": 90.2,
    "SST2": 84.6,
    "TREC": 88.2,
    "MRPC": 83.1,
    "SICKEntailment": 86.3,
    "SICKRelatedness": 88.4,
    "STSBenchmark": 75.8,
}
_C2 = "DeCLUTR, appendix C.2"
_V1 = "DeCLUTR, first version, supplement 3.2"


def _declutr(split: str) -> list[Rule]:
    metrics, suffix = (_DECLUTR, "") if split == "test" else (_DECLUTR_DEV, "_dev")
    probing = dict.fromkeys(PROBING, split)
    snli = {**metrics, "SNLI": split}
    both = "declutr", "declutr_v1"
    on = "" if split == "test" else ", on dev"
    # S6 of the first version prints dev averages with and without SNLI.
    without = both if split == "dev" else ("declutr",)
    return [
        Rule(f"declutr_downstream{suffix}", f"DeCLUTR's 17 downstream tasks{on}", _C2, (metrics,), without, split),
        Rule(
            f"declutr_downstream_with_snli{suffix}",
            f"the 18 downstream tasks of DeCLUTR's first version{on}",
            _V1,
            (snli,),
            ("declutr_v1",),
            split,
        ),
        Rule(
            f"probing{suffix}",
            f"the 10 probing tasks{on}",
            _C2,
            (probing,),
            (*both, "conssent") if split == "test" else both,
            split,
        ),
        Rule(
            f"declutr_v1_all{suffix}",
            f"the means of downstream and probing tasks{on}",
            _V1,
            (snli, probing),
            ("declutr_v1",),
            split,
        ),
    ]


_RULES = [
    *_declutr("test"),
    *_declutr("dev"),
    Rule("conssent_transfer", "ConsSent's 10 transfer tasks", "ConsSent, table 2", (_TEN,), ("conssent",)),
    Rule(
        "conssent_all",
        "ConsSent's 20 tasks",
        "ConsSent, figure 3",
        ({**_TEN, **dict.fromkeys(PROBING, "test")},),
        ("conssent",),
    ),
    Rule(
        "gensen_delta",
        "10 differences to Infersent (AllNLI)",
        "GenSen, table 2: mean difference to Infersent (AllNLI)",
        ({**_TEN, "MRPC": "f1"},),
        ("gensen",),
        baseline=_ALLNLI,
    ),
    *(
        Rule(
            f"sts_{correlation}_{mean}",
            f"STS12 to STS16, {correlation.title()}, {words}",
            "STS12-16",
            (dict.fromkeys(STS, f"{correlation}.{mean}"),),
        )
        for correlation in ("spearman", "pearson")
        for mean, words in (
            ("mean", "subsets' mean"),
            ("wmean", "subsets' mean weighted by size"),
            ("all", "all pairs of a year"),
        )
    ),
]
RULES = {rule.name: rule for rule in _RULES}


def average_title(label: str) -> str:
    """Returns the label of an average in words: "mean of 3 of DeCLUTR's 17 downstream tasks".

    Tables, captions, notes and pages name averages by it. A label of another form is returned as it is.
    """
    form = re.fullmatch(r"(\w+?)(?: \((\d+ of )?(?:\d+)?(?:, )?(not comparable)?\))?", label)
    if form is None or form[1] not in RULES:
        return label
    return f"mean of {form[2] or ''}{RULES[form[1]].title}{', not comparable' if form[3] else ''}"


def shown_averages(protocols: Collection[str], tasks: Collection[str]) -> tuple[str, ...]:
    """Returns the names of the averages on test that a table without papers shows.

    The average with SNLI is shown only if SNLI was evaluated; otherwise it would repeat the previous one.

    Args:
        protocols: the results' protocols, including changed ones ("conssent+hidden=50").
        tasks: the tasks evaluated.
    """
    plain = {protocol.partition("+")[0] for protocol in protocols}
    names = SHOWN_OF.get(plain.pop(), SHOWN) if len(plain) == 1 else SHOWN
    return tuple(name for name in names if name != WITH_SNLI or "SNLI" in tasks)


def average(
    rule: Rule, scores: Scores, apart: Collection[str] = (), over: Collection[str] | None = None
) -> Average | None:
    """Computes ``rule`` over the tasks that have a score; None if there is none.

    Args:
        rule: one of RULES.
        scores: function of task and metric that returns the score, or None.
        apart: tasks whose scores are not comparable with printed ones.
        over: if given, exactly these tasks; the result is None if one of them has no score.
    """
    means: list[float] = []
    tasks: list[str] = []
    for group in rule.groups:
        found = {task: scores(task, metric) for task, metric in group.items() if over is None or task in over}
        known = {task: score for task, score in found.items() if score is not None}
        if not known or (over is not None and len(known) < len(found)):
            return None
        zeros = rule.baseline or {}
        means.append(sum(score - zeros.get(task, 0.0) for task, score in known.items()) / len(known))
        tasks += known
    missing = tuple(task for task in rule.tasks if task not in tasks)
    others = tuple(task for task in tasks if task in apart)
    return Average(rule, sum(means) / len(means), tuple(tasks), missing, others)


def averages(records: Mapping[str, Record]) -> list[Average]:
    """Computes every average of RULES with at least one task in ``records`` (by task), in the order of RULES."""
    apart = {name for name, record in records.items() if incomparable(name, record)}
    found = (average(rule, scorer(records), apart) for rule in RULES.values())
    return [one for one in found if one is not None]
