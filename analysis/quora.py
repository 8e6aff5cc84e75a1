"""Duplicate questions: logistic regression and an MLP on few to all training pairs.

    features = [u; v; |u - v|; u * v]        MLP: 4 hidden layers of 1024, dropout 0.5 after each

Subramanian et al. (2018), table 4 and section 10.6. A size n is the first n of a seeded permutation of the
training pairs; without a dev file its last tenth is dev. L2 and the MLP's stopping point are chosen on dev; test
pairs are scored once. Files: [pairs_]{train,dev,test}.tsv[.gz] without quoting, with a header that names
is_duplicate, question1 and question2, or without a header as label, question, question (the partition of Wang et
al. 2017).

The paper's rows are not shown: they are over Quora's own 400,000 pairs with other partitions and subsets. On other
pairs (for example with constructed negatives) the same accuracy means something else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Unpack, get_args

import numpy as np
from pydantic import Field

from analysis.model_names import Names
from analysis.models import Model, ModelOptions, open_models, resolve_device
from analysis.reporting.printed import Cell, Key
from analysis.reporting.rendering import Form, Grid, Row, show, write_result
from analysis.senteval.classifiers.probe import ProbeData, fit_hidden, fit_linear
from analysis.senteval.files.loaders import stream
from data.display import bar
from data.errors import UserError
from data.randomness import EVALUATED_SPLIT, generator
from data.ranges import Count, Seed

Classifier = Literal["logistic", "mlp"]
CLASSIFIERS: tuple[Classifier, ...] = get_args(Classifier)
SIZES: tuple[int | Literal["all"], ...] = (1000, 5000, 10000, 25000, "all")
LAYERS, DROPOUT = 4, 0.5
DEV_SHARE = 0.1
COLUMNS = ("is_duplicate", "question1", "question2")
NOT_BESIDE = (
    "GenSen's table 4 is left out on purpose: its rows are over Quora's own 400,000 pairs, split by others; on "
    "other pairs (constructed negatives are easier) the same accuracy means something else."
)


class Pairs(NamedTuple):
    """n pairs of questions with labels of shape (n,), int64: 1 for duplicates, otherwise 0."""

    first: list[str]
    second: list[str]
    labels: np.ndarray

    def at(self, index: np.ndarray) -> Pairs:
        """Returns the pairs at row numbers ``index``, in its order."""
        return Pairs([self.first[i] for i in index], [self.second[i] for i in index], self.labels[index])


class Parts(NamedTuple):
    """Pairs of a folder; sizes are prefixes of ``train``."""

    train: Pairs
    dev: Pairs
    test: Pairs


def read(folder: Path, seed: int) -> Parts:
    """Reads ``folder``, with training pairs permuted by ``seed``; their last tenth is dev if there is no dev file.

    Raises:
        UserError: if a file is missing, or a line is not a label and two questions.
    """
    train = _read(folder, "train")
    order = generator(EVALUATED_SPLIT, seed).permutation(len(train.labels))
    if _find(folder, "dev") is None:
        kept = len(order) - max(1, round(DEV_SHARE * len(order)))
        train, dev = train.at(order[:kept]), train.at(order[kept:])
    else:
        train, dev = train.at(order), _read(folder, "dev")
    return Parts(train, dev, _read(folder, "test"))


def split_sizes(wanted: Sequence[int | Literal["all"]], there: int) -> tuple[dict[str, int], list[str]]:
    """Returns the number of training pairs by name of size, and the names of sizes larger than the file."""
    reached, missing = {}, []
    for name in wanted:
        if name == "all" or name <= there:
            reached[short(name)] = there if name == "all" else name
        else:
            missing.append(short(name))
    return reached, missing


def short(size: int | Literal["all"]) -> str:
    """Abbreviates a size as in the paper: 5000 is "5k"."""
    return f"{size // 1000}k" if size != "all" and size % 1000 == 0 else str(size)


def evaluate_duplicates(
    model: Model,
    parts: Parts,
    reached: Mapping[str, int],
    *,
    classifiers: Sequence[str] = CLASSIFIERS,
    seed: int = 0,
    device: str = "cpu",
) -> dict[str, dict[str, dict[str, Any]]]:
    """Computes scores by classifier and size: {"logistic": {"1k": {"accuracy":, "f1":, "dev":, "l2":, ...}}}."""
    vectors = model.vectors([question for part in parts for question in part.first + part.second])
    scores: dict[str, dict[str, dict[str, Any]]] = {name: {} for name in classifiers}
    for size, count in reached.items():
        pairs = [parts.train.at(np.arange(count)), parts.dev, parts.test]
        sides = [[question for part in pairs for question in part[side]] for side in (0, 1)]
        examples = ProbeData(
            compared(*(vectors.matrix[vectors.index(side)] for side in sides)),
            np.concatenate([part.labels for part in pairs]),
            train=count,
            dev=len(parts.dev.labels),
        )
        for name in classifiers:
            if name == "logistic":
                fit = fit_linear(examples, device=device)
            else:
                with bar(f"MLP, {size}") as progress:
                    fit = fit_hidden(
                        examples, layers=LAYERS, dropout=DROPOUT, seed=seed, device=device, progress=progress
                    )
            scores[name][size] = {
                "accuracy": fit.test,
                "f1": f1(fit.predictions, parts.test.labels),
                "dev": fit.dev,
                "n_train": count,
                "l2": fit.l2,
            }
    return scores


def compared(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Combines two (n, D) arrays to [u; v; |u - v|; u * v] of shape (n, 4 D) (Conneau et al. 2017)."""
    return np.hstack([u, v, np.abs(u - v), u * v])


def f1(predictions: np.ndarray, labels: np.ndarray) -> float:
    """Computes F1 of class 1 in percent for two (n,) arrays; 0 if neither has class 1."""
    hits = int(np.sum((predictions == 1) & (labels == 1)))
    total = int(np.sum(predictions == 1)) + int(np.sum(labels == 1))
    return 200.0 * hits / total if total else 0.0


def table(results: Sequence[Mapping[str, Any]], missing: Sequence[str], facts: str) -> Grid:
    """Builds a row per model and classifier with accuracy and F1 of each size; the majority class below."""
    names = list(dict.fromkeys(size for one in results for scores in one["scores"].values() for size in scores))
    columns: list[Key] = [("", f"{size} {metric}") for size in names for metric in ("acc", "F1")]
    rows = []
    for one in results:
        for classifier, scores in one["scores"].items():
            cells = {}
            for size, score in scores.items():
                for metric, value in (("acc", score["accuracy"]), ("F1", score["f1"])):
                    cells["", f"{size} {metric}"] = Cell(value, f"{value:.2f}")
            rows.append(Row(f"{one['model']['name']} ({classifier})", cells, protocol=classifier))
    majority = results[0]["majority"]
    guess = {("", f"{size} acc"): Cell(majority, f"{majority:.2f}") for size in names}
    notes = [f"Test accuracy and F1 of duplicates in percent, by number of training pairs; {facts}."]
    if missing:
        notes.append(f"Sizes that the training file does not reach: {', '.join(missing)}.")
    below = [Row("majority class", guess, "these pairs")]
    return Grid("question duplicates", columns, rows, below, [*notes, NOT_BESIDE])


def report_duplicates(
    *,
    models: Names,
    data: str,
    sizes: Annotated[Sequence[Count | Literal["all"]], Field(min_length=1)] = SIZES,
    classifiers: Annotated[Sequence[Classifier], Field(min_length=1)] = CLASSIFIERS,
    seed: Seed = 0,
    format: Form = "text",
    out: str | None = None,
    **options: Unpack[ModelOptions],
) -> list[dict[str, Any]]:
    """Prints the table of the models' scores, writes them to ``out`` and returns them.

    Args:
        models: names of models.
        data: folder of the pairs.
        sizes: numbers of training pairs.
        classifiers: names of classifiers.
        seed: seed of the permutation and the MLP.
        format: of the table.
        out: JSON file.
        options: see ``analysis.models.ModelOptions``.

    Raises:
        UserError: if the data or a model cannot be read, or all sizes exceed the data.
    """
    parts = read(Path(data).expanduser(), seed)
    reached, missing = split_sizes(sizes, len(parts.train.labels))
    if not reached:
        raise UserError(f"{data} has only {len(parts.train.labels):,} training pairs", key="sizes")
    counts = dict(zip(Parts._fields, (len(part.labels) for part in parts), strict=True))
    share = 100.0 * float(parts.test.labels.mean())
    majority = share if parts.train.labels.mean() > 0.5 else 100.0 - share
    device, results = resolve_device(options.get("device")), []
    for model in open_models(models, **options):
        scores = evaluate_duplicates(model, parts, reached, classifiers=classifiers, seed=seed, device=device)
        results.append({"model": model.facts(), "scores": scores, "majority": majority})
    facts = ", ".join(f"{name} {count:,}" for name, count in counts.items()) + " pairs"
    show(table(results, missing, facts), format)
    record = {"quora": results, "data": data, "seed": seed, "pairs": counts, "missing_sizes": missing}
    write_result(out, record | {"comparable": False, "reason": NOT_BESIDE})
    return results


def _find(folder: Path, part: str) -> Path | None:
    names = (f"{part}.tsv", f"{part}.tsv.gz", f"pairs_{part}.tsv", f"pairs_{part}.tsv.gz")
    return next((folder / name for name in names if (folder / name).is_file()), None)


def _read(folder: Path, part: str) -> Pairs:
    if (path := _find(folder, part)) is None:
        raise UserError(f"There is no {part}.tsv in {folder}, nor pairs_{part}.tsv, with or without .gz.")
    places: Sequence[int] = (0, 1, 2)
    first, second, labels = [], [], []
    for number, line in enumerate(stream(path)):
        if number == 0 and "is_duplicate" in line.text:
            header = line.text.split("\t")
            if lacking := [name for name in COLUMNS if name not in header]:
                raise UserError(f"{line.where}: the header has no {', '.join(lacking)}.")
            places = [header.index(name) for name in COLUMNS]
            continue
        columns = line.columns(max(places) + 1, "a label and two questions, separated by tabs")
        label, one, other = (columns[place] for place in places)
        labels.append(line.label(label, {"0": 0, "1": 1}))
        first.append(one if one.strip() else ".")
        second.append(other if other.strip() else ".")
    if not labels:
        raise UserError(f"{path} holds no pair.")
    return Pairs(first, second, np.array(labels, dtype=np.int64))
