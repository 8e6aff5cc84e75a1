"""Six probes of what frozen sentence vectors hold: length, word content, word order, passive, tense, top sequence.

    length     s -> one of 8 bins of numbers of words          passive    s -> is the main clause passive?
    content    [s; w] -> is the word w in the sentence?        tense      s -> is it in the past tense?
    order      [s; w1; w2] -> does w1 stand before w2?         TSS        s -> which of 20 top sequences?

    python -m analysis.probes runs/<folder> --data <folder of trees>
    python -m analysis.probes a b --data treebank --probes length order --format md

GenSen's table 5 (Subramanian et al. 2018, section 10.7). The first three are Adi et al.'s (2016): of each sentence
one positive and one negative example; content's negative is a word that is somewhere a positive one and not in
this sentence; order's is the same pair the other way round. The last three are Shi et al.'s (2016), labelled from
gold trees (see ``analysis.syntax``).

Ours, as they leave it open: content's negatives are drawn from the occurrences of positive words, so that a word's
frequency tells little; order asks for two different words that each occur once; case does not count; all three
take the sentences of 5 to 70 words that length has bins for. Words are tree leaves, punctuation included. A word's
vector is as in ``analysis.wordsim``.

Shi et al. use logistic regression, Adi et al. a perceptron with one hidden layer of ReLU. A linear classifier of
[s; w] adds up what s and w say apart and cannot ask whether w is in s: on content and order its score only shows
what the words alone give away. So their three probes get both, and the perceptron's score is the probe's.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from analysis import command
from analysis.classifying import Examples, Gathered, accuracy, logistic, perceptron, side_by_side
from analysis.reporting.printed import Cell, read_table
from analysis.reporting.rendering import Grid, Row
from analysis.syntax import TREEBANK, Sentence, read_parts
from analysis.word_vectors import KINDS, Kind, Lexicon
from data.errors import UserError, about
from data.randomness import PROBE, generator

LENGTH_BINS = ((5, 8), (9, 12), (13, 16), (17, 20), (21, 25), (26, 28), (29, 32), (33, 70))  # Adi et al. (2016)
TOP_SEQUENCES = 19
PROBES = ("length", "content", "order", "passive", "tense", "tss")
TITLES = dict(zip(PROBES, ("Length", "Content", "Order", "Passive", "Tense", "TSS"), strict=True))
CLASSES = dict(zip(PROBES, (len(LENGTH_BINS), 2, 2, 2, 2, TOP_SEQUENCES + 1), strict=True))
HIDDEN = ("length", "content", "order")  # probes with a perceptron besides
DROPOUT = 0.5
STREAM = 100  # of this module's keys below PROBE
PAPER = "gensen, other data"
PARTS = ("train", "dev", "test")

Part = Sequence[Sentence]


class Questions(NamedTuple):
    """A part's examples of a probe.

    Attributes:
        sentences: n texts.
        words: k lists of n words that are asked about (k is 0, 1 or 2).
        labels: int64 of shape (n,).
    """

    sentences: list[str]
    words: list[list[str]]
    labels: np.ndarray


def questions(probe: str, parts: Mapping[str, Part], seed: int) -> dict[str, Questions]:
    """The examples of ``probe`` for each part: of sentences and seed alone, so the same for every encoder."""
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


def length(part: Part, rng: np.random.Generator) -> Questions:
    """Sentences by the bin of their number of words."""
    return _labelled(part, _bin)


def content(part: Part, rng: np.random.Generator) -> Questions:
    """For each sentence a word of it (1), and one that is another sentence's positive and not in it (0)."""
    part = [sentence for sentence in part if _bin(sentence) is not None]
    chosen = [sentence.words[rng.integers(len(sentence.words))] for sentence in part]
    sentences: list[str] = []
    words: list[str] = []
    for sentence, positive in zip(part, chosen, strict=True):
        inside = {word.lower() for word in sentence.words}
        outside = next((word for word in _draws(chosen, rng) if word.lower() not in inside), None)
        if outside is not None:
            sentences += [sentence.text] * 2
            words += [positive, outside]
    return Questions(sentences, [words], np.tile(np.array([1, 0]), len(words) // 2))


def order(part: Part, rng: np.random.Generator) -> Questions:
    """For each sentence two of its words as they follow each other (1), and the other way round (0)."""
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
    words = len(sentence.words)
    return next((number for number, (low, high) in enumerate(LENGTH_BINS) if low <= words <= high), None)


def _draws(words: Sequence[str], rng: np.random.Generator, most: int = 100) -> Sequence[str]:
    return [words[i] for i in rng.integers(len(words), size=most)]


def _labelled(part: Part, label: Callable[[Sentence], int | None]) -> Questions:
    found = [(sentence.text, value) for sentence in part if (value := label(sentence)) is not None]
    return Questions([text for text, _ in found], [], np.array([value for _, value in found], dtype=np.int64))


_MAKERS: dict[str, Callable[[Part, np.random.Generator], Questions]] = {
    "length": length,
    "content": content,
    "order": order,
    "passive": lambda part, rng: _labelled(part, lambda one: one.passive),
    "tense": lambda part, rng: _labelled(part, lambda one: one.past),
}


def evaluate_probes(
    model: command.Model,
    asked: Mapping[str, Mapping[str, Questions]],
    *,
    words: Kind | None = None,
    seed: int = 0,
    device: str = "cpu",
) -> dict[str, dict[str, Any]]:
    """Scores by probe: {"length": {"logistic": {"dev":, "test":, ...}, "mlp": {...}, "n_train":, ...}}.

    Args:
        model: whose vectors.
        asked: by probe and part, from ``questions``.
        words: where words' vectors come from (see ``Lexicon``).
        seed: of the perceptrons.
        device: where they are trained.

    Raises:
        UserError: if a part of a probe is empty or all alike.
    """
    every = [part for parts in asked.values() for part in parts.values()]
    vectors = model.vectors([sentence for part in every for sentence in part.sentences])
    lexicon = Lexicon(model.encoder, model.rows, words)
    known = list(dict.fromkeys(word for part in every for column in part.words for word in column))
    forms = [lexicon.form(word) or word for word in known]
    table = lexicon.vectors(forms) if known else np.empty((0, 0), dtype=np.float32)
    place = {word: number for number, word in enumerate(known)}

    def examples(part: Questions) -> Examples:
        columns = [(table, np.array([place[word] for word in column], dtype=np.int64)) for column in part.words]
        sources = [(vectors.matrix, vectors.index(part.sentences)), *columns]
        return Examples(Gathered(sources, side_by_side), part.labels)

    result: dict[str, dict[str, Any]] = {}
    for probe, parts in asked.items():
        train, dev, test = (examples(parts[name]) for name in PARTS)
        fits = {"logistic": logistic(train, dev, test)}
        if probe in HIDDEN:
            with command.bar(f"perceptron, {probe}") as progress:
                fits["mlp"] = perceptron(
                    train, dev, test, layers=1, dropout=DROPOUT, seed=seed, device=device, progress=progress
                )
        result[probe] = {
            name: {"dev": fit.dev, "test": accuracy(fit.predictions, test.labels), **fit.chosen}
            for name, fit in fits.items()
        }
        result[probe] |= guesses(probe, train.labels, test.labels)
        result[probe] |= {"n_train": len(train.labels), "n_dev": len(dev.labels), "n_test": len(test.labels)}
        if parts["train"].words:
            result[probe] |= {"words": lexicon.kind}
    return result


def guesses(probe: str, train: np.ndarray, test: np.ndarray) -> dict[str, float]:
    """Percentage of right answers by chance, and by always saying what training says most often."""
    common = np.bincount(train).argmax()
    return {"chance": 100.0 / CLASSES[probe], "majority": accuracy(np.full_like(test, common), test)}


def table(results: Sequence[Mapping[str, Any]]) -> Grid:
    """A row a model and classifier, what guessing gives, then the paper's rows, which are over other data."""
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
        f"Rows of {PAPER!r} are not comparable: sentences, labels and sizes are others (Billion Word, and "
        "Shi et al.'s own set); each must be read against its own majority baseline.",
    ]
    if any(probe in probes for probe in ("content", "order")):
        notes.append(
            "Content and order: a linear classifier cannot relate a word to the sentence; (logistic) shows what "
            "the words alone give away, (mlp) is the probe."
        )
    return Grid("probes", columns, rows, below, notes)


def _cell(value: float) -> Cell:
    return Cell(value, f"{value:.1f}")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = command.parser("analysis.probes", __doc__, several=True)
    data_help = f"folder of x_train, x_dev and x_test trees (.ptb[.gz], one a line), or {TREEBANK}: NLTK's sample"
    parser.add_argument("--data", required=True, metavar="FOLDER", help=data_help)
    parser.add_argument("--probes", nargs="+", choices=PROBES, default=list(PROBES), help="default: all six")
    parser.add_argument("--vectors", choices=KINDS, help="of words; default: table where there is one")
    parser.add_argument("--limit", type=command.positive, metavar="N", help="sentences of each part at most")
    parser.add_argument("--seed", type=command.whole, default=0, help="of words asked and perceptrons; default: 0")
    given = parser.parse_args(arguments)

    def work() -> None:
        if given.data != TREEBANK and not Path(given.data).is_dir():
            raise UserError(f"There is no folder {given.data}: --data names one of trees, or {TREEBANK}.")
        parts = {name: part[: given.limit] for name, part in read_parts(given.data, given.seed).items()}
        asked = {probe: questions(probe, parts, given.seed) for probe in given.probes}
        results = []
        for name in given.models:
            model = command.opened(name, given)
            device = command.device(given.device)
            with about(given.data):
                scores = evaluate_probes(model, asked, words=given.vectors, seed=given.seed, device=device)
            results.append({"model": model.facts(), "probes": scores})
        command.show(table(results), given.format)
        settings = {"data": given.data, "seed": given.seed, "limit": given.limit}
        command.write(given.out, {"probes": results, **settings, "comparable": False})

    return command.finished(work)


if __name__ == "__main__":
    sys.exit(main())
