"""Vocabulary expansion: adds words that an encoder was not trained on, from a file of word vectors.

    v(w) = A f(w) + a        (A, a) = argmin  sum over w in both of  |v(w) - A f(w) - a|^2

v are the encoder's word vectors, f those of the file. Kiros et al. (2015), "Skip-Thought Vectors", section 2.2;
Subramanian et al. (2018), section 8. Kiros et al. write only a matrix, but the programs of both fit the constant
a as well (scikit-learn's LinearRegression), and so does this one. Words that the encoder had keep their vectors.

    python -m encoders.tools.expansion <encoder's folder> <file of word vectors> <new folder>

Encoders that are to be concatenated (``encoder=concatenated``) are expanded one by one.
"""

from __future__ import annotations

import argparse
import copy
import json
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import nn

import encoders
from data.errors import UserError, reading
from data.tokenizer import plain_backend
from data.vectors import WordVectors
from encoders.export import model_card
from encoders.recurrent import Recurrent

CITATION = """@inproceedings{kiros-etal-2015-skip-thought,
  title = {Skip-Thought Vectors},
  author = {Kiros, Ryan and Zhu, Yukun and Salakhutdinov, Ruslan and Zemel, Richard S. and Torralba, Antonio and
            Urtasun, Raquel and Fidler, Sanja},
  booktitle = {Advances in Neural Information Processing Systems 28},
  year = {2015}
}"""
BLOCK = 1 << 16  # words that are mapped at once: in double precision, a whole file takes a workstation's memory
HELD_OUT = 10  # every tenth shared word, from frequent to rare, measures a fit to the others


class Expansion(NamedTuple):
    """Report of an expansion.

    Attributes:
        shared: words that encoder and file both have, which the map is fitted to.
        added: words that are new to the encoder.
        held_out: shared words on which a fit to the others is measured; the map that is used is fitted to all.
        cosine: mean of cos(v(w), A f(w) + a) over them.
        r2: share of their variance that the map explains, 1 - |v - A f - a|^2 / |v - mean v|^2.
    """

    shared: int
    added: int
    held_out: int
    cosine: float
    r2: float


def expand(encoder: Recurrent, vectors: WordVectors, name: str) -> tuple[Recurrent, Expansion]:
    """Returns a copy of ``encoder`` that knows the words of ``vectors`` too, and a report.

    Old words keep their ids, new ones follow in the file's order. Words that the encoder's tokenizer never looks
    up are left out: those that it splits, and, if it lower-cases, those with capitals (whose vector is used for
    the lower-cased word if the file lacks that). An MLM head is left out, as it scores only the old words.

    Args:
        encoder: left unchanged.
        vectors: f, of shape (number of words, F).
        name: of the file of vectors, for ``origin``.

    Raises:
        UserError: if there are too few shared words for the fit, or none to add.
    """
    known: dict[str, int] = encoder.tokenizer.get_vocab()
    special = set(encoder.tokenizer.all_special_tokens)
    places = _places(plain_backend(encoder.tokenizer), vectors.words)
    shared = sorted((word for word in places if word in known and word not in special), key=known.__getitem__)
    added = [word for word in places if word not in known]
    least = max(HELD_OUT, vectors.dim + 2)
    if len(shared) < least:
        raise UserError(
            f"shares {len(shared):,} words with the encoder, and a map from {vectors.dim} numbers needs {least:,}",
            key=name,
        )
    if not added:
        raise UserError("has no word that the encoder does not know", key=name)
    table = encoder.embedding.weight.detach().cpu()  # (V, E)
    sources = vectors.vectors[[places[word] for word in shared]].double().numpy()  # (n, F)
    own = table[[known[word] for word in shared]].double().numpy()
    held = np.arange(len(shared)) % HELD_OUT == HELD_OUT - 1
    found = _fit(sources[~held], own[~held])(sources[held])
    mapped = _fit(sources, own)
    weights = torch.cat([table, table.new_empty(len(added), table.shape[1])])
    for first in range(0, len(added), BLOCK):
        block = vectors.vectors[[places[word] for word in added[first : first + BLOCK]]]
        new = torch.from_numpy(mapped(block.double().numpy()))
        weights[len(table) + first : len(table) + first + len(new)] = new

    expanded = copy.deepcopy(encoder)
    expanded.head = None
    expanded.tokenizer = _extended(encoder.tokenizer, added)
    expanded.embedding = nn.Embedding.from_pretrained(
        weights.to(encoder.embedding.weight.device), freeze=not encoder.embedding.weight.requires_grad
    )
    expanded.format = replace(encoder.format, vocab_size=len(weights))
    expanded.origin = (
        f"{encoder.origin}; its vocabulary of {len(table):,} expanded to {len(weights):,} words by {name}"
    )
    return expanded, Expansion(len(shared), len(added), int(held.sum()), *_measured(found, own[held]))


def _places(backend: Tokenizer, words: Iterable[str]) -> dict[str, int]:
    """Returns the index in ``words`` of each word that the tokenizer can look up; its exact form is preferred."""
    places: dict[str, int] = {}
    for place, word in enumerate(words):
        asked = backend.normalizer.normalize_str(word)
        whole = [piece for piece, _ in backend.pre_tokenizer.pre_tokenize_str(asked)] == [asked]
        if whole and (asked == word or asked not in places):
            places[asked] = place
    return places


def _fit(sources: np.ndarray, targets: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Returns the least-squares map of smallest norm from ``sources`` (n, F) to ``targets`` (n, E)."""
    middle, target = sources.mean(axis=0), targets.mean(axis=0)
    matrix = np.linalg.lstsq(sources - middle, targets - target)[0]  # (F, E)
    return lambda others: (others - middle) @ matrix + target


def _measured(found: np.ndarray, own: np.ndarray) -> tuple[float, float]:
    """Returns ``cosine`` and ``r2`` of ``Expansion`` for mapped and own vectors, both of shape (n, E)."""
    lengths = np.linalg.norm(found, axis=1) * np.linalg.norm(own, axis=1)
    cosine = float(np.mean((found * own).sum(axis=1) / np.maximum(lengths, 1e-12)))
    return cosine, float(1 - ((own - found) ** 2).sum() / ((own - own.mean(axis=0)) ** 2).sum())


def _extended(tokenizer: Any, words: Sequence[str]) -> Any:
    """Returns a copy of a tokenizer of whole words that knows ``words`` too."""
    settings = json.loads(plain_backend(tokenizer).to_str())
    settings["model"]["vocab"] |= {word: number for number, word in enumerate(words, start=len(tokenizer))}
    return type(tokenizer)(
        tokenizer_object=Tokenizer.from_str(json.dumps(settings)),
        model_max_length=tokenizer.model_max_length,
        **tokenizer.special_tokens_map,
    )


def _before(path: Path) -> str:
    """Returns the card of the original encoder, its headings one level down; "" if it has none."""
    if not path.is_file():
        return ""
    *_, body = path.read_text(encoding="utf-8").split("\n---\n", 1)  # without the hub's front matter
    return "\n## Before the expansion\n\n" + re.sub(r"^#", "##", body.strip(), flags=re.MULTILINE) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("encoder", type=Path, help="folder of a BiLSTM-Max, GRU or LSTM")
    parser.add_argument("vectors", type=Path, help="file of word vectors; .gz and .zip too")
    parser.add_argument("folder", type=Path, help="where the new encoder goes")
    given = parser.parse_args(arguments)
    try:
        if given.folder.exists():
            raise UserError("exists: name a new folder", key=str(given.folder))
        encoder = encoders.load(given.encoder)
        if not isinstance(encoder, Recurrent):
            raise UserError(f"a {type(encoder).__name__} takes no new words", key=str(given.encoder))
        vectors = WordVectors(given.vectors)
        with reading("encoder", given.encoder):
            expanded, report = expand(encoder, vectors, given.vectors.name)
        expansion = {"vectors": given.vectors.name, **report._asdict()}
        card = model_card(
            title=given.folder.name, encoder=expanded, settings={"expansion": expansion}, citation=CITATION
        )
        expanded.save(given.folder, card=card + _before(given.encoder / "README.md"))
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    print(f"shared      {report.shared:,} words, which the map is fitted to")
    print(f"added       {report.added:,} words to {len(encoder.tokenizer):,}")
    print(
        f"fit         cosine {report.cosine:.3f}, R^2 {report.r2:.3f} on {report.held_out:,} shared words held out"
    )
    print(f"encoder     {given.folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
