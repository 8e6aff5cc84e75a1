"""Evaluates encoders on tasks of MTEB, the Massive Text Embedding Benchmark (Muennighoff et al. 2023).

Needs the package mteb: pip install -c requirements/constraints.txt -e '.[mteb]'. Tasks, data and metrics are
mteb's own. No prompt is put before a text, and vectors are compared by their cosine. A task's score is its main
metric, in percent, the mean of its splits and languages. Results lie in mteb's layout,
<folder>/results/<model>/<fingerprint>/<task>.json, and are used again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from analysis.models import Model
from analysis.reports import ReportOptions
from data.errors import UserError, reading
from data.ranges import ExpandedPath

with reading("package (pip install -c requirements/constraints.txt -e '.[mteb]')", "mteb"):
    import mteb
    from mteb.models.abs_encoder import AbsEncoder
    from mteb.models.model_meta import ModelMeta, ScoringFunction

OWNER = "sentence-objectives"  # of a name without one: mteb's names are "owner/model"


class MTEBEncoder(AbsEncoder):
    """Encoder of the suite behind mteb's ``EncoderProtocol``.

    Its revision is the fingerprint: a model that was trained further has results of its own.

    Args:
        model: gives the vectors.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self.mteb_model_meta = ModelMeta.create_empty(
            {
                "name": model.name if "/" in model.name else f"{OWNER}/{model.name}",
                "revision": model.encoder.fingerprint(),
                "embed_dim": model.encoder.dimension,
                "similarity_fn_name": ScoringFunction.COSINE,
            }
        )

    def encode(self, inputs: Any, **options: Any) -> np.ndarray:
        """Returns the vectors of all texts of ``inputs``, float32 of shape (n, D), in the order given.

        Args:
            inputs: batches of n texts in all, each a mapping with a list of them under "text".
            options: task, split, prompt type and batch size, which the vectors do not depend on.
        """
        return self.model.rows([text for batch in inputs for text in batch["text"]])


def evaluate_mteb(
    model: Model,
    *,
    tasks: Sequence[str] = (),
    benchmark: str | None = None,
    folder: ExpandedPath = "evaluations/mteb",
    **options: Unpack[ReportOptions],
) -> dict[str, float]:
    """Computes scores on tasks of MTEB; a task that fails, for the reason that mteb prints, has none.

    Args:
        model: the model.
        tasks: mteb's names of tasks.
        benchmark: one of mteb's benchmarks, instead of tasks.
        folder: folder of the results, which are used again.
        options: see ``analysis.reports.ReportOptions``.

    Returns:
        Main metric of each task in percent, NaN if it failed, and their "mean".

    Raises:
        UserError: if there is no such task or benchmark, or the folder cannot be used.
    """
    if not tasks and not benchmark:
        raise UserError("tasks= or benchmark= is needed", key="tasks")
    with reading("task or benchmark of mteb", benchmark or ", ".join(tasks)):
        chosen = [*(mteb.get_benchmark(benchmark).tasks if benchmark else mteb.get_tasks(tasks))]
    with reading("folder of mteb's results", folder):
        cache = mteb.ResultCache(Path(folder))
        results = mteb.evaluate(MTEBEncoder(model), chosen, cache=cache, co2_tracker=False, raise_error=False)
        finished = results.select_tasks(chosen).task_results
    scores = {task.metadata.name: math.nan for task in chosen}
    scores |= {task.task_name: 100 * task.get_score() for task in finished}
    return scores | {"mean": float(np.mean([*scores.values()]))}
