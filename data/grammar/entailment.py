"""Premises that entail, contradict or leave open a hypothesis, by a logic that decides each label.

As in SNLI (Bowman et al. 2015, section 2.2), both sentences are about the same event and the same things. So a
clause is two boxes of constraints: what is said of the things that it takes as given, and what it says of the
event, which "not" denies as a whole:

    affirmed: given and event        denied: given and not event

A box is a product of sets (what the subject is; how it looks; where it happens; ...), so that inclusion and
overlap are decided set by set. A premise entails a hypothesis that includes it, and contradicts one that it does
not overlap. From this follow hypernyms, dropped and added modifiers, opposites and negation, which turns the
others round: "not in the garden" follows from "not".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from data.grammar.lexicon import OPPOSITES, PLACES, comparable, extension
from data.grammar.meaning import (
    DEFINITE,
    Clause,
    Draw,
    Phrase,
    adjectives,
    clause,
    manners,
    phrase,
    relative,
    times,
    wellformed,
)

ENTAILMENT, NEUTRAL, CONTRADICTION = range(3)
TRIES = 200  # for a premise of each class; a hypothesis for which they do not suffice is dropped
Box = Mapping[object, frozenset[object]]  # allowed values by what they are values of; what is missing may be any


class Meaning(NamedTuple):
    """What a clause says: ``given`` always, and ``event``, or (``negated``) not all of it."""

    given: Box
    event: Box
    negated: bool


def hypothesis(draw: Draw) -> Clause:
    """A random clause whose meaning is decided: definite subject, no second noun."""
    past = draw.chance(0.5)
    while True:
        found = clause(draw, past, 0, says=False)
        assert found.subject is not None
        subject = phrase(draw, (found.subject.noun.kind,), past, 0, definite=True)
        found = replace(found, subject=replace(subject, beside=None), negated=draw.chance(0.3))
        if found.object is not None:
            if found.object.determiner not in (*DEFINITE, "a"):
                continue
            found = replace(found, object=replace(found.object, beside=None))
        if draw.chance(0.15) and found.subject is not None:
            doing = relative(draw, found.subject, past, 0)
            found = replace(found, subject=replace(found.subject, relative=doing))
        if wellformed(found):
            return found


def premises(draw: Draw, hypothesis: Clause) -> tuple[Clause, Clause, Clause] | None:
    """A random premise for each of the three classes, in their order; None: not found."""
    found: dict[int, Clause] = {}
    for _ in range(TRIES):
        premise = hypothesis
        for _ in range(1 + int(draw.number() * 4)):
            premise = _edited(draw, premise, hypothesis)
        if premise != hypothesis and wellformed(premise):
            found.setdefault(relation(premise, hypothesis), premise)
        if len(found) == 3:
            return found[ENTAILMENT], found[NEUTRAL], found[CONTRADICTION]
    return None


def relation(premise: Clause, hypothesis: Clause) -> int:
    """The class of a pair."""
    one, two = meaning(premise), meaning(hypothesis)
    given, overlap = _within(one.given, two.given), _overlap(one.given, two.given)
    if one.negated and two.negated:
        return ENTAILMENT if given and _within(two.event, one.event) else NEUTRAL if overlap else CONTRADICTION
    if one.negated:
        return NEUTRAL if overlap and not _within(two.event, one.event) else CONTRADICTION
    if two.negated:
        if given and not _overlap(one.event, two.event):
            return ENTAILMENT
        return NEUTRAL if overlap and not _within(one.event, two.event) else CONTRADICTION
    if given and _within(one.event, two.event):
        return ENTAILMENT
    return NEUTRAL if overlap and _overlap(one.event, two.event) else CONTRADICTION


def meaning(clause: Clause) -> Meaning:
    """What ``clause`` says."""
    given: dict[object, frozenset[object]] = {}
    event: dict[object, frozenset[object]] = {"verb": frozenset([clause.verb.english[0]])}
    for role, part in (("subject", clause.subject), ("object", clause.object)):
        if part is not None:
            box = given if part.determiner in DEFINITE else event
            box[role, "is"] = extension(part.noun)
            if part.adjective is not None:
                box[role, part.adjective.dimension] = frozenset([part.adjective.english])
            if part.relative is not None:
                box[role, part.relative] = frozenset([True])
    if clause.manner is not None:
        event[clause.manner.sort] = frozenset([clause.manner.english])
    if clause.place is not None:
        event["place"] = frozenset([clause.place.english])
    if clause.time is not None:
        event["time"] = frozenset([clause.time.english])
    return Meaning(given, event, clause.negated)


def _within(one: Box, two: Box) -> bool:
    return all(key in one and one[key] <= values for key, values in two.items())


def _overlap(one: Box, two: Box) -> bool:
    return all(one[key] & two[key] for key in one.keys() & two.keys())


def _edited(draw: Draw, premise: Clause, hypothesis: Clause) -> Clause:
    """``premise`` changed in one respect, to something that can be compared with ``hypothesis`` there."""
    way = draw.choice(["voice", "not", "verb", "manner", "place", "time", "subject", "object"])
    if way == "voice":
        return replace(premise, passive=not premise.passive)
    if way == "not":
        return replace(premise, negated=not premise.negated)
    if way == "verb":
        verb = hypothesis.verb
        return replace(premise, verb=draw.choice([verb, OPPOSITES.get(verb.english[0], verb)]))
    if way == "manner":
        return replace(premise, manner=draw.choice([None, *manners(premise.verb)]))
    if way == "place":
        old = hypothesis.place
        others = [place for place in PLACES if old is None or place == old or "inside" in (place.sort, old.sort)]
        return replace(premise, place=draw.choice([None, draw.choice(others)]))
    if way == "time":
        old = hypothesis.time
        others = [time for time in times(premise.past) if old in (None, time) or time.sort == old.sort == "past"]
        return replace(premise, time=draw.choice([None, *others]))
    if way == "subject" and premise.subject is not None and hypothesis.subject is not None:
        return replace(premise, subject=_changed(draw, premise.subject, hypothesis.subject, premise.past))
    if way == "object" and premise.object is not None and hypothesis.object is not None:
        return replace(premise, object=_changed(draw, premise.object, hypothesis.object, None))
    return premise


def _changed(draw: Draw, part: Phrase, of: Phrase, past: bool | None) -> Phrase:
    way = draw.choice(["noun", "adjective", "relative"])
    if way == "noun":
        noun = draw.choice([of.noun, *comparable(of.noun)])
        fits = part.adjective is None or noun.kind in part.adjective.kinds
        return replace(part, noun=noun) if fits else part
    if way == "adjective":
        return replace(part, adjective=draw.choice([None, *adjectives(part.noun)]))
    if past is None:
        return part
    return replace(part, relative=draw.choice([None, of.relative, relative(draw, part, past, 0)]))
