"""SentEval for models by name (``evaluate.py``), and for a run at the end of its training."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Unpack

import torch
from pydantic import Field
from rich.console import Console

from analysis.model_card import add_scores
from analysis.model_names import EXPORT, Names, run_folder, split_members
from analysis.models import ModelOptions, model_name, open_encoder, resolve_device, vector_cache
from analysis.reporting.rendering import rich_table
from analysis.reporting.tables import comparison
from analysis.senteval.display import progress_on
from analysis.senteval.protocols import PROTOCOLS, ProtocolName
from analysis.senteval.results import FILE, Results
from data.display import wide_console
from data.errors import UserError, UserErrors
from data.files import lock_folder
from data.ranges import WIDEST, Below1, Threads
from encoders.fingerprint import fingerprint
from encoders.starts import bundled
from experiments.progress import Display
from experiments.run_folder import ROOT
from experiments.settings import Settings

CARD = "README.md"
DOWNLOADED = "senteval"  # folder of `make senteval-data`


def evaluate(
    *,
    model: Annotated[str, Field(min_length=1)] | Names,
    data: str | None = None,
    probing: str | None = None,
    tasks: Names | None = None,
    protocol: ProtocolName = "default",
    hidden: Annotated[int, Field(ge=0, le=WIDEST)] | None = None,
    dropout: Below1 | None = None,
    folds: Annotated[int, Field(ge=2, le=1000)] | None = None,
    out: str | None = None,
    threads: Threads | None = None,
    processes: Threads | None = None,
    **options: Unpack[ModelOptions],
) -> list[Path]:
    """Evaluates models on SentEval, and prints one table of several; returns the folders of their results.

    Args:
        model: name of a model, or several.
        data: SentEval's folder; None: that of ``make senteval-data``.
        probing: folder of the probing files; None: ``data/probing``.
        tasks: names of tasks; None: all whose files exist.
        protocol: name of the protocol.
        hidden, dropout, folds: changes of the protocol.
        out: folder of the results, for several models with a folder for each; None: the run's folder where its
            encoder is evaluated as exported and by the default protocol, otherwise one in ``evaluations``.
        threads: threads of torch on a CPU.
        processes: tasks evaluated side by side.
        options: see ``analysis.models.ModelOptions``.

    Raises:
        UserError: for models and data that cannot be read, after the other models are evaluated.
    """
    from analysis.senteval.evaluation import run_tasks  # late: its classifiers take seconds to import

    rules = PROTOCOLS[protocol].changed(hidden=hidden, dropout=dropout, folds=folds)
    if rules.poolings and options.get("pooling"):
        raise UserError(f"protocol={protocol} chooses the pooling", key="pooling")
    if threads is not None:
        torch.set_num_threads(threads)
    defaults = {"pooling": None, "layers": None, "precision": "fp32"}
    as_exported = defaults.items() <= (defaults | options).items()
    models = [model] if isinstance(model, str) else model
    display, results, errors = Display(), dict[Path, Results](), list[UserError]()
    for name in models:
        title, run = model_name(name, **options), run_folder(name)
        place = Path("evaluations") / (re.sub(r"[^\w.+-]+", "_", title) + f"-{rules.name}")
        if out is not None:
            place = Path(out).expanduser() / (place.name if len(models) > 1 else "")
        elif run is not None and as_exported and rules.name == "default":
            place = run
        facts = {"name": title, "path": name, **{key: options.get(key) for key in ("pooling", "layers")}}
        facts["vectors"] = options.get("encoder", {}).get("vectors")
        if {*split_members(name)} <= {*bundled()}:
            facts["weights"] = "bundled"
        display.fact("model", title)
        display.fact("results", str(place / FILE))
        try:
            with lock_folder(place, "evaluation"), progress_on(display.console) as watch:
                scores = run_tasks(
                    partial(_open, name, options),
                    facts,
                    rules,
                    fingerprint=fingerprint,
                    data=Path(data or ROOT / DOWNLOADED).expanduser(),
                    out=place,
                    probing=Path(probing).expanduser() if probing else None,
                    tasks=tasks,
                    cache=vector_cache(**options),
                    device=resolve_device(options.get("device")),
                    processes=processes,
                    watch=watch,
                )
            results[place] = scores
            for task, path in scores.missing.items():
                display.say(f"skipped     {task}: {path} is missing", style="dim")
            table = scores.table()
            wide_console(table, file=display.console.file).print(table)
            if run is not None and as_exported and (out is None or place == run):
                add_scores(run / EXPORT / CARD, scores)
        except KeyboardInterrupt:
            raise KeyboardInterrupt("Interrupted. The same command continues after the finished tasks.") from None
        except UserError as error:
            errors += error.errors
    if len(results) > 1:
        Console().print(rich_table(comparison([*results.values()]), Console().width))
    if errors:
        raise UserErrors(errors)
    return [*results]


def evaluate_run(evaluation: Any, folder: Path, settings: Settings) -> None:
    """Evaluates a run's exported encoder on SentEval, by an ``analysis.training_evaluation.SentEval``."""
    evaluate(
        model=str(folder),
        data=evaluation.data,
        probing=evaluation.probing,
        tasks=evaluation.tasks,
        protocol=evaluation.protocol.name,
        out=str(folder),
        processes=1,  # beside the model that was trained
        device=settings.device,
        cache=settings.cache,
    )


def _open(model: str, options: ModelOptions, pooling: Any) -> Any:
    merged: ModelOptions = {**options, "pooling": pooling or options.get("pooling")}
    return open_encoder(model, **merged)
