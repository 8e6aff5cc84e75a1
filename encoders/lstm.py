"""An LSTM over word vectors, from left to right; its last state is the sentence vector.

    h_t = LSTM(x_1 .. x_t)        sentence = h_n

x_1 is "<s>"; no token follows the last word, whose state has seen the whole sentence. The encoder of ConsSent's
baseline LangMod (Brahma 2018, section 5): "The last hidden state of the trained LSTM acting on a sentence".
"""

from __future__ import annotations

from torch import nn

from encoders.recurrent import Recurrent


class LSTM(Recurrent):
    """An LSTM, its last state, and "<s>" before each sentence; arguments are those of ``Recurrent``.

    sentence-transformers opens what ``save`` writes (its WordEmbeddings, LSTM and Pooling).
    """

    cell = nn.LSTM
    network = "1_LSTM"
    poolings = ("last", "max", "mean")
    template = "<s> $A"
