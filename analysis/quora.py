"""Duplicate questions: logistic regression and an MLP on few to all training pairs.

    features = [u; v; |u - v|; u * v]        MLP: 4 hidden layers of 1024, dropout 0.5 after each

Subramanian et al. (2018), table 4 and section 10.6. A size n is the first n of a seeded permutation of the
training pairs, whose last tenth is dev. L2 and the MLP's stopping point are chosen on dev; test pairs are scored
once. Files: *{train,test}.tsv[.gz] without quoting, with a header of is_duplicate, question1 and question2.

The paper's rows are over Quora's own 400,000 pairs with other partitions and subsets. On other pairs (for example
with constructed negatives) the same accuracy means something else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

import numpy as np
import pandas as pd

from analysis.models import Model
from analysis.probes import fit_probes
from analysis.reports import ReportOptions, read_columns
from analysis.senteval.classifiers.probe import ProbeData
from data.randomness import EVALUATED_SPLIT, generator
from data.ranges import Count, Seed
from data.sources.reading import find_files

COLUMNS = {"is_duplicate": bool, "question1": str, "question2": str}
DEV_SHARE = 0.1


def read_pairs(folder: str, part: str) -> pd.DataFrame:
    """Reads the pairs of a part, "train" or "test".

    Raises:
        UserError: if the file is missing, or is no table of labels (0 or 1) and questions.
    """
    path, *_ = find_files(f"{folder}/*{part}.tsv*", [".tsv"], "data")
    return read_columns(path, COLUMNS, true_values=["1"], false_values=["0"])


def evaluate_duplicates(
    model: Model,
    *,
    data: str,
    sizes: Sequence[Count] = (1000, 5000, 10000, 25000, 1_000_000),
    seed: Seed = 0,
    **options: Unpack[ReportOptions],
) -> dict[str, float]:
    """Trains classifiers of pairs of vectors to recognise duplicate questions.

    GenSen's table 4 is over Quora's own 400,000 pairs, split by others, and not comparable.

    Args:
        model: model that encodes the questions.
        data: folder of the pairs (see ``analysis.quora``).
        sizes: numbers of training pairs; larger ones than there are stand for all of them.
        seed: seed of the permutation and the MLP.
        options: see ``analysis.reports.ReportOptions``.

    Returns:
        "<classifier>.<size>.accuracy": test accuracies in percent of "logistic", "mlp" and "majority", the most
        frequent training label.

    Raises:
        UserError: if the data cannot be read.
    """
    train, test = (read_pairs(data, part) for part in ("train", "test"))
    train = train.iloc[generator(EVALUATED_SPLIT, seed).permutation(len(train))]
    dev = round(DEV_SHARE * len(train))
    total = len(train) - dev
    pairs = pd.concat([train, test])
    labels = pairs["is_duplicate"].to_numpy(int)
    u, v = (model.rows(pairs[side].tolist()) for side in ("question1", "question2"))
    features = np.hstack([u, v, np.abs(u - v), u * v])
    scores: dict[str, float] = {}
    for size in sorted({min(size, total) for size in sizes}):
        rows = np.r_[:size, total : len(pairs)]  # with dev and test
        examples = ProbeData(features[rows], labels[rows], train=size, dev=dev)
        accuracies = fit_probes(examples, layers=4, seed=seed, device=options.get("device"))
        scores |= {f"{name}.{size}.accuracy": accuracy for name, accuracy in accuracies.items()}
    return scores
