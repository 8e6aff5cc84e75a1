"""Ensembles of encoders: the mean of their classifiers' predictions, weighted by dev performance.

p = sum_i w_i p_i with w_i = d_i / sum_j d_j for each task, where p_i are class probabilities or relatedness scores
and d_i the i-th encoder's dev performance on it (Brahma 2018, section 5: "weighting the predictions of the
individual models by the normalized validation performance on each of the tasks"). Nothing is embedded or trained:
only results are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from analysis.bootstrap import Predictions, read_predictions, shared_tasks
from analysis.model_names import Names
from analysis.senteval import scores
from analysis.senteval.records import Record, Results, read_results
from analysis.senteval.tasks import find
from data.errors import UserError

FIELDS = {"kind", "protocol", "files", "n_train", "n_dev", "n_test"}  # of the members' records


def report_ensemble(*, results: Names, tasks: Names | None = None) -> None:
    """Evaluates an ensemble and prints its results; arguments and errors as in ``ensemble``.

    Args:
        results: folders of the members' results.
        tasks: names of tasks; None: all that the members share.
    """
    print(ensemble(results, tasks))


def ensemble(folders: Sequence[Path | str], tasks: Sequence[str] | None = None) -> Results:
    """Evaluates an ensemble from its members' results.

    A record is like that of one model, with ``weights`` in the members' order. It has no dev scores, as dev
    predictions are not stored. STS12-16 have no dev set and are left out, as are tasks without predictions
    (image-caption retrieval).

    Args:
        folders: folders of the members' results.
        tasks: names of tasks; None: all that the members share.

    Raises:
        UserError: if members differ in protocol or data, or no task is left.
    """
    members, records = [*map(read_results, folders)], dict[str, Record]()
    find(tasks)  # refuses unknown names
    for task in shared_tasks(members):
        single = read_predictions(members, task) if tasks is None or task in tasks else None
        if single and members[0].tasks[task].kind != "similarity":
            records[task] = combine(task, members, single)
    if not records:
        raise UserError("no task with dev scores and predictions of all", key="results")
    model = {"name": f"ensemble of {len(members)}", "members": [*map(str, folders)]}
    return Results(protocol=members[0].protocol, model=model, data=members[0].data, tasks=records)


def weights(performances: Sequence[float | None]) -> list[float]:
    """Computes weights that sum to 1, proportional to dev performances (percent, or correlations x 100).

    A negative or undefined correlation counts as 0. If all are 0, weights are equal.
    """
    positive = [max(value or 0.0, 0.0) for value in performances]
    total = sum(positive)
    return [value / total if total > 0 else 1 / len(positive) for value in positive]


def combine(task: str, results: Sequence[Results], members: Predictions) -> Record:
    """Returns the ensemble's record of a task from its members' results and predictions."""
    gold, predicted, folds = members
    first, shares = results[0].tasks[task], weights([result.tasks[task].dev for result in results])
    mixed = np.average(predicted, axis=0, weights=shares).astype(predicted.dtype)
    if first.kind == "relatedness":
        facts = scores.relatedness(gold, mixed, trained=not first.cosine)
    else:
        facts = scores.classification(task, gold, mixed, folds)
    facts |= first.model_dump(include=FIELDS)
    return Record(**facts, dev=None, l2=None, seconds=0.0, weights=shares)
