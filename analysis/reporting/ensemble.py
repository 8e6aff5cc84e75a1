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
from typing import Annotated, Any, cast

import numpy as np
from pydantic import Field

from analysis.model_names import Names
from analysis.reporting.bootstrap import FOLDER, Predictions, read_predictions
from analysis.reporting.matching import StoredResults, read_stored, require_matching
from analysis.senteval import scores
from analysis.senteval.protocols import PROTOCOLS
from analysis.senteval.records import Record
from analysis.senteval.results import FILE, Results, read_results, write_results
from data.errors import UserError
from data.files import atomic_write, lock_folder

_FACTS = ("kind", "protocol", "files", "n_train", "n_dev", "n_test")  # fields shared by all members


def ensemble(members: Sequence[Path | str], out: Path, tasks: Sequence[str] | None = None) -> Results:
    """Evaluates an ensemble from its members' results; writes ``out/senteval.json`` and ``out/predictions``.

    A record is like that of one model, with ``weights`` in the members' order. It has no dev scores, as dev
    predictions are not stored. Image-caption retrieval is left out, as its predictions are not stored.

    Args:
        members: folders of results.
        out: existing folder.
        tasks: names of tasks; None: all tasks of the members.

    Raises:
        UserError: in one line, if members differ in protocol, tasks or data, if predictions are missing or
            without probabilities, or if ``out`` holds results of another model.
    """
    stored = [read_stored(member) for member in members]
    names = require_matching(stored, tasks)
    left_out = [name for name in names if stored[0].results.tasks[name]["kind"] == "retrieval"]
    names = [name for name in names if name not in left_out]
    if not names:
        raise UserError(f"{stored[0].folder} has no task with predictions, of which an ensemble is made.")
    model = _model(stored) | {"left_out": left_out}
    found = Results(stored[0].results.protocol, model, stored[0].results.data)
    if (out / FILE).exists() and read_results(out).model.get("fingerprint") != found.model["fingerprint"]:
        raise UserError(f"{out / FILE} holds results of another model: out=<folder> names another place.")
    predictions = {}
    for name in names:
        record, predictions[name] = _evaluate_task(name, stored)
        found.tasks[name] = cast(Record, record)
    (out / FOLDER).mkdir(exist_ok=True)  # only now: a refused ensemble writes nothing
    for name, arrays in predictions.items():
        with atomic_write(out / FOLDER / f"{name}.npz", "wb") as file:
            np.savez(file, allow_pickle=False, **arrays)
    write_results(out / FILE, found)
    return read_results(out)


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
    for task in combined.model["left_out"]:
        print(f"left out    {task}: its predictions are not kept")
    print(combined)


def weights(performances: Sequence[float | None]) -> list[float]:
    """Computes weights that sum to 1, proportional to dev performances (percent, or correlations x 100).

    A negative correlation counts as 0. If all are 0, or None without a dev set, weights are equal.
    """
    positive = [max(value or 0.0, 0.0) for value in performances]
    total = sum(positive)
    return [value / total if total > 0 else 1 / len(positive) for value in positive]


def _model(stored: Sequence[StoredResults]) -> dict[str, Any]:
    """Returns the result's description of the ensemble as a model."""
    prints = [str(one.results.model.get("fingerprint")) for one in stored]
    members = [
        {"name": one.results.model.get("name"), "results": str(one.folder), "fingerprint": mark}
        for one, mark in zip(stored, prints, strict=True)
    ]
    digest = hashlib.sha256("\n".join(["ensemble", *prints]).encode()).hexdigest()
    return {"name": f"ensemble of {len(stored)}", "path": None, "members": members, "fingerprint": digest}


def _evaluate_task(task: str, stored: Sequence[StoredResults]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Returns the record of one task and the arrays of its test predictions."""
    started = time.perf_counter()
    records = [one.results.tasks[task] for one in stored]
    kind = records[0]["kind"]
    for one, record in zip(stored, records, strict=True):
        if kind != "similarity" and record["dev"] is None:
            raise UserError(
                f"{one.folder} has no dev score of {task}, as an ensemble has none: name single encoders' results."
            )
    member_predictions = [_predictions(task, kind, one.folder) for one in stored]
    first = member_predictions[0]
    for one, other in zip(stored[1:], member_predictions[1:], strict=True):
        if first.predicted.shape != other.predicted.shape or not first.same_examples(other):
            raise UserError(
                f"{stored[0].folder} and {one.folder} predict other examples of {task}: evaluate both again."
            )
    shares = weights([record["dev"] for record in records])
    mixed = sum(
        share * one.predicted.astype(np.float64) for share, one in zip(shares, member_predictions, strict=True)
    )
    predicted = np.asarray(mixed, first.predicted.dtype)
    result = {fact: cast(dict[str, Any], records[0])[fact] for fact in _FACTS}
    result |= {"dev": None, "l2": None, "weights": shares, **_scores(task, records[0], first, predicted)}
    result["seconds"] = round(time.perf_counter() - started, 2)
    arrays = {"gold": first.gold, "predicted": predicted}
    if kind == "similarity":
        arrays["subset"] = first.strata
    elif kind == "nested":
        arrays["fold"] = first.strata
    return result, arrays


def _predictions(task: str, kind: str, folder: Path) -> Predictions:
    path = folder / FOLDER / f"{task}.npz"
    if not path.exists():
        raise UserError(f"There is no {path}: evaluate {task} in {folder} again.")
    found = read_predictions(path)
    if kind in ("similarity", "relatedness"):
        fits = found.predicted.ndim == 1 and found.subsets == (kind == "similarity")
    else:
        fits = found.predicted.ndim == 2 and bool(
            (found.predicted >= 0).all() and np.allclose(found.predicted.sum(axis=1), 1, atol=1e-3)
        )
    if not fits:
        kept = "scores of pairs" if kind in ("similarity", "relatedness") else "probabilities of classes"
        raise UserError(f"{path} holds no {kept}: evaluate {task} in {folder} again.")
    return found


def _scores(task: str, record: Record, first: Predictions, predicted: np.ndarray) -> dict[str, Any]:
    """Computes the test scores as for a single model; ``record`` and ``first`` belong to one member."""
    protocol = PROTOCOLS.get(record["protocol"].split("+")[0])
    cosine = protocol is not None and protocol.cosine
    if record["kind"] == "similarity":
        subsets = {}
        for number, name in enumerate(record["subsets"]):
            rows = first.strata == number
            subsets[name] = predicted[rows], first.gold[rows]
        return scores.similarity(subsets, cosine=cosine)
    if record["kind"] == "relatedness":
        return {"dev_pearson": None, **scores.relatedness(first.gold, predicted, trained=not cosine)}
    folds = first.strata if record["kind"] == "nested" else None
    return scores.classification(task, first.gold, predicted, folds)
