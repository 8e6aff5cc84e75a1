"""Evaluates encoders on tasks of MTEB, the Massive Text Embedding Benchmark (Muennighoff et al. 2023).

Needs the package mteb: pip install -c requirements/constraints.txt -e '.[mteb]'. Tasks, data and metrics are
mteb's own. No prompt is put before a text, and vectors are compared by their cosine. A task's score is its main
metric, in percent. Results lie in mteb's layout, <out>/results/<model>/<fingerprint>/<task>.json, and are used
again.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

import datasets
import numpy as np
from huggingface_hub import constants
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from analysis.model_names import Names
from analysis.models import Model, ModelOptions, open_models
from data import network
from data.display import printable
from data.errors import UserError, UserErrors, reason

try:
    import mteb
    from mteb.models.abs_encoder import AbsEncoder
    from mteb.models.model_meta import ModelMeta, ScoringFunction
except ModuleNotFoundError as error:
    install = "pip install -c requirements/constraints.txt -e '.[mteb]'"
    raise UserError("the package is not installed", key="mteb", hint=install) from error

OWNER = "sentence-objectives"  # of a name without one: mteb's names are "owner/model"
WIDE = 1000  # characters of a line where there is no terminal


class MTEBEncoder(AbsEncoder):
    """Encoder of the suite behind mteb's ``EncoderProtocol``.

    Its revision is the fingerprint: a model that was trained further has results of its own.

    Args:
        model: gives the vectors, and keeps them if it has a cache.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        facts = model.facts()
        self.mteb_model_meta = ModelMeta.create_empty(
            {
                "name": model.name if "/" in model.name else f"{OWNER}/{model.name}",
                "revision": model.fingerprint,
                "embed_dim": facts["dimension"],
                "similarity_fn_name": ScoringFunction.COSINE,
                "framework": ["PyTorch"],
                "loader_kwargs": {"weights": facts["weights"], "origin": facts["origin"]},
            }
        )

    def encode(self, inputs: Any, **options: Any) -> np.ndarray:
        """Returns the vectors of all texts of ``inputs``, float32 of shape (n, D), in the order given.

        Args:
            inputs: batches of n texts in all, each a mapping with a list of them under "text".
            options: task, split, prompt type and batch size, which the vectors do not depend on.

        Raises:
            UserError: if a vector is not finite, or the cache cannot be used.
        """
        return self.model.rows([text for batch in inputs for text in batch["text"]])


def find_tasks(names: Sequence[str] | None, benchmark: str | None) -> list[Any]:
    """Returns mteb's tasks of these names, or those of a benchmark.

    Raises:
        UserError: if a name is unknown.
    """
    try:
        return list(mteb.get_tasks(names) if names else mteb.get_benchmark(benchmark).tasks)
    except KeyError as error:
        raise UserError(f"mteb: {str(error.args[0]).removeprefix('KeyError: ')}") from None


def evaluate_task(encoder: MTEBEncoder, task: Any, cache: Any) -> float:
    """Returns the main score of a task, in percent: the mean of its splits and languages.

    Args:
        encoder: encoder to evaluate.
        task: an ``AbsTask`` of mteb.
        cache: a ``ResultCache`` of mteb; cached results are not computed again.

    Raises:
        UserError: if the task's data cannot be read, or its result not written or read again.
    """
    name = task.metadata.name
    try:
        cache.load_task_result(name, encoder.mteb_model_meta)
    except ValueError:
        path = cache.get_task_result_path(name, encoder.mteb_model_meta)
        raise UserError(f"{path} is damaged: remove it, and the task will be evaluated again.") from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # mteb logs what users need
            results = mteb.evaluate(encoder, task, cache=cache, co2_tracker=False, show_progress_bar=False)
    except UserError as error:
        raise UserError(f"{name}: {error}") from error
    except Exception as error:  # tasks raise errors of any type
        raise UserError(f"{name}: {type(error).__name__}: {reason(error)}.") from error
    return 100 * float(results.task_results[0].validate_and_filter_scores(task).get_score())


def score_table(
    title: str, metrics: Mapping[str, str], scores: Sequence[tuple[str, Mapping[str, float]]]
) -> Table:
    """Returns the table of all scores, a row for each task and a column for each model.

    Args:
        title: of the table.
        metrics: name of each task's main metric, by task.
        scores: name and scores of each model, by task, in percent; a task that failed is missing.
    """
    table = Table(title=escape(printable(title)), title_justify="left", title_style="bold", header_style="bold")
    table.add_column("task", no_wrap=True)
    table.add_column("metric, in %", no_wrap=True)
    for model, _ in scores:
        table.add_column(escape(model), justify="right", overflow="fold")
    for task, metric in metrics.items():
        cells = [f"{found[task]:.2f}" if task in found else "–" for _, found in scores]
        table.add_row(escape(task), escape(metric), *cells)
    if len(metrics) > 1:
        means = [
            f"{np.mean(list(found.values())):.2f}" if len(found) == len(metrics) else "–" for _, found in scores
        ]
        table.add_section()
        table.add_row(f"mean of {len(metrics)} tasks", "", *means)
    return table


def report_mteb(
    *,
    models: Names,
    tasks: Names | None = None,
    benchmark: str | None = None,
    out: str = "evaluations/mteb",
    **options: Unpack[ModelOptions],
) -> None:
    """Prints the table of the models' scores, which lie in mteb's layout under ``out``.

    Args:
        models: names of models.
        tasks: mteb's names of tasks.
        benchmark: one of mteb's benchmarks, instead of tasks.
        out: folder of the results, which are used again.
        options: see ``analysis.models.ModelOptions``.

    Raises:
        UserError: if a task or model cannot be found, or with a line for each task that failed.
    """
    if (tasks is None) == (benchmark is None):
        raise UserError("either tasks= or benchmark= is needed", key="tasks")
    chosen = find_tasks(tasks, benchmark)
    opened = list(open_models(models, **options))
    try:
        cache = mteb.ResultCache(Path(out).expanduser())
    except OSError as error:
        raise UserError(f"{out} cannot be used: {reason(error)}. out=<folder> names another.") from error
    if (why := network.unreachable()) is not None:  # else each task is tried for 24 s
        print(f"{why}: only tasks whose data were downloaded before can be evaluated", file=sys.stderr)
        constants.HF_HUB_OFFLINE = datasets.config.HF_HUB_OFFLINE = True
    scores: list[tuple[str, dict[str, float]]] = []
    failures = list[UserError]()
    for model in opened:
        encoder = MTEBEncoder(model)
        found = {}
        absent = []
        for number, task in enumerate(chosen, start=1):
            name = task.metadata.name
            print(f"{model.name}: {name} ({number} of {len(chosen)})", file=sys.stderr)
            try:
                found[name] = evaluate_task(encoder, task, cache)
            except UserError as error:  # the other tasks are evaluated all the same
                if why is not None and isinstance(error.__cause__, ConnectionError):
                    absent.append(name)
                else:
                    failures.append(error)
        if absent:
            failures.append(UserError(f"no data on this machine for {', '.join(absent)}", key=model.name))
        scores.append((model.name, found))
    if not any(found for _, found in scores):
        raise UserErrors(failures)
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDE)
    metrics = {task.metadata.name: task.metadata.main_score for task in chosen}
    console.print(score_table(benchmark or "MTEB", metrics, scores))
    for model in opened:
        print(printable(f"{model.name}: weights: {model.encoder.weights}, {model.encoder.origin}"))
    if failures:
        raise UserErrors(failures)
