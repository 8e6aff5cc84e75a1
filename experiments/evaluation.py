"""SentEval for models by name, as for a run at the end of its training."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Unpack

import torch
from pydantic import Field

from analysis import senteval
from analysis.model_names import Names, model_name, run_folder
from analysis.models import ModelOptions, open_encoder, resolve_device
from analysis.senteval.protocols import PROTOCOLS, ProtocolName
from analysis.senteval.records import FILE
from analysis.senteval.vectors import CHUNK
from analysis.tables import Format, render
from data.errors import UserError, UserErrors
from data.ranges import ExpandedPath, Threads
from experiments.run_folder import ROOT


def evaluate(
    *,
    model: Annotated[str, Field(min_length=1)] | Names,
    data: str | None = None,
    probing: str | None = None,
    tasks: Names | None = None,
    protocol: ProtocolName = "default",
    out: ExpandedPath | None = None,
    format: Format = "text",
    threads: Threads | None = None,
    processes: Threads = 1,
    cache: ExpandedPath | None = ".cache",
    **options: Unpack[ModelOptions],
) -> list[Path]:
    """Evaluates models on SentEval's 28 tasks, and prints a table; returns the folders of their results.

        python experiments/evaluate.py model=runs/<folder>                              all tasks whose files exist
        python experiments/evaluate.py model=bert-base-uncased pooling=cls tasks=[MR,CR,STSBenchmark]
        python experiments/evaluate.py model=bag_of_words encoder.vectors=glove.txt.gz data=<SentEval's folder>
        python experiments/evaluate.py model=[runs/<a>+runs/<b>,random_vectors] protocol=prototyping
        make senteval-data                                                              downloads the data

    The same command continues where it was stopped. Other evaluations begin with a name; --help after it shows
    their keys:

        export          Writes an encoder as a folder, for instance with its vectors whitened.
        probes          Trains classifiers that predict properties of sentences from their vectors.
        wordsim         Computes rank correlations of cosines of word vectors with human scores.
        quora           Trains classifiers of pairs of vectors to recognise duplicate questions.
        neighbours      Finds the nearest neighbours of queries.
        projection_map  Draws a map of labelled sentences, and computes how often neighbours have the same label.
        masked_lm       Computes the masked-language-model loss.
        mteb            Prints a table of the models' scores on tasks of MTEB.
        geometry        Draws the spectra of several models in one picture, and tabulates their geometry.
        table           Shows one table of several results.
        ensemble        Evaluates an ensemble of results.
        download        Downloads SentEval's data.

    Args:
        model: folder of this suite, of sentence-transformers or of transformers, a run's folder, a bundled
            checkpoint, a model of the hub, bag_of_words, or random_vectors; a+b concatenates the vectors of two,
            [a,b] evaluates several.
        data: SentEval's folder, with downstream and probing; None: that of ``make senteval-data``.
        probing: folder of the probing files; None: ``data/probing``.
        tasks: names of tasks; None: all whose files exist.
        protocol: name of the protocol.
        out: folder of the results, for several models with a folder for each; None: the run's folder where its
            encoder is evaluated as exported and by the default protocol, otherwise one in ``evaluations``.
        format: format of the table.
        threads: threads of torch on a CPU.
        processes: tasks evaluated side by side.
        cache: folder of sentence vectors, from the checkout if relative; None keeps none.
        options: see ``analysis.models.ModelOptions``.

    Raises:
        UserError: for models and data that cannot be read, after the other models are evaluated.
    """
    from analysis.results import report_table  # late, as senteval.evaluate: classifiers take seconds to import

    rules = PROTOCOLS[protocol]
    if rules.poolings and options.get("pooling"):
        raise UserError(f"protocol={protocol} chooses the pooling", key="pooling")
    if threads is not None:
        torch.set_num_threads(threads)
    models = [model] if isinstance(model, str) else model
    folders, errors = list[Path](), list[UserError]()
    for name in models:
        title = model_name(name, **options)
        run = run_folder(name) if title == model_name(name) else None  # None: not as exported
        folder = Path("evaluations") / (re.sub(r"[^\w.+-]+", "_", title) + f"-{rules.name}")
        if out is not None:
            folder = Path(out) / (folder.name if len(models) > 1 else "")
        elif run is not None and rules.name == "default":
            folder = run
        try:
            poolings: list[Any] = [*rules.poolings] or [options.get("pooling")]
            encoders = {pooling: open_encoder(name, **{**options, "pooling": pooling}) for pooling in poolings}
            encoder = encoders[poolings[0]]
            scores = senteval.evaluate(
                encoders if rules.poolings else encoder,
                name=title,
                model={
                    "path": name,
                    "vectors": options.get("encoder", {}).get("vectors"),
                    "pooling": options.get("pooling"),
                    "layers": options.get("layers"),
                    "weights": encoder.weights,
                    "postprocess": getattr(encoder, "fitted", None),
                },
                protocol=rules,
                data=data or ROOT / "senteval",  # of `make senteval-data`
                out=folder,
                probing=probing,
                tasks=tasks,
                cache=None if cache is None else ROOT / cache / "vectors",
                batch_size=CHUNK,
                device=resolve_device(options.get("device")),
                processes=processes,
            )
            notes = [*scores.notes(), f"results: {folder / FILE}"]
            print(render(scores.table(), format, title=f"SentEval: {title} ({rules.name})", notes=notes))
            folders.append(folder)
        except UserError as error:
            errors += error.errors
    if len(folders) > 1:
        report_table(results=[*map(str, folders)], format=format)
    if errors:
        raise UserErrors(errors)
    return folders
