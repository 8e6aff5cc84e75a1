"""Trains, evaluates and draws a paper's figure or table: ``python experiments/reproduce.py --help``."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

sys.path.pop(0)  # this folder, which Python puts there
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import experiments  # noqa: F401  # reports missing packages

# isort: split
import pandas as pd
from pydantic import Field

from analysis.claims import decide
from analysis.model_names import Names
from analysis.papers import CATALOGUE
from analysis.papers.base import Options, Reproduction, Run
from analysis.plots import save
from analysis.results import tidy
from analysis.senteval.protocols import ProtocolName
from analysis.tables import render
from data.errors import UserError, UserErrors, reading
from data.files import atomic_write
from data.ranges import Existing, Seed, Threads
from data.sources.pairs import Inference
from experiments.command import call_command
from experiments.config import check, compose, merge, override_key, quote, unknown
from experiments.sweep import RESERVED, UNITS, Evaluation, complete, configuration, describe_runs, find_senteval

LENGTHS = [f"budget.{unit}" for unit in UNITS]
FLOPS = "budget.flops"


def reproduce(
    *,
    figure: str | None,
    list: bool,
    dry_run: bool,
    budget: Literal["teaching", "paper"],
    seeds: Annotated[list[Seed], Field(min_length=1)] | None,
    data: Existing | None,
    probing: Existing | None,
    tasks: Names | None,
    protocol: ProtocolName | None,
    vectors: Existing | None,
    nli: Annotated[Mapping[str, Any], Inference] | None,
    jobs: Threads | None,
    threads: Threads,
    runs: str,
    out: str,
    overrides: list[str],
) -> None:
    """Reproduces a figure or table; ``configs/commands/reproduce.yaml`` explains the keys.

    Args:
        overrides: of all runs.

    Raises:
        UserError: for what the user can correct.
        SystemExit: with status 1, if a run failed.
    """
    if list:
        print(f"{'figure':<22} {'runs':>7}  title; two numbers of runs: at teaching / paper size")
        for item in CATALOGUE.values():
            counts = [str(len(item.runs(Options(budget=size)))) for size in item.sizes]
            print(f"{item.id:<22} {' / '.join(counts):>7}  {item.title}")
        return
    if not figure:
        raise UserError("missing", key="figure", hint="list=true lists them.")
    if figure not in CATALOGUE:
        raise unknown("figure", figure, CATALOGUE)
    item = CATALOGUE[figure]
    if budget not in item.sizes:
        raise UserError(f"{figure} has no runs of this size", key="budget")
    lengths = [text.partition("=")[2] for text in overrides if override_key(text) == FLOPS]
    with reading("number", FLOPS):
        flops = float(lengths[-1]) if lengths else None
    options = Options(
        budget=budget,
        seeds=seeds,
        flops=flops,
        vectors=quote(vectors) if vectors else None,
        nli=quote(nli) if nli else None,
        data=Path(data) if data else None,
        runs=Path(runs),
    )
    planned = override(item.runs(options), overrides)
    for run in [run for run in planned if run.overrides][:1]:
        check(configuration(run), {*map(override_key, overrides)})
    if overrides and not (planned or item.examples):
        raise UserError(f"{figure} trains nothing", key=override_key(overrides[0]))
    senteval = None
    if item.scores and not item.needs:
        names = tasks or (item.tasks if options.teaching else None)
        senteval = find_senteval(data, protocol or item.protocol, names, probing)
    if dry_run:
        print(f"{figure}: {item.title}\n{describe_runs(planned)}")
        return
    if item.needs and not data:
        raise UserError(f"{figure} needs {item.needs}", key="data")
    frame = complete(planned, options.runs, senteval=senteval, jobs=jobs, threads=threads)
    failed, notes = frame.attrs["failed"], [*item.notes]
    if planned:
        if item.draw and not (senteval or item.needs):  # finished runs may lack a score that is newer
            frame = frame[frame.reindex(columns=[*item.quick.values()]).notna().any(axis=1)]
        if frame.empty:
            raise UserError("no run is finished and evaluated", key="runs")
        notes.insert(0, summarise(frame, len(planned), budget, senteval))
    if item.extend and senteval:
        frame = item.extend(frame, options)
    stem = Path(out, figure.replace("/", "-"))
    stem.parent.mkdir(parents=True, exist_ok=True)
    if item.draw:
        scores = item.scores if senteval else item.quick
        long = item.long(frame, options) if item.long else tidy(frame, scores)
        quick = ", ".join(dict.fromkeys(scores.values()))
        ylabel = item.ylabel if senteval or item.needs or not planned else f"{quick} on held-out text, %"
        printed = item.marks(frame) if senteval and item.printed else None
        picture = item.draw(long, title=item.title, ylabel=ylabel, note=" ".join(notes), printed=printed)
        save(picture, stem, long)
        body = [f"![{item.title}]({stem.name}.png)", *explain(item, long)]
    elif item.examples:
        from analysis.page import list_rows
        from experiments.examples import show_objective

        configs = {base: compose([*base.split(), *overrides]) for base in item.examples}
        for config in configs.values():
            check(config)
        body = tabulate(pd.concat(list_rows(show_objective(*pair, None)[0]) for pair in configs.items()), stem)
    else:
        body = tabulate(item.table(frame, options) if item.table else item.score_table(frame), stem)
        if item.claims and senteval:
            body += explain(item, tidy(frame, item.scores))
    with atomic_write(stem.with_suffix(".md")) as file:
        file.write("\n\n".join([f"# {item.title}", *body, *notes]) + "\n")
    print(f"{stem}.md")
    if failed:
        sys.exit(1)


def override(runs: Sequence[Run], overrides: Sequence[str]) -> list[Run]:
    """Returns ``runs`` with ``overrides``, each once; ``encoder=`` also replaces their labels of the axis "model".

    A length of runs replaces all others, but ``budget.flops`` is scaled by the figure.

    Raises:
        UserErrors: for keys that this command sets, or that differ among the runs of one model.
    """
    singles = [run for joined in runs for run in joined.members or (joined,) if not run.model]

    def varies(key: str) -> bool:
        texts = {
            (run.labels.get("model"), *(text for text in run.overrides if override_key(text) == key))
            for run in singles
        }
        return len(texts) > len({model for model, *_ in texts})

    values = {override_key(text): text.partition("=")[2] for text in overrides}
    errors = [
        UserError("set by this command", key=key)
        for key in values
        if key in RESERVED or (key != FLOPS and varies(key))
    ]
    if errors:
        raise UserErrors(errors)
    unset = [f"{key}=null" for key in LENGTHS if not values.keys().isdisjoint(LENGTHS) and key not in values]

    def change(run: Run) -> Run:
        scaled = [text for text in run.overrides if override_key(text) == FLOPS and FLOPS in values]
        texts = merge(merge(run.overrides, [*unset, *overrides]), scaled) if run.overrides else ()
        model = {"model": values["encoder"]} if "encoder" in values and "model" in run.labels else {}
        labels = {**run.labels, **model}
        return replace(run, labels=labels, overrides=tuple(texts), members=tuple(map(change, run.members)))

    changed = [change(run) for run in runs]
    return [run for number, run in enumerate(changed) if run not in changed[:number]]


def summarise(frame: pd.DataFrame, count: int, budget: str, senteval: Evaluation | None) -> str:
    """Returns facts about the runs behind a picture or table; ``count`` rows were planned."""
    weights, seeds = (", ".join(filter(None, map(str, frame[name].unique()))) for name in ("weights", "seed"))
    scores = "quick evaluation on held-out text (data=<SentEval folder> gives SentEval's)"
    if senteval:
        scores = f"{len(senteval.tasks)} SentEval tasks, protocol {senteval.protocol}"
    return f"{len(frame)} of {count} rows; budget {budget}; weights {weights}; seeds {seeds}; scores: {scores}."


def tabulate(table: pd.DataFrame, stem: Path) -> list[str]:
    """Writes a table into ``stem``.csv; returns the parts of its page."""
    table = table.rename_axis(table.index.name or "row")
    with atomic_write(stem.with_suffix(".csv")) as file:
        table.to_csv(file, lineterminator="\n")
    return [render(table, "markdown", decimals=1)]


def explain(item: Reproduction, long: pd.DataFrame) -> list[str]:
    """Returns the paper's claims with their outcomes and evidence, in Markdown."""
    return [
        "\n- ".join(
            [
                f"**{verdict.outcome}**: {verdict.claim}",
                *(map(str, verdict.evidence) if verdict.evidence else [verdict.reason]),
            ]
        )
        for verdict in decide(item.claims, long)
    ]


if __name__ == "__main__":
    call_command(reproduce, "reproduce", runs=True)
