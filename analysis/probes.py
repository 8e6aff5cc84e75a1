"""Six probes of frozen sentence vectors: length, word content, word order, passive, tense, top sequence.

    length     s -> one of 8 bins of numbers of words          passive    s -> is the main clause passive?
    content    [s; w] -> is the word w in the sentence?        tense      s -> is it in the past tense?
    order      [s; w1; w2] -> does w1 stand before w2?         tss        s -> which of 20 top sequences?

GenSen's table 5 (Subramanian et al. 2018, section 10.7). The first three are Adi et al.'s (2016). Each sentence
gives one positive and one negative example of content and order: the negative of content is a positive word of
another sentence that is not in this one; the negative of order is the same pair reversed. The last three are Shi
et al.'s (2016), labelled from gold trees (see ``analysis.syntax``).

Unspecified there and chosen here: negatives of content are sampled from the occurrences of positive words, so that
a word's frequency carries little information; order uses two different words that each occur once; case is
ignored; all three use the sentences of 5 to 70 words covered by the bins of length. Words are tree leaves,
punctuation included. Vectors of words are as in ``analysis.wordsim``.

Shi et al. use logistic regression, Adi et al. a perceptron with one hidden layer of ReLU. A linear classifier of
[s; w] scores s and w separately and cannot detect whether w is in s: on content and order its score only shows how
much the words predict by themselves. So these three probes get both classifiers, and the perceptron's score is the
probe's score.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, Unpack, get_args

import numpy as np

from analysis.models import Model, resolve_device
from analysis.reports import ReportOptions, make_command
from analysis.senteval.classifiers.probe import ProbeData, linear_probe, mlp_probe
from analysis.syntax import Sentence, read_parts
from analysis.wordsim import WordVectors, look_up
from data.randomness import PROBE, generator
from data.ranges import Count, Seed

Probe = Literal["length", "content", "order", "passive", "tense", "tss"]
Question = tuple[Any, ...]  # sentence, label, and the words in question (none, one or two)

PROBES: tuple[Probe, ...] = get_args(Probe)
HIDDEN = ("length", "content", "order")  # probes that also use a perceptron
TOP_SEQUENCES = 19  # besides all others
STREAM = 100  # first key of this module's random streams below PROBE
NOTES = (
    "Test accuracy in percent. Sentences, labels and sizes are not those of GenSen's table 5: compare with the "
    "majority class.",
    "Content and order: a linear classifier cannot relate a word to the sentence; logistic shows how much the "
    "words predict by themselves, mlp is the probe.",
)


def make_questions(probe: str, parts: Mapping[str, Sequence[Sentence]], seed: int) -> dict[str, list[Question]]:
    """Builds the examples of ``probe`` for each part; they do not depend on the encoder."""
    if probe in ("content", "order"):
        rng = generator(PROBE, seed, STREAM + PROBES.index(probe))
        ask = ask_content if probe == "content" else ask_order
        return {
            name: [*ask([each for each in part if each.length is not None], rng)] for name, part in parts.items()
        }
    rows = {name: [(each.text, getattr(each, probe)) for each in part] for name, part in parts.items()}
    rows = {name: [row for row in part if row[1] is not None] for name, part in rows.items()}
    if probe == "tss":
        counts = Counter(top for _, top in rows["train"])
        common = sorted(counts, key=lambda top: (-counts[top], top))[:TOP_SEQUENCES]
        rows = {name: [(text, [*common, top].index(top)) for text, top in part] for name, part in rows.items()}
    return rows


def ask_content(part: Sequence[Sentence], rng: np.random.Generator) -> Iterator[Question]:
    """Pairs each sentence with one of its words (1) and with another sentence's positive that it lacks (0)."""
    chosen = [sentence.words[rng.integers(len(sentence.words))] for sentence in part]
    for sentence, positive in zip(part, chosen, strict=True):
        inside = {word.lower() for word in sentence.words}
        drawn = (chosen[place] for place in rng.integers(len(chosen), size=100))
        negative = next((word for word in drawn if word.lower() not in inside), None)
        if negative is not None:
            yield from ((sentence.text, 1, positive), (sentence.text, 0, negative))


def ask_order(part: Sequence[Sentence], rng: np.random.Generator) -> Iterator[Question]:
    """Pairs each sentence with two of its words in their order (1) and in reverse (0)."""
    for sentence in part:
        counts = Counter(word.lower() for word in sentence.words)
        once = [word for word in sentence.words if counts[word.lower()] == 1]
        if len(once) >= 2:
            first, second = (once[place] for place in sorted(rng.permutation(len(once))[:2]))
            yield from ((sentence.text, 1, first, second), (sentence.text, 0, second, first))


def evaluate_probes(
    model: Model,
    *,
    data: str,
    probes: Sequence[Probe] | None = None,
    words: WordVectors | None = None,
    limit: Count | None = None,
    seed: Seed = 0,
    **options: Unpack[ReportOptions],
) -> dict[str, float]:
    """Trains classifiers that predict properties of sentences from their vectors.

    Args:
        model: model that encodes the sentences.
        data: a folder of trees, or "treebank" (see ``analysis.syntax.read_parts``).
        probes: names of probes; None: all.
        words: source of word vectors (see ``analysis.wordsim.look_up``).
        limit: sentences of each part; None: all.
        seed: seed of the examples and of the perceptrons.
        options: see ``analysis.reports.ReportOptions``.

    Returns:
        "<probe>.<classifier>.test": test accuracies in percent of "logistic", "mlp" and "majority", which always
        predicts the most frequent training label.

    Raises:
        UserError: if the data cannot be read, or a part of a probe is empty or has only one class.
    """
    parts = {name: part[:limit] for name, part in read_parts(data, seed).items()}
    questions = {probe: make_questions(probe, parts, seed) for probe in probes or PROBES}
    groups = [rows for by_part in questions.values() for rows in by_part.values()]
    vectors = model.vectors([row[0] for rows in groups for row in rows])
    by_column = (column for rows in groups for column in zip(*(row[2:] for row in rows), strict=True))
    asked = [*dict.fromkeys(word for column in by_column for word in column)]
    word_vectors = dict(zip(asked, look_up(model, asked, words)[0], strict=True)) if asked else {}
    device = resolve_device(options.get("device"))
    scores: dict[str, float] = {}
    features: list[Any]
    for probe, by_part in questions.items():
        rows = [row for part in by_part.values() for row in part]
        columns = zip(*(row[2:] for row in rows), strict=True)
        features = [vectors.rows([row[0] for row in rows])]
        features += [[word_vectors[word] for word in column] for column in columns]
        labels = np.array([row[1] for row in rows], dtype=np.int64)
        train, dev, test = map(len, by_part.values())
        examples = ProbeData(np.hstack(features), labels, train=train, dev=dev)
        scores[f"{probe}.logistic.test"] = linear_probe(examples, device=device).test
        if probe in HIDDEN:
            perceptron = mlp_probe(examples, layers=1, dropout=0.5, seed=seed, device=device)
            scores[f"{probe}.mlp.test"] = perceptron.test
        majority = labels[-test:] == np.bincount(labels[:train]).argmax()
        scores[f"{probe}.majority.test"] = 100.0 * float(majority.mean())
    return scores


report_probes = make_command(evaluate_probes, NOTES)
