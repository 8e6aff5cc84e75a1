"""The grammar: what it says in three languages, its trees, and a logic that is checked world by world."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression

from data.grammar import english, french, german
from data.grammar.entailment import Meaning, hypothesis, meaning, premises, relation
from data.grammar.french import VOWELS
from data.grammar.lexicon import ADJECTIVES, MANNERS, NOUNS, PLACES, SAYING, TIMES, VERBS
from data.grammar.meaning import Clause, Draw, Phrase, Sentence, sentence, wellformed
from data.pairs import prepare_pairs
from data.randomness import generator
from data.sources.grammar import Grammar, GrammarInference, GrammarParsing, GrammarTranslation, in_english, written
from data.sources.trees import linearised, words
from data.vocabulary import train_word_level
from tests.data.brackets import delinearised

NOUN = {noun.english[0]: noun for noun in NOUNS}
VERB = {verb.english[0]: verb for verb in (*VERBS, *SAYING)}
ADJECTIVE = {adjective.english: adjective for adjective in ADJECTIVES}
SAID = {re.sub(r"/\w+", "", adverbial.english): adverbial for adverbial in (*PLACES, *MANNERS, *TIMES)}


def np_(text: str, relative: Clause | None = None) -> Phrase:
    """The phrase that reads "the big dog", "two dogs"."""
    determiner, *adjective, noun = text.split()
    plural = noun not in NOUN
    if plural:
        noun = next(other.english[0] for other in NOUNS if other.english[1] == noun)
    determiner = {"an": "a", "these": "this"}.get(determiner, determiner)
    return Phrase(NOUN[noun], determiner, plural, ADJECTIVE[adjective[0]] if adjective else None, relative)


def say(subject: Phrase | str | None, verb: str, object: Phrase | str | None = None, **rest: object) -> Clause:
    def phrase(value: Phrase | str | None) -> Phrase | None:
        return np_(value) if isinstance(value, str) else value

    adverbials = {name: SAID[str(rest.pop(name))] for name in ("manner", "place", "time") if name in rest}
    return replace(Clause(VERB[verb], phrase(subject), phrase(object)), **adverbials, **rest)  # type: ignore[arg-type]


def three(meant: Sentence | Clause) -> tuple[str, str, str]:
    meant = Sentence(meant) if isinstance(meant, Clause) else meant
    return in_english(meant), written([*french.words(meant), "."]), written([*german.words(meant), "."])


BOTH = replace(np_("the girl"), beside=np_("the queen"))
MIXED = replace(np_("the girl"), beside=np_("the boy"))
CASES: list[tuple[Sentence | Clause, str, str, str]] = [
    (
        say(BOTH, "wash", "the dog", passive=True),
        "The dog is washed by the girl and the queen.",
        "Le chien est lavé par la fille et la reine.",
        "Der Hund wird von dem Mädchen und der Königin gewaschen.",
    ),
    (
        say("an old donkey", "see", "a beautiful bird", past=True),
        "An old donkey saw a beautiful bird.",
        "Un vieil âne a vu un bel oiseau.",
        "Ein alter Esel sah einen schönen Vogel.",
    ),
    (
        say("the boy", "help", "the students", negated=True),
        "The boy does not help the students.",
        "Le garçon n'aide pas les étudiants.",
        "Der Junge hilft den Studenten nicht.",
    ),
    (
        say("two girls", "follow", "a boy", past=True, place="in the forest"),
        "Two girls followed a boy in the forest.",
        "Deux filles ont suivi un garçon dans la forêt.",
        "Zwei Mädchen folgten einem Jungen im Wald.",
    ),
    (
        say("the children", "eat", "an orange", negated=True),
        "The children do not eat an orange.",
        "Les enfants ne mangent pas d'orange.",
        "Die Kinder essen keine Orange.",
    ),
    (
        say("the queen", "arrive", past=True, negated=True, time="yesterday", fronted=True),
        "Yesterday, the queen did not arrive.",
        "Hier, la reine n'est pas arrivée.",
        "Gestern kam die Königin nicht an.",
    ),
    (
        say(BOTH, "arrive", past=True),
        "The girl and the queen arrived.",
        "La fille et la reine sont arrivées.",
        "Das Mädchen und die Königin kamen an.",
    ),
    (
        say(MIXED, "arrive", past=True),
        "The girl and the boy arrived.",
        "La fille et le garçon sont arrivés.",
        "Das Mädchen und der Junge kamen an.",
    ),
    (
        say("some farmers", "repair", "the new cars", passive=True, past=True),
        "The new cars were repaired by some farmers.",
        "Les nouvelles voitures ont été réparées par quelques fermiers.",
        "Die neuen Autos wurden von einigen Bauern repariert.",
    ),
    (
        say("this student", "lose", np_("the apples", say("the goat", "find", past=True)), past=True),
        "This student lost the apples that the goat found.",
        "Cet étudiant a perdu les pommes que la chèvre a trouvées.",
        "Dieser Student verlor die Äpfel, die die Ziege fand.",
    ),
    (
        say(np_("the man", say("a child", "help")), "read", "this book", manner="quickly"),
        "The man that a child helps reads this book quickly.",
        "L'homme qu'un enfant aide lit rapidement ce livre.",
        "Der Mann, dem ein Kind hilft, liest dieses Buch schnell.",
    ),
    (
        Sentence(say("the wolf", "sleep"), "because", say("the bear", "see", np_("a fox", say(None, "run")))),
        "The wolf sleeps because the bear sees a fox that runs.",
        "Le loup dort parce que l'ours voit un renard qui court.",
        "Der Wolf schläft, weil der Bär einen Fuchs sieht, der rennt.",
    ),
    (
        Sentence(say("the cat", "eat", "a pear", past=True), "while", say("the king", "arrive", past=True), True),
        "While the king arrived, the cat ate a pear.",
        "Pendant que le roi arrivait, le chat a mangé une poire.",
        "Während der König ankam, aß die Katze eine Birne.",
    ),
    (
        say("the nurse", "say", past=True, said=say("the mice", "chase", "the bear", passive=True, past=True)),
        "The nurse said that the bear was chased by the mice.",
        "L'infirmière a dit que l'ours était poursuivi par les souris.",
        "Die Krankenschwester sagte, dass der Bär von den Mäusen gejagt wurde.",
    ),
    (
        Sentence(say("this animal", "wait"), "but", say("two white horses", "play", time="now")),
        "This animal waits, but two white horses play now.",
        "Cet animal attend, mais deux chevaux blancs jouent maintenant.",
        "Dieses Tier wartet, aber zwei weiße Pferde spielen jetzt.",
    ),
]


@pytest.mark.parametrize(("meant", "in_three", "fr", "de"), CASES)
def test_three_languages(meant: Sentence | Clause, in_three: str, fr: str, de: str) -> None:
    assert three(meant) == (in_three, fr, de)


@pytest.mark.parametrize(
    ("phrase", "nominative", "accusative", "dative"),
    [
        ("the old king", "der alte König", "den alten König", "dem alten König"),
        ("a young lion", "ein junger Löwe", "einen jungen Löwen", "einem jungen Löwen"),
        ("this black cat", "diese schwarze Katze", "diese schwarze Katze", "dieser schwarzen Katze"),
        ("a small child", "ein kleines Kind", "ein kleines Kind", "einem kleinen Kind"),
        ("the red flowers", "die roten Blumen", "die roten Blumen", "den roten Blumen"),
        ("some big dogs", "einige große Hunde", "einige große Hunde", "einigen großen Hunden"),
        ("three cars", "drei Autos", "drei Autos", "drei Autos"),
    ],
)
def test_german_declension(phrase: str, nominative: str, accusative: str, dative: str) -> None:
    cases: list[german.Case] = ["nominative", "accusative", "dative"]
    assert [" ".join(german._phrase(np_(phrase), case)) for case in cases] == [nominative, accusative, dative]


def test_english_trees() -> None:
    meant = Sentence(say(np_("a dog", say(None, "sleep")), "eat", "the apple", negated=True, place="in the park"))
    assert linearised(english.tree(meant), tags="own") == (
        "(S (NP (NP DT NN )NP (SBAR (WHNP WDT )WHNP (S (VP VBZ )VP )S )SBAR )NP "
        "(VP VBZ RB (VP VB (NP DT NN )NP (PP IN (NP DT NN )NP )PP )VP )VP . )S"
    )
    for i in range(300):
        tree = english.tree(sentence(Draw(generator(i))))
        line = linearised(tree)
        assert linearised(delinearised(line), tags="own") == line
        assert words(tree)[-1] == "." and words(tree)[0][0].isupper()


def test_french_and_german_at_large() -> None:
    gender = {form: noun.feminine for noun in NOUNS for form in noun.french}
    before = {form for adjective in ADJECTIVES if adjective.before for form in adjective.french}
    seen = 0
    for i in range(1500):
        meant = sentence(Draw(generator(i)))
        said = french.words(meant)
        assert not re.search(rf"\b(le|la|ne|de|que|ce) [{VOWELS}]", " ".join(said))
        for word, *rest in (said[j:] for j in range(len(said))):
            noun = next((other for other in rest if other not in before), "")
            if word in ("un", "une", "ce", "cet", "cette") or (word in ("le", "la") and noun in gender):
                assert gender[noun] == (word in ("une", "cette", "la")), " ".join(said)
        _, fr, de = three(meant)
        for text in (fr, de):
            assert re.fullmatch(r"[A-ZÀÉ][^.]*[^,. ]\.", text) and not re.search(r",,|  | ,|, \.", text)
        subordinate = list(clauses_after(german.words(meant), ("weil", "dass")))
        assert all(part.split()[-1] in FINITE for part in subordinate), subordinate
        seen += len(subordinate)
    assert seen > 150


FINITE = {form for verb in (*VERBS, *SAYING) for form in verb.german[:4]} | {"ankommt", "ankommen", "ankam"}
FINITE |= {"ankamen", "wird", "werden", "wurde", "wurden"}


def clauses_after(said: list[str], openers: tuple[str, ...]) -> Iterator[str]:
    """The words from an opener to the next comma, where no relative clause of a subject comes between."""
    text = " ".join(said)
    for opener in openers:
        yield from re.findall(rf"{opener} ([^,]*)(?:,|$)(?! (?:de[rnm]|die|das|denen)\b)", text)


def test_sentences_are_wellformed_and_many() -> None:
    meant = [sentence(Draw(generator(i))) for i in range(2000)]
    assert all(wellformed(one.first) for one in meant if one.first.said is None)
    texts = Counter(in_english(one) for one in meant)
    assert len(texts) > 1950
    lengths = [len(text.split()) for text in texts]
    assert min(lengths) <= 3 and max(lengths) >= 25
    assert {one.link for one in meant} == {None, "and", "but", "because", "while"}
    reported = [one.first.said for one in meant if one.first.said is not None and one.first.past]
    assert len(reported) > 30  # French has them in the imperfect, which "yesterday" does not go with
    assert not any(said.time is not None and said.time.sort == "past" for said in reported)


def worlds(one: Meaning, two: Meaning) -> Iterator[dict[object, object]]:
    """Every world that the two could tell from another: for each thing said, values in and outside of the sets."""
    boxes = [one.given, one.event, two.given, two.event]
    domains: dict[object, list[object]] = {}
    for key in {key for box in boxes for key in box}:
        sets = [box[key] for box in boxes if key in box]
        kinds: dict[tuple[bool, ...], object] = {(False,) * len(sets): "something else"}
        for value in frozenset().union(*sets):
            kinds.setdefault(tuple(value in values for values in sets), value)
        domains[key] = list(kinds.values())
    for values in itertools.product(*domains.values()):
        yield dict(zip(domains, values, strict=True))


def holds(said: Meaning, world: dict[object, object]) -> bool:
    given = all(world[key] in values for key, values in said.given.items())
    event = all(world[key] in values for key, values in said.event.items())
    return given and event != said.negated


def test_labels_are_true_in_all_worlds() -> None:
    labels: Counter[int] = Counter()
    for i in range(150):
        draw = Draw(generator(i))
        claim = hypothesis(draw)
        for label, premise in enumerate(premises(draw, claim) or []):
            one, two = meaning(premise), meaning(claim)
            true = {holds(two, world) for world in worlds(one, two) if holds(one, world)}
            assert label == {(True,): 0, (False, True): 1, (False,): 2}[tuple(sorted(true))]
            assert relation(premise, claim) == label and wellformed(premise) and premise != claim
            labels[label] += 1
    assert labels[0] == labels[1] == labels[2] > 140


DOG, KING = say("the dog", "sleep"), say("the king", "love", "the cat")


@pytest.mark.parametrize(
    ("premise", "hypothesis", "label"),
    [
        (DOG, say("the animal", "sleep"), 0),
        (say("the animal", "sleep"), DOG, 1),
        (DOG, say("the cat", "sleep"), 2),
        (say("the big dog", "sleep"), DOG, 0),
        (DOG, say("the big dog", "sleep"), 1),
        (say("the big dog", "sleep"), say("the small dog", "sleep"), 2),
        (say("the dog", "sleep", place="in the garden"), DOG, 0),
        (say("the dog", "sleep", negated=True), say("the dog", "sleep", place="in the garden", negated=True), 0),
        (say("the dog", "sleep", place="in the garden", negated=True), say("the dog", "sleep", negated=True), 1),
        (say("the dog", "sleep", place="in the garden"), say("the dog", "sleep", place="in the kitchen"), 2),
        (say("the dog", "sleep", negated=True), DOG, 2),
        (KING, replace(KING, passive=True), 0),
        (KING, say("the king", "hate", "the cat"), 2),
        (say("the boy", "eat", "an apple", negated=True), say("the boy", "eat", "a fruit", negated=True), 1),
        (say("the boy", "eat", "a fruit", negated=True), say("the boy", "eat", "an apple", negated=True), 0),
        (say("the teacher", "sleep"), say("the person", "sleep"), 0),
    ],
)
def test_labels_by_hand(premise: Clause, hypothesis: Clause, label: int) -> None:
    assert relation(premise, hypothesis) == label


def test_a_hypothesis_alone_tells_nothing() -> None:
    source = GrammarInference(pairs=3000, dev_fraction=0.3)
    pairs = list(source.read())
    labels: dict[str, list[object]] = {}
    for pair in pairs:
        labels.setdefault(pair.sources[1], []).append(pair.target)
    assert all(Counter(found)[0] == Counter(found)[1] == Counter(found)[2] for found in labels.values())
    parts = np.array([source.part_of(pair) == "train" for pair in pairs])
    targets = np.array([pair.target for pair in pairs])
    for of, most in ((1, 0.34), (0, 0.60)):  # of premises negation tells something, as it must
        counts = CountVectorizer().fit_transform(pair.sources[of] for pair in pairs)
        model = LogisticRegression(max_iter=300).fit(counts[parts], targets[parts])
        assert model.score(counts[~parts], targets[~parts]) < most


@pytest.mark.parametrize("kind", [GrammarParsing, GrammarInference])
def test_the_seed_decides(kind: type[Grammar]) -> None:
    pairs = list(kind(pairs=30).read())
    assert len(pairs) == 30 and list(kind(pairs=10).read()) == pairs[:10]
    assert kind(pairs=30).fingerprint == kind(pairs=30).fingerprint != kind(pairs=30, seed=1).fingerprint
    assert not {pair.sources for pair in pairs} & {pair.sources for pair in kind(pairs=30, seed=1).read()}


def test_both_languages_translate_the_same_sentences(tmp_path: Path) -> None:
    one, other = (GrammarTranslation(language=language, pairs=200) for language in ("fr", "de"))
    assert [pair.sources for pair in one.read()] == [pair.sources for pair in other.read()]
    assert one.fingerprint != other.fingerprint and one.total == 200
    assert one.describe()["synthetic"] and "no person wrote them" in one.describe()["where"]
    tokenizers = [
        train_word_level(texts, vocab_size=2000, min_count=1, max_length=90)
        for texts in (one.source_texts(), one.target_texts())
    ]
    store = prepare_pairs(one, *tokenizers, cache=tmp_path)
    assert store.synthetic and len(store) == 200


def test_refusals() -> None:
    with pytest.raises(ValueError, match=r"^grammar\.pairs must be at least 1\. Got 0 instead\.$"):
        GrammarParsing(pairs=0)
    with pytest.raises(ValueError, match=r"^grammar\.seed must be at least 0\. Got -1 instead\.$"):
        GrammarParsing(seed=-1)
    with pytest.raises(ValueError, match=r"^grammar\.language must be 'fr' or 'de'\. Got 'en' instead\.$"):
        GrammarTranslation(language="en")  # type: ignore[arg-type]
