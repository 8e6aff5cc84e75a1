"""Word similarity: rank correlation of cosines of word vectors with human scores (GenSen's table 3).

    score of a set = Spearman's rho of ( cos(v(a), v(b)), human score )        over pairs of known words

Pairs with an unknown word are left out and counted, as in the script of Faruqui and Dyer (2014), wordvectors.org.
Words are looked up in lower case, then as written. A word's vector is its row in the encoder's table of word
vectors ("table"), or the vector of the sentence of that one word ("sentence"; the default without a table).
Low coverage leaves a different, usually easier, set of words: compare coverage before scores.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, Unpack

import numpy as np
import pandas as pd

from analysis.models import Model
from analysis.reports import ReportOptions, make_command
from analysis.senteval.scores import correlation, cosines
from data.errors import UserError, reading
from data.tokenizer import is_byte_level, plain_backend
from encoders.bag_of_words import BagOfWords
from encoders.base import Encoder
from encoders.recurrent import Recurrent

WordVectors = Literal["table", "sentence"]

MIN_PAIRS = 10  # for rho: over two pairs it is 1 or -1 for any vectors
NOTES = (
    "Spearman's rho of the cosines. Pairs with a word that the encoder does not know are left out, and rho needs "
    f"{MIN_PAIRS} pairs: rows are comparable if they cover the same pairs.",
    "A word's vector is its row in the encoder's table of word vectors; without a table, or with words=sentence, "
    "it is the vector of the sentence of that word.",
)


def read_sets(folder: Path) -> dict[str, pd.DataFrame]:
    """Reads the sets of a folder of ``EN-<name>.txt``, by name: columns first, second (words) and score.

    Raises:
        UserError: if there are none, or a line is not two words and a number.
    """
    sets = {}
    types = {"first": str, "second": str, "score": float}
    for path in sorted(folder.glob("EN-*.txt")):
        with reading("set of lines of word, word, score", path):
            pairs = pd.read_csv(
                path,
                sep=r"\s+",
                names=[*types],
                dtype=types,
                index_col=False,
                quoting=csv.QUOTE_NONE,
                keep_default_na=False,
            )
            if pairs.empty:
                raise ValueError("no pair")
        sets[path.stem.removeprefix("EN-")] = pairs
    if not sets:
        raise UserError("no EN-*.txt (lines of word, word, score)", key=str(folder))
    return sets


def look_up(
    model: Model, words: Sequence[str], source: WordVectors | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Returns vectors of words, float32 of shape (n, D), and which words the encoder knows, bool of shape (n,).

    With the table, a word is known if it is a single token other than the unknown one. As a sentence it is known
    if all its tokens are, so an encoder of sub-words knows every word. An unknown word of a table has the vector
    of the unknown token, or zeros if there is no such token.

    Args:
        model: model with an encoder of words.
        words: n >= 1 words.
        source: source of the vectors; None: the table if there is one, otherwise the sentence.

    Raises:
        UserError: if a table is requested and there is none.
    """
    encoder, table = model.encoder, None
    if (
        isinstance(encoder, BagOfWords | Recurrent)
        and source != "sentence"
        and not is_byte_level(encoder.tokenizer.backend_tokenizer)
    ):
        table = np.pad(encoder.embedding.weight.detach().float().cpu().numpy(), ((0, 1), (0, 0)))
    elif source == "table":
        raise UserError(f"{model.name} has no table of word vectors", key="words", hint="Use words=sentence.")
    members = [each for each in getattr(encoder, "members", [encoder]) if isinstance(each, Encoder)]
    tokenizers = [(plain_backend(each.tokenizer), each.tokenizer.unk_token_id) for each in members]

    def is_known(word: str) -> bool:
        tokens = [(backend.encode(word, add_special_tokens=False).ids, unknown) for backend, unknown in tokenizers]
        fits = all(ids and unknown not in ids and (table is None or len(ids) == 1) for ids, unknown in tokens)
        return bool(word) and fits

    forms = [next(filter(is_known, (word.lower(), word)), None) for word in words]
    known = np.array([form is not None for form in forms])
    if table is None:
        return model.rows([form or word for form, word in zip(forms, words, strict=True)]), known
    [(backend, unknown)] = tokenizers
    absent = -1 if unknown is None else unknown  # the last row, of zeros
    rows = [backend.encode(form, add_special_tokens=False).ids[0] if form else absent for form in forms]
    return table[rows], known


def evaluate_word_similarity(
    model: Model, *, data: str, words: WordVectors | None = None, **options: Unpack[ReportOptions]
) -> dict[str, float]:
    """Computes rank correlations of cosines of word vectors with human scores.

    Args:
        model: model with an encoder of words.
        data: folder of ``EN-*.txt``, each line word, word, score.
        words: source of word vectors (see ``look_up``).
        options: see ``analysis.reports.ReportOptions``.

    Returns:
        Of each set "<set>.spearman" (rho, -1 to 1; NaN for fewer than ``MIN_PAIRS`` pairs, or if all scores are
        equal), "<set>.covered" (number of pairs of known words) and "<set>.pairs" (number of all pairs).

    Raises:
        UserError: if the data cannot be read, or a table is requested and there is none.
    """
    pairs = pd.concat(read_sets(Path(data).expanduser()))
    places, distinct = pd.factorize(pairs[["first", "second"]].to_numpy().ravel())
    vectors, known = look_up(model, distinct.tolist(), words)
    places = places.reshape(-1, 2)
    pairs["cosine"] = cosines(*vectors.astype(np.float64)[places.T])
    scores: dict[str, float] = {}
    for name, group in pairs.assign(known=known[places].all(axis=1)).groupby(level=0):
        covered = group.loc[group["known"], ["cosine", "score"]].to_numpy().T
        rho = correlation(*covered).spearman if covered.shape[1] >= MIN_PAIRS else math.nan
        scores |= {f"{name}.spearman": rho, f"{name}.covered": covered.shape[1], f"{name}.pairs": len(group)}
    return scores


report_word_similarity = make_command(evaluate_word_similarity, NOTES)
