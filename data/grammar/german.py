"""German: cases, adjective endings, the verb second, first or last, parts of it at the end, "kein" and "nicht"."""

from __future__ import annotations

from typing import Literal

from data.grammar.meaning import DEFINITE, Clause, Phrase, Sentence

Case = Literal["nominative", "accusative", "dative"]
Place = Literal["second", "first", "last"]  # of the finite verb
CASES: dict[Case, int] = {"nominative": 0, "accusative": 1, "dative": 2}
LINKS = {"and": "und", "but": ", aber", "because": ", weil", "while": ", während"}
NUMBERS = {"two": "zwei", "three": "drei", "some": "einige"}
# By gender (p: plural), in the nominative, accusative and dative.
THE = {"m": "der den dem", "f": "die die der", "n": "das das dem", "p": "die die den"}
A = {"m": "ein einen einem", "f": "eine eine einer", "n": "ein ein einem"}
THIS = {"m": "dieser diesen diesem", "f": "diese diese dieser", "n": "dieses dieses diesem"}
THIS["p"] = "diese diese diesen"
RELATIVE = {**THE, "p": "die die denen"}
WEAK = {"m": "e en en", "f": "e e en", "n": "e e en", "p": "en en en"}  # after der, dieser
MIXED = {"m": "er en en", "f": "e e en", "n": "es es en"}  # after ein, kein
STRONG = {"p": "e e en"}  # after numbers and einige


def words(sentence: Sentence) -> list[str]:
    """The words of ``sentence``, commas among them; one may be doubled, or stand before the full stop."""
    first, link, second = sentence.first, sentence.link, sentence.second
    if link is None or second is None:
        return _clause(first, "second")
    if link in ("and", "but"):
        return [*_clause(first, "second"), *LINKS[link].split(), *_clause(second, "second")]
    if sentence.inverted:
        subordinate = [*LINKS[link].split()[1:], *_clause(second, "last")]
        return [*subordinate, ",", *_clause(first, "first")]
    return [*_clause(first, "second"), *LINKS[link].split(), *_clause(second, "last")]


def _clause(clause: Clause, verb: Place) -> list[str]:
    subject = clause.object if clause.passive else clause.subject
    assert subject is not None
    return _ordered(clause, verb, _phrase(subject, "nominative"), subject.several)


def _ordered(clause: Clause, verb: Place, subject: list[str], several: bool) -> list[str]:
    """The words of a clause whose grammatical subject's words are given (none in a relative clause about it)."""
    time = clause.time.german.split() if clause.time else []
    manner = clause.manner.german.split() if clause.manner else []
    place = clause.place.german.split() if clause.place else []
    no = ["nicht"] if clause.negated else []
    finite = clause.verb.german[2 * clause.past + several]
    end = [clause.verb.prefix] if clause.verb.prefix else []
    tail: list[str] = []  # a relative clause, behind the verb's last part
    if clause.passive:
        finite = ("wurden" if several else "wurde") if clause.past else "werden" if several else "wird"
        end = [clause.verb.german[4]]
        agent: list[str] = []
        if clause.subject is not None:
            agent, tail = ["von", *_core(clause.subject, "dative")], _relative(clause.subject)
            if clause.subject.beside is not None:
                agent, tail = [*agent, *tail, "und", *_phrase(clause.subject.beside, "dative")], []
        middle = [*time, *agent, *no, *manner, *place]
    elif clause.object is not None:
        case: Case = "dative" if clause.verb.dative else "accusative"
        definite = clause.object.determiner in DEFINITE
        object, tail = _core(clause.object, case, no=clause.negated and not definite), _relative(clause.object)
        if clause.object.beside is not None:
            object, tail = [*object, *tail, "und", *_phrase(clause.object.beside, case)], []
        middle = [*time, *object, *no, *manner, *place] if definite else [*time, *manner, *object, *place]
    else:
        middle = [*time, *no, *manner, *place]
    if clause.said is not None:
        tail = [",", "dass", *_clause(clause.said, "last")]
    if verb == "last":
        closed = ["".join([*end, finite])] if clause.verb.prefix else [*end, finite]
        return [*subject, *middle, *closed, *tail]
    if verb == "second" and clause.fronted:
        return [*time, finite, *subject, *middle[len(time) :], *end, *tail]
    if verb == "second":
        return [*subject, finite, *middle, *end, *tail]
    return [finite, *subject, *middle, *end, *tail]


def _phrase(phrase: Phrase, case: Case) -> list[str]:
    beside = [] if phrase.beside is None else ["und", *_phrase(phrase.beside, case)]
    return [*_core(phrase, case), *_relative(phrase), *beside]


def _core(phrase: Phrase, case: Case, *, no: bool = False) -> list[str]:
    """Determiner, adjective and noun; ``no``: "kein" for "ein"."""
    gender = "p" if phrase.plural else phrase.noun.gender
    number = NUMBERS.get(phrase.determiner)
    if number is not None:
        determiner = "einigen" if number == "einige" and case == "dative" else number
        endings = STRONG
    elif phrase.determiner == "a":
        determiner, endings = ("k" if no else "") + _form(A, gender, case), MIXED
    else:
        determiner, endings = _form(THE if phrase.determiner == "the" else THIS, gender, case), WEAK
    result = [determiner]
    if phrase.adjective is not None:
        result.append(phrase.adjective.german + _form(endings, gender, case))
    singular, plural, oblique = phrase.noun.german
    noun = plural if phrase.plural else singular if case == "nominative" else oblique
    if phrase.plural and case == "dative" and noun[-1] not in "ns":
        noun += "n"
    return [*result, noun]


def _relative(phrase: Phrase) -> list[str]:
    """The relative clause, between commas."""
    clause = phrase.relative
    if clause is None:
        return []
    gender = "p" if phrase.plural else phrase.noun.gender
    if clause.subject is None:
        pronoun = _form(RELATIVE, gender, "nominative")
        inside = _ordered(clause, "last", [], phrase.several)
    else:
        pronoun = _form(RELATIVE, gender, "dative" if clause.verb.dative else "accusative")
        inside = _clause(clause, "last")
    return [",", pronoun, *inside, ","]


def _form(table: dict[str, str], gender: str, case: Case) -> str:
    return table[gender].split()[CASES[case]]
