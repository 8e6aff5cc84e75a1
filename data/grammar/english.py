"""English, as trees in the Penn Treebank's way."""

from __future__ import annotations

from data.grammar.lexicon import PEOPLE, Adverbial
from data.grammar.meaning import Clause, Phrase, Sentence
from data.sources.trees import Tree

STOP = Tree(".", word=".")
COMMA = Tree(",", word=",")
TAGS = {"two": "CD", "three": "CD"}


def tree(sentence: Sentence) -> Tree:
    """The tree of ``sentence``, its first word with a capital."""
    first, link, second = sentence.first, sentence.link, sentence.second
    if link is None or second is None:
        return _capital(Tree("S", (*_clause(first), STOP)))
    if link in ("and", "but"):
        between = (*([COMMA] if link == "but" else []), Tree("CC", word=link))
        return _capital(Tree("S", (Tree("S", _clause(first)), *between, Tree("S", _clause(second)), STOP)))
    subordinate = Tree("SBAR", (Tree("IN", word=link), Tree("S", _clause(second))))
    if sentence.inverted:
        return _capital(Tree("S", (subordinate, COMMA, *_clause(first), STOP)))
    return _capital(Tree("S", (*_clause(first, after=(subordinate,)), STOP)))


def _clause(clause: Clause, after: tuple[Tree, ...] = ()) -> tuple[Tree, ...]:
    before: tuple[Tree, ...] = ()
    subject = clause.object if clause.passive else clause.subject
    if clause.fronted and clause.time is not None:
        before = (_adverbial(clause.time), COMMA)
    several = subject is not None and subject.several
    subjects = () if subject is None else (_phrase(subject),)
    return (*before, *subjects, _verbs(clause, several, after))


def _verbs(clause: Clause, several: bool, after: tuple[Tree, ...] = ()) -> Tree:
    base, present, past, participle = clause.verb.english
    manner = () if clause.manner is None else (Tree("ADVP", _leaves(clause.manner.english)),)
    place = () if clause.place is None else (_adverbial(clause.place),)
    time = () if clause.time is None or clause.fronted else (_adverbial(clause.time),)
    said: tuple[Tree, ...] = ()
    if clause.said is not None:
        said = (Tree("SBAR", (Tree("IN", word="that"), Tree("S", _clause(clause.said)))),)
    finite = "VBD" if clause.past else "VBP" if several else "VBZ"
    negation = (Tree("RB", word="not"),) if clause.negated else ()
    if clause.passive:
        agent = () if clause.subject is None else (Tree("PP", (Tree("IN", word="by"), _phrase(clause.subject))),)
        auxiliary = ("were" if several else "was") if clause.past else ("are" if several else "is")
        inner = Tree("VP", (Tree("VBN", word=participle), *manner, *agent, *place, *time, *said, *after))
        return Tree("VP", (Tree(finite, word=auxiliary), *negation, inner))
    object = () if clause.object is None else (_phrase(clause.object),)
    rest = (*object, *manner, *place, *time, *said, *after)
    if clause.negated:
        auxiliary = "did" if clause.past else "do" if several else "does"
        return Tree("VP", (Tree(finite, word=auxiliary), *negation, Tree("VP", (Tree("VB", word=base), *rest))))
    form = past if clause.past else base if several else present
    return Tree("VP", (Tree(finite, word=form), *rest))


def _phrase(phrase: Phrase) -> Tree:
    noun = phrase.noun.english[phrase.plural]
    determiner = "these" if phrase.plural and phrase.determiner == "this" else phrase.determiner
    next_word = noun if phrase.adjective is None else phrase.adjective.english
    if determiner == "a" and next_word[0] in "aeiou":
        determiner = "an"
    leaves = [Tree(TAGS.get(determiner, "DT"), word=determiner)]
    if phrase.adjective is not None:
        leaves.append(Tree("JJ", word=phrase.adjective.english))
    leaves.append(Tree("NNS" if phrase.plural else "NN", word=noun))
    result = Tree("NP", tuple(leaves))
    if phrase.relative is not None:
        word = Tree("WP", word="who") if phrase.noun.kind in PEOPLE else Tree("WDT", word="that")
        clause = phrase.relative
        if clause.subject is None:
            inner = Tree("S", (_verbs(clause, phrase.several),))
        else:
            word = Tree("WDT", word="that")
            inner = Tree("S", _clause(clause))
        result = Tree("NP", (result, Tree("SBAR", (Tree("WHNP", (word,)), inner))))
    if phrase.beside is not None:
        result = Tree("NP", (result, Tree("CC", word="and"), _phrase(phrase.beside)))
    return result


def _adverbial(adverbial: Adverbial) -> Tree:
    leaves = _leaves(adverbial.english)
    if leaves[0].label == "IN":
        return Tree("PP", (leaves[0], Tree("NP", leaves[1:])))
    return Tree("ADVP" if leaves[0].label == "RB" else "NP", leaves)


def _leaves(tagged: str) -> tuple[Tree, ...]:
    pairs = (piece.split("/") for piece in tagged.split())
    return tuple(Tree(tag, word=word) for word, tag in pairs)


def _capital(tree: Tree) -> Tree:
    if not tree.children:
        return Tree(tree.label, word=tree.word[0].upper() + tree.word[1:])
    return Tree(tree.label, (_capital(tree.children[0]), *tree.children[1:]))
