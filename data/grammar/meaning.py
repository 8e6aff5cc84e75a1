"""What a sentence of the grammar means, and the random choice of one.

    sentence  clause | clause and clause | clause, but clause | clause because clause | while clause, clause
    clause    subject [not] verb [object] [manner] [place] [time] | subject says that clause
    phrase    determiner [adjective] noun [relative clause] | phrase and phrase

What a phrase and a clause leave out, ``wellformed`` says: the three languages must be able to say it well.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Literal, TypeVar

import numpy as np

from data.grammar.lexicon import (
    ADJECTIVES,
    MANNERS,
    NOUNS,
    PEOPLE,
    PLACES,
    SAYING,
    TIMES,
    VERBS,
    Adjective,
    Adverbial,
    Noun,
    Verb,
)

T = TypeVar("T")
Link = Literal["and", "but", "because", "while"]
DEFINITE = ("the", "this")
PLURALS = ("two", "three", "some")
DEPTH = 2  # of relative clauses within each other
BLOCK = 256


@dataclass(frozen=True)
class Phrase:
    """A noun phrase: "the old dog that sleeps", "two cats", "the boy and the girl" (``beside``)."""

    noun: Noun
    determiner: str
    plural: bool = False
    adjective: Adjective | None = None
    relative: Clause | None = None  # it lacks its subject or its object
    beside: Phrase | None = None

    @property
    def several(self) -> bool:
        return self.plural or self.beside is not None


@dataclass(frozen=True)
class Clause:
    """A clause; ``subject`` does and ``object`` undergoes, in the passive too. None: a gap, or there is none."""

    verb: Verb
    subject: Phrase | None
    object: Phrase | None = None
    past: bool = False
    negated: bool = False
    passive: bool = False
    manner: Adverbial | None = None
    place: Adverbial | None = None
    time: Adverbial | None = None
    fronted: bool = False  # the time
    said: Clause | None = None


@dataclass(frozen=True)
class Sentence:
    """One clause or two; ``inverted``: the subordinate one comes first."""

    first: Clause
    link: Link | None = None
    second: Clause | None = None
    inverted: bool = False


class Draw:
    """Choices by one generator, which is asked for many numbers at once."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._numbers: list[float] = []

    def number(self) -> float:
        """Uniform in [0, 1)."""
        if not self._numbers:
            self._numbers = self._rng.random(BLOCK).tolist()
        return self._numbers.pop()

    def chance(self, probability: float) -> bool:
        return self.number() < probability

    def choice(self, options: list[T]) -> T:
        return options[int(self.number() * len(options))]


def sentence(draw: Draw) -> Sentence:
    """A random sentence."""
    past = draw.chance(0.5)
    if draw.chance(0.65):
        first = clause(draw, past, DEPTH)
        return Sentence(replace(first, fronted=first.time is not None and draw.chance(0.5)))
    options: list[Link] = ["and", "but", "because", "while"]
    link = draw.choice(options)
    first, second = clause(draw, past, 1, says=False), clause(draw, past, 1, says=False)
    second = replace(second, time=None)  # one time serves both
    return Sentence(first, link, second, link in ("because", "while") and draw.chance(0.4))


def clause(draw: Draw, past: bool, depth: int, *, says: bool = True) -> Clause:
    """A random clause with relative clauses up to ``depth`` within each other."""
    if says and draw.chance(0.12):
        said = clause(draw, past or draw.chance(0.5), depth - 1, says=False)
        if past and said.time is not None and said.time.sort == "past":
            said = replace(said, time=None)  # "said that she slept yesterday": a past before the past
        return Clause(draw.choice(SAYING), phrase(draw, PEOPLE, past, depth - 1), past=past, said=said)
    while True:
        verb = draw.choice(VERBS)
        found = Clause(
            verb,
            phrase(draw, verb.subjects, past, depth),
            phrase(draw, verb.objects, past, depth) if verb.objects else None,
            past=past,
            negated=draw.chance(0.2),
            passive=draw.chance(0.2),
            manner=draw.choice(manners(verb)) if verb.manner and draw.chance(0.35) else None,
            place=draw.choice(PLACES) if draw.chance(0.35) else None,
            time=draw.choice(times(past)) if draw.chance(0.25) else None,
        )
        if wellformed(found):
            return found


def phrase(draw: Draw, kinds: tuple[str, ...], past: bool, depth: int, *, definite: bool = False) -> Phrase:
    """A random noun phrase of one of ``kinds``; its relative clause is in the tense that ``past`` says."""
    noun = draw.choice(nouns(kinds))
    determiner, plural = draw.choice([("the", False), ("the", True), ("this", False)])
    if not definite and draw.chance(0.4):
        determiner, plural = draw.choice([("a", False), ("a", False), *[(word, True) for word in PLURALS]])
    adjective = draw.choice(adjectives(noun)) if draw.chance(0.4) and adjectives(noun) else None
    found = Phrase(noun, determiner, plural, adjective)
    if depth > 0 and draw.chance(0.2):
        return replace(found, relative=relative(draw, found, past, depth - 1))
    if draw.chance(0.1):
        found = replace(found, beside=replace(phrase(draw, (noun.kind,), past, 0, definite=True), beside=None))
        return found if found.beside is not None and found.beside.noun != noun else replace(found, beside=None)
    return found


def relative(draw: Draw, head: Phrase, past: bool, depth: int) -> Clause:
    """A random clause that ``head`` does, or undergoes."""
    kind = head.noun.kind
    while True:
        verb = draw.choice([verb for verb in VERBS if kind in verb.subjects or kind in verb.objects])
        does = kind in verb.subjects and (kind not in verb.objects or draw.chance(0.6))
        subject = None if does else phrase(draw, verb.subjects, past, 0)
        object = phrase(draw, verb.objects, past, depth) if does and verb.objects else None
        place = draw.choice(PLACES) if draw.chance(0.2) else None
        found = Clause(verb, subject, object, past=past, place=place)
        if wellformed(found):
            return found


def wellformed(clause: Clause) -> bool:
    """Whether all three languages can say ``clause`` without a knot.

    Nobody does something to its like, and nothing follows an object (or an agent) with a relative clause. "Not ...
    a" is German "kein" and French "pas de", which suffer no adverb of manner, number, second noun or relative
    clause beside them.
    """
    verb, object = clause.verb, clause.object
    if object is not None and clause.subject is not None and object.noun == clause.subject.noun:
        return False
    if clause.place is not None and verb.state:
        return False
    if clause.passive and (object is None or verb.dative):
        return False
    for part in (clause.subject, object):
        if part is not None and part.relative is not None and part.relative.verb == verb:
            return False
    last = clause.subject if clause.passive else object
    if last is not None and last.relative is not None and (clause.place or clause.manner or clause.time):
        return False
    if clause.negated:
        if clause.time is not None and clause.time.sort == "always":
            return False  # "not every day" says less than "every day not"
        for part in (clause.subject, object):
            if part is not None and part.beside is not None:
                return False
        if clause.subject is not None and clause.subject.determiner not in (*DEFINITE, "a"):
            return False
        if object is not None and object.determiner not in DEFINITE:
            return object.determiner == "a" and not (clause.passive or clause.manner or object.relative)
    return True


@cache
def nouns(kinds: tuple[str, ...]) -> list[Noun]:
    return [noun for noun in NOUNS if noun.kind in kinds]


@cache
def adjectives(noun: Noun) -> list[Adjective]:
    return [adjective for adjective in ADJECTIVES if noun.kind in adjective.kinds]


@cache
def manners(verb: Verb) -> list[Adverbial]:
    return [manner for manner in MANNERS if manner.sort == verb.manner]


@cache
def times(past: bool) -> list[Adverbial]:
    return [time for time in TIMES if time.sort == "any" or (time.sort == "past") == past]
