"""Evaluation protocols by name: what is trained on top of the vectors, how it is chosen, what is reported."""

from __future__ import annotations

from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class Classifier:
    """The toolkit's classifier of sentence vectors (``senteval/tools/classifier.py``).

    Attributes:
        hidden: units of the hidden layer; 0 is logistic regression.
        dropout: probability, on the hidden layer.
        dropout_last: Linear, Sigmoid, Dropout, Linear as in ConsSent; else the toolkit's Linear, Dropout,
            Sigmoid, Linear.
        optimizer: "adam" (learning rate 1e-3) or "rmsprop" (1e-2), with torch's defaults otherwise.
        batch: examples of an update.
        patience: fitting stops at the (patience + 1)-th look at dev that brings no rise; the count never
            resets.
        epoch_size: epochs between two looks at dev.
        max_epoch: no further look begins once more epochs than this are done.
    """

    hidden: int = 0
    dropout: float = 0.0
    dropout_last: bool = False
    optimizer: str = "adam"
    batch: int = 64
    patience: int = 5
    epoch_size: int = 4
    max_epoch: int = 200


@dataclass(frozen=True)
class Protocol:
    """One way to judge an encoder.

    Attributes:
        name: stands beside every result.
        source: where it is from.
        folds: k of every k-fold.
        classifier: of the classification tasks.
        probing_hidden, probing_dropout: where not empty, the probing tasks (all but WordContent, which has no
            hidden layer) choose width and dropout among these on dev, beside L2.
        poolings: where not empty, each task takes the one of these that is best on its dev set; tasks without
            dev take the last.
        lowercase: whether sentences are lower-cased first.
        cosine: STS-B and SICK-R by plain cosine, nothing trained (else the relatedness classifier).
    """

    name: str
    source: str
    folds: int = 10
    classifier: Classifier = field(default_factory=Classifier)
    probing_hidden: tuple[int, ...] = ()
    probing_dropout: tuple[float, ...] = ()
    poolings: tuple[str, ...] = ()
    lowercase: bool = False
    cosine: bool = False

    def changed(
        self, *, hidden: int | None = None, dropout: float | None = None, folds: int | None = None
    ) -> Protocol:
        """The protocol with another hidden layer, dropout or number of folds; its name says so.

        What is given is tuned no more: with ``hidden`` the probing tasks have this one classifier.
        """
        told = {"hidden": hidden, "dropout": dropout, "folds": folds}
        marks = [f"{key}={value}" for key, value in told.items() if value is not None]
        classifier = replace(
            self.classifier,
            hidden=self.classifier.hidden if hidden is None else hidden,
            dropout=self.classifier.dropout if dropout is None else dropout,
        )
        return replace(
            self,
            name="+".join([self.name, *marks]),
            classifier=classifier,
            probing_hidden=self.probing_hidden if hidden is None else (),
            probing_dropout=self.probing_dropout if dropout is None else (dropout,),
            folds=self.folds if folds is None else folds,
        )


SEED = 1111  # of every fit and every split, in the toolkit and in all papers that use it
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
