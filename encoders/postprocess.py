"""Linear maps that repair where an encoder's vectors point, fitted on sentences without labels.

    center             x - m                      m: mean of the vectors of the sentences
    all_but_the_top    (x - m) (I - U_d U_d^T)    U_d: the first d eigenvectors of their covariance U S U^T
    whiten             (x - m) U_k S_k^(-1/2)     U_k, S_k: its first k eigenvectors and eigenvalues

Mu and Viswanath (2018), "All-but-the-Top", with d = D / 100; Su et al. (2021), "Whitening Sentence Representations
for Better Semantics and Faster Retrieval". Both papers fit the map on the sentences to be evaluated; here it is
fitted on other text, so that a sentence's vector does not depend on the others of its test set.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, islice
from pathlib import Path, PurePosixPath
from typing import Any, Literal, Self

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from data.batch import Tokens
from data.errors import UserError
from data.files import read_json, write_json
from data.sentences import splitter
from data.sources.base import Source
from encoders import load
from encoders.api import Encoding
from encoders.base import Encoder
from encoders.saving import WEIGHTS, read_marker, read_weights, write_modules

Kind = Literal["none", "center", "all_but_the_top", "whiten"]
FITTED_SENTENCES = 4000
DOCUMENT_SENTENCES = 20  # taken from a document at most
LEAST_VARIANCE = 1e-10  # of a direction, relative to the largest; what is below is rounding
RAW, DENSE = "raw", "dense"  # folders of the encoder and of the map


class Postprocessed(Encoder):
    """An encoder whose vectors pass through a linear map, x W^T + b.

    Args:
        encoder: the encoder.
        weight: W, of shape (K, D).
        bias: b, of shape (K,).
        fitted: one line that says what the map is and which text it was fitted on.

    Attributes:
        raw: the encoder.
    """

    raw: Encoder

    def __init__(self, encoder: Encoder, weight: Tensor, bias: Tensor, fitted: str) -> None:
        super().__init__()
        self.raw, self.fitted = encoder, fitted
        self.linear = nn.Linear(encoder.dimension, len(bias))
        self.linear.load_state_dict({"weight": weight, "bias": bias})
        self.tokenizer, self.format, self.weights = encoder.tokenizer, encoder.format, encoder.weights
        self.dimension, self.state_dimension = len(bias), encoder.state_dimension
        self.origin = f"{encoder.origin}; {fitted}"
        self.opens_elsewhere = encoder.opens_elsewhere

    def forward(self, tokens: Tokens) -> Encoding:
        encoding = self.raw(tokens)
        return encoding._replace(sentence=self.linear(encoding.sentence))

    @torch.inference_mode()
    def transform(self, vectors: np.ndarray) -> np.ndarray:
        """Maps raw vectors of shape (n, D) to shape (n, K), float32."""
        return self.linear(torch.from_numpy(vectors).to(self.linear.bias.device)).cpu().numpy()

    def _encode(self, sentences: list[str], **options: Any) -> np.ndarray:
        return self.transform(self.raw._encode(sentences, **options))

    def settings(self) -> dict[str, Any]:
        return {"raw": self.raw.fingerprint()}

    def write_files(self, folder: Path) -> dict[str, Any]:
        """Writes the encoder into a sub-folder, and the map as a Dense module of sentence-transformers."""
        self.raw.save(folder / RAW)
        (folder / DENSE).mkdir()
        save_file(self.linear.state_dict(prefix="linear."), folder / DENSE / WEIGHTS)
        sizes = {"in_features": self.raw.dimension, "out_features": self.dimension}
        activation = {"activation_function": "torch.nn.modules.linear.Identity"}
        write_json(folder / DENSE / "config.json", sizes | activation)
        if self.opens_elsewhere:
            modules = read_json(folder / RAW / "modules.json")
            inner = [(str(PurePosixPath(RAW, each["path"])), each["type"].split(".")[-1]) for each in modules]
            write_modules(folder, [*inner, (DENSE, "Dense")])
        return {"fitted": self.fitted}

    @classmethod
    def load(cls, folder: Path | str) -> Self:
        folder = Path(folder)
        marker, weights = read_marker(folder), read_weights(folder / DENSE / WEIGHTS)
        opened = cls(load(folder / RAW), weights["linear.weight"], weights["linear.bias"], marker["fitted"])
        opened.origin = marker["origin"]
        return opened


def postprocess(
    encoder: Encoder, sentences: Sequence[str], kind: Kind, *, where: str, **sizes: int | None
) -> Encoder:
    """Fits a map on ``sentences`` and returns the encoder followed by it.

    Args:
        encoder: the encoder, which is not changed.
        sentences: text that is not evaluated.
        kind: kind of the map, not "none".
        where: name of the text.
        sizes: dimensions and components of ``fit``.

    Raises:
        UserError: as ``fit`` does.
    """
    mean, matrix = fit(encoder.encode(sentences), kind, **sizes)
    weight, bias = torch.from_numpy(matrix.T), torch.from_numpy(-mean @ matrix)
    fitted = f"{kind} fitted on {len(sentences):,} sentences of {where}"
    return Postprocessed(encoder, weight, bias, fitted).to(next(encoder.parameters()).device)


def fit(
    vectors: np.ndarray, kind: Kind, *, dimensions: int | None = None, components: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Fits a map x -> (x - mean) matrix on n vectors of shape (n, D).

    Args:
        vectors: one for each sentence.
        kind: "center", "all_but_the_top" or "whiten"; see the module's equations.
        dimensions: k of "whiten", at most and by default the number of directions in which the vectors vary. That
            is D - 1 behind a LayerNorm, whose outputs lie in a hyperplane.
        components: d of "all_but_the_top"; None: D / 100, rounded, and at least 1.

    Returns:
        The mean, of shape (D,), and the matrix, of shape (D, k) or (D, D), in double precision.

    Raises:
        UserError: if a covariance is of fewer than 2 D vectors.
    """
    count, width = vectors.shape
    mean = vectors.mean(axis=0, dtype=float)
    if kind == "center":
        return mean, np.eye(width)
    if count < 2 * width:
        raise UserError(f"{count:,} are fewer than twice the {width} dimensions of a vector", key="fit.sentences")
    axes, variances, _ = np.linalg.svd(np.cov(vectors, rowvar=False, dtype=float))
    if kind == "all_but_the_top":
        top = axes[:, : components or max(1, round(width / 100))]
        return mean, np.eye(width) - top @ top.T
    varied = variances > LEAST_VARIANCE * variances[0]
    return mean, (axes[:, varied] / np.sqrt(variances[varied]))[:, :dimensions]


def training_sentences(source: Source, count: int = FITTED_SENTENCES) -> list[str]:
    """Returns ``count`` sentences of a corpus, the first DOCUMENT_SENTENCES of each training document.

    The corpus counts as a whole, whatever its ``fraction``.
    """
    split = splitter(source.texts())
    parts = (split(text)[:DOCUMENT_SENTENCES] for text in source.texts())
    return [*islice(chain.from_iterable(parts), count)]
