"""Duplicate questions: logistic regression and an MLP on few to all training pairs.

    features = [u; v; |u - v|; u * v]        MLP: 4 hidden layers of 1024, dropout 0.5 after each

Subramanian et al. (2018), table 4 and section 10.6. A size n is the first n of a seeded permutation of the
training pairs; without a dev file its last tenth is dev. L2 and the MLP's stopping point are chosen on dev; test
pairs are scored once. Files: *{train,dev,test}.tsv[.gz] without quoting, with a header that names
is_duplicate, question1 and question2, or without a header as label, question, question (the partition of Wang et
al. 2017).

The paper's rows are over Quora's own 400,000 pairs with other partitions and subsets. On other pairs (for example
with constructed negatives) the same accuracy means something else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Literal, Unpack

import numpy as np

from analysis.models import Model, resolve_device
from analysis.reports import ReportOptions, make_command
from analysis.senteval.classifiers.probe import Probe, ProbeData, linear_probe, mlp_probe
from analysis.senteval.loaders import BINARY, label
from analysis.senteval.scores import f1
from data.errors import UserError, reading
from data.randomness import EVALUATED_SPLIT, generator
from data.ranges import Count, Seed
from data.sources.reading import lines

Pair = tuple[int, str, str]  # label (1 for duplicates, else 0) and questions
Size = Count | Literal["all"]
Classifier = Literal["logistic", "mlp"]

DEV_SHARE = 0.1
COLUMNS = ("is_duplicate", "question1", "question2")
NOTES = (
    "Test accuracy and F1 of duplicates in percent, by number of training pairs.",
    "GenSen's table 4 is over Quora's own 400,000 pairs, split by others, and not comparable.",
)


def read_pairs(path: Path) -> list[Pair]:
    """Reads the pairs of a file.

    Raises:
        UserError: if a line is not a label and two questions.
    """
    pairs, order = [], [0, 1, 2]
    for number, line in lines(path):
        with reading("line of a label and two questions, separated by tabs", f"{path}:{number}"):
            columns = line.rstrip("\r\n").split("\t")
            if number == 1 and COLUMNS[0] in columns:
                order = [columns.index(name) for name in COLUMNS]
                continue
            text, *questions = (columns[place] for place in order)
            first, second = (question if question.strip() else "." for question in questions)
            pairs.append((label(text, BINARY), first, second))
    return pairs


def read_parts(folder: Path, seed: int) -> tuple[list[Pair], list[Pair], list[Pair]]:
    """Reads training pairs, permuted by ``seed``, dev and test pairs; without a dev file the last tenth is dev.

    Raises:
        UserError: if training or test pairs are missing, or a file cannot be read.
    """
    files = (sorted(folder.glob(f"*{part}.tsv*")) for part in ("train", "dev", "test"))
    train, dev, test = (read_pairs(paths[0]) if paths else [] for paths in files)
    if not train or not test:
        raise UserError("no pairs in *train.tsv[.gz] or *test.tsv[.gz]", key=str(folder))
    train = [train[place] for place in generator(EVALUATED_SPLIT, seed).permutation(len(train))]
    count = len(train) - (0 if dev else max(1, round(DEV_SHARE * len(train))))
    return train[:count], dev or train[count:], test


def evaluate_duplicates(
    model: Model,
    *,
    data: str,
    sizes: Sequence[Size] = (1000, 5000, 10000, 25000, "all"),
    classifiers: Sequence[Classifier] = ("logistic", "mlp"),
    seed: Seed = 0,
    **options: Unpack[ReportOptions],
) -> dict[str, float]:
    """Trains classifiers of pairs of vectors to recognise duplicate questions.

    Args:
        model: model that encodes the questions.
        data: folder of the pairs (see ``analysis.quora``).
        sizes: numbers of training pairs; those beyond the data are left out.
        classifiers: names of classifiers.
        seed: seed of the permutation and the MLP.
        options: see ``analysis.reports.ReportOptions``.

    Returns:
        "<classifier>.<size>.accuracy" and ".f1" (of duplicates) of test pairs, in percent, and the accuracy of
        always predicting the more frequent training label, "majority.accuracy".

    Raises:
        UserError: if the data cannot be read, or all sizes are beyond them.
    """
    train, dev, test = read_parts(Path(data).expanduser(), seed)
    counts = {size: len(train) if size == "all" else size for size in sizes}
    if min(counts.values()) > len(train):
        raise UserError(f"there are only {len(train):,} training pairs", key="sizes")
    device = resolve_device(options.get("device"))
    mlp = partial(mlp_probe, layers=4, dropout=0.5, seed=seed)
    fits: dict[str, Callable[..., Probe]] = {"logistic": linear_probe, "mlp": mlp}
    parts = (train, dev, test)
    vectors = model.vectors([str(pair[side]) for part in parts for side in (1, 2) for pair in part])
    gold = np.array([pair[0] for pair in test])
    common = np.mean([pair[0] for pair in train]) > 0.5
    scores = {"majority.accuracy": 100.0 * float(np.mean(gold == common))}
    for size, count in counts.items():
        if count <= len(train):
            labels, first, second = zip(*train[:count], *dev, *test, strict=True)
            u, v = vectors.rows(first), vectors.rows(second)
            features = np.hstack([u, v, np.abs(u - v), u * v])
            examples = ProbeData(features, np.array(labels), train=count, dev=len(dev))
            for name in classifiers:
                probe = fits[name](examples, device=device)
                scores[f"{name}.{size}.accuracy"] = probe.test
                scores[f"{name}.{size}.f1"] = f1(gold, probe.predictions)
    return scores


report_duplicates = make_command(evaluate_duplicates, NOTES)
