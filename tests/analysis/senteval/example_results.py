"""Example records and results of SentEval in the form that the evaluation writes."""

from __future__ import annotations

from typing import Any

from analysis.senteval.averages import PROBING, STS
from analysis.senteval.records import PUBLISHED, Record, Results

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
        result |= {"subsets": {"one": {"n": PUBLISHED[task][1], "pearson": test, "spearman": test}}}
    elif task in ("STSBenchmark", "SICKRelatedness"):
        result |= {"kind": "relatedness", "l2": None, "spearman": test, "pearson": test + 3}
        result |= {"dev_pearson": dev, "mse": 0.5}
    elif task == "ImageCaptionRetrieval":
        result |= {"kind": "retrieval", "l2": None, "recalls": dict.fromkeys(RECALLS, test)}
        result |= {"median_rank": {"caption": 2.0, "image": 3.0}}
    elif task == "SNLI":
        result["kind"] = "snli"
    return Record(**(result | fields))


def records(tasks: tuple[str, ...] = SENTEVAL, test: float = 70.0) -> dict[str, Record]:
    return {task: record(task, test) for task in tasks}


def results(name: str = "ours", tasks: dict[str, Record] | None = None, **fields: Any) -> Results:
    defaults = {"protocol": "default", "model": {"name": name}, "tasks": records() if tasks is None else tasks}
    return Results(**(defaults | fields))
