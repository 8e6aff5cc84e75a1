"""Word similarity: rank correlation of cosines of word vectors with human scores (GenSen's table 3).

    score of a set = Spearman's rho of ( cos(v(a), v(b)), human score )        over pairs of known words

Pairs with an unknown word are left out and counted, as in the script of Faruqui and Dyer (2014), wordvectors.org.
Words are looked up in lower case, then as written. A word's vector is its row in the encoder's table of word
vectors (``words`` is "table"), or the vector of the sentence of that one word ("sentence"; the default without a
table).
Low coverage leaves a different, usually easier, set of words: compare coverage before scores.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, Unpack

import numpy as np
import torch
from scipy.stats import spearmanr

from analysis.model_names import Names
from analysis.models import ModelOptions, open_models
from analysis.reporting.printed import Cell, Key, read_table
from analysis.reporting.rendering import Form, Grid, Row, show, write_result
from analysis.senteval.files.loaders import stream
from data.errors import UserError
from data.tokenizer import is_byte_level, plain_backend
from encoders.bag_of_words import BagOfWords
from encoders.base import Encoder
from encoders.concatenated import Concatenated
from encoders.random_vectors import RandomVectors
from encoders.recurrent import Recurrent

WordVectors = Literal["table", "sentence"]

COLUMNS = {  # columns of GenSen's table 3 and the sets with the same pairs
    "v143": "VERB-143",
    "simlex": "SIMLEX-999",
    "ws353": "WS-353-ALL",
    "yp130": "YP-130",
    "mturk771": "MTurk-771",
    "rg65": "RG-65",
    "men": "MEN-TR-3k",
}
QVEC = "QVEC"
LEAST_PAIRS = 10  # minimum for rho: over two pairs it is 1 or -1 for any vectors


class Pair(NamedTuple):
    """Two words and the human score of their similarity."""

    first: str
    second: str
    score: float


class Similarity(NamedTuple):
    """Result on one set.

    Attributes:
        spearman: rho, -1 to 1; None for fewer than ``LEAST_PAIRS`` pairs, or if all scores are equal.
        covered: number of pairs of known words.
        pairs: number of pairs in the set.
    """

    spearman: float | None
    covered: int
    pairs: int


class ModelScores(NamedTuple):
    """A model's name, the source of its word vectors, and its result on each set."""

    name: str
    kind: WordVectors
    scores: Mapping[str, Similarity]


class Lexicon:
    """Known words of an encoder and their vectors.

    With the table, a word is known if it is a single token other than the unknown one. As a sentence it is known
    if all its tokens are, so an encoder of sub-words knows every word.

    Args:
        encoder: encoder of the words.
        embed: function from sentences to vectors, float32 of shape (n, D).
        kind: source of the vectors; None: the table if there is one, otherwise the sentence.

    Attributes:
        kind: source of the vectors.

    Raises:
        UserError: if a table is requested and there is none.
    """

    def __init__(
        self,
        encoder: Encoder | RandomVectors,
        embed: Callable[[Sequence[str]], np.ndarray],
        kind: WordVectors | None = None,
    ) -> None:
        table = _table(encoder)
        if kind == "table" and table is None:
            raise UserError(
                "The encoder has no table of word vectors: words=sentence encodes a word as a sentence."
            )
        self.kind: WordVectors = kind or ("sentence" if table is None else "table")
        self._rows = None if table is None or self.kind == "sentence" else table.detach().float().cpu().numpy()
        self._embed = embed
        members = list(encoder.members) if isinstance(encoder, Concatenated) else [encoder]
        self._readers = [
            (plain_backend(one.tokenizer), one.tokenizer.unk_token_id)
            for one in members
            if isinstance(one, Encoder)
        ]

    def knows(self, word: str) -> bool:
        """Returns True if ``word`` is known in exactly this form."""
        for backend, unknown in self._readers:
            ids = backend.encode(word, add_special_tokens=False).ids
            if not ids or unknown in ids or (self._rows is not None and len(ids) > 1):
                return False
        return bool(word)

    def form(self, word: str) -> str | None:
        """Returns the known form of ``word``: lower case, otherwise unchanged; None if neither is known."""
        return next((form for form in (word.lower(), word) if self.knows(form)), None)

    def vectors(self, words: Sequence[str]) -> np.ndarray:
        """Returns vectors of ``words``, float32 of shape (n, D).

        With a table, an unknown word gets the row of the unknown token, or zeros if the encoder has none.
        """
        if self._rows is None:
            return self._embed(words)
        [(backend, unknown)] = self._readers
        found = np.zeros((len(words), self._rows.shape[1]), dtype=np.float32)
        for place, encoding in enumerate(backend.encode_batch_fast(list(words), add_special_tokens=False)):
            row = encoding.ids[0] if len(encoding.ids) == 1 else unknown
            if row is not None:
                found[place] = self._rows[row]
        return found


def _table(encoder: Encoder | RandomVectors) -> torch.Tensor | None:
    """Returns the word vectors, of shape (V, D), of an encoder over words; None for other encoders."""
    if not isinstance(encoder, BagOfWords | Recurrent) or is_byte_level(encoder.tokenizer.backend_tokenizer):
        return None
    return encoder.embedding.weight


def read_sets(folder: Path) -> dict[str, list[Pair]]:
    """Reads the sets of a folder of ``EN-<name>.txt``, by name; those of the paper's table first, in its order.

    Raises:
        UserError: if there are none, or a line is not two words and a number.
    """
    found = {path.stem.removeprefix("EN-"): path for path in sorted(folder.glob("EN-*.txt"))}
    if not found:
        raise UserError(f"{folder} has no EN-*.txt (lines of word, word, score).")
    order = [name for name in COLUMNS.values() if name in found]
    return {name: _read(found[name]) for name in dict.fromkeys([*order, *found])}


def _read(path: Path) -> list[Pair]:
    pairs = []
    for line in stream(path):
        fields = line.text.split()
        if not fields:
            continue
        if len(fields) != 3:
            raise UserError(f"{line.where}: a line must be word, word, score. Got {len(fields)} fields.")
        pairs.append(Pair(fields[0], fields[1], line.score(fields[2], -np.finfo(float).max, np.finfo(float).max)))
    if not pairs:
        raise UserError(f"{path} holds no pair: a line must be word, word, score.")
    return pairs


def evaluate_similarity(lexicon: Lexicon, sets: Mapping[str, Sequence[Pair]]) -> dict[str, Similarity]:
    """Evaluates an encoder's words on each set."""
    words = dict.fromkeys(word for pairs in sets.values() for pair in pairs for word in (pair.first, pair.second))
    forms = {word: form for word in words if (form := lexicon.form(word)) is not None}
    known = list(dict.fromkeys(forms.values()))
    vectors = lexicon.vectors(known).astype(np.float64) if known else np.empty((0, 1))
    place = {form: number for number, form in enumerate(known)}
    result = {}
    for name, pairs in sets.items():
        covered = [pair for pair in pairs if pair.first in forms and pair.second in forms]
        first = [place[forms[pair.first]] for pair in covered]
        second = [place[forms[pair.second]] for pair in covered]
        cosines = cosine(vectors[first], vectors[second])
        rho = None
        if len(covered) >= LEAST_PAIRS:
            rho = spearman(cosines, [pair.score for pair in covered])
        result[name] = Similarity(rho, len(covered), len(pairs))
    return result


def cosine(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Computes cosines of the rows of two (n, D) arrays, of shape (n,); 0 if one is a zero vector."""
    norms = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    return np.einsum("nd,nd->n", first, second) / np.where(norms == 0, 1, norms)


def spearman(cosines: np.ndarray, human: Sequence[float]) -> float | None:
    """Computes Spearman's rho of two sequences of n numbers; None if n < 2 or all of one sequence are equal."""
    if len(set(human)) < 2 or len(np.unique(cosines)) < 2:
        return None
    return float(spearmanr(cosines, human).statistic)


def table(models: Sequence[ModelScores], *, apart: bool = False) -> Grid:
    """Builds a row per model with numbers of pairs, and GenSen's table 3 below.

    Args:
        models: scores of each model.
        apart: if true, numbers of pairs have their own columns, for CSV.
    """
    names = list(dict.fromkeys(name for one in models for name in one.scores))
    columns: list[Key] = []
    for name in [*(name for name in names if name in COLUMNS.values()), QVEC, *names]:
        counts = [("", f"{name}.covered"), ("", f"{name}.pairs")] if apart and name != QVEC else []
        columns += [key for key in (("", name), *counts) if key not in columns]
    ours = []
    for one in models:
        cells: dict[Key, Cell] = {}
        for name, score in one.scores.items():
            share = f"({score.covered}/{score.pairs})"
            if apart:
                cells["", f"{name}.covered"] = Cell(score.covered, str(score.covered))
                cells["", f"{name}.pairs"] = Cell(score.pairs, str(score.pairs))
            if score.spearman is not None:
                text = f"{score.spearman:.2f}"
                cells["", name] = Cell(score.spearman, text if apart else f"{text} {share}")
            elif not apart:
                cells["", name] = Cell(-1.0, f"– {share}")
        ours.append(Row(one.name, cells, protocol=one.kind))
    printed = []
    for line in read_table("gensen_table3"):
        shown = {name: line[column] for column, name in COLUMNS.items() if name in names and line[column]}
        if not shown:
            continue
        shown |= {QVEC: line["qvec"]} if line["qvec"] else {}
        printed_cells: dict[Key, Cell] = {("", name): Cell(float(text), text) for name, text in shown.items()}
        printed.append(Row(line["model"], printed_cells, "gensen"))
    origin = {
        "table": "the row in its table of word vectors",
        "sentence": "the vector of the sentence of that one word",
    }
    notes = [
        f"{', '.join(names)}: a word's vector is {text}."
        for kind, text in origin.items()
        if (names := [one.name for one in models if one.kind == kind])
    ]
    notes += [
        "Spearman's rho of the cosines (pairs covered / all): a pair with a word that the encoder does not know "
        f"is left out, and rho needs at least {LEAST_PAIRS} pairs. Rows are comparable if they cover the same "
        "pairs; the paper gives no coverage.",
        f"{QVEC} is missing: it needs its oracle file of semantic features (Tsvetkov et al. 2015).",
    ]
    return Grid("word similarity", columns, ours, printed, notes)


def report_word_similarity(
    *,
    models: Names,
    data: str,
    words: WordVectors | None = None,
    format: Form = "text",
    out: str | None = None,
    **options: Unpack[ModelOptions],
) -> list[dict[str, Any]]:
    """Prints the table of the models' scores, writes them to ``out`` and returns them.

    Args:
        models: names of models.
        data: folder of ``EN-*.txt`` (see ``read_sets``).
        words: source of word vectors (see ``Lexicon``).
        format: of the table.
        out: JSON file.
        options: see ``analysis.models.ModelOptions``.

    Raises:
        UserError: if the data or a model cannot be read, or a model has no table of word vectors.
    """
    sets = read_sets(Path(data).expanduser())
    scores, records = [], []
    for model in open_models(models, **options):
        lexicon = Lexicon(model.encoder, model.rows, words)
        scores.append(ModelScores(model.name, lexicon.kind, evaluate_similarity(lexicon, sets)))
        records.append(_record(scores[-1], model.facts()))
    show(table(scores, apart=format == "csv"), format)
    write_result(out, {"wordsim": records, "data": data})
    return records


def _record(model_scores: ModelScores, model: dict[str, Any]) -> dict[str, Any]:
    return {
        "model": model,
        "vectors": model_scores.kind,
        "sets": {
            name: score._asdict() | {"skipped": score.pairs - score.covered}
            for name, score in model_scores.scores.items()
        },
    }
