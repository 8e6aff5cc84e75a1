"""Examples of what objectives sample from a run's corpus: DeCLUTR's spans, ConsSent's sequences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from analysis.reporting.rendering import escape_markdown, markdown_table
from data.errors import UserError
from data.randomness import EVALUATED_SPLIT, generator
from data.sentences import split_sentences
from data.sources.base import Source
from data.views.spans import Span, SpanSampler

READ = 400  # documents of the corpus
TRIES = 2000  # samples for each view
SEED = 0
SENTENCE_WORDS = (8, 14)
VIEWS = ("overlapping", "adjacent", "subsumed")


def spans(config: Mapping[str, Any], source: Source) -> str:
    """Returns an anchor with a positive of each kind of view, a hard and an easy negative, as Markdown.

    Args:
        config: a run's config, for its spans' lengths and gap, here in white-space words.
        source: its corpus.

    Raises:
        UserError: if its objective samples no spans, or too few documents of the corpus are long enough.
    """
    objective = config["objective"]
    if "anchor_beta" not in objective:
        raise UserError("objective must be one that samples spans, such as declutr.")
    rng = generator(EVALUATED_SPLIT, SEED)
    sampler = SpanSampler(
        anchors_per_document=2,
        positives_per_anchor=1,
        **{key: objective[key] for key in ("min_length", "max_length", "anchor_beta", "positive_beta", "gap")},
    )
    documents = [text.split() for text in islice(source.texts(), READ)]
    usable = [words for words in documents if len(words) >= sampler.min_tokens]
    if len(usable) < 2:
        raise UserError(
            f"Of the first {READ} documents {len(usable)} have {sampler.min_tokens} words; two are needed for "
            "examples of spans: corpus= names another corpus."
        )
    rows = []
    for view in VIEWS:
        for _ in range(TRIES):
            one, other = rng.choice(len(usable), size=2, replace=False)
            words = usable[one]
            anchors, positives = sampler.draw(len(words), rng)
            if view_of(anchors[0], positives[0][0]) == view:
                break
        else:
            continue  # none of this kind was sampled: no row is better than a wrong one
        easy, _ = sampler.draw(len(usable[other]), rng)
        shown = [(words, anchors[0]), (words, positives[0][0]), (words, anchors[1]), (usable[other], easy[0])]
        rows.append([view, *(_text(text[span.start : span.end]) for text, span in shown)])
    head = ["view", "anchor", "positive", "hard negative", "easy negative"]
    note = (
        f"Sampled from {source.name} as in training; spans of {sampler.min_length} to "
        f"{sampler.max_length} words here, at most 512 tokens in the paper. Hard: of the anchor's document, "
        f"{sampler.least_gap} words or more from start to start; easy: of another one."
    )
    return f"{markdown_table(head, rows, 'l' * len(head))}\n\n{note}"


def view_of(anchor: Span, positive: Span) -> str:
    """Returns how ``positive`` lies to ``anchor``: one of VIEWS, or "around" it, which the paper does not name."""
    if positive.end <= anchor.start or positive.start >= anchor.end:
        return "adjacent"
    if anchor.start <= positive.start and positive.end <= anchor.end:
        return "subsumed"
    return "around" if positive.start <= anchor.start and anchor.end <= positive.end else "overlapping"


def sequences(config: Mapping[str, Any], source: Source) -> str:
    """Returns a sentence as each of ConsSent's tasks changes or divides it, as Markdown.

    Args:
        config: a run's config.
        source: its corpus.

    Raises:
        UserError: if the corpus has too few sentences of SENTENCE_WORDS.
    """
    # Late, as it imports torch: names of figures are checked first.
    from data.views.perturbations import Noise, delete, insert, part_at_random, permute, replace, split_in_two

    rng = generator(EVALUATED_SPLIT, SEED)
    low, high = SENTENCE_WORDS
    texts = list(islice(source.texts(), READ))
    divided = split_sentences(texts) if config["sentences"]["split"] else texts
    fit = [words for words in (text.split() for text in divided) if low <= len(words) <= high]
    counts = Counter(word for words in fit for word in words)
    if len(fit) < 2 or len(counts) <= 2 * high:
        raise UserError(
            f"{source.name} has too few sentences of {low} to {high} words for examples: corpus= names another."
        )
    vocabulary = sorted(counts)
    ids = {word: number for number, word in enumerate(vocabulary)}
    noise = Noise(np.array([counts[word] for word in vocabulary]))
    first, second = (np.array([ids[word] for word in fit[i]]) for i in rng.choice(len(fit), 2, replace=False))

    def text(tokens: np.ndarray) -> str:
        return _text([vocabulary[token] for token in tokens])

    shorter = delete(first, 1, rng)
    place = int(np.argmax(np.append(shorter, -1) != first))
    rows = [
        ["D(1)", text(first), f"{text(shorter[:place])} ^ {text(shorter[place:])}".strip()],
        ["P(2)", text(first), text(permute(first, 2, rng))],
        ["I(1)", text(first), text(insert(first, 1, rng, noise))],
        ["R(1)", text(first), text(replace(first, 1, rng, noise))],
    ]
    for name, divide in (("C(2)", split_in_two), ("N(2)", part_at_random)):
        (a, b), (c, d) = divide(first, rng), divide(second, rng)
        rows += [[name, f"{text(a)} // {text(b)}", f"{text(a)} // {text(d)}"]]
        rows += [["", f"{text(c)} // {text(d)}", f"{text(c)} // {text(b)}"]]
    note = (
        f"Sampled from {source.name} as in training; ^ marks the place of a deleted word, // separates the two "
        "parts of a pair. Here units are words, and inserted ones come from sentences of this length; in training "
        "they are the encoder's tokens, from the whole corpus."
    )
    return f"{markdown_table(['task', 'positive', 'negative'], rows, 'lll')}\n\n{note}"


def _text(words: Sequence[str]) -> str:
    return escape_markdown(" ".join(words))
