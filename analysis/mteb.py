"""Evaluates encoders on tasks of MTEB, the Massive Text Embedding Benchmark (Muennighoff et al. 2023).

Needs the package mteb: pip install -c requirements/constraints.txt -e '.[mteb]'. Tasks, data and metrics are
mteb's own. No prompt is put before a text, and vectors are compared by their cosine. A task's score is its main
metric, in percent, the mean of its splits and languages. Results lie in mteb's layout,
<out>/results/<model>/<fingerprint>/<task>.json, and are used again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Unpack

import numpy as np
import pandas as pd

from analysis.model_names import Names
from analysis.models import Model, ModelOptions, open_models
from analysis.tables import Format, show
from data.errors import UserError, UserErrors, reading

try:
    import mteb
    from mteb.models.abs_encoder import AbsEncoder
    from mteb.models.model_meta import ModelMeta, ScoringFunction
except ModuleNotFoundError as error:
    install = "pip install -c requirements/constraints.txt -e '.[mteb]'"
    raise UserError("the package is not installed", key="mteb", hint=install) from error

OWNER = "sentence-objectives"  # of a name without one: mteb's names are "owner/model"


class MTEBEncoder(AbsEncoder):
    """Encoder of the suite behind mteb's ``EncoderProtocol``.

    Its revision is the fingerprint: a model that was trained further has results of its own.

    Args:
        model: gives the vectors, and keeps them if it has a cache.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self.mteb_model_meta = ModelMeta.create_empty(
            {
                "name": model.name if "/" in model.name else f"{OWNER}/{model.name}",
                "revision": model.fingerprint,
                "embed_dim": model.encoder.dimension,
                "similarity_fn_name": ScoringFunction.COSINE,
                "loader_kwargs": model.facts(),
            }
        )

    def encode(self, inputs: Any, **options: Any) -> np.ndarray:
        """Returns the vectors of all texts of ``inputs``, float32 of shape (n, D), in the order given.

        Args:
            inputs: batches of n texts in all, each a mapping with a list of them under "text".
            options: task, split, prompt type and batch size, which the vectors do not depend on.
        """
        return self.model.rows([text for batch in inputs for text in batch["text"]])


def report_mteb(
    *,
    models: Names,
    tasks: Names | None = None,
    benchmark: str | None = None,
    format: Format = "text",
    out: str = "evaluations/mteb",
    **options: Unpack[ModelOptions],
) -> pd.DataFrame:
    """Prints a table of the models' scores on tasks of MTEB: a row for each task, a column for each model.

    Args:
        models: names of models.
        tasks: mteb's names of tasks.
        benchmark: one of mteb's benchmarks, instead of tasks.
        format: of the table: text, csv, markdown or latex.
        out: folder of the results, which are used again.
        options: see ``analysis.models.ModelOptions``.

    Raises:
        UserError: if a task or model cannot be found, or after the table, with a line for each task that failed.
    """
    if (tasks is None) == (benchmark is None):
        raise UserError("either tasks= or benchmark= is needed", key="tasks")
    with reading("task or benchmark of mteb", benchmark or ", ".join(tasks or ())):
        chosen = list(mteb.get_tasks(tasks) if tasks else mteb.get_benchmark(benchmark).tasks)
    columns, failures = [], list[UserError]()
    for model in open_models(models, **options):
        with reading("folder of mteb's results", out):
            cache = mteb.ResultCache(Path(out).expanduser())
            results = mteb.evaluate(MTEBEncoder(model), chosen, cache=cache, co2_tracker=False, raise_error=False)
            scores = {task.task_name: 100 * task.get_score() for task in results.select_tasks(chosen).task_results}
        columns.append(pd.Series(scores, dtype=float, name=model.name))
        for failure in results.exceptions or ():
            failures.append(UserError(failure.exception, key=f"{model.name}, {failure.task_name}"))
    names = {task.metadata.name: f"{task.metadata.name}.{task.metadata.main_score}" for task in chosen}
    table = pd.concat(columns, axis=1).reindex([*names]).rename(names).rename_axis("score")
    table.loc["mean"] = table.mean(skipna=False)
    show(table, format, title=benchmark or "MTEB")
    if failures:
        raise UserErrors(failures)
    return table
