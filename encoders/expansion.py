"""Vocabulary expansion: adds words that an encoder was not trained on, from a file of word vectors.

    v(w) = A f(w) + a        (A, a) = argmin  sum over w in both of  |v(w) - A f(w) - a|^2

v are the encoder's word vectors, f those of the file. Kiros et al. (2015), "Skip-Thought Vectors", section 2.2;
Subramanian et al. (2018), section 8. Kiros et al. write only a matrix, but the programs of both fit the constant
a as well (scikit-learn's LinearRegression), and so does this one. Words that the encoder had keep their vectors.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable
from dataclasses import replace

import torch
from sklearn.linear_model import LinearRegression
from tokenizers import Tokenizer
from torch import nn

from data.errors import UserError
from data.tokenizer import plain_backend
from data.vectors import WordVectors
from encoders.base import Encoder
from encoders.recurrent import Recurrent


def expand(encoder: Encoder, vectors: WordVectors, name: str) -> Recurrent:
    """Adds the words of ``vectors`` to a copy of ``encoder``.

    Old words keep their ids, new ones follow in the file's order. Words that the encoder's tokenizer never looks
    up are left out: those that it splits, and, if it lower-cases, those with capitals (whose vector is used for
    the lower-cased word if the file lacks that). An MLM head is left out, as it scores only the old words.

    Args:
        encoder: left unchanged.
        vectors: f, of shape (number of words, F).
        name: of the file of vectors, for ``origin``.

    Raises:
        UserError: if the encoder is not recurrent, or there are too few shared words for the fit, or none to add.
    """
    if not isinstance(encoder, Recurrent):
        raise UserError("not a recurrent encoder", key=encoder.origin)
    known, backend = encoder.tokenizer.get_vocab(), plain_backend(encoder.tokenizer)
    special = set(encoder.tokenizer.all_special_tokens)
    places = usable_words(backend, vectors.words)
    shared = sorted((word for word in places if word in known and word not in special), key=known.__getitem__)
    added = [word for word in places if word not in known]
    if len(shared) < vectors.dim + 2 or not added:
        needed = f"{vectors.dim + 2:,} words of the encoder and 1 new one"
        raise UserError(f"has {len(shared):,} and {len(added):,} of the {needed} that are needed", key=name)
    table = encoder.embedding.weight.detach()  # (V, E)
    sources = vectors.vectors[[places[word] for word in shared]].double().numpy()  # (n, F)
    targets = table[[known[word] for word in shared]].double().cpu().numpy()  # (n, E)
    fit = LinearRegression().fit(sources, targets)
    new = torch.from_numpy(fit.predict(vectors.vectors[[places[word] for word in added]].double().numpy()))

    expanded = copy.deepcopy(encoder)
    expanded.head = None
    settings = json.loads(backend.to_str())
    settings["model"]["vocab"] |= {word: number for number, word in enumerate(added, start=len(table))}
    expanded.tokenizer = type(encoder.tokenizer)(
        tokenizer_object=Tokenizer.from_str(json.dumps(settings)),
        model_max_length=encoder.format.max_length,
        **encoder.tokenizer.special_tokens_map,
    )
    expanded.embedding = nn.Embedding.from_pretrained(torch.cat([table, new.to(table)]), freeze=False)
    expanded.format = replace(encoder.format, vocab_size=len(expanded.tokenizer))
    expanded.origin += f"; {len(added):,} words of {name} added, by a map of {len(shared):,} shared ones"
    return expanded


def usable_words(backend: Tokenizer, words: Iterable[str]) -> dict[str, int]:
    """Returns the index in ``words`` of each word that the tokenizer can look up; its exact form is preferred."""
    places: dict[str, int] = {}
    for place, word in enumerate(words):
        form = backend.normalizer.normalize_str(word)
        pieces = [piece for piece, _ in backend.pre_tokenizer.pre_tokenize_str(form)]
        if pieces == [form] and (form == word or form not in places):
            places[form] = place
    return places
