"""Word similarity: rank correlation of cosines of word vectors with human scores (GenSen's table 3).

    score of a set = Spearman's rho of ( cos(v(a), v(b)), human score )        over pairs of known words

Pairs with an unknown word are left out and counted, as in the script of Faruqui and Dyer (2014), wordvectors.org.
Words are looked up in lower case, then as written. A word's vector is its row in the encoder's table of word
vectors or, without a table, the vector of the sentence of that one word. Low coverage leaves a different, usually
easier, set of words: compare coverage before scores.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Unpack

import numpy as np
import pandas as pd

from analysis.models import Model
from analysis.reports import ReportOptions, read_columns
from analysis.senteval.scores import correlation, cosines
from data.sources.reading import find_files
from data.tokenizer import is_byte_level, plain_backend
from encoders.base import Encoder
from encoders.recurrent import Recurrent

COLUMNS = {"first": str, "second": str, "score": float}
MIN_PAIRS = 10  # for rho: over two pairs it is 1 or -1 for any vectors


def read_sets(folder: str) -> pd.DataFrame:
    """Reads the sets of a folder of ``EN-<name>.txt``, indexed by name: columns first, second (words) and score.

    Raises:
        UserError: if there are none, or a line is not two words and a number.
    """
    paths = find_files(f"{folder}/EN-*.txt", [".txt"], "data")
    return pd.concat(
        {
            path.stem.removeprefix("EN-"): read_columns(path, COLUMNS, names=[*COLUMNS], sep=r"\s+")
            for path in paths
        }
    ).droplevel(1)


def look_up(model: Model, words: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Returns vectors of words, float32 of shape (n, D), and which words the encoder knows, bool of shape (n,).

    With a table of word vectors, a word is known if it is a single token other than the unknown one, whose vector
    an unknown word has. Without it a word is known if all its tokens are, so an encoder of sub-words knows every
    word. Concatenated encoders know the words of the first; random vectors know all.

    Args:
        model: model with an encoder of words.
        words: n >= 1 words.
    """
    encoder = model.encoder
    if not isinstance(encoder, Encoder):
        return model.rows([word.lower() for word in words]), np.full(len(words), True)
    backend, unknown = plain_backend(encoder.tokenizer), encoder.tokenizer.unk_token_id
    table = None
    if isinstance(encoder, Recurrent) and not is_byte_level(backend):
        table = encoder.embedding.weight.detach().float().cpu().numpy()

    def tokens(word: str) -> list[int]:
        ids = backend.encode(word, add_special_tokens=False).ids
        return [] if unknown in ids or (table is not None and len(ids) > 1) else ids

    forms = [word.lower() if tokens(word.lower()) else word for word in words]
    ids = [*map(tokens, forms)]
    known = np.array([*map(bool, ids)])
    if table is None:
        return model.rows(forms), known
    return table[[word[0] if word else unknown for word in ids]], known


def evaluate_word_similarity(model: Model, *, data: str, **options: Unpack[ReportOptions]) -> dict[str, float]:
    """Computes rank correlations of cosines of word vectors with human scores.

    Pairs with a word that the encoder does not know are left out: compare models that cover the same pairs. A
    word's vector is its row in the encoder's table of word vectors or, without a table, that of the sentence.

    Args:
        model: model with an encoder of words.
        data: folder of ``EN-*.txt``, each line word, word, score.
        options: see ``analysis.reports.ReportOptions``.

    Returns:
        Of each set "<set>.spearman" (rho, -1 to 1; NaN for fewer than ``MIN_PAIRS`` pairs, or if all scores are
        equal), "<set>.covered" (number of pairs of known words) and "<set>.pairs" (number of all pairs).

    Raises:
        UserError: if the data cannot be read.
    """
    pairs = read_sets(data)
    (u, knows_u), (v, knows_v) = (look_up(model, pairs[side].tolist()) for side in ("first", "second"))
    pairs["cosine"] = np.where(knows_u & knows_v, cosines(u.astype(float), v.astype(float)), math.nan)
    scores: dict[str, float] = {}
    for name, group in pairs.groupby(level=0):
        rho = group["cosine"].corr(group["score"], lambda *sides: correlation(*sides).spearman, MIN_PAIRS)
        covered = group["cosine"].count()
        scores |= {f"{name}.spearman": rho, f"{name}.covered": covered, f"{name}.pairs": len(group)}
    return scores
