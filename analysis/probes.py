"""Six probes of frozen sentence vectors: length, word content, word order, passive, tense, top sequence.

    length     s -> one of 8 bins of numbers of words          passive    s -> is the main clause passive?
    content    [s; w] -> is the word w in the sentence?        tense      s -> is it in the past tense?
    order      [s; w1; w2] -> does w1 stand before w2?         TSS        s -> which of 20 top sequences?

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
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, Unpack, get_args

import numpy as np
from pydantic import Field

from analysis.model_names import Names
from analysis.models import Model, ModelOptions, open_models, resolve_device
from analysis.reporting.printed import Cell, read_table
from analysis.reporting.rendering import Form, Grid, Row, show, write_result
from analysis.senteval.classifiers.probe import ProbeData, accuracy, fit_hidden, fit_linear
from analysis.syntax import Sentence, read_parts
from analysis.wordsim import Lexicon, WordVectors
from data.display import bar
from data.randomness import PROBE, generator
from data.ranges import Count, Seed

Probe = Literal["length", "content", "order", "passive", "tense", "tss"]

LENGTH_BINS = ((5, 8), (9, 12), (13, 16), (17, 20), (21, 25), (26, 29), (30, 33), (34, 70))  # Adi et al. (2016)
TOP_SEQUENCES = 19
PROBES: tuple[str, ...] = get_args(Probe)
TITLES = dict(zip(PROBES, ("Length", "Content", "Order", "Passive", "Tense", "TSS"), strict=True))
CLASSES = dict(zip(PROBES, (len(LENGTH_BINS), 2, 2, 2, 2, TOP_SEQUENCES + 1), strict=True))
HIDDEN = ("length", "content", "order")  # probes that also use a perceptron
DROPOUT = 0.5
STREAM = 100  # first key of this module's random streams below PROBE
PAPER = "gensen, other data"
PARTS = ("train", "dev", "test")

Part = Sequence[Sentence]


class Questions(NamedTuple):
    """Examples of a probe for one part.

    Attributes:
        sentences: n texts.
        words: k lists of the n words in question (k is 0, 1 or 2).
        labels: int64 of shape (n,).
    """

    sentences: list[str]
    words: list[list[str]]
    labels: np.ndarray


def questions(probe: str, parts: Mapping[str, Part], seed: int) -> dict[str, Questions]:
    """Builds the examples of ``probe`` for each part; they do not depend on the encoder."""
    rng = generator(PROBE, seed, STREAM + PROBES.index(probe))
    if probe == "tss":
        count = Counter(sentence.top for sentence in parts["train"] if sentence.top is not None)
        common = sorted(count, key=lambda top: (-count[top], top))[:TOP_SEQUENCES]
        place = {top: number for number, top in enumerate(common)}
        return {
            name: _labelled(part, lambda one: None if one.top is None else place.get(one.top, TOP_SEQUENCES))
            for name, part in parts.items()
        }
    return {name: _MAKERS[probe](part, rng) for name, part in parts.items()}


def content(part: Part, rng: np.random.Generator) -> Questions:
    """Pairs each sentence with one of its words (1) and with another sentence's positive that it lacks (0)."""
    part = [sentence for sentence in part if _bin(sentence) is not None]
    chosen = [sentence.words[rng.integers(len(sentence.words))] for sentence in part]
    sentences: list[str] = []
    words: list[str] = []
    for sentence, positive in zip(part, chosen, strict=True):
        inside = {word.lower() for word in sentence.words}
        drawn = (chosen[i] for i in rng.integers(len(chosen), size=100))
        outside = next((word for word in drawn if word.lower() not in inside), None)
        if outside is not None:
            sentences += [sentence.text] * 2
            words += [positive, outside]
    return Questions(sentences, [words], np.tile(np.array([1, 0]), len(words) // 2))


def order(part: Part, rng: np.random.Generator) -> Questions:
    """Pairs each sentence with two of its words in their order (1) and in reverse (0)."""
    sentences: list[str] = []
    first: list[str] = []
    second: list[str] = []
    for sentence in part:
        if _bin(sentence) is None:
            continue
        count = Counter(word.lower() for word in sentence.words)
        once = [word for word in sentence.words if count[word.lower()] == 1]
        if len(once) >= 2:
            before, after = (once[place] for place in sorted(rng.permutation(len(once))[:2]))
            sentences += [sentence.text] * 2
            first += [before, after]
            second += [after, before]
    return Questions(sentences, [first, second], np.tile(np.array([1, 0]), len(first) // 2))


def _bin(sentence: Sentence) -> int | None:
    """Returns the bin of the sentence's number of words; None if it is in none."""
    words = len(sentence.words)
    return next((number for number, (low, high) in enumerate(LENGTH_BINS) if low <= words <= high), None)


def _labelled(part: Part, label: Callable[[Sentence], int | None]) -> Questions:
    found = [(sentence.text, value) for sentence in part if (value := label(sentence)) is not None]
    return Questions([text for text, _ in found], [], np.array([value for _, value in found], dtype=np.int64))


_MAKERS: dict[str, Callable[[Part, np.random.Generator], Questions]] = {
    "length": lambda part, rng: _labelled(part, _bin),
    "content": content,
    "order": order,
    "passive": lambda part, rng: _labelled(part, lambda one: one.passive),
    "tense": lambda part, rng: _labelled(part, lambda one: one.past),
}


def evaluate_probes(
    model: Model,
    probe_questions: Mapping[str, Mapping[str, Questions]],
    *,
    words: WordVectors | None = None,
    seed: int = 0,
    device: str = "cpu",
) -> dict[str, dict[str, Any]]:
    """Computes scores by probe: {"length": {"logistic": {"dev":, "test":, ...}, "mlp": {...}, "n_train":, ...}}.

    Args:
        model: model that encodes the sentences.
        probe_questions: output of ``questions`` by probe and part.
        words: source of word vectors (see ``Lexicon``).
        seed: seed of the perceptrons.
        device: device to train the classifiers on.

    Raises:
        UserError: if a part of a probe is empty or has only one class.
    """
    every = [part for parts in probe_questions.values() for part in parts.values()]
    vectors = model.vectors([sentence for part in every for sentence in part.sentences])
    lexicon = Lexicon(model.encoder, model.rows, words)
    known = list(dict.fromkeys(word for part in every for column in part.words for word in column))
    forms = [lexicon.form(word) or word for word in known]
    table = lexicon.vectors(forms) if known else np.empty((0, 0), dtype=np.float32)
    place = {word: number for number, word in enumerate(known)}

    def features(part: Questions) -> np.ndarray:
        columns = [table[[place[word] for word in column]] for column in part.words]
        return np.hstack([vectors.matrix[vectors.index(part.sentences)], *columns])

    result: dict[str, dict[str, Any]] = {}
    for probe, parts in probe_questions.items():
        train, dev, test = (parts[name] for name in PARTS)
        counts = {f"n_{name}": len(parts[name].labels) for name in PARTS}
        examples = ProbeData(
            np.concatenate([features(part) for part in (train, dev, test)]),
            np.concatenate([train.labels, dev.labels, test.labels]),
            train=counts["n_train"],
            dev=counts["n_dev"],
        )
        fits = {"logistic": fit_linear(examples, device=device)}
        if probe in HIDDEN:
            with bar(f"perceptron, {probe}") as progress:
                fits["mlp"] = fit_hidden(
                    examples, layers=1, dropout=DROPOUT, seed=seed, device=device, progress=progress
                )
        result[probe] = {name: {"dev": fit.dev, "test": fit.test, "l2": fit.l2} for name, fit in fits.items()}
        result[probe] |= guesses(probe, train.labels, test.labels) | counts
        if parts["train"].words:
            result[probe] |= {"words": lexicon.kind}
    return result


def guesses(probe: str, train: np.ndarray, test: np.ndarray) -> dict[str, float]:
    """Computes chance level and the accuracy of the majority class of training, in percent."""
    common = np.bincount(train).argmax()
    return {"chance": 100.0 / CLASSES[probe], "majority": accuracy(np.full_like(test, common), test)}


def table(results: Sequence[Mapping[str, Any]]) -> Grid:
    """Builds a row per model and classifier, the baselines, then the paper's rows, which are over other data."""
    probes = [probe for probe in PROBES if any(probe in one["probes"] for one in results)]
    columns = [("", TITLES[probe]) for probe in probes]
    rows = []
    for one in results:
        for classifier in ("mlp", "logistic"):
            cells = {
                ("", TITLES[probe]): _cell(scores[classifier]["test"])
                for probe, scores in one["probes"].items()
                if classifier in scores
            }
            if cells:
                rows.append(Row(f"{one['model']['name']} ({classifier})", cells, protocol=classifier))
    first = results[0]["probes"]
    below = [
        Row(guess, {("", TITLES[probe]): _cell(first[probe][guess]) for probe in probes}, "this data")
        for guess in ("chance", "majority")
    ]
    for line in read_table("gensen_table5"):
        cells = {("", TITLES[probe]): Cell(float(line[probe]), line[probe]) for probe in probes if line[probe]}
        below.append(Row(line["model"], cells, PAPER))
    counts = "; ".join(
        f"{TITLES[probe]} " + " / ".join(f"{first[probe][f'n_{part}']:,}" for part in PARTS) for probe in probes
    )
    notes = [
        f"Test accuracy in percent. Examples ({' / '.join(PARTS)}): {counts}.",
        f"Rows of {PAPER!r} are not comparable: sentences, labels and sizes differ (Billion Word, and "
        "Shi et al.'s own set); each must be read against its own majority baseline.",
    ]
    if any(probe in probes for probe in ("content", "order")):
        notes.append(
            "Content and order: a linear classifier cannot relate a word to the sentence; (logistic) shows how "
            "much the words predict by themselves, (mlp) is the probe."
        )
    return Grid("probes", columns, rows, below, notes)


def _cell(value: float) -> Cell:
    return Cell(value, f"{value:.1f}")


def report_probes(
    *,
    models: Names,
    data: str,
    probes: Annotated[list[Probe], Field(min_length=1)] | None = None,
    words: WordVectors | None = None,
    limit: Count | None = None,
    seed: Seed = 0,
    format: Form = "text",
    out: str | None = None,
    **options: Unpack[ModelOptions],
) -> list[dict[str, Any]]:
    """Prints the table of the models' scores, writes them to ``out`` and returns them.

    Args:
        models: names of models.
        data: a folder of trees, or "treebank" (see ``analysis.syntax.read_parts``).
        probes: names of probes; None: all.
        words: source of word vectors (see ``analysis.wordsim.Lexicon``).
        limit: sentences of each part; None: all.
        seed: seed of the examples and of the perceptrons.
        format: of the table.
        out: JSON file.
        options: see ``analysis.models.ModelOptions``.

    Raises:
        UserError: if the data or a model cannot be read, or a part of a probe is empty or has only one class.
    """
    parts = {name: part[:limit] for name, part in read_parts(data, seed).items()}
    examples = {probe: questions(probe, parts, seed) for probe in probes or PROBES}
    device = resolve_device(options.get("device"))
    results = [
        {"model": model.facts(), "probes": evaluate_probes(model, examples, words=words, seed=seed, device=device)}
        for model in open_models(models, **options)
    ]
    show(table(results), format)
    write_result(out, {"probes": results, "data": data, "seed": seed, "limit": limit, "comparable": False})
    return results
