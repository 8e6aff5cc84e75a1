"""Natural language inference: InferSent and Sentence-BERT.

    infersent      p = softmax(W_3 (W_2 (W_1 [u ; v ; |u - v| ; u * v] + b_1) + b_2) + b_3)
    sentence_bert  p = softmax(W [u ; v ; |u - v|] + b)

Conneau et al. (2017), "Supervised Learning of Universal Sentence Representations from Natural Language Inference
Data", section 3; its published program has two layers of width 512 before the classes, without non-linearity or
dropout. Reimers and Gurevych (2019), "Sentence-BERT", section 3. The classifier is a form of GenSen's
(``objectives.gensen.heads``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from data.ranges import Size, Width
from data.sources.pairs import Inference
from data.sources.samples import MOST, Generated
from objectives.gensen.objective import GenSen

Features = Literal["infersent", "sentence_bert"]

CITATIONS: dict[Features, str] = {
    "infersent": """@inproceedings{conneau-etal-2017-infersent,
  title = {Supervised Learning of Universal Sentence Representations from Natural Language Inference Data},
  author = {Conneau, Alexis and Kiela, Douwe and Schwenk, Holger and Barrault, Lo{\\"i}c and Bordes, Antoine},
  booktitle = {Proceedings of EMNLP},
  year = {2017},
  pages = {670--680}
}""",
    "sentence_bert": """@inproceedings{reimers-gurevych-2019-sentence-bert,
  title = {Sentence-{BERT}: Sentence Embeddings using {S}iamese {BERT}-Networks},
  author = {Reimers, Nils and Gurevych, Iryna},
  booktitle = {Proceedings of EMNLP-IJCNLP},
  year = {2019},
  pages = {3982--3992}
}""",
}


class NLI(GenSen):
    """Natural language inference: GenSen with only this task, and another classifier.

    Args:
        batch_size: pairs of a micro-batch over all processes.
        features: form of the classifier and of its input, "infersent" or "sentence_bert".
        classifier_width: width of InferSent's two hidden layers; Sentence-BERT has none.
        nli: arguments of ``data.sources.pairs.Inference``; None: generated pairs.
        synthetic_pairs: number of generated pairs.

    Raises:
        UserError: if the data cannot be found.
    """

    formula = (
        r"\mathrm{InferSent}: \quad"
        r" p = \mathrm{softmax}(W_3 (W_2 (W_1 [u;\ v;\ |u - v|;\ u * v] + b_1) + b_2) + b_3)"
        "\n"
        r"\mathrm{Sentence\!-\!BERT}: \quad p = \mathrm{softmax}(W [u;\ v;\ |u - v|] + b)"
    )

    def __init__(
        self,
        *,
        batch_size: Size = 64,
        features: Features = "infersent",
        classifier_width: Width = 512,
        nli: Annotated[Mapping[str, Any], Inference] | None = None,
        synthetic_pairs: Generated = MOST,
    ) -> None:
        super().__init__(
            batch_size=batch_size,
            tasks=("nli",),
            classifier_width=classifier_width,
            nli=nli,
            synthetic_pairs=synthetic_pairs,
        )
        self.citation = CITATIONS[features]
        self.tasks["nli"].form = features
