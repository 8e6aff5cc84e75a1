"""From the run folders of a figure to its points: which scores, over which tasks, and what to say of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from analysis import runs
from analysis.figures.description import selectors
from analysis.figures.reproduction import Figure, Mark, Point, judge, verdict_lines
from analysis.figures.verdicts import Verdict
from analysis.senteval.averages import RULES, Rule, Scores, average
from analysis.senteval.printed import paper_rows
from analysis.senteval.records import incomparable, measure
from analysis.senteval.results import FILE, Results, read_results
from experiments.reproduction.planning import Run
from experiments.reproduction.specification import Specification
from experiments.side_by_side import results_folder

QUICK = "on held-out text, % (quick judgement, not SentEval)"


@dataclass
class Judged:
    """What the finished runs of a figure scored.

    Attributes:
        quick: the quick judgement, by run; of those that are judged by their encoder's own pooling.
        senteval: results, by run; empty where SentEval is not judged.
        facts: what each run says of itself: weights, steps, tokens.
        trained: the same by the run's name, of those too that are only joined to others.
    """

    quick: dict[Run, Mapping[str, Any]] = field(default_factory=dict)
    senteval: dict[Run, Results] = field(default_factory=dict)
    facts: dict[Run, Mapping[str, Any]] = field(default_factory=dict)
    trained: dict[str, Mapping[str, Any]] = field(default_factory=dict)


def collect(planned: Sequence[Run], folder: Path, protocol: str | None) -> Judged:
    """What there is of ``planned`` below ``folder``; of SentEval only where a protocol is named."""
    judged = Judged()
    for run in planned:
        path = folder / run.name
        row = runs.read(path)
        if row["state"] != "finished":
            continue
        if run.members:
            row["facts"] = _joined([judged.trained[name] for name in run.members if name in judged.trained])
        else:
            judged.trained[run.name] = row
        if not run.judged:
            continue
        judged.facts[run] = row
        if not run.pooling and not run.members:
            judged.quick[run] = row["trained"]
        if protocol is not None and ((out := results_folder(path, protocol, run.pooling)) / FILE).exists():
            judged.senteval[run] = read_results(out)
    return judged


def made_up(row: Mapping[str, Any]) -> str:
    """What a run learned from sentences of a grammar, as no data of it was given: "fr, de"; "" mostly."""
    return str((row.get("facts") or {}).get("synthetic", ""))


def _joined(rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The facts of an encoder that joins those of ``rows``."""
    synthetic = dict.fromkeys(what for row in rows if (found := made_up(row)) for what in found.split(", "))
    return {"synthetic": ", ".join(synthetic)} if synthetic else {}


def shown(
    specification: Specification, judged: Judged, ensembles: Mapping[int, Results], *, senteval: bool
) -> tuple[Figure, list[Point], list[str]]:
    """The figure as it is to be drawn, its points, and what must be said of its scores.

    Printed values stand beside comparable scores alone, and averages that are not over all tasks say over how many
    they are.
    """
    figure = specification.figure
    assert figure is not None
    found: dict[str, set[str]] = {}
    for run in judged.facts:
        for axis, label in run.labels.items():
            found.setdefault(axis, set()).add(label)
    varied = [axis for axis, values in found.items() if len(values) > 1]
    if not senteval:
        points = [
            _point(specification, run, varied, panel, value)
            for run, scores in judged.quick.items()
            for panel, metric in specification.scores.quick.items()
            if (value := scores.get(metric)) is not None
        ]
        measured = list(dict.fromkeys(specification.scores.quick.values()))
        what = measured[0] if len(measured) == 1 else "score"
        panels = tuple(specification.scores.quick) if len(specification.scores.quick) > 1 else figure.panels
        return (
            replace(figure, y=f"{what} {QUICK}", printed=(), panels=panels),
            points,
            [f"Scores: {', '.join(measured)} {QUICK}; there is no SentEval data here (data=<folder>)."],
        )
    points, marks, notes, labels = [], list(figure.printed), [], []
    for panel, metric in specification.scores.senteval.items():
        score = _measured(metric, judged)
        labels.append(score.label)
        for run, results in judged.senteval.items():
            if (value := _value(metric, results, score.over)) is not None:
                points.append(_point(specification, run, varied, panel, value))
        for seed, results in ensembles.items():
            if (value := _value(metric, results, score.over)) is not None and specification.ensemble:
                points.append(Point(panel, specification.ensemble["group"], "", seed, value))
        if specification.marks is None:
            continue
        beside = _marks(specification, panel, metric, score.over) if score.comparable else []
        marks += beside
        if beside and not score.whole:
            notes.append(f"{score.label} of printed rows is worked out from their cells over the same tasks.")
        elif not beside:
            why = (
                "is not among the printed values"
                if score.comparable
                else "may not stand beside the printed values"
            )
            notes.append(f"{score.label} {why}, which are left out.")
    notes.insert(0, f"Scores: {', '.join(dict.fromkeys(labels))}, SentEval, protocol {_protocols(judged)}.")
    return replace(figure, printed=tuple(marks)), points, notes


def stands_in(specification: Specification, judged: Judged, *, senteval: bool) -> str:
    """What statements are judged by in a figure whose scores are not wholly the paper's; "" where they are."""
    if not senteval:
        return f"{', '.join(dict.fromkeys(specification.scores.quick.values()))} {QUICK}"
    found = [_measured(metric, judged) for metric in specification.scores.senteval.values()]
    return ", ".join(dict.fromkeys(one.label for one in found if not one.whole))


def claimed(specification: Specification, judged: Judged, ensembles: Mapping[int, Results]) -> list[str]:
    """What the paper states of a table, and whether these scores bear it out: lines of Markdown, or none."""
    claims = specification.claims
    if claims is None:
        return []
    rows = replace(
        specification,
        figure=claims.described,
        scores=replace(specification.scores, senteval=claims.scores),
        point={"group": specification.point.get("row", "row")},
    )
    figure, points, notes = shown(rows, judged, ensembles, senteval=True)
    averages = {panel: _measured(metric, judged) for panel, metric in claims.scores.items()}
    partly = {panel: f"{panel} is {one.label} here" for panel, one in averages.items() if not one.whole}
    synthetic = {}
    for run, row in judged.facts.items():
        if what := made_up(row):
            group = run.labels[rows.point["group"]]
            synthetic[group] = f"{group} learned {what} from synthetic pairs"
    verdicts = [
        replace(
            verdict,
            remark="; ".join(
                filter(
                    None, [verdict.remark, *_asked(verdict, "panel", partly), *_asked(verdict, "group", synthetic)]
                )
            ),
        )
        for verdict in judge(figure, points)
    ]
    return [*verdict_lines(verdicts), *notes]


def _asked(verdict: Verdict, axis: str, remarks: Mapping[str, str]) -> list[str]:
    """The ``remarks`` on what a verdict rests on, by the values of ``axis``."""
    chosen = [] if verdict.statement.check is None else list(selectors(verdict.statement.check))
    values = dict.fromkeys(value for selector in chosen for value in selector.get(axis, ()))
    return [remarks[value] for value in values if value in remarks]


def _point(specification: Specification, run: Run, varied: Sequence[str], panel: str, score: float) -> Point:
    axes = specification.point
    place = {key: run.labels.get(axis, "") for key, axis in axes.items()}
    others = [f"{axis}={run.labels[axis]}" for axis in varied if axis not in axes.values()]
    return Point(
        panel=place.get("panel", panel),
        group=place.get("group", ""),
        x=place.get("x", ""),
        seed=run.seed,
        score=score,
        setting=", ".join(others),
        run=run.name,
    )


class _Measured(NamedTuple):
    """What a metric is in some results: the tasks that an average is ``over`` (None: it is a single task's).

    ``whole``: whether it is what its name says; ``comparable``: whether it is of SentEval's own data.
    """

    over: set[str] | None
    label: str
    whole: bool
    comparable: bool


def _measured(metric: str, judged: Judged) -> _Measured:
    """An average is over the tasks that all results have."""
    results = list(judged.senteval.values())
    rule = RULES.get(metric)
    if rule is None:
        task = metric.partition(".")[0]
        apart = any(task in one.tasks and incomparable(task, one.tasks[task]) for one in results)
        return _Measured(None, f"{metric} (not comparable)" if apart else metric, not apart, not apart)
    tasks = {task for task in rule.tasks if all(_has(rule, task, one) for one in results)}
    apart_tasks = {task for one in results for task, record in one.tasks.items() if incomparable(task, record)}
    found = average(rule, _scores(results[0]), apart_tasks, tasks) if results and tasks else None
    if found is None:
        return _Measured(tasks, f"{metric} (no task in common)", whole=False, comparable=False)
    return _Measured(tasks, found.label, found.complete, not found.apart)


def _value(metric: str, results: Results, over: set[str] | None) -> float | None:
    if over is None:
        task, _, name = metric.partition(".")
        return _scores(results)(task, name)
    found = average(RULES[metric], _scores(results), (), over) if over else None
    return None if found is None else found.value


def _has(rule: Rule, task: str, results: Results) -> bool:
    metrics = [group[task] for group in rule.groups if task in group]
    return all(_scores(results)(task, metric) is not None for metric in metrics)


def _scores(results: Results) -> Scores:
    return lambda task, metric: measure(results.tasks[task], metric) if task in results.tasks else None


def _marks(specification: Specification, panel: str, metric: str, over: set[str] | None) -> list[Mark]:
    """The paper's own values of this score: printed, or worked out from printed ones ``over`` the same tasks."""
    marks = specification.marks
    if marks is None:
        return []
    found = []
    for row in paper_rows(marks.paper, marks.split):
        place = marks.rows.get(row.model)
        if place is None:
            continue
        if metric in RULES:
            cell = row.cells.get(("", metric)) if over == set(RULES[metric].tasks) else None
            mean = average(RULES[metric], row.score, (), over)
            value = cell.value if cell else mean.value if mean else None
        else:
            task, _, name = metric.partition(".")
            value = row.score(task, name)
        if value is not None:
            found.append(Mark(place.get("panel", panel), place.get("group", ""), place.get("x", ""), value))
    return found


def _protocols(judged: Judged) -> str:
    return ", ".join(dict.fromkeys(one.protocol for one in judged.senteval.values())) or "none"


def scored(judged: Judged, tasks: Collection[str] | None) -> tuple[list[Run], int]:
    """The runs with a SentEval score on ``tasks`` (None: on any), and how many finished ones lack one of these."""
    found = {
        run: {name for name in one.tasks if tasks is None or name in tasks} for run, one in judged.senteval.items()
    }
    every = {name for there in found.values() for name in there}
    whole = {run for run, there in found.items() if there and there == every}
    return [run for run, there in found.items() if there], len({run.name for run in judged.facts.keys() - whole})


def _beginning(row: Mapping[str, Any]) -> str | None:
    """What a run's weights began from, and its word vectors where these come from a file."""
    weights, vectors = row.get("weights"), row.get("vectors")
    return f"{weights} with word vectors of {Path(vectors).name}" if vectors else weights


def _by_kind(value: Any) -> tuple[bool, Any]:
    """Sorts numbers before text: a run's files may have either."""
    return isinstance(value, str), value


def sizes(judged: Judged, budget: str, shown: Sequence[Run]) -> str:
    """One line on the runs behind a picture or table: sizes, weights, tokens, negatives, seeds."""
    names = dict.fromkeys(name for run in shown for name in run.members or (run.name,))
    rows = [judged.trained[name] for name in names if name in judged.trained]

    def told(values: Sequence[Any], form: str = "") -> str:
        known = sorted({value for value in values if isinstance(value, (int, float, str))}, key=_by_kind)
        if not known:
            return "–"
        if form:
            low, high = min(known), max(known)
            return f"{low:{form}}" if low == high else f"{low:{form}} to {high:{form}}"
        return ", ".join(map(str, known))

    size = "the paper's sizes" if budget == "paper" else "teaching sizes, not the paper's"
    facts = [row.get("facts") or {} for row in rows]
    synthetic = Counter(filter(None, map(made_up, rows)))
    return "; ".join(
        [
            f"{len(rows)} runs at {size}",
            f"encoder {told([row.get('encoder') for row in rows])}",
            f"weights {told([_beginning(row) for row in rows])}",
            f"corpus {told([row.get('corpus') for row in rows])}",
            f"tokens {told([row.get('tokens') for row in rows], ',')}",
            f"negatives per anchor {told([fact.get('negatives per anchor') for fact in facts])}",
            f"seeds {told([row.get('seed') for row in rows])}",
            *(f"{count} of the runs learned {what} from synthetic pairs" for what, count in synthetic.items()),
        ]
    )
