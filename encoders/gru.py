"""A GRU over word vectors, in one direction or both; its last states or their maximum are the sentence vector.

    h_t = [forward GRU(x_1 .. x_t) ; backward GRU(x_n .. x_t)]
    last  sentence = [backward h_1 ; forward h_n]        max  sentence = max_t h_t

Subramanian et al. (2018), "Learning General Purpose Distributed Sentence Representations via Large Scale
Multi-task Learning" (GenSen), sections 7 and 8. x_1 and x_n are "<s>" and "</s>", and the last states stand in the
order of its published program. (That program's maximum sees padding as well; this one does not.)
"""

from __future__ import annotations

from typing import Any, Literal

from torch import nn

from encoders.recurrent import Recurrent


class GRU(Recurrent):
    """A GRU with "<s>" and "</s>" around each sentence.

    Args:
        bidirectional: whether each layer reads in both directions.
        summary: "last" (states) or "max" (over real positions); None: the folder's, or "last".
        shared: arguments of ``Recurrent``; GenSen uses no ``vectors``.

    Only this suite opens what ``save`` writes: sentence-transformers has no GRU.
    """

    cell = nn.GRU
    network = "1_GRU"
    poolings = ("last", "max", "mean")
    template = "<s> $A </s>"
    drops_words = False
    word_range = 0.1  # as in the published program
    opens_elsewhere = False

    def __init__(
        self, *, bidirectional: bool = True, summary: Literal["last", "max"] | None = None, **shared: Any
    ) -> None:
        self.bidirectional = bidirectional  # read when the layers are built
        super().__init__(**shared)
        self.pooling = summary or self.pooling
