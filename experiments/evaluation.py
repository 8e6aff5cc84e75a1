"""SentEval evaluations with a live table, of a model, a run or an ensemble; and the embedding of a file."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console

import encoders
from analysis import runs
from analysis.model_card import add_scores
from analysis.models import EXPORT, Named, device
from analysis.reporting.ensemble import ensemble
from analysis.reporting.rendering import rich_table
from analysis.reporting.tables import comparison
from analysis.senteval.display import progress_on
from analysis.senteval.evaluation import run_tasks
from analysis.senteval.features import embed_file
from analysis.senteval.protocols import PROTOCOLS, Protocol
from analysis.senteval.results import FILE, Results, read_results
from analysis.settings import EvaluationSettings
from analysis.training_evaluation import SentEval
from data.display import wide_console
from data.errors import UserError
from data.files import alone_in, refuse_links_out
from encoders.base import Encoder
from encoders.fingerprint import fingerprint
from encoders.random_vectors import RandomVectors
from encoders.starts import bundled
from experiments.progress import Display
from experiments.run_folder import ROOT
from experiments.settings import Settings

CARD = "README.md"
DOWNLOADED = "senteval"  # where `make senteval-data` puts the data


def evaluate_model(settings: EvaluationSettings, *, several: bool = False) -> Path:
    """Evaluates ``settings.model`` on SentEval; returns the results' folder.

    Args:
        several: whether this is one job of a sweep: ``settings.out`` is then the folder of all results.

    Raises:
        UserError: for errors that the user can fix.
    """
    protocol = PROTOCOLS[settings.protocol]
    protocol = protocol.changed(hidden=settings.hidden, dropout=settings.dropout, folds=settings.folds)
    data = Path(settings.data).expanduser() if settings.data else ROOT / DOWNLOADED
    if not data.is_dir():
        Named(settings.model, settings).open()  # a missing model is reported first
        raise UserError(
            f"There is no SentEval folder {data}: `make senteval-data` fetches it, data=<folder> names another."
        )
    if settings.threads is not None:
        torch.set_num_threads(settings.threads)
    named = Named(settings.model, settings)
    name, run = named.name, named.run
    if run is not None:
        refuse_links_out(run)
    own = re.sub(r"[^\w.+-]+", "_", name) + f"-{protocol.name}"
    plain = settings.pooling is None and settings.layers is None and settings.precision == "fp32"  # as exported
    if settings.out:
        out = Path(settings.out).expanduser() / (own if several else "")
    else:
        # The default evaluation of a run is written into its folder; others have a folder of their own.
        out = run if run is not None and plain and protocol.name == "default" else Path("evaluations") / own
    display = Display()
    display.fact("model", name)
    given = [
        f"encoder.{key}" for key, value in vars(settings.encoder).items() if value not in (None, False, "none")
    ]
    if given and settings.model != "bag_of_words":
        display.warn(f"ignored     {', '.join(given)}: for model=bag_of_words only")
    elif settings.encoder.counts and settings.encoder.weighting == "none":
        display.warn("ignored     encoder.counts: unused with encoder.weighting=none")
    try:
        _evaluate(
            named.open,
            {
                "name": name,
                "path": settings.model,
                "pooling": settings.pooling,
                "vectors": settings.encoder.vectors,
                **_weights(settings.model, run),
            },
            protocol,
            out,
            display,
            card=run / EXPORT / CARD if run is not None and plain and settings.out is None else None,
            data=data,
            probing=Path(settings.probing).expanduser() if settings.probing else None,
            tasks=settings.tasks,
            cache=settings.vectors_cache,
            device=device(settings.device),
            processes=settings.processes,
        )
    except KeyboardInterrupt:
        raise KeyboardInterrupt("Interrupted. Finished tasks are kept; the same command continues.") from None
    return out


def _weights(model: str, run: Path | None) -> dict[str, Any]:
    """Returns the kind of weights of a run or a bundled checkpoint, for tables."""
    if run is not None:
        return {"weights": runs.read(run).get("weights")}
    return {"weights": "bundled"} if model in bundled() else {}


def evaluate_run(wanted: SentEval, folder: Path, settings: Settings, display: Display) -> None:
    """Evaluates the encoder that a run has exported into its ``folder``."""

    def open_encoder(pooling: str | None) -> Encoder:
        return encoders.load(folder / EXPORT, pooling=pooling, device=device(settings.device))

    _evaluate(
        open_encoder,
        {
            "name": folder.name,
            "path": str(folder / EXPORT),
            "pooling": None,
            "vectors": None,
            "weights": runs.read(folder).get("weights"),
        },
        wanted.protocol,
        folder,
        display,
        card=folder / EXPORT / CARD,
        data=wanted.data,
        probing=wanted.probing,
        tasks=wanted.tasks,
        cache=ROOT / settings.cache / "vectors",
        device=device(settings.device),
        processes=1,  # beside the model that was trained
    )


def _evaluate(
    open_encoder: Callable[[str | None], Encoder | RandomVectors],
    model: dict[str, Any],
    protocol: Protocol,
    out: Path,
    display: Display,
    *,
    card: Path | None,
    **options: Any,
) -> None:
    """Calls ``run_tasks`` with ``options``; shows its progress and its results.

    The scores go onto the model card ``card``, if there is one.
    """
    display.fact("protocol", f"{protocol.name}: {protocol.source}")
    display.fact("results", str(out / FILE))
    with alone_in(out, "evaluation"), progress_on(display.console) as watch:
        results = run_tasks(
            open_encoder, model, protocol, fingerprint=fingerprint, out=out, watch=watch, **options
        )
    for task, path in results.missing.items():
        display.say(f"skipped     {task}: {path} is missing", style="dim")
    _show(results, display)
    if card is not None and card.is_file():
        try:
            add_scores(card, results)
        except UserError as error:
            display.warn(str(error))


def combine(settings: EvaluationSettings) -> Path:
    """Evaluates the ensemble of the results ``settings.ensemble``; returns the folder of its results.

    Raises:
        UserError: for errors that the user can fix.
    """
    out, members = Path(str(settings.out)).expanduser(), settings.ensemble or []
    display = Display()
    display.fact("ensemble", ", ".join(members))
    display.fact("results", str(out / FILE))
    with alone_in(out, "evaluation"):
        results = ensemble(members, out, settings.tasks)
    display.fact("weights", "dev performance of each task, normalised; equal where there is no dev set (STS12-16)")
    for task in results.model["left_out"]:
        display.say(f"left out    {task}: its predictions are not kept", style="dim")
    _show(results, display)
    return out


def _show(results: Results, display: Display) -> None:
    table = results.table()
    wide_console(table, file=display.console.file).print(table)


def compare(folders: Sequence[Path]) -> None:
    """Prints one table of several results."""
    grid = comparison([read_results(folder) for folder in dict.fromkeys(folders)])
    Console().print(rich_table(grid, Console().width))


def embed(settings: EvaluationSettings) -> None:
    """Embeds the file ``settings.embed``, a sentence a line, into ``settings.out``."""
    source, out = (Path(str(path)).expanduser() for path in (settings.embed, settings.out))
    if settings.threads is not None:
        torch.set_num_threads(settings.threads)
    display = Display()
    encoder = Named(settings.model, settings).open()
    with display.bar("embedding", 1.0) as show:
        embed_file(encoder, source, out, progress=lambda share: show(share, 1.0, ""))
    shape = np.load(out, mmap_mode="r").shape
    display.fact("vectors", f"{out}: float32 of shape ({shape[0]:,}, {shape[1]:,})")
