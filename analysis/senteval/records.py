"""Results of an evaluation: a record for each task, averages, and the file senteval.json that holds them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, computed_field

from analysis.senteval.averages import AVERAGES, LISTED, PROBING, average
from analysis.senteval.protocols import PROTOCOLS
from analysis.senteval.tasks import TASKS
from data.display import flatten
from data.errors import reading

if TYPE_CHECKING:
    import pandas as pd

FILE = "senteval.json"
PUBLISHED = {task.name: task.sizes for task in TASKS.values()}
COLUMNS = ["task", "metric", "dev", "test", "sentences", "embed_seconds", "seconds", "sentences_per_second"]
Score = Annotated[float | None, AfterValidator(lambda score: None if score != score else score)]  # NaN is None


class Record(BaseModel):
    """Result of one task. Scores are percentages, correlations x 100; None means missing or undefined.

    Attributes:
        kind: kind of the task (see ``tasks.Task``).
        protocol: name of the protocol, see ``protocols.PROTOCOLS``.
        dev: score for model selection. Accuracy; relatedness: Pearson (with plain cosine: Spearman); retrieval:
            mean of the six recalls (the toolkit reports their sum); similarity: None.
        test: main score. Accuracy (MRPC too); relatedness: Spearman; similarity: mean of the subsets' Spearman
            (if the protocol uses plain cosine: one Spearman over all pairs); retrieval: mean of six recalls.
        n_train, n_dev, n_test: numbers of examples as the toolkit counts them (``tasks.Task.sizes``); similarity
            has n_train 0.
        l2: chosen L2 weight; nested k-fold: one per outer fold; None if none is chosen.
        seconds: time of everything after embedding the sentences.
        sentences: number of distinct sentences.
        embed_seconds: time of embedding them, measured when they were embedded; sentences of one call, which have
            about the same length, share its time equally.
        hidden, dropout, pooling: the choices on dev, if the protocol makes them.
        accuracy, f1: only MRPC.
        pearson, spearman: relatedness: a number; similarity: {"mean", "wmean", "all"} over its subsets.
        dev_pearson, mse: only relatedness; mse is None if nothing is trained.
        subsets: only similarity: "n", "pearson" and "spearman" by name.
        recalls: only retrieval: "caption_r1", "caption_r5", "caption_r10" (captions of an image), "image_r1", ...
        median_rank: only retrieval: {"caption", "image"}; a rank, not a percentage.
        weights: weights of an ensemble's members.
        files: SHA-256 of the task's files.
    """

    kind: Literal["nested", "kfold", "split", "snli", "relatedness", "similarity", "retrieval"]
    protocol: str
    dev: Score
    test: Score
    n_train: int
    n_dev: int
    n_test: int
    l2: float | list[float] | None
    seconds: float
    sentences: int | None = None
    embed_seconds: float | None = None
    hidden: int | None = None
    dropout: float | None = None
    pooling: str | None = None
    accuracy: Score = None
    f1: Score = None
    pearson: Score | dict[str, Score] = None
    spearman: Score | dict[str, Score] = None
    dev_pearson: Score = None
    mse: Score = None
    subsets: dict[str, dict[str, int | Score]] | None = None
    recalls: dict[str, float] | None = None
    median_rank: dict[str, float] | None = None
    weights: list[float] | None = None
    files: str | None = None

    @computed_field  # type: ignore[prop-decorator]
    @property
    def sentences_per_second(self) -> float | None:
        """Distinct sentences embedded per second."""
        return round(self.sentences / self.embed_seconds, 1) if self.sentences and self.embed_seconds else None

    @property
    def cosine(self) -> bool:
        """True if the protocol scores similarity by plain cosine."""
        return getattr(PROTOCOLS.get(self.protocol), "cosine", False)

    def score(self, metric: str) -> float | None:
        """Returns a field ("f1") or a part of one ("spearman.mean"); None if it is missing."""
        return dict(flatten(self.model_dump())).get(metric)


def headlines(task: str, record: Record) -> dict[str, str]:
    """Returns the test scores that tables show (see ``Record.score``) with their names, the main one first."""
    if task == "MRPC":
        return {"accuracy": "accuracy", "f1": "F1"}
    match record.kind:
        case "relatedness":
            return {"spearman": "Spearman"}
        case "similarity":
            return {"spearman.all": "Spearman"} if record.cosine else {"spearman.mean": "mean Spearman"}
        case "retrieval":
            return {"test": "mean recall"}
    return {"test": "accuracy"}


def incomparable(task: str, record: Record) -> str | None:
    """Returns in one line why a record is not comparable with printed scores; None if it is."""
    if record.kind == "relatedness" and record.mse is None:
        return "plain cosine, nothing trained"
    # By their README the probing files hold 100k / 10k / 10k sentences, "in some cases a few more" for balance.
    tolerance = 0.01 if task in PROBING else 0.0
    counts = record.n_train, record.n_test
    for part, count, published in zip(("training", "test"), counts, PUBLISHED[task], strict=True):
        if abs(count - published) > tolerance * published:
            return f"{count:,} {part} examples, SentEval has {published:,}"
    return None


def flat_scores(records: Mapping[str, Record]) -> dict[str, float]:
    """Returns the numbers of records by "<Task>.<metric>" ("STS12.spearman.mean"), and "<Task>.comparable"."""
    rows = {
        task: {**dict(record), "comparable": not incomparable(task, record)} for task, record in records.items()
    }
    return {key: value for key, value in flatten(rows) if isinstance(value, (int, float))}


# Sorts records by task; a ValueError for a name that is no task's.
SORT = AfterValidator(lambda tasks: {task: tasks[task] for task in sorted(tasks, key=[*PUBLISHED].index)})


class Results(BaseModel):
    """Scores of an encoder; printed, a table of them.

    Attributes:
        protocol: name of the protocol of all tasks.
        model: facts of the encoder; ``name`` is shown in tables.
        data: facts of the data (folders, say), any JSON.
        tasks: records by task, in SentEval's order.
        missing: by task that could not be evaluated, the first file that is not there.
        folder: folder of senteval.json and predictions; None if there is none.
    """

    model_config = ConfigDict(validate_assignment=True)
    protocol: str
    model: dict[str, Any]
    data: Any = None
    tasks: Annotated[dict[str, Record], SORT] = {}
    missing: dict[str, str] = {}
    folder: Path | None = Field(default=None, exclude=True)

    @property
    def averages(self) -> dict[str, float]:
        """The averages of ``AVERAGES`` in percent whose tasks all have scores, by name."""

        scores = flat_scores(self.tasks)
        averages = {
            name: average(rule, lambda task, metric: scores.get(f"{task}.{metric}", math.nan))
            for name, rule in AVERAGES.items()
        }
        return {name: value for name, value in averages.items() if value == value}

    @property
    def scores(self) -> dict[str, float | None]:
        """Test scores in percent by task (of MRPC also "MRPC.f1"), and the averages LISTED."""
        scores = {}
        for task, record in self.tasks.items():
            for metric in headlines(task, record):
                scores[f"{task}.{metric}" if task in scores else task] = record.score(metric)
        averages = self.averages
        return scores | {name: averages[name] for name in LISTED if name in averages}

    def table(self) -> pd.DataFrame:
        """Returns a row for each (task, metric): scores, distinct sentences, seconds, sentences per second."""
        import pandas as pd  # late: takes half a second

        rows = []
        for task, record in self.tasks.items():
            facts = record.model_dump()
            for metric, title in headlines(task, record).items():
                rows.append({**facts, "task": task, "metric": title, "test": record.score(metric)})
                facts = {}
        return pd.DataFrame(rows, columns=COLUMNS).set_index(COLUMNS[:2]).astype({"sentences": "Int64"})

    def notes(self) -> list[str]:
        """Returns averages, scores that are not comparable with printed ones, and missing files, a line each."""
        averages = self.averages
        reasons = [f"{task}: {why}" for task, record in self.tasks.items() if (why := incomparable(task, record))]
        lines = [f"Mean of {title}: {averages[name]:.2f}" for name, title in LISTED.items() if name in averages]
        lines += [f"Not comparable with published scores: {'; '.join(reasons)}."] if reasons else []
        return [*lines, *(f"{task}: {path} is missing" for task, path in self.missing.items())]

    def __str__(self) -> str:
        from analysis.tables import render  # late: it imports pandas

        title = f"SentEval: {self.model.get('name')} ({self.protocol})"
        return render(self.table(), title=title, notes=self.notes())

    def to_dict(self) -> dict[str, Any]:
        """Returns everything that senteval.json holds: plain dictionaries, lists, numbers and texts."""
        tasks = {task: record.model_dump(exclude_unset=True) for task, record in self.tasks.items()}
        return {"tasks": tasks, "averages": self.averages, **self.model_dump(exclude={"tasks"})}


def read_results(path: Path | str) -> Results:
    """Reads a senteval.json, or the one in a folder.

    Raises:
        UserError: if it cannot be read.
    """
    path = Path(path).expanduser()
    path = path / FILE if path.is_dir() else path
    with reading(FILE, path):
        return Results.model_validate_json(path.read_bytes()).model_copy(update={"folder": path.parent})
