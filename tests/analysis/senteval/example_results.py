"""Example records and results of SentEval in the form that the evaluation writes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from analysis.senteval.averages import PROBING, STS
from analysis.senteval.records import PUBLISHED, Record, Results
from data.files import write_json

DOWNSTREAM = (
    *("MR", "CR", "SUBJ", "MPQA", "SST2", "SST5", "TREC", "MRPC", "SNLI", "SICKEntailment", "SICKRelatedness"),
    *("STSBenchmark", "STS12", "STS13", "STS14", "STS15", "STS16", "ImageCaptionRetrieval"),
)
SENTEVAL = (*DOWNSTREAM, *PROBING)  # not the tasks that a reader of docs/add-a-task.md added
NESTED = ("MR", "CR", "SUBJ", "MPQA")
RECALLS = [f"{side}_r{k}" for side in ("caption", "image") for k in (1, 5, 10)]


def record(
    task: str, test: float = 70.0, *, dev: float = 60.0, n_train: int | None = None, **fields: Any
) -> Record:
    """Returns a record with the published numbers of examples and all test scores near ``test``."""
    kind = "nested" if task in NESTED else "kfold" if task in ("TREC", "MRPC") else "split"
    result: dict[str, Any] = {
        "kind": kind,
        "protocol": "default",
        "dev": dev,
        "test": test,
        "n_train": PUBLISHED[task][0] if n_train is None else n_train,
        "n_dev": 100,
        "n_test": PUBLISHED[task][1],
        "l2": 1e-4,
        "seconds": 1.5,
    }
    if task == "MRPC":
        result |= {"accuracy": test, "f1": test + 8}
    elif task in STS:
        means = {"mean": test, "wmean": test + 1, "all": test + 2}
        result |= {"kind": "similarity", "dev": None, "l2": None, "spearman": means}
        result |= {"pearson": {key: value - 5 for key, value in means.items()}}
    elif task in ("STSBenchmark", "SICKRelatedness"):
        result |= {"kind": "relatedness", "l2": None, "spearman": test, "pearson": test + 3}
        result |= {"dev_pearson": dev, "mse": 0.5}
    elif task == "ImageCaptionRetrieval":
        result |= {"kind": "retrieval", "l2": None, "recalls": dict.fromkeys(RECALLS, test)}
    elif task == "SNLI":
        result["kind"] = "snli"
    return Record(**(result | fields))


def records(tasks: tuple[str, ...] = SENTEVAL, test: float = 70.0) -> dict[str, Record]:
    return {task: record(task, test) for task in tasks}


def results(name: str = "ours", tasks: dict[str, Record] | None = None, **fields: Any) -> Results:
    defaults = {"protocol": "default", "model": {"name": name}, "tasks": records() if tasks is None else tasks}
    return Results(**(defaults | fields))


def make_evaluation(
    folder: Path,
    tasks: Sequence[str],
    accuracy: float = 0.8,
    *,
    dev: float = 60.0,
    predicted: np.ndarray | None = None,
) -> Results:
    """Writes results with predictions for 100 examples, of this accuracy where none are passed."""
    (folder / "predictions").mkdir(parents=True)
    rng, gold = np.random.default_rng(round(1000 * accuracy)), np.arange(100) % 2
    sure, right = rng.uniform(0.5, 1, 100), rng.random(100) < accuracy
    if predicted is None:
        predicted = np.where(np.eye(2)[np.where(right, gold, 1 - gold)], sure[:, None], 1 - sure[:, None])
    scores, records = gold + rng.normal(size=100) / accuracy, {}
    for task in tasks:
        records[task] = record(task, 100 * float(np.mean(predicted.argmax(axis=1) == gold)), dev=dev, files="x")
        is_scored = records[task].kind in ("similarity", "relatedness")
        arrays = {"gold": gold, "predicted": scores if is_scored else predicted}
        if task in ("CR", "STS12"):
            arrays["fold" if task == "CR" else "subset"] = np.arange(100) % 5
        if task != "ImageCaptionRetrieval":
            np.savez(folder / "predictions" / f"{task}.npz", **arrays)  # type: ignore[arg-type]
    value = results(folder.name, records, folder=folder)
    write_json(folder / "senteval.json", value.to_dict())
    return value
