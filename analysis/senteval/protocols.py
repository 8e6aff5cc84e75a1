"""Evaluation protocols: classifiers trained on the vectors, model selection, reported metrics."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

ProtocolName = Literal["default", "prototyping", "conssent", "gensen", "simcse"]
SEED = 1111  # seed of every fit and split, in the toolkit and in all papers that use it


@dataclass(frozen=True)
class Classifier:
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
        source: paper or document that defines it.
        folds: k of every k-fold cross-validation.
        classifier: classifier of the classification tasks.
        probing_hidden, probing_dropout: if not empty, the probing tasks (all but WordContent, which has no
            hidden layer) choose width and dropout among these on dev, together with L2.
        poolings: if not empty, each task uses the one that is best on its dev set; tasks without a dev set use
            the last one.
        lowercase: if true, sentences are lower-cased first.
        cosine: if true, STS-B and SICK-R use plain cosine and nothing is trained; otherwise the relatedness
            classifier.
    """

    name: str
    source: str
    folds: int = 10
    classifier: Classifier = Classifier()
    probing_hidden: tuple[int, ...] = ()
    probing_dropout: tuple[float, ...] = ()
    poolings: tuple[str, ...] = ()
    lowercase: bool = False
    cosine: bool = False

    def preprocess(self, sentence: str) -> str:
        """Returns ``sentence`` as it is embedded."""
        return sentence.lower() if self.lowercase else sentence

    def changed(
        self, *, hidden: int | None = None, dropout: float | None = None, folds: int | None = None
    ) -> Protocol:
        """Returns the protocol with another hidden layer, dropout or number of folds, recorded in its name.

        Hidden layer and dropout are then not tuned: with ``hidden`` the probing tasks have only this width.
        """
        settings = {"hidden": hidden, "dropout": dropout, "folds": folds}
        old = self.classifier
        return replace(
            self,
            name="+".join(
                [self.name, *(f"{key}={value}" for key, value in settings.items() if value is not None)]
            ),
            folds=folds or self.folds,
            classifier=replace(
                old,
                hidden=old.hidden if hidden is None else hidden,
                dropout=old.dropout if dropout is None else dropout,
            ),
            probing_hidden=self.probing_hidden if hidden is None else (),
            probing_dropout=self.probing_dropout if dropout is None else (dropout,),
        )


L2 = (1e-5, 1e-4, 1e-3, 1e-2)
SNLI_L2 = 1e-9
SNLI_MAX_EPOCH, SNLI_EPOCH_SIZE = 15, 1

PROTOCOLS = {
    protocol.name: protocol
    for protocol in (
        Protocol("default", "SentEval's README: k = 10, Adam, batches of 64, early-stopping patience 5"),
        Protocol(
            "prototyping",
            "SentEval's README: k = 5, RMSprop, batches of 128, early-stopping patience 3",
            folds=5,
            classifier=Classifier(optimizer="rmsprop", batch=128, patience=3, epoch_size=2),
        ),
        Protocol(
            "conssent",
            "Brahma (2018), section 4: hidden layer of the probing tasks tuned on dev",
            classifier=Classifier(dropout_last=True),
            probing_hidden=(50, 100, 200),
            probing_dropout=(0.0, 0.1, 0.2),
        ),
        Protocol(
            "gensen",
            "Subramanian et al. (2018) and their program: pooling chosen on dev, lower-cased",
            poolings=("max", "last"),
            lowercase=True,
        ),
        Protocol(
            "simcse",
            "Gao et al. (2021), appendix B: STS-B and SICK-R by plain cosine; STS12-16 over all pairs",
            cosine=True,
        ),
    )
}
