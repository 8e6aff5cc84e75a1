"""Evaluation protocols: classifiers trained on the vectors, model selection, reported metrics."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Literal

ProtocolName = Literal["default", "prototyping", "conssent", "gensen", "simcse"]
SEED = 1111  # seed of every fit and split, in the toolkit and in all papers that use it


@dataclass(frozen=True)
class ClassifierSettings:
    """The toolkit's classifier of sentence vectors (``senteval/tools/classifier.py``).

    ``layers``, ``activation`` and ``seed`` are not the toolkit's: other probes set them.

    Attributes:
        hidden: units of a hidden layer; 0 is logistic regression.
        layers: number of hidden layers.
        activation: non-linearity of the hidden layers.
        dropout: dropout probability of the hidden layers.
        dropout_last: if true, Linear, Sigmoid, Dropout, Linear as in ConsSent; otherwise the toolkit's Linear,
            Dropout, Sigmoid, Linear.
        optimizer: "adam" (learning rate 1e-3) or "rmsprop" (1e-2), with torch's defaults otherwise.
        batch: examples per update.
        patience: early-stopping patience. Training stops at the (patience + 1)-th dev evaluation without
            improvement; the count is never reset.
        epoch_size: epochs between two dev evaluations.
        max_epoch: training stops once more epochs than this are done.
        seed: seed of initial weights, order and dropout of a classifier with hidden layers.
    """

    hidden: int = 0
    layers: int = 1
    activation: Literal["sigmoid", "relu"] = "sigmoid"
    dropout: float = 0.0
    dropout_last: bool = False
    optimizer: str = "adam"
    batch: int = 64
    patience: int = 5
    epoch_size: int = 4
    max_epoch: int = 200
    seed: int = SEED


@dataclass(frozen=True)
class Protocol:
    """Settings of an evaluation.

    Attributes:
        name: name recorded with every result.
        folds: k of every k-fold cross-validation.
        classifier: classifier of the classification tasks.
        probing: if not empty, the probing tasks (all but WordContent, which has no hidden layer) choose one of
            these classifiers on dev, together with L2.
        poolings: if not empty, each task uses the one that is best on its dev set; tasks without a dev set use
            the last one.
        lowercase: if true, sentences are lower-cased first.
        cosine: if true, STS-B and SICK-R use plain cosine and nothing is trained; otherwise the relatedness
            classifier.
    """

    name: str
    folds: int = 10
    classifier: ClassifierSettings = ClassifierSettings()
    probing: tuple[ClassifierSettings, ...] = ()
    poolings: tuple[str, ...] = ()
    lowercase: bool = False
    cosine: bool = False


L2 = (1e-5, 1e-4, 1e-3, 1e-2)
SNLI_L2 = 1e-9
SNLI_MAX_EPOCH, SNLI_EPOCH_SIZE = 15, 1

PROTOCOLS = {
    protocol.name: protocol
    for protocol in (
        # SentEval's README: k = 10, Adam, batches of 64, early-stopping patience 5.
        Protocol("default"),
        # SentEval's README: k = 5, RMSprop, batches of 128, early-stopping patience 3.
        Protocol(
            "prototyping",
            folds=5,
            classifier=ClassifierSettings(optimizer="rmsprop", batch=128, patience=3, epoch_size=2),
        ),
        # Brahma (2018), section 4: hidden layer of the probing tasks tuned on dev.
        Protocol(
            "conssent",
            classifier=ClassifierSettings(dropout_last=True),
            probing=tuple(
                ClassifierSettings(hidden=hidden, dropout=dropout, dropout_last=True)
                for hidden, dropout in product((50, 100, 200), (0.0, 0.1, 0.2))
            ),
        ),
        # Subramanian et al. (2018) and their program: pooling chosen on dev, lower-cased.
        Protocol("gensen", poolings=("max", "last"), lowercase=True),
        # Gao et al. (2021), appendix B: STS-B and SICK-R by plain cosine; STS12-16 over all pairs.
        Protocol("simcse", cosine=True),
    )
}
