"""Advice on a corpus that is too short for a run: settings that make the run start, each found by a trial."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from typing import Any

from data.errors import ShortTextError, UserError
from data.sources.base import Document, Source
from experiments import compose
from experiments.overrides import typed

Change = Mapping[str, Any]  # values by dotted key
Attempt = Callable[[dict[str, Any], Callable[[Source], None]], None]

BEGINNING = 2_000_000  # characters of a corpus on which changes are tried
FRACTIONS = (0.1, 0.2, 0.4)  # of held-out documents
DOCUMENTS = (300, 100, 30, 12)  # numbers of documents into which a text is cut
LEAST_WORDS, MOST_WORDS = 8, 1000  # of such a document
SHARES = (1.0, 0.75, 0.5, 0.25)  # of the longest unit's tokens, for which an objective's sizes are chosen
MADE_UP: tuple[Change, ...] = ({"corpus.dev_fraction": 0.2},)  # of a made-up text
SENTENCE_WORDS = 10  # of a made-up sentence
LONGEST = 200_000  # words of a made-up text
TRIALS = 60  # of a search, after which no further change is tried


def advised(error: ShortTextError, config: dict[str, Any], attempt: Attempt, processes: int) -> UserError:
    """Returns ``error`` with how the corpus was read and the settings under which a run would start.

    Args:
        error: its line says what is missing.
        config: the run's.
        attempt: reads text and makes batches under another configuration, after the source was handed to its
            second argument; raises a UserError or ValueError if that fails.
        processes: of the run; batch sizes divide by it.
    """
    search = _Search(config, attempt, processes)
    if not search.has_words:
        return error
    if search.has_own_data:
        return UserError(f"{error} {search.read_as} Take a longer text.")
    if ways := search.ways():
        shown = [" ".join(typed(key, value) for key, value in way.items()) + _of_words(way) for way in ways]
        sizes = {key for way in ways for key in way if key.startswith("objective.")} - {"objective.batch_size"}
        worth = " (enough to run, hardly enough to learn from)" * bool(sizes)
        return UserError(f"{error} {search.read_as} Add {', or '.join(shown)}{worth}, or take a longer text.")
    words = search.needed()
    more = f": about {words:,} words in sentences are enough" if words else ""
    return UserError(
        f"{error} {search.read_as} No setting was found that makes it long enough; take a longer text{more}."
    )


class _Search:
    """Searches for changes of a configuration under which a run starts."""

    def __init__(self, config: dict[str, Any], attempt: Attempt, processes: int) -> None:
        self._config, self._attempt, self._processes = config, attempt, processes
        self._left = 0  # trials of the search
        self._tried: dict[Any, ShortTextError | None] = {}
        source: Source = compose.build(config["corpus"], "corpus")
        self._objective = compose.build(config["objective"], "objective")
        self._units = source.document_units
        self._documents = list(_beginning(source.read()))
        self._sizes = [len(document.text.split()) for document in self._documents]
        self._vocabulary = sorted({word for document in self._documents for word in document.text.split()})
        self._whole = sum(len(document.text) for document in self._documents) < BEGINNING

    @property
    def has_words(self) -> bool:
        return any(self._sizes)

    @property
    def has_own_data(self) -> bool:
        """True if the objective has data besides the corpus, which each trial would prepare again."""
        return bool(self._objective.own_data())

    @property
    def read_as(self) -> str:
        """A sentence on how the corpus was read."""
        units = [f"every {unit:,} words" if isinstance(unit, int) else f"a {unit}" for unit in self._units]
        sizes = [size for size in self._sizes if size]
        count = f"{len(sizes):,}{'' if self._whole else ' or more'} document{'s' * (len(sizes) != 1)}"
        verb = f"was read as one document {' or '.join(units)}:" if units else "has"
        return f"The corpus {verb} {count}, the longest of {max(sizes, default=0):,} words."

    def ways(self) -> list[Change]:
        """Returns one or two changes that work, in the order of preference; [] if none was found.

        The sizes of spans and batches stay if the text can be cut otherwise or divided otherwise.
        """
        self._left = TRIALS
        kept, cut = [*self._fractions({})], [*self._cuts(self._objective.requirements.min_tokens)]
        for batch in (False, True):
            if way := self._first(kept, batch=batch):
                return [way]
            ways = [self._first(cut, batch=batch), self._first(kept, batch=batch, sizes=True)]
            if found := [way for way in ways if way]:
                return found
        way = self._first(self._cuts(LEAST_WORDS), batch=True, sizes=True)
        return [way] if way else []

    def needed(self) -> int | None:
        """Returns the number of words of made-up text with which a run starts; None if no tried length works."""
        words = 25
        self._left = TRIALS
        while words <= LONGEST:
            words *= 2
            if words > sum(self._sizes) and self._first(MADE_UP, batch=True, sizes=True, words=words):
                return words
        return None

    def _fractions(self, change: Change) -> Iterator[Change]:
        yield change
        if "corpus.document" not in change and len(self._sizes) < 3:
            return
        for fraction in FRACTIONS:
            if fraction > self._config["corpus"].get("dev_fraction", 1):
                yield {**change, "corpus.dev_fraction": fraction}

    def _cuts(self, least: int) -> Iterator[Change]:
        """Yields other ways to cut the text into documents, of ``least`` words at least."""
        if not self._units:
            return
        total = sum(self._sizes)
        lengths = {max(least, LEAST_WORDS, min(MOST_WORDS, total // count)) for count in DOCUMENTS}
        lengths = {length for length in lengths if 2 * length < total}
        for unit in ("file", *sorted(lengths, reverse=True)):
            if unit not in self._units:
                yield from self._fractions({"corpus.document": unit})

    def _first(
        self, changes: Iterable[Change], *, batch: bool = False, sizes: bool = False, words: int = 0
    ) -> Change | None:
        """Returns the first of ``changes`` that works, with what must be changed besides; None if there is none.

        Args:
            batch: whether the batch may be made smaller.
            sizes: whether sizes of the objective may be.
            words: of a made-up text that takes the place of the corpus; 0: the corpus.
        """
        for change in changes:
            if self._left <= 0:
                return None
            error = self._fault(change, words)
            if error and (more := {key: value for key, value in error.settings.items() if self._has(key)}):
                change = {**change, **more}
                error = self._fault(change, words)
            options = [change]
            if error and sizes:
                options = [{**change, **self._sizes_for(int(share * error.longest))} for share in SHARES]
            for option in options:
                error = self._fault(option, words)
                if error and batch and error.units > 1:
                    size = error.units // self._processes * self._processes
                    option = {**option, "objective.batch_size": size}
                    error = self._fault(option, words)
                if error is None:
                    return option
        return None

    def _has(self, key: str) -> bool:
        group, _, name = key.partition(".")
        return name in (self._config.get(group) or {})

    def _sizes_for(self, tokens: int) -> dict[str, Any]:
        return {f"objective.{key}": value for key, value in self._objective.settings_for(tokens).items()}

    def _fault(self, change: Change, words: int) -> ShortTextError | None:
        """Returns what is missing under ``change``; None if a run would start."""
        place = words, *sorted(change.items())
        if place not in self._tried:
            self._left -= 1
            self._tried[place] = self._try(change, words)
        return self._tried[place]

    def _try(self, change: Change, words: int) -> ShortTextError | None:
        config = deepcopy(self._config)
        for key, value in change.items():
            group, _, name = key.partition(".")
            config[group][name] = value
        try:
            again = any(key.startswith("corpus.") and key != "corpus.dev_fraction" for key in change)
            self._attempt(config, lambda source: self._replace(source, words, again=again))
        except ShortTextError as error:
            return error
        except (UserError, ValueError) as error:
            return ShortTextError(str(error))
        return None

    def _replace(self, source: Source, words: int, *, again: bool) -> None:
        """Lets ``source`` yield its beginning, read ``again`` if another way, or a made-up text of ``words``."""
        read = source.documents

        def documents() -> Iterator[Document]:
            if words:
                return self._made_up(words)
            return _beginning(read()) if again else iter(self._documents)

        source.documents = documents  # type: ignore[method-assign]
        source.fingerprint = f"{words} {source.fingerprint}" if self._whole else f"{words} {self._units}"

    def _made_up(self, words: int) -> Iterator[Document]:
        rng = random.Random(0)
        size = max(LEAST_WORDS, words // 30) if self._units else max(1, sum(self._sizes) // len(self._sizes))
        sentences: list[str] = []
        for _ in range(0, words, SENTENCE_WORDS):
            sentences.append(" ".join(rng.choices(self._vocabulary, k=SENTENCE_WORDS)).capitalize() + ".")
            if len(sentences) * SENTENCE_WORDS >= size:
                yield Document(" ".join(sentences))
                sentences = []


def _of_words(way: Change) -> str:
    """Returns what corpus.document means in ``way``, if it is a number."""
    size = way.get("corpus.document")
    return f" (documents of {size:,} words)" if isinstance(size, int) else ""


def _beginning(documents: Iterable[Document]) -> Iterator[Document]:
    """Yields ``documents`` until they have ``BEGINNING`` characters together."""
    left = BEGINNING
    for document in documents:
        if left <= 0:
            return
        left -= len(document.text)
        yield document
