"""BiLSTM-Max: a bidirectional LSTM over word vectors, and the largest value of each component over the words.

    h_t = [forward LSTM(x_1 .. x_t) ; backward LSTM(x_n .. x_t)]        sentence = max_t h_t

Conneau et al. (2017), "Supervised Learning of Universal Sentence Representations from Natural Language Inference
Data" (InferSent), section 3.2; untrained in Conneau et al. (2018), "What you can cram into a single vector".
"""

from __future__ import annotations

from torch import nn

from encoders.recurrent import Recurrent


class BiLSTMMax(Recurrent):
    """A BiLSTM with max pooling over real words, without special tokens; arguments are those of ``Recurrent``.

    InferSent does not train word vectors (ConsSent does not say), and has no dropout.

    sentence-transformers opens what ``save`` writes (its WordEmbeddings, LSTM and Pooling) and gives the same
    vectors, except for a text without any token: zeros here, -inf there.
    """

    cell = nn.LSTM
    network = "1_LSTM"
    poolings = ("max", "mean")
    bidirectional = True
