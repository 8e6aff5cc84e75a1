"""Ensembles of encoders: the mean of their classifiers' predictions, weighted by dev performance.

p = sum_i w_i p_i with w_i = d_i / sum_j d_j for each task, where p_i are class probabilities or relatedness scores
and d_i the i-th encoder's dev performance on it (Brahma 2018, section 5: "weighting the predictions of the
individual models by the normalized validation performance on each of the tasks"). Without a dev set, as for
the cosines of STS12-16, weights are equal. Nothing is embedded or trained: only results are read.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field

from analysis.bootstrap import FOLDER, read_predictions
from analysis.model_names import Names
from analysis.results import common_tasks, read_named
from analysis.senteval import scores
from analysis.senteval.records import FILE, Record, Results, read_results, write_results
from data.errors import UserError
from data.files import atomic_write, lock_folder


def ensemble(members: Sequence[Path | str], out: Path, tasks: Sequence[str] | None = None) -> Results:
    """Evaluates an ensemble from its members' results; writes ``out/senteval.json`` and ``out/predictions``.

    A record is like that of one model, with ``weights`` in the members' order. It has no dev scores, as dev
    predictions are not stored. Image-caption retrieval is left out, as its predictions are not stored.

    Args:
        members: folders of results.
        out: existing folder.
        tasks: names of tasks; None: all tasks of the members.

    Raises:
        UserError: if members differ in protocol, tasks or data, if predictions or dev scores are missing, or if
            ``out`` holds results of another model.
    """
    results = read_named([*map(str, members)], tasks=tasks)
    kinds = {task: results[0].tasks[task].kind for task in common_tasks(results)}
    names = [task for task, kind in kinds.items() if kind != "retrieval"]
    if not names:
        raise UserError("no task with predictions", key="tasks")
    prints = [str(one.model.get("fingerprint")) for one in results]
    model = {
        "name": f"ensemble of {len(results)}",
        "path": None,
        "members": [
            {"name": one.model["name"], "results": str(one.folder), "fingerprint": mark}
            for one, mark in zip(results, prints, strict=True)
        ],
        "fingerprint": hashlib.sha256("\n".join(["ensemble", *prints]).encode()).hexdigest(),
        "left_out": [task for task in kinds if task not in names],
    }
    if (out / FILE).exists() and read_results(out).model.get("fingerprint") != model["fingerprint"]:
        raise UserError("holds results of another model", key=str(out / FILE))
    records, arrays = {}, {}
    for task in names:
        records[task], arrays[task] = _evaluate_task(task, results)
    (out / FOLDER).mkdir(exist_ok=True)  # only now: a refused ensemble writes nothing
    for task, content in arrays.items():
        with atomic_write(out / FOLDER / f"{task}.npz", "wb") as file:
            np.savez(file, allow_pickle=False, **content)
    first = results[0]
    combined = Results(protocol=first.protocol, model=model, data=first.data, tasks=records, folder=out)
    write_results(out / FILE, combined)
    return combined


def report_ensemble(
    *, results: Annotated[list[str], Field(min_length=2)], out: str, tasks: Names | None = None
) -> None:
    """Evaluates an ensemble, writes its results to ``out`` and prints them.

    Args:
        results: folders of the members' results.
        out: folder.
        tasks: names of tasks; None: all tasks of the members.

    Raises:
        UserError: as ``ensemble`` does.
    """
    folder = Path(out).expanduser()
    with lock_folder(folder, "evaluation"):
        combined = ensemble(results, folder, tasks)
    print(combined)
    if left_out := combined.model["left_out"]:
        print(f"left out, as predictions are not kept: {', '.join(left_out)}")


def weights(performances: Sequence[float | None]) -> list[float]:
    """Computes weights that sum to 1, proportional to dev performances (percent, or correlations x 100).

    A negative correlation counts as 0. If all are 0, or None without a dev set, weights are equal.
    """
    positive = [max(value or 0.0, 0.0) for value in performances]
    total = sum(positive)
    return [value / total if total > 0 else 1 / len(positive) for value in positive]


def _evaluate_task(task: str, results: Sequence[Results]) -> tuple[Record, dict[str, np.ndarray]]:
    """Returns the record of one task and the arrays of its test predictions."""
    started = time.perf_counter()
    record, devs = results[0].tasks[task], [one.tasks[task].dev for one in results]
    if record.kind != "similarity" and None in devs:
        raise UserError(f"no dev score of {task}", key=str(results[devs.index(None)].folder))
    predictions = read_predictions(results, task)
    if predictions is None:
        raise UserError(f"predictions of {task} are missing in one of them", key="results")
    gold, predicted, strata = predictions
    classes = record.kind not in ("similarity", "relatedness")
    if (predicted.ndim == 3) != classes or (classes and not np.allclose(predicted.sum(axis=2), 1, atol=1e-3)):
        raise UserError(f"predictions of {task} are not those of its kind", key="results")
    shares = weights(devs)
    terms = [share * each.astype(float) for share, each in zip(shares, predicted, strict=True)]
    mixed = np.asarray(sum(terms), predicted.dtype)
    arrays = {"gold": gold, "predicted": mixed}
    if record.kind == "similarity":
        arrays["subset"] = strata
        parts = {
            name: (mixed[strata == number], gold[strata == number])
            for number, name in enumerate(record.subsets or ())
        }
        facts = scores.similarity(parts, cosine=record.cosine)
    elif record.kind == "relatedness":
        facts = scores.relatedness(gold, mixed, trained=not record.cosine)
    elif record.kind == "nested":
        arrays["fold"] = strata
        facts = scores.classification(task, gold, mixed, strata)
    else:
        facts = scores.classification(task, gold, mixed)
    kept = {name: getattr(record, name) for name in ("kind", "protocol", "files", "n_train", "n_dev", "n_test")}
    seconds = round(time.perf_counter() - started, 2)
    return Record(**kept, dev=None, l2=None, weights=shares, seconds=seconds, **facts), arrays
