"""French: agreement of articles, adjectives and participles, elision, negation in two parts, two past tenses."""

from __future__ import annotations

from data.grammar.meaning import DEFINITE, Clause, Phrase, Sentence

VOWELS = "aeiouyâàéèêîôœh"  # every h of the lexicon is mute
LINKS = {"and": "et", "but": ", mais", "because": "parce que", "while": "pendant que"}
NUMBERS = {"two": "deux", "three": "trois", "some": "quelques"}
ELIDED = {"le": "l'", "la": "l'", "ne": "n'", "de": "d'", "que": "qu'"}


def words(sentence: Sentence) -> list[str]:
    """The words of ``sentence``, commas among them, an elided one ending in an apostrophe."""
    first, link, second = sentence.first, sentence.link, sentence.second
    if link is None or second is None:
        return _elided(_clause(first))
    # What goes on meanwhile is in the imperfect.
    other = [*LINKS[link].split(), *_clause(second, imperfect=link == "while")]
    return _elided([*other, ",", *_clause(first)] if sentence.inverted else [*_clause(first), *other])


def _clause(clause: Clause, *, imperfect: bool = False) -> list[str]:
    subject = clause.object if clause.passive else clause.subject
    before = [*clause.time.french.split(), ","] if clause.fronted and clause.time is not None else []
    assert subject is not None
    return [*before, *_phrase(subject), *_verbs(clause, _feminine(subject), subject.several, imperfect)]


def _verbs(
    clause: Clause,
    feminine: bool,
    several: bool,
    imperfect: bool = False,
    moved: tuple[bool, bool] | None = None,
) -> list[str]:
    """The verb and what follows it.

    Args:
        feminine, several: of the grammatical subject.
        imperfect: whether the past is the imperfect, not the compound one.
        moved: the same of an object that stands before the verb, with which a participle agrees.
    """
    singular, plural, participle, stem = clause.verb.french
    tense = "present" if not clause.past else "imperfect" if imperfect else "compound"
    be = {"present": ("est", "sont"), "imperfect": ("était", "étaient"), "compound": ("a", "ont")}[tense][several]
    if clause.passive:
        verb, after = be, [*(["été"] if tense == "compound" else []), _agreed(participle, feminine, several)]
    elif tense == "compound" and clause.verb.etre:
        verb, after = "sont" if several else "est", [_agreed(participle, feminine, several)]
    elif tense == "compound":
        verb, after = "ont" if several else "a", [_agreed(participle, *(moved or (False, False)))]
    elif tense == "imperfect":
        verb, after = stem + ("aient" if several else "ait"), []
    else:
        verb, after = plural if several else singular, []
    verbs = ["ne", verb, "pas", *after] if clause.negated else [verb, *after]
    result = [*verbs, *(clause.manner.french.split() if clause.manner else [])]
    if clause.passive:
        result += ["par", *_phrase(clause.subject)] if clause.subject is not None else []
    elif clause.object is not None:
        result += _phrase(clause.object, no=clause.negated and clause.object.determiner not in DEFINITE)
    result += clause.place.french.split() if clause.place else []
    result += clause.time.french.split() if clause.time and not clause.fronted else []
    if clause.said is not None:
        # What was so when it was said is in the imperfect.
        result += ["que", *_clause(clause.said, imperfect=clause.past)]
    return result


def _phrase(phrase: Phrase, *, no: bool = False) -> list[str]:
    """A noun phrase; ``no``: after "pas", where an indefinite article is "de"."""
    feminine, plural = phrase.noun.feminine, phrase.plural
    noun = phrase.noun.french[plural]
    adjective: list[str] = []
    if phrase.adjective is not None:
        masculine, female, several, females, before_vowel = phrase.adjective.french
        form = (females if feminine else several) if plural else female if feminine else masculine
        if phrase.adjective.before and not plural and not feminine and noun[0] in VOWELS:
            form = before_vowel
        adjective = [form]
    before = phrase.adjective is not None and phrase.adjective.before
    inside = [*adjective, noun] if before else [noun, *adjective]
    result = ["de" if no else _determiner(phrase.determiner, feminine, plural, inside[0]), *inside]
    if phrase.relative is not None:
        clause = phrase.relative
        if clause.subject is None:
            result += ["qui", *_verbs(clause, feminine, phrase.several)]
        else:
            subject = clause.subject
            moved = feminine, phrase.several
            result += ["que", *_phrase(subject)]
            result += _verbs(clause, _feminine(subject), subject.several, moved=moved)
    if phrase.beside is not None:
        result += ["et", *_phrase(phrase.beside)]
    return result


def _determiner(determiner: str, feminine: bool, plural: bool, following: str) -> str:
    if determiner in NUMBERS:
        return NUMBERS[determiner]
    if determiner == "the":
        return "les" if plural else "la" if feminine else "le"
    if determiner == "this":
        return "ces" if plural else "cette" if feminine else "cet" if following[0] in VOWELS else "ce"
    return "une" if feminine else "un"


def _feminine(phrase: Phrase) -> bool:
    return phrase.noun.feminine and (phrase.beside is None or _feminine(phrase.beside))


def _agreed(participle: str, feminine: bool, several: bool) -> str:
    return participle + ("e" if feminine else "") + ("s" if several else "")


def _elided(words: list[str]) -> list[str]:
    following = [*words[1:], ""]
    return [
        ELIDED[word] if word in ELIDED and other and other[0] in VOWELS else word
        for word, other in zip(words, following, strict=True)
    ]
