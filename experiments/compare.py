"""Trains pairs of objectives and encoders, and compares them on a page: ``experiments/compare.py --help``."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

sys.path[0] = str(Path(__file__).resolve().parents[1])  # Python puts this folder there

import experiments  # noqa: F401  # reports missing packages

# isort: split
import pandas as pd
from pydantic import Field

from analysis.model_names import EXPORT, Names, run_folder
from analysis.runs import read_lines, read_run
from analysis.senteval.protocols import ProtocolName
from data.errors import UserError, UserErrors
from data.ranges import Count, ExpandedPath, Seed, Threads
from experiments.command import call_command
from experiments.config import choices, override_key, quote, unknown
from experiments.sweep import (
    Run,
    complete,
    configuration,
    find_senteval,
    override,
    print_runs,
    run_name,
    sweep,
)


def compare(
    *,
    objectives: Names,
    encoders: Names,
    corpus: str,
    budget: str,
    equal: Literal["tokens", "compute"],
    tokens: Count,
    seeds: Annotated[list[Seed], Field(min_length=1)],
    settings: Mapping[str, list[str]],
    queries: Names | None,
    data: ExpandedPath | None,
    tasks: Names | None,
    protocol: ProtocolName,
    jobs: Threads,
    threads: Threads,
    runs: ExpandedPath,
    out: ExpandedPath,
    dry_run: bool,
    overrides: list[str],
) -> None:
    """Compares objectives and encoders; ``configs/commands/compare.yaml`` explains the keys.

    Args:
        overrides: of all runs.

    Raises:
        UserError: for what the user can correct, and if no run is finished.
        SystemExit: with status 1, if a run failed.
    """
    axes: dict[str, Any] = {}
    for group, models in (("objective", objectives), ("encoder", encoders)):
        names = {(run_folder(model) or Path(model)).name: model for model in models}
        if len(names) < len({*models}):
            raise UserError("two have the same name", key=f"{group}s")
        axes[group] = {name: [f"{group}={model}", *settings.get(name, ())] for name, model in names.items()}
    groups = choices()
    known = {*groups["objective"], *groups["encoder"]}.union(*axes.values())
    if others := settings.keys() - known:
        raise UserErrors([unknown(f"settings.{name}", name, known) for name in sorted(others)])
    base = [f"corpus={corpus}", f"budget={budget}", *[f"budget.tokens={tokens}"] * (equal == "tokens")]
    repeated = [run.repeat(seed) for run in sweep(base, axes) for seed in seeds]
    planned = override(repeated, overrides, reserved=axes)
    senteval = find_senteval(data, protocol, tasks)
    if dry_run:
        print_runs(planned)
        return
    folder = Path(runs)
    frame = complete([*planned, *list_starts(planned)], folder, senteval=senteval, jobs=jobs, threads=threads)
    failed = [f"{name} failed: {line}" for name, line in frame.attrs["failed"].items()]
    if frame.empty or not frame["weights"].any():
        raise UserError("no run is finished", key=f"runs={runs}")

    from analysis import page, page_sample  # late, as they take seconds
    from encoders import load
    from experiments.examples import show_objective

    by_name = {run_name(run): run for run in planned}
    is_run = frame["weights"] != ""  # those of models are not known
    trained, models = frame[is_run].reset_index(drop=True), frame[~is_run]
    journals = []
    for name in trained["run"]:
        journal, run = read_run(folder / name), by_name[name]
        metrics = read_lines(folder / name / "metrics.jsonl")
        cores = [f"{key}={quote(journal['config'][key])}" for key in ("processes", "threads")]
        command = shlex.join(["python", "experiments/run.py", *run.overrides, *cores])
        journals.append({**journal, **run.labels, "metrics": metrics, "command": command})
    starts = pd.DataFrame([journal["start"] for journal in journals])
    shown = [
        show_objective(row.objective, configuration(by_name[row.run]), folder / row.run / "tokenizer")
        for row in trained.drop_duplicates("objective").itertuples()
    ]
    sample = page_sample.sample_sentences(shown[0][1], queries)
    paths = page.write_page(
        Path(out),
        trained,
        starts.combine_first(trained[[*page.PAIR, "seed"]].merge(models, how="left")),
        journals,
        title=" × ".join(", ".join(trained[axis].unique()) for axis in page.PAIR),
        notes=failed,
        views=[view for view, _ in shown],
        sample=sample,
        spaces={
            (row.objective, row.encoder): page_sample.embed_sample(load(folder / row.run / EXPORT).eval(), sample)
            for row in trained.drop_duplicates(page.PAIR).itertuples()
        },
        command=shlex.join(["python", "experiments/compare.py", *sys.argv[1:]]),
    )
    print(*paths, sep="\n")
    if failed:
        sys.exit(1)


def list_starts(runs: Iterable[Run]) -> Iterator[Run]:
    """Yields the encoder that each run begins with as a model to be evaluated, where it has no random weights."""
    for run in runs:
        encoder = configuration(run)["encoder"]
        model = encoder.get("path") or encoder.get("name")
        if model and encoder.get("weights") != "random":
            read = [text for text in run.overrides if override_key(text) in ("encoder.pooling", "encoder.layers")]
            texts = (text.partition("encoder.")[2] for text in read)
            yield Run(run.labels, model=str(model), evaluation=(*texts,), seed=run.seed)


if __name__ == "__main__":
    call_command(compare, "compare")
