"""From the run folders of a figure to its points: which scores, over which tasks, and the notes on them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from analysis import runs
from analysis.figures.exhibits import ROW, Exhibit, Figure, PrintedRows, Table
from analysis.figures.reproduction import verdict_lines
from analysis.figures.scores import Mark, Point
from analysis.figures.verdicts import Verdict, decide
from analysis.quick import SCORES
from analysis.reporting.printed import paper_rows
from analysis.senteval.averages import RULES, Scores, average, average_title
from analysis.senteval.records import incomparable, scorer
from analysis.senteval.results import FILE, Results, read_results
from experiments.planned_runs import results_folder
from experiments.reproduction.planning import Run

QUICK = "on held-out text, % (quick evaluation, not SentEval)"


@dataclass
class Found:
    """Scores of the finished runs of a figure.

    Attributes:
        quick: scores of the quick evaluation, by run; only of runs evaluated with their encoder's own pooling.
        senteval: results, by run; empty where SentEval is not evaluated.
        facts: weights, steps, tokens and the like, by run.
        trained: the same by the run's name, including runs that are only joined to others.
        ensembles: results of the figure's ensemble, by seed.
    """

    quick: dict[Run, Mapping[str, Any]] = field(default_factory=dict)
    senteval: dict[Run, Results] = field(default_factory=dict)
    facts: dict[Run, Mapping[str, Any]] = field(default_factory=dict)
    trained: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    ensembles: dict[int, Results] = field(default_factory=dict)


def collect(planned: Sequence[Run], folder: Path, protocol: str | None) -> Found:
    """Reads what there is of ``planned`` below ``folder``; SentEval results only where a protocol is named."""
    found = Found()
    for run in planned:
        path = folder / run.name
        row = runs.read(path)
        if row["state"] != "finished":
            continue
        if run.members:
            row["facts"] = _joined([found.trained[name] for name in run.members if name in found.trained])
        else:
            found.trained[run.name] = row
        if not run.evaluated:
            continue
        found.facts[run] = row
        if not run.pooling and not run.members:
            found.quick[run] = row["trained"]
        if protocol is not None and ((out := results_folder(path, protocol, run.pooling)) / FILE).exists():
            found.senteval[run] = read_results(out)
    return found


def synthetic(row: Mapping[str, Any]) -> str:
    """Returns the tasks that a run learned from generated sentences for lack of data: "fr, de"; mostly ""."""
    return str((row.get("facts") or {}).get("synthetic", ""))


def _joined(rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The facts of an encoder that joins those of ``rows``."""
    tasks = dict.fromkeys(task for row in rows if (found := synthetic(row)) for task in found.split(", "))
    return {"synthetic": ", ".join(tasks)} if tasks else {}


class Scored(NamedTuple):
    """A figure with what is drawn in it, notes, and the scores that stand in for the paper's ("": none)."""

    figure: Figure
    points: list[Point]
    notes: list[str]
    by: str


def by_quick(figure: Figure, found: Found) -> Scored:
    """Returns the figure by the quick evaluation, without printed values."""
    names = ", ".join(dict.fromkeys(figure.quick.values()))
    points = [
        _point(figure, found, run, panel, value)
        for run, scores in found.quick.items()
        for panel, metric in figure.quick.items()
        if (value := scores.get(metric)) is not None
    ]
    y = f"{names if ', ' not in names else 'score'} {QUICK}"
    panels = tuple(figure.quick) if len(figure.quick) > 1 else figure.panels
    notes = [f"Scores: {names} {QUICK}; there is no SentEval data here (data=<folder>)."]
    if any(SCORES[metric].group == "probe" for metric in figure.quick.values()):
        notes += runs.mixed_probes([found.facts[run] for run in found.quick])
    return Scored(replace(figure, y=y, printed=(), panels=panels), points, notes, f"{names} {QUICK}")


def by_senteval(figure: Figure, found: Found) -> Scored:
    """Returns the figure by SentEval, with printed values beside comparable scores only."""
    points, notes = senteval_points(figure, found)
    marks, measures = [], _measures(figure, found)
    for panel, measure in measures.items() if figure.printed_rows else ():
        beside = _marks(figure.printed_rows, panel, measure) if measure.comparable else []
        marks += beside
        if beside and not measure.whole:
            notes.append(f"In printed rows, {measure.label} is computed from their cells over the same tasks.")
        elif not beside:
            why = "among the printed values" if measure.comparable else "comparable with printed values"
            notes.append(f"{measure.label} is not {why}, which are left out.")
    others = [measure.label for measure in measures.values() if not measure.whole]
    return Scored(replace(figure, printed=marks), points, notes, ", ".join(dict.fromkeys(others)))


def senteval_points(exhibit: Exhibit, found: Found) -> tuple[list[Point], list[str]]:
    """Returns points of a figure or of a table's claims on SentEval, and notes.

    The labels of averages that are not over all tasks give the number of tasks.
    """
    points, measures = [], _measures(exhibit, found)
    for panel, measure in measures.items():
        for run, results in found.senteval.items():
            if (value := measure.of(scorer(results.tasks))) is not None:
                points.append(_point(exhibit, found, run, panel, value))
        for seed, results in found.ensembles.items():
            if (value := measure.of(scorer(results.tasks))) is not None and exhibit.ensemble:
                points.append(Point(panel, exhibit.ensemble.group, "", seed, value))
    protocols = ", ".join(dict.fromkeys(one.protocol for one in found.senteval.values())) or "none"
    labels = ", ".join(dict.fromkeys(measure.label for measure in measures.values()))
    return points, [f"Scores: {labels}, SentEval, protocol {protocols}."]


def claimed(table: Table, found: Found) -> list[str]:
    """Returns verdicts on the claims of a table: lines of Markdown, or none."""
    if not table.claims:
        return []
    points, notes = senteval_points(table, found)
    remarks = {
        ("panel", panel): f"{panel} here: {measure.label}"
        for panel, measure in _measures(table, found).items()
        if not measure.whole
    }
    for run, row in found.facts.items():
        if tasks := synthetic(row):
            row_name = run.labels[ROW]
            remarks["group", row_name] = f"{row_name} learned {tasks} from synthetic pairs"
    verdicts = [_remarked(verdict, remarks) for verdict in decide(table.claims, table.over(points))]
    return [*verdict_lines(verdicts), *notes]


def _remarked(verdict: Verdict, remarks: Mapping[tuple[str, str], str]) -> Verdict:
    """``verdict`` with the remarks on the panels and then the groups that it rests on."""
    chosen = [
        (axis, name) for axis in ("panel", "group") for side in verdict.sides for name in side.get(axis) or ()
    ]
    more = [remarks[key] for key in dict.fromkeys(chosen) if key in remarks]
    return replace(verdict, remark="; ".join(filter(None, [verdict.remark, *more])))


def _point(exhibit: Exhibit, found: Found, run: Run, panel: str, score: float) -> Point:
    axes = exhibit.point
    place = {key: run.labels.get(axis, "") for key, axis in axes.items()}
    varied = [axis for axis in run.labels if len({other.labels.get(axis) for other in found.facts}) > 1]
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


class _Measure(NamedTuple):
    """A score as all results have it: a task's, or an average.

    Attributes:
        metric: a rule of analysis.senteval.averages, or <task>.<metric>.
        over: the tasks that an average is over.
        label: its name, with the number of its tasks where some are missing.
        whole: whether it is over all tasks of its name.
        comparable: whether it is of SentEval's own data.
    """

    metric: str
    over: set[str]
    label: str
    whole: bool
    comparable: bool

    def of(self, scores: Scores) -> float | None:
        """Returns the value that ``scores`` have, None where there is none."""
        if self.metric not in RULES:
            task, _, name = self.metric.partition(".")
            return scores(task, name)
        found = average(RULES[self.metric], scores, (), self.over) if self.over else None
        return None if found is None else found.value


def _measures(exhibit: Exhibit, found: Found) -> dict[str, _Measure]:
    """The scores of an exhibit by panel."""
    return {panel: _measure(metric, found) for panel, metric in exhibit.scores.items()}


def _measure(metric: str, found: Found) -> _Measure:
    """Returns a score; an average is over the tasks that all results have."""
    rule, results = RULES.get(metric), found.senteval.values()
    apart = {task for one in results for task, record in one.tasks.items() if incomparable(task, record)}
    if rule is None:
        own = metric.partition(".")[0] not in apart
        return _Measure(metric, set(), metric if own else f"{metric} (not comparable)", own, own)
    scores = [scorer(one.tasks) for one in results]
    tasks = {
        task
        for task in rule.tasks
        if all(one(task, group[task]) is not None for one in scores for group in rule.groups if task in group)
    }
    mean = average(rule, scores[0], apart, tasks) if scores and tasks else None
    if mean is None:
        title = f"{average_title(metric)} (no task in common)"
        return _Measure(metric, tasks, title, whole=False, comparable=False)
    return _Measure(metric, tasks, mean.title, mean.complete, not mean.apart)


def _marks(printed: PrintedRows | None, panel: str, measure: _Measure) -> list[Mark]:
    """The paper's own values of this score: printed, or computed from printed ones over the same tasks."""
    if printed is None:
        return []
    found = []
    rule = RULES.get(measure.metric)
    for row in paper_rows(printed.paper, printed.split):
        place = printed.places.get(row.model)
        if place is None:
            continue
        whole = rule is not None and measure.over == {*rule.tasks}
        cell = row.cells.get(("", measure.metric)) if whole else None
        value = cell.value if cell else measure.of(row.score)
        if value is not None:
            found.append(Mark(place.get("panel", panel), place.get("group", ""), place.get("x", ""), value))
    return found


def scored(found: Found, tasks: Collection[str] | None) -> tuple[list[Run], int]:
    """Returns the runs with a score on ``tasks`` (None: any), and the number of finished ones lacking some."""
    scores = {
        run: {name for name in one.tasks if tasks is None or name in tasks} for run, one in found.senteval.items()
    }
    every = {name for there in scores.values() for name in there}
    whole = {run for run, there in scores.items() if there and there == every}
    return [run for run, there in scores.items() if there], len({run.name for run in found.facts.keys() - whole})


def sizes(found: Found, size: str, shown: Sequence[Run]) -> str:
    """Returns a line on the runs behind a picture or table: their ``size``, weights, tokens, negatives, seeds."""
    names = dict.fromkeys(name for run in shown for name in run.members or (run.name,))
    rows = [found.trained[name] for name in names if name in found.trained]
    facts = [row.get("facts") or {} for row in rows]
    tasks = Counter(filter(None, map(synthetic, rows)))
    return "; ".join(
        [
            f"{len(rows)} run{'s' * (len(rows) != 1)} at {size}",
            f"encoder {_known(row.get('encoder') for row in rows)}",
            f"weights {_known(_start(row) for row in rows)}",
            f"corpus {_known(row.get('corpus') for row in rows)}",
            f"tokens {_known((row.get('tokens') for row in rows), ',')}",
            f"negatives per anchor {_known(fact.get('negatives per anchor') for fact in facts)}",
            f"seeds {_seeds(row.get('seed') for row in rows)}",
            *(f"{count} of the runs learned {what} from synthetic pairs" for what, count in tasks.items()),
        ]
    )


def _known(values: Iterable[Any], form: str = "") -> str:
    """The different values in order, or of a ``form`` of numbers their range; a dash where none is known."""
    known = sorted(
        {value for value in values if isinstance(value, (int, float, str))},
        key=lambda value: (isinstance(value, str), value),  # a run's files may have either
    )
    if not known or not form:
        return ", ".join(map(str, known)) or "–"
    low, high = min(known), max(known)
    return f"{low:{form}}" if low == high else f"{low:{form}} to {high:{form}}"


def _seeds(values: Iterable[Any]) -> str:
    known = sorted({value for value in values if isinstance(value, int)})
    together = len(known) > 2 and known[-1] - known[0] == len(known) - 1
    return f"{known[0]} to {known[-1]}" if together else _known(known)


def _start(row: Mapping[str, Any]) -> str | None:
    """Returns the start of a run's weights, and of its word vectors if they come from a file."""
    weights, vectors = row.get("weights"), row.get("vectors")
    return f"{weights} with word vectors of {Path(vectors).name}" if vectors else weights
