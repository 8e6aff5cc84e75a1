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

Each probe gets logistic regression, as in Shi et al., and a perceptron with one hidden layer of ReLU, as in Adi
et al. A linear classifier of [s; w] scores s and w separately and cannot detect whether w is in s: on content and
order its score only shows how much the words predict by themselves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, Unpack, get_args

import numpy as np
import pandas as pd

from analysis.models import Model, resolve_device
from analysis.reports import ReportOptions
from analysis.senteval.classifiers.probe import ProbeData, linear_probe, mlp_probe
from analysis.syntax import read_sentences
from analysis.wordsim import look_up
from data.randomness import PROBE, generator
from data.ranges import Seed

Probe = Literal["length", "content", "order", "passive", "tense", "tss"]

PROBES: tuple[Probe, ...] = get_args(Probe)
BINS = (5, 9, 13, 17, 21, 26, 30, 34, 71)  # bounds of numbers of words, Adi et al. (2016)
TOP_SEQUENCES = 19  # besides all others
STREAM = 100  # first key of this module's random streams below PROBE


def make_questions(probe: Probe, sentences: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Builds the examples of a probe; they do not depend on the encoder.

    Args:
        probe: name of the probe.
        sentences: as ``analysis.syntax.read_sentences`` returns them.
        seed: seed of content and order.

    Returns:
        Columns: sentence, label (0 .. C-1) and the words in question (none, one or two); indexed by part.
    """
    bins = pd.cut(sentences["text"].str.split().str.len(), BINS, right=False, labels=False)
    if probe in ASK:
        ask, rng = ASK[probe], generator(PROBE, seed, STREAM + PROBES.index(probe))
        parts = sentences.loc[bins.notna(), "text"].groupby(level=0, sort=False)
        return pd.concat({part: pd.DataFrame(ask(texts, rng)) for part, texts in parts}).droplevel(1)
    questions = sentences.assign(length=bins)[["text", probe]].dropna()
    if probe == "tss":
        common = questions[questions.index == "train"].groupby("tss").size().nlargest(TOP_SEQUENCES).index
        ranks = common.get_indexer(questions["tss"])
        questions["tss"] = np.where(ranks < 0, TOP_SEQUENCES, ranks)
    return questions.astype({probe: int})


def ask_content(texts: Iterable[str], rng: np.random.Generator) -> Iterator[tuple[Any, ...]]:
    """Pairs each sentence with one of its words (1) and with another sentence's positive that it lacks (0)."""
    chosen = [words[rng.integers(len(words))] for words in map(str.split, texts)]
    for text, positive in zip(texts, chosen, strict=True):
        inside = text.lower().split()
        sampled = (chosen[place] for place in rng.integers(len(chosen), size=100))
        negative = next((word for word in sampled if word.lower() not in inside), None)
        if negative is not None:
            yield from ((text, 1, positive), (text, 0, negative))


def ask_order(texts: Iterable[str], rng: np.random.Generator) -> Iterator[tuple[Any, ...]]:
    """Pairs each sentence with two of its words in their order (1) and in reverse (0)."""
    for text in texts:
        counts = Counter(text.lower().split())
        once = [word for word in text.split() if counts[word.lower()] == 1]
        if len(once) >= 2:
            first, second = (once[place] for place in sorted(rng.permutation(len(once))[:2]))
            yield from ((text, 1, first, second), (text, 0, second, first))


ASK = {"content": ask_content, "order": ask_order}


def fit_probes(examples: ProbeData, *, layers: int, seed: int, device: str | None) -> dict[str, float]:
    """Returns test accuracies in percent of "logistic", "mlp" and "majority", the most frequent training label.

    Args:
        examples: features and labels.
        layers: hidden layers of the perceptron "mlp".
        seed: seed of the perceptron.
        device: see ``analysis.models.ModelOptions``.
    """
    device = resolve_device(device)
    predictions: dict[str, Any] = {
        "majority": np.bincount(examples.labels[examples.train]).argmax(),
        "logistic": linear_probe(examples, device=device),
        "mlp": mlp_probe(examples, layers=layers, dropout=0.5, seed=seed, device=device),
    }
    return {name: examples.accuracy(classes) for name, classes in predictions.items()}


def evaluate_probes(
    model: Model, *, data: str, probes: Sequence[Probe] = PROBES, seed: Seed = 0, **options: Unpack[ReportOptions]
) -> dict[str, float]:
    """Trains classifiers that predict properties of sentences from their vectors.

    Sentences, labels and sizes are not those of GenSen's table 5: compare with the majority class. On content and
    order the perceptron is the probe: a linear classifier only shows how much the words predict by themselves.

    Args:
        model: model that encodes the sentences.
        data: a folder of trees (see ``analysis.syntax.read_sentences``).
        probes: names of probes; default: all.
        seed: seed of the examples and of the perceptrons.
        options: see ``analysis.reports.ReportOptions``.

    Returns:
        "<probe>.<classifier>.test": test accuracies in percent of "logistic", "mlp" and "majority", the most
        frequent training label.

    Raises:
        UserError: if the data cannot be read, or a part of a probe is empty or has only one class.
    """
    sentences = read_sentences(data)
    vectors = model.vectors(sentences["text"].tolist())
    scores: dict[str, float] = {}
    for probe in probes:
        questions = make_questions(probe, sentences, seed)
        texts, labels, *words = (questions[column].tolist() for column in questions)
        features = np.hstack([vectors.rows(texts), *(look_up(model, column)[0] for column in words)])
        train, dev = ((questions.index == part).sum() for part in ("train", "dev"))
        examples = ProbeData(features, np.array(labels), train=train, dev=dev)
        accuracies = fit_probes(examples, layers=1, seed=seed, device=options.get("device"))
        scores |= {f"{probe}.{name}.test": accuracy for name, accuracy in accuracies.items()}
    return scores
