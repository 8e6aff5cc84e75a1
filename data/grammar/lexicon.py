"""The words of the grammar in three languages, and what they have to do with each other."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

LIVING = ("person", "child", "animal")
PEOPLE = ("person", "child")
THINGS = ("fruit", "vehicle", "flower", "text", "instrument")


class Noun(NamedTuple):
    """A noun.

    Attributes:
        english, french: singular and plural.
        feminine: whether it is so in French.
        german: nominative singular, nominative plural, accusative (and dative) singular.
        gender: German m, f or n.
        kind: what it names, which decides on the verbs and adjectives beside it.
    """

    english: tuple[str, str]
    french: tuple[str, str]
    feminine: bool
    german: tuple[str, str, str]
    gender: str
    kind: str


class Adjective(NamedTuple):
    """An adjective.

    Attributes:
        english: its one form.
        french: masculine, feminine, their plurals, and the masculine before a vowel.
        before: whether it stands before the noun in French.
        german: its stem.
        dimension: two adjectives of one dimension exclude each other.
        kinds: of the nouns that it goes with.
    """

    english: str
    french: tuple[str, str, str, str, str]
    before: bool
    german: str
    dimension: str
    kinds: tuple[str, ...]


class Verb(NamedTuple):
    """A verb, third person alone.

    Attributes:
        english: base, present singular, past, participle.
        french: present singular and plural, participle, stem of the imperfect.
        etre: whether its compound past is with être.
        german: present and past, singular and plural each, without the prefix; participle of the passive.
        prefix: the German one that parts from it.
        dative: whether its German object is in the dative; then it has no passive here.
        subjects, objects: kinds of nouns; no objects: it is intransitive.
        manner: dimension of its adverbs, "" where it has none.
        state: whether it goes without an adverb of place.
    """

    english: tuple[str, str, str, str]
    french: tuple[str, str, str, str]
    etre: bool
    german: tuple[str, str, str, str, str]
    prefix: str
    dative: bool
    subjects: tuple[str, ...]
    objects: tuple[str, ...]
    manner: str
    state: bool


class Adverbial(NamedTuple):
    """A manner, place or time.

    Attributes:
        english: words and their tags ("in/IN the/DT garden/NN").
        french, german: what is said there.
        sort: of manners their dimension; of places "inside" or "outside"; of times "past", "present",
            "always" (present too) or "any".
    """

    english: str
    french: str
    german: str
    sort: str


def _rows(table: str) -> Iterator[list[list[str]]]:
    for line in table.strip().splitlines():
        yield [cell.split() for cell in line.split("|")]


_NOUNS = """
animal animals | animal animaux m | Tier Tiere n | animal
dog dogs | chien chiens m | Hund Hunde m | animal
cat cats | chat chats m | Katze Katzen f | animal
horse horses | cheval chevaux m | Pferd Pferde n | animal
cow cows | vache vaches f | Kuh Kühe f | animal
bird birds | oiseau oiseaux m | Vogel Vögel m | animal
fox foxes | renard renards m | Fuchs Füchse m | animal
goat goats | chèvre chèvres f | Ziege Ziegen f | animal
duck ducks | canard canards m | Ente Enten f | animal
wolf wolves | loup loups m | Wolf Wölfe m | animal
mouse mice | souris souris f | Maus Mäuse f | animal
bear bears | ours ours m | Bär Bären m Bären | animal
lion lions | lion lions m | Löwe Löwen m Löwen | animal
rabbit rabbits | lapin lapins m | Kaninchen Kaninchen n | animal
donkey donkeys | âne ânes m | Esel Esel m | animal
person people | personne personnes f | Person Personen f | person
man men | homme hommes m | Mann Männer m | person
woman women | femme femmes f | Frau Frauen f | person
teacher teachers | professeur professeurs m | Lehrer Lehrer m | person
doctor doctors | médecin médecins m | Arzt Ärzte m | person
farmer farmers | fermier fermiers m | Bauer Bauern m Bauern | person
student students | étudiant étudiants m | Student Studenten m Studenten | person
neighbour neighbours | voisin voisins m | Nachbar Nachbarn m Nachbarn | person
king kings | roi rois m | König Könige m | person
queen queens | reine reines f | Königin Königinnen f | person
baker bakers | boulanger boulangers m | Bäcker Bäcker m | person
soldier soldiers | soldat soldats m | Soldat Soldaten m Soldaten | person
judge judges | juge juges m | Richter Richter m | person
painter painters | peintre peintres m | Maler Maler m | person
nurse nurses | infirmière infirmières f | Krankenschwester Krankenschwestern f | person
child children | enfant enfants m | Kind Kinder n | child
boy boys | garçon garçons m | Junge Jungen m Jungen | child
girl girls | fille filles f | Mädchen Mädchen n | child
fruit fruits | fruit fruits m | Frucht Früchte f | fruit
apple apples | pomme pommes f | Apfel Äpfel m | fruit
pear pears | poire poires f | Birne Birnen f | fruit
orange oranges | orange oranges f | Orange Orangen f | fruit
lemon lemons | citron citrons m | Zitrone Zitronen f | fruit
peach peaches | pêche pêches f | Pfirsich Pfirsiche m | fruit
vehicle vehicles | véhicule véhicules m | Fahrzeug Fahrzeuge n | vehicle
car cars | voiture voitures f | Auto Autos n | vehicle
truck trucks | camion camions m | Lastwagen Lastwagen m | vehicle
bicycle bicycles | vélo vélos m | Fahrrad Fahrräder n | vehicle
bus buses | bus bus m | Bus Busse m | vehicle
flower flowers | fleur fleurs f | Blume Blumen f | flower
rose roses | rose roses f | Rose Rosen f | flower
tulip tulips | tulipe tulipes f | Tulpe Tulpen f | flower
lily lilies | lys lys m | Lilie Lilien f | flower
book books | livre livres m | Buch Bücher n | text
letter letters | lettre lettres f | Brief Briefe m | text
newspaper newspapers | journal journaux m | Zeitung Zeitungen f | text
instrument instruments | instrument instruments m | Instrument Instrumente n | instrument
guitar guitars | guitare guitares f | Gitarre Gitarren f | instrument
violin violins | violon violons m | Geige Geigen f | instrument
trumpet trumpets | trompette trompettes f | Trompete Trompeten f | instrument
flute flutes | flûte flûtes f | Flöte Flöten f | instrument
"""

# "Un grand homme" is a great man, so nobody grown is big here.
_ADJECTIVES = """
big | grand grande grands grandes before | groß | size | child animal things
small | petit petite petits petites before | klein | size | child animal things
old | vieux vieille vieux vieilles before vieil | alt | age | person animal vehicle text instrument
young | jeune jeune jeunes jeunes before | jung | age | person animal
new | nouveau nouvelle nouveaux nouvelles before nouvel | neu | age | vehicle text instrument
beautiful | beau belle beaux belles before bel | schön | beauty | animal flower vehicle instrument
ugly | laid laide laids laides after | hässlich | beauty | animal flower vehicle instrument
black | noir noire noirs noires after | schwarz | colour | animal vehicle instrument
white | blanc blanche blancs blanches after | weiß | colour | animal vehicle flower
red | rouge rouge rouges rouges after | rot | colour | fruit vehicle flower
green | vert verte verts vertes after | grün | colour | fruit vehicle
happy | heureux heureuse heureux heureuses after | glücklich | mood | person child
sad | triste triste tristes tristes after | traurig | mood | person child
strong | fort forte forts fortes after | stark | strength | person child animal
weak | faible faible faibles faibles after | schwach | strength | person child animal
"""

_VERBS = """
sleep sleeps slept slept | dort dorment dormi dorm | schläft schlafen schlief schliefen | living | |
run runs ran run | court courent couru cour | rennt rennen rannte rannten | living | | speed
play plays played played | joue jouent joué jou | spielt spielen spielte spielten | living | |
wait waits waited waited | attend attendent attendu attend | wartet warten wartete warteten | living | |
arrive arrives arrived arrived | arrive arrivent arrivé arriv être | kommt kommen kam kamen an- | living | |
sing sings sang sung | chante chantent chanté chant | singt singen sang sangen | people | | volume
laugh laughs laughed laughed | rit rient ri ri | lacht lachen lachte lachten | people | | volume
cry cries cried cried | pleure pleurent pleuré pleur | weint weinen weinte weinten | people | | volume
dance dances danced danced | danse dansent dansé dans | tanzt tanzen tanzte tanzten | people | | speed
work works worked worked | travaille travaillent travaillé travaill | arbeitet arbeiten arbeitete arbeiteten \
| people | | speed
see sees saw seen | voit voient vu voy | sieht sehen sah sahen gesehen | living | living things |
hear hears heard heard | entend entendent entendu entend | hört hören hörte hörten gehört | living | living |
love loves loved loved | aime aiment aimé aim | liebt lieben liebte liebten geliebt | living | living | | state
hate hates hated hated | déteste détestent détesté détest | hasst hassen hasste hassten gehasst \
| living | living | | state
find finds found found | trouve trouvent trouvé trouv | findet finden fand fanden gefunden | people | things |
lose loses lost lost | perd perdent perdu perd | verliert verlieren verlor verloren verloren | people | things |
buy buys bought bought | achète achètent acheté achet | kauft kaufen kaufte kauften gekauft | people | things |
sell sells sold sold | vend vendent vendu vend | verkauft verkaufen verkaufte verkauften verkauft \
| people | things |
eat eats ate eaten | mange mangent mangé mange | isst essen aß aßen gegessen | living | fruit | speed
read reads read read | lit lisent lu lis | liest lesen las lasen gelesen | people | text | speed
paint paints painted painted | peint peignent peint peign | malt malen malte malten gemalt \
| people | living things |
wash washes washed washed | lave lavent lavé lav | wäscht waschen wusch wuschen gewaschen \
| people | animal vehicle fruit | speed
repair repairs repaired repaired | répare réparent réparé répar | repariert reparieren reparierte reparierten \
repariert | people | vehicle instrument | speed
chase chases chased chased | poursuit poursuivent poursuivi poursuiv | jagt jagen jagte jagten gejagt \
| living | animal |
greet greets greeted greeted | salue saluent salué salu | grüßt grüßen grüßte grüßten gegrüßt | people | people |
carry carries carried carried | porte portent porté port | trägt tragen trug trugen getragen \
| people | fruit flower text instrument |
help helps helped helped | aide aident aidé aid | hilft helfen half halfen dative | people | people |
follow follows followed followed | suit suivent suivi suiv | folgt folgen folgte folgten dative \
| living | living |
"""

_SAYING = """
say says said said | dit disent dit dis | sagt sagen sagte sagten | people | |
explain explains explained explained | explique expliquent expliqué expliqu | erklärt erklären erklärte erklärten \
| people | |
write writes wrote written | écrit écrivent écrit écriv | schreibt schreiben schrieb schrieben | people | |
"""

_PLACES = """
in/IN the/DT garden/NN | dans le jardin | im Garten | outside
in/IN the/DT park/NN | dans le parc | im Park | outside
in/IN the/DT forest/NN | dans la forêt | im Wald | outside
in/IN the/DT street/NN | dans la rue | auf der Straße | outside
on/IN the/DT beach/NN | sur la plage | am Strand | outside
on/IN the/DT bridge/NN | sur le pont | auf der Brücke | outside
under/IN the/DT tree/NN | sous l'arbre | unter dem Baum | outside
near/IN the/DT river/NN | près de la rivière | in der Nähe des Flusses | outside
in/IN the/DT kitchen/NN | dans la cuisine | in der Küche | inside
in/IN the/DT church/NN | dans l'église | in der Kirche | inside
in/IN the/DT school/NN | dans l'école | in der Schule | inside
in/IN the/DT library/NN | dans la bibliothèque | in der Bibliothek | inside
in/IN the/DT cellar/NN | dans la cave | im Keller | inside
"""

_MANNERS = """
quickly/RB | rapidement | schnell | speed
slowly/RB | lentement | langsam | speed
loudly/RB | bruyamment | laut | volume
quietly/RB | doucement | leise | volume
"""

_TIMES = """
yesterday/NN | hier | gestern | past
last/JJ week/NN | la semaine dernière | letzte Woche | past
today/NN | aujourd'hui | heute | any
now/RB | maintenant | jetzt | present
every/DT day/NN | chaque jour | jeden Tag | always
"""


def _noun(row: list[list[str]]) -> Noun:
    english, (one, several, sex), german, (kind,) = row
    oblique = german[3] if len(german) > 3 else german[0]
    return Noun(
        (english[0], english[1]), (one, several), sex == "f", (german[0], german[1], oblique), german[2], kind
    )


def _adjective(row: list[list[str]]) -> Adjective:
    (english,), french, (german,), (dimension,), kinds = row
    masculine, feminine, several, feminines, where, *vowel = french
    forms = (masculine, feminine, several, feminines, vowel[0] if vowel else masculine)
    return Adjective(english, forms, where == "before", german, dimension, _kinds(kinds))


def _kinds(names: list[str]) -> tuple[str, ...]:
    groups = {"living": LIVING, "people": PEOPLE, "things": THINGS}
    return tuple(kind for name in names for kind in groups.get(name, (name,)))


def _verb(row: list[list[str]]) -> Verb:
    (base, present, past, participle), french, german, subjects, objects, manner, *state = row
    more = set(german[4:])
    return Verb(
        (base, present, past, participle),
        (french[0], french[1], french[2], french[3]),
        "être" in french,
        (german[0], german[1], german[2], german[3], "".join(more - {"an-", "dative"})),
        "an" if "an-" in more else "",
        "dative" in more,
        _kinds(subjects),
        _kinds(objects),
        "".join(manner),
        bool(state),
    )


def _adverbial(row: list[list[str]]) -> Adverbial:
    english, french, german, sort = (" ".join(cell) for cell in row)
    return Adverbial(english, french, german, sort)


NOUNS = [_noun(row) for row in _rows(_NOUNS)]
ADJECTIVES = [_adjective(row) for row in _rows(_ADJECTIVES)]
VERBS = [_verb(row) for row in _rows(_VERBS)]
SAYING = [_verb(row) for row in _rows(_SAYING)]
PLACES = [_adverbial(row) for row in _rows(_PLACES)]
MANNERS = [_adverbial(row) for row in _rows(_MANNERS)]
TIMES = [_adverbial(row) for row in _rows(_TIMES)]

_VERB = {verb.english[0]: verb for verb in VERBS}
_GENERAL = {noun.kind: noun for noun in NOUNS if noun.english[0] == noun.kind}
_EXCLUSIVE_PEOPLE = ("man", "woman", "boy", "girl")  # a teacher may be a woman: no others exclude each other

OPPOSITES = {
    one: _VERB[other]
    for pair in (("love", "hate"), ("find", "lose"), ("buy", "sell"))
    for one, other in (pair, pair[::-1])
}


@cache
def extension(noun: Noun) -> frozenset[str]:
    """The most special nouns that ``noun`` covers, by their English names."""
    if noun == _GENERAL["person"]:
        return frozenset(other.english[0] for other in NOUNS if other.kind in PEOPLE)
    if noun == _GENERAL.get(noun.kind):
        return frozenset(other.english[0] for other in NOUNS if other.kind == noun.kind)
    return frozenset([noun.english[0]])


@cache
def comparable(noun: Noun) -> list[Noun]:
    """Other nouns that cover ``noun``, that it covers, or that exclude it: ``extension`` decides on no others."""
    found = []
    for other in NOUNS:
        one, two = extension(noun), extension(other)
        exclusive = noun.kind == other.kind or {noun.kind, other.kind} == set(PEOPLE)
        if noun.kind in PEOPLE:
            exclusive = exclusive and {noun.english[0], other.english[0]} <= set(_EXCLUSIVE_PEOPLE)
        if one != two and (one < two or two < one or (exclusive and not one & two)):
            found.append(other)
    return found
