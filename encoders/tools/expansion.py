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
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score
from sklearn.metrics.pairwise import paired_cosine_distances
from tokenizers import Tokenizer
from torch import nn

import encoders
from data.errors import UserError, reading
from data.tokenizer import plain_backend
from data.vectors import WordVectors
from encoders.card import with_section
from encoders.recurrent import Recurrent

HELD_OUT = 10  # every tenth shared word, from frequent to rare, measures a fit to the others


def expand(encoder: Recurrent, vectors: WordVectors, name: str) -> tuple[Recurrent, dict[str, float]]:
    """Adds the words of ``vectors`` to a copy of ``encoder``.

    Old words keep their ids, new ones follow in the file's order. Words that the encoder's tokenizer never looks
    up are left out: those that it splits, and, if it lower-cases, those with capitals (whose vector is used for
    the lower-cased word if the file lacks that). An MLM head is left out, as it scores only the old words.

    Args:
        encoder: left unchanged.
        vectors: f, of shape (number of words, F).
        name: of the file of vectors, for ``origin``.

    Returns:
        The copy, and facts: "shared" words, which the map is fitted to; "added" words; "cosine", the mean of
        cos(v(w), A f(w) + a) over every tenth shared word, of a fit to the others, and "r2", the share of their
        variance that this fit explains, 1 - |v - A f - a|^2 / |v - mean v|^2.

    Raises:
        UserError: if there are too few shared words for the fit, or none to add.
    """
    known: dict[str, int] = encoder.tokenizer.get_vocab()
    special = set(encoder.tokenizer.all_special_tokens)
    places = usable_words(plain_backend(encoder.tokenizer), vectors.words)
    shared = sorted((word for word in places if word in known and word not in special), key=known.__getitem__)
    added = [word for word in places if word not in known]
    least = max(HELD_OUT, vectors.dim + 2)
    if len(shared) < least or not added:
        text = f"has {len(shared):,} words of the encoder and {len(added):,} new ones; needed are {least:,} and 1"
        raise UserError(text, key=name)
    table = encoder.embedding.weight.detach()  # (V, E)
    sources = vectors.vectors[[places[word] for word in shared]].double().numpy()  # (n, F)
    targets = table[[known[word] for word in shared]].double().cpu().numpy()  # (n, E)
    held = np.arange(len(shared)) % HELD_OUT == HELD_OUT - 1
    predicted = LinearRegression().fit(sources[~held], targets[~held]).predict(sources[held])
    cosine = 1 - float(paired_cosine_distances(predicted, targets[held]).mean())
    r2 = r2_score(targets[held], predicted, multioutput="variance_weighted")
    fit = LinearRegression().fit(sources, targets)
    matrix, constant = (torch.from_numpy(part).float() for part in (fit.coef_, fit.intercept_))
    new = vectors.vectors[[places[word] for word in added]] @ matrix.T + constant

    expanded = copy.deepcopy(encoder)
    expanded.head = None
    settings = json.loads(plain_backend(encoder.tokenizer).to_str())
    settings["model"]["vocab"] |= {word: number for number, word in enumerate(added, start=len(table))}
    expanded.tokenizer = type(encoder.tokenizer)(
        tokenizer_object=Tokenizer.from_str(json.dumps(settings)),
        model_max_length=encoder.format.max_length,
        **encoder.tokenizer.special_tokens_map,
    )
    expanded.embedding = nn.Embedding.from_pretrained(torch.cat([table, new.to(table)]), freeze=False)
    expanded.format = replace(encoder.format, vocab_size=len(expanded.tokenizer))
    expanded.origin += f"; {len(added):,} words added by {name}"
    return expanded, {"shared": len(shared), "added": len(added), "cosine": cosine, "r2": r2}


def usable_words(backend: Tokenizer, words: Iterable[str]) -> dict[str, int]:
    """Returns the index in ``words`` of each word that the tokenizer can look up; its exact form is preferred."""
    places: dict[str, int] = {}
    for place, word in enumerate(words):
        form = backend.normalizer.normalize_str(word)
        pieces = [piece for piece, _ in backend.pre_tokenizer.pre_tokenize_str(form)]
        if pieces == [form] and (form == word or form not in places):
            places[form] = place
    return places


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("encoder", "vectors", "folder"):
        parser.add_argument(name, type=Path)
    given = parser.parse_args(arguments)
    try:
        if given.folder.exists():
            raise UserError("exists: name a new folder", key=str(given.folder))
        with reading("recurrent encoder", given.encoder):
            encoder, readme = encoders.load(given.encoder), given.encoder / "README.md"
            assert isinstance(encoder, Recurrent), type(encoder).__name__
            card = readme.read_text(encoding="utf-8") if readme.is_file() else ""
        expanded, facts = expand(encoder, WordVectors(given.vectors), given.vectors.name)
        text = ", ".join(f"{name} {value:.4g}" for name, value in facts.items())
        note = f"Words of {given.vectors.name} (Kiros et al. 2015): {text}. The sizes above are those before."
        expanded.save(given.folder, card=with_section(card, "Vocabulary expansion", note))
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
