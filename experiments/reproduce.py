"""Trains, evaluates and draws a paper's figure or table: ``python experiments/reproduce.py --help``."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

sys.path[0] = str(Path(__file__).resolve().parents[1])  # Python puts this folder there

import experiments  # noqa: F401  # reports missing packages

# isort: split
import pandas as pd
from pydantic import Field

from analysis.claims import decide, describe
from analysis.model_names import Names
from analysis.papers import CATALOGUE
from analysis.papers.base import Options, Reproduction
from analysis.plots import save
from analysis.results import tidy
from analysis.runs import read_runs, sum_costs
from analysis.senteval.protocols import ProtocolName
from analysis.tables import render
from data.errors import UserError, reading
from data.files import atomic_write
from data.ranges import Existing, ExpandedPath, Seed, Threads
from data.sources.pairs import Inference
from experiments.command import call_command
from experiments.config import compose, override_key, quote, unknown
from experiments.sweep import FLOPS, complete, find_senteval, override, print_runs, run_name


def reproduce(
    *,
    figure: str | None,
    list: bool,
    dry_run: bool,
    budget: Literal["teaching", "paper"],
    seeds: Annotated[list[Seed], Field(min_length=1)] | None,
    data: Existing | None,
    tasks: Names | None,
    protocol: ProtocolName | None,
    vectors: Existing | None,
    nli: Annotated[Mapping[str, Any], Inference] | None,
    models: Names | None,
    jobs: Threads | None,
    threads: Threads,
    runs: ExpandedPath,
    out: ExpandedPath,
    overrides: list[str],
) -> None:
    """Reproduces a figure or table; ``configs/commands/reproduce.yaml`` explains the keys.

    Args:
        overrides: of all runs.

    Raises:
        UserError: for what the user can correct.
        SystemExit: with status 1, if a run failed.
    """
    items = [item for id, item in CATALOGUE.items() if list and id.startswith(figure or "")]
    for item in items:
        counts = "/".join(str(len(item.runs(Options(budget=size)))) for size in item.sizes)
        print(f"{item.id:<22} {counts:>7}  {item.title}")
        if figure:
            for claim, basis in item.claims.items():
                print(f"- {claim}", *describe(basis), sep="\n    ")
            print(*item.notes, sep="\n")
    if items:
        return
    if figure not in CATALOGUE:
        raise unknown("figure", str(figure), CATALOGUE, "no such figure: list=true shows all")
    item = CATALOGUE[figure]
    if budget not in item.sizes:
        raise UserError(f"{figure} has no runs of this size", key="budget")
    if models and (item.draw or not item.scores):
        raise UserError(f"{figure} is no table of SentEval scores", key="models")
    if (tasks or protocol) and (item.needs or not item.scores):
        raise UserError(f"{figure} has no scores of SentEval", key="tasks" if tasks else "protocol")
    lengths = [text.partition("=")[2] for text in overrides if override_key(text) == FLOPS]
    with reading("number", FLOPS):
        flops = float(lengths[-1]) if lengths else None
    options = Options(
        budget=budget,
        seeds=seeds,
        flops=flops,
        vectors=vectors and quote(vectors),
        nli=quote(nli) if nli else None,
        data=Path(data) if data else None,
        runs=Path(runs),
        models=models or (),
    )
    planned = override(item.runs(options), overrides)
    senteval = None
    if item.scores and not item.needs:
        names = tasks or (item.tasks if options.teaching else None)
        senteval = find_senteval(data, protocol or item.protocol, names)
    if dry_run:
        print(f"{figure}: {item.title}")
        print_runs(planned)
        return
    if item.needs and not data:
        raise UserError(f"{figure} needs {item.needs}", key="data")
    train = partial(complete, folder=options.runs, senteval=senteval, jobs=jobs, threads=threads)
    scores = item.scores if senteval else item.quick
    frame = train(planned)
    failed, notes = frame.attrs["failed"], [*item.notes]
    if planned:
        if frame.empty or (item.draw and not item.long and tidy(frame, scores).empty):
            text = "none is finished and has the scores (models and short texts need data=<SentEval folder>)"
            raise UserError(text, key="runs")
        while item.search:
            extension = override(item.search(tidy(frame, scores), options), overrides)
            if not (new := [run for run in extension if run not in planned]):
                folders = (options.runs / run_name(run) for run in planned)
                notes.append(f"Training: {sum_costs(read_runs(*folders))}.")
                break
            planned, added = planned + new, train(new)
            frame, failed = pd.concat([frame, added], ignore_index=True), failed | added.attrs["failed"]
        starts, trained = (", ".join(filter(None, map(str, frame[name].unique()))) for name in ("weights", "seed"))
        origin = "quick evaluation on held-out text (data=<SentEval folder> gives SentEval's)"
        if senteval:
            origin = f"{len(senteval.tasks)} SentEval tasks, protocol {senteval.protocol}"
        elif item.needs:
            origin = item.needs
        counts = f"{len(frame)} of {len(planned)} rows; budget {budget}; weights {starts}; seeds {trained}"
        notes.insert(0, f"{counts}; scores: {origin}.")
        notes += [f"Missing: {name}: {line}" for name, line in failed.items()]
    scored = senteval or item.needs
    if item.extend and scored:
        frame = item.extend(frame, options)
    stem = Path(out, figure.replace("/", "-"))
    stem.parent.mkdir(parents=True, exist_ok=True)
    if item.draw:
        long = item.long(frame, options) if item.long else tidy(frame, scores)
        quick = ", ".join(dict.fromkeys(scores.values()))
        ylabel = item.ylabel if scored or not planned else f"{quick} on held-out text, %"
        printed = item.marks(frame) if senteval and item.printed else None
        picture = item.draw(long, title=item.title, ylabel=ylabel, note=" ".join(notes), printed=printed)
        save(picture, stem, long)
        below = [render(item.table(long, options), "markdown")] if item.table else []
        body = [f"![{item.title}]({stem.name}.png)", *below, *explain(item, long)]
    elif item.examples:
        from analysis.page import list_rows
        from experiments.examples import show_objective

        configs = {base: compose([*base.split(), *overrides]) for base in item.examples}
        body = tabulate(pd.concat(list_rows(show_objective(*pair, None)[0]) for pair in configs.items()), stem)
    else:
        body = tabulate(item.table(frame, options) if item.table else item.score_table(frame), stem)
        if item.claims and scored:
            body += explain(item, item.select_compared(frame, options))
    with atomic_write(stem.with_suffix(".md")) as file:
        file.write("\n\n".join([f"# {item.title}", *body, *notes]) + "\n")
    print(f"{stem}.md")
    if failed:
        sys.exit(1)


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
            [f"**{verdict.outcome}**: {verdict.claim}", *([*map(str, verdict.evidence)] or [verdict.reason])]
        )
        for verdict in decide(item.claims, long)
    ]


if __name__ == "__main__":
    call_command(reproduce, "reproduce")
