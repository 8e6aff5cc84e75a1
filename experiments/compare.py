"""Trains pairs of objectives and encoders, and compares them on a page: ``experiments/compare.py --help``."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Annotated, Any, Literal

sys.path.pop(0)  # this folder, which Python puts there
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import experiments  # noqa: F401  # reports missing packages

# isort: split
import pandas as pd
from pydantic import Field

from analysis.model_names import EXPORT, Names, run_folder
from analysis.senteval.protocols import ProtocolName
from data.errors import UnfitError, UserError, UserErrors
from data.ranges import Count, Seed, Threads
from experiments.command import call_command
from experiments.config import build, check, choices, merge, override_key, unknown
from experiments.settings import Settings
from experiments.sweep import (
    RESERVED,
    UNITS,
    Run,
    complete,
    configuration,
    describe_length,
    describe_runs,
    find_senteval,
    run_name,
    sweep,
)

BEFORE = "before training"


def compare(
    *,
    objectives: Names,
    encoders: Names,
    budget: str,
    equal: Literal["tokens", "compute"],
    tokens: Count,
    seeds: Annotated[list[Seed], Field(min_length=1)],
    settings: Mapping[str, list[str]],
    queries: Names | None,
    data: str | None,
    tasks: Names | None,
    protocol: ProtocolName,
    jobs: Threads,
    threads: Threads,
    runs: str,
    out: str,
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
    axes = {
        group: {
            (run_folder(name) or Path(name)).name: [f"{group}={name}", *settings.get(name, ())] for name in names
        }
        for group, names in (("objective", objectives), ("encoder", encoders))
    }
    usable = {*encoders, *choices()["encoder"], *choices()["objective"]}
    errors = [unknown(f"settings.{name}", name, usable) for name in settings if name not in usable]
    keys = {*map(override_key, overrides)}
    errors += [UserError("set by this command", key=key) for key in (*axes, *RESERVED) if key in keys]
    if errors:
        raise UserErrors(errors)
    has_length = not keys.isdisjoint(f"budget.{unit}" for unit in UNITS) or equal == "compute"
    base = [f"budget={budget}", *([] if has_length else [f"budget.tokens={tokens}"])]
    repeated = [run.repeat(seed) for run in sweep(base, axes) for seed in seeds]
    planned = [replace(run, overrides=tuple(merge(run.overrides, overrides))) for run in repeated]
    by_name, folder = {run_name(run): run for run in planned}, Path(runs)
    check(configuration(planned[0]), keys)
    senteval = find_senteval(data, protocol, tasks)
    if dry_run:
        print(describe_runs(planned))
        return
    lengths, impossible = set[str](), dict[str, str]()
    for name, run in by_name.items():
        if run.seed == seeds[0]:
            config = configuration(run)
            check(config)
            lengths.add(describe_length(config["budget"]))
            if not (folder / name).is_dir() and (reason := find_misfit(config)):
                pair = " · ".join(run.labels.values())
                impossible[pair] = f"{pair} is not possible: {reason}"
                print(impossible[pair])
    possible = [run for run in planned if " · ".join(run.labels.values()) not in impossible]
    frame = complete([*possible, *list_starts(possible)], folder, senteval=senteval, jobs=jobs, threads=threads)
    failed = [f"{name} failed: {line}" for name, line in frame.attrs["failed"].items()]
    if frame.empty or (frame["objective"] == BEFORE).all():
        raise UserError("no run is finished", key=f"runs={runs}")
    notes = [f"Length of a run: {', '.join(lengths)}.", *impossible.values(), *failed]
    write(frame, by_name, folder, Path(out), queries, notes)
    if failed:
        sys.exit(1)


def list_starts(runs: Iterable[Run]) -> Iterator[Run]:
    """Yields the encoder that each run begins with as a model to be evaluated, where it has no random weights."""
    for run in runs:
        encoder = configuration(run)["encoder"]
        model = encoder.get("path") or encoder.get("name")
        if model and encoder.get("weights") != "random":
            pooling = [text.partition(".")[2] for text in run.overrides if override_key(text) == "encoder.pooling"]
            yield Run({**run.labels, "objective": BEFORE}, model=str(model), evaluation=(*pooling,), seed=run.seed)


def find_misfit(config: Mapping[str, Any]) -> str:
    """Returns the reason why an objective cannot train an encoder, tried out on a few words; "" if it can."""
    from experiments.building import build_encoder

    objective, text = build(config["objective"], "objective"), " ".join(f"word{number}" for number in range(20))
    source: Any = SimpleNamespace(texts=lambda: [text] * 10, texts_key=lambda: text)
    with TemporaryDirectory() as folder:
        try:
            encoder = build_encoder(config, Settings.of(config), objective, source, Path(folder), None)
            objective.check_encoder(encoder)
        except UnfitError as error:
            return str(error)
        except UserError:
            pass  # the run itself reports it
    return ""


def write(
    frame: pd.DataFrame,
    runs: Mapping[str, Run],
    folder: Path,
    out: Path,
    queries: Sequence[str] | None,
    notes: Sequence[str],
) -> None:
    """Writes the page and prints its path.

    Args:
        frame: wide frame of finished runs, and of starts evaluated on SentEval.
        runs: by the name of their folder in ``folder``.
        out: the page.
        queries: sentences whose neighbours are shown; None for some of held-out text.
        notes: lines on the page.
    """
    from analysis import geometry, page
    from encoders import load
    from experiments.examples import show_objective

    trained = frame[frame["objective"] != BEFORE].reset_index(drop=True)
    models = (
        frame[frame["objective"] == BEFORE].drop_duplicates(["encoder", "seed"]).set_index(["encoder", "seed"])
    )
    journals, starts, first = [], [], dict[tuple[str, str], str]()
    for row in trained.itertuples():
        journal = page.read_journals(folder / row.run)
        command = shlex.join(["python", "experiments/run.py", *runs[row.run].overrides])
        journals.append({**journal, **runs[row.run].labels, "command": command})
        start = models.loc[[(row.encoder, row.seed)]].iloc[0] if (row.encoder, row.seed) in models.index else {}
        starts.append({**start, **journal["start"]})
        first.setdefault((row.objective, row.encoder), row.run)
    views, texts = list[page.View](), list[str]()
    for name in {objective: name for (objective, _), name in [*first.items()][::-1]}.values():
        view, texts = show_objective(
            runs[name].labels["objective"], configuration(runs[name]), folder / name / "tokenizer"
        )
        views.insert(0, view)
    sample = geometry.sample_sentences(texts, queries)
    paths = page.write_page(
        out,
        trained,
        pd.DataFrame(starts),
        journals,
        title=" × ".join(", ".join(dict.fromkeys(names)) for names in zip(*first, strict=True)),
        notes=notes,
        views=views,
        sample=sample,
        spaces={
            pair: geometry.embed_sample(load(folder / name / EXPORT).eval(), sample)
            for pair, name in first.items()
        },
        command=shlex.join(["python", "experiments/compare.py", *sys.argv[1:]]),
    )
    print(*paths, sep="\n")


if __name__ == "__main__":
    call_command(compare, "compare", runs=True)
