"""Penn and Moses tokenisers and ``cat -v``, which the toolkit's script applies to the raw data.

Reimplemented from their rules: Penn, the substitutions of R. MacIntyre's tokenizer.sed (1995), and Moses,
tokenizer.perl -l en -no-escape of moses-smt/mosesdecoder.
"""

from __future__ import annotations

import re
from functools import cache
from itertools import pairwise


def _compile(*rules: tuple[str, str]) -> list[tuple[re.Pattern[str], str]]:
    return [(re.compile(pattern), replacement) for pattern, replacement in rules]


_PENN = _compile(
    (r'^"', "`` "),
    (r'([ (\[{<])"', r"\1 `` "),
    (r"\.\.\.|[,;:@#$%&?!]", r" \g<0> "),
    (r"""([^.])([.])([\])}>"']*)[ \t]*\Z""", r"\1 \2\3 "),  # only the last full stop
    (r"[\]\[(){}<>]|--", r" \g<0> "),
    (r"\A|\Z", " "),
    (r'"', " '' "),
    (r"([^'])' ", r"\1 ' "),
    (r"'([sSmMdD]) ", r" '\1 "),
    *((f"{ending} ", f" {ending} ") for ending in ("'ll", "'re", "'ve", "n't", "'LL", "'RE", "'VE", "N'T")),
    *(
        (f" {word} ", r" \1 \2 ")
        for word in re.findall(
            r"\S+",
            """
            ([Cc]an)(not) ([Dd]')(ye) ([Gg]im)(me) ([Gg]on)(na) ([Gg]ot)(ta) ([Ll]em)(me) ([Mm]ore)('n) ('[Tt])(is)
            ('[Tt])(was) ([Ww]an)(na)
            """,
        )
    ),
    (r"  +", " "),
    (r"\A +", ""),
)

# Perl's properties. Python's \w counts fractions and circled numbers too; Perl's IsAlnum does not.
_OTHER_NUMBERS = "²³¹¼-¾⁰⁴-⁹₀-₉⅐-⅟↉①-⒛⓪-⓿❶-➓"
_LETTER = rf"[^\W\d_{_OTHER_NUMBERS}]"
_NO_LETTER = rf"[\W\d_{_OTHER_NUMBERS}]"
_NUMBER = rf"[\dⅠ-ↈ{_OTHER_NUMBERS}]"
_NO_NUMBER = rf"[^\dⅠ-ↈ{_OTHER_NUMBERS}]"
_DOT = "\uffff"  # stands for a full stop next to another; occurs in no text
_MOSES = _compile(
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

# Words that keep their full stop (nonbreaking_prefix.en), and those that keep it only before a number.
_ABBREVIATIONS = re.findall(
    r"\S+",
    """
    A B C D E F G H I J K L M N O P Q R S T U V W X Y Z
    Adj Adm Adv Asst Bart Bldg Brig Bros Capt Cmdr Col Comdr Con Corp Cpl DR Dr Drs Ens Gen Gov Hon Hr
    Hosp Insp Lt MM MR MRS MS Maj Messrs Mlle Mme Mr Mrs Ms Msgr Op Ord Pfc Ph Prof Pvt Rep Reps Res Rev
    Rt Sen Sens Sfc Sgt Sr St Supt Surg v vs i.e rev e.g Rs Nos Nr
    Jan Feb Mar Apr Jun Jul Aug Sep Oct Nov Dec
    """,
)
_BEFORE_NUMBERS = ("No", "Art", "pp")


def penn(line: str) -> str:
    """Tokenises one sentence as ``sed -f tokenizer.sed`` does; a blank remains at the end."""
    for pattern, replacement in _PENN:
        line = pattern.sub(replacement, line)
    return line


def moses(line: str) -> str:
    """Tokenises one English sentence as ``tokenizer.perl -l en -no-escape`` does.

    Combining marks count as punctuation; Perl counts some of them as letters.
    """
    line = " ".join(re.sub(r"[\0-\x08\x0e-\x1f]", "", line).split())
    for pattern, replacement in _MOSES:
        line = pattern.sub(replacement, line)
    words = line.rstrip(" ").split(" ")
    line = " ".join(_split_stop(word, after) for word, after in pairwise([*words, None]) if word)
    return re.sub(r"\.' ?\Z", " . ' ", " ".join(line.split())).replace(_DOT, ".")


def _split_stop(word: str, after: str | None) -> str:
    """Splits off the full stop at a word's end unless the word is an abbreviation; ``after`` is the next word."""
    stem, stop = word[:-1], word[-1:]
    abbreviated = after is not None and (
        stem in _ABBREVIATIONS
        or after[:1].islower()
        or ("." in stem and re.search(_LETTER, stem))
        or (stem in _BEFORE_NUMBERS and re.match("[0-9]", after))
    )
    return f"{stem} ." if stem and stop == "." and not abbreviated else word


def escape_bytes(raw: bytes) -> str:
    """Converts a line of arbitrary bytes to ASCII as ``cat -v`` does."""
    return "".join(map(_escape_byte, raw))


@cache
def _escape_byte(byte: int) -> str:
    if byte >= 128:
        return f"M-^{chr(byte - 64)}" if byte in (137, 138) else f"M-{_escape_byte(byte - 128)}"
    return chr(byte) if 32 <= byte < 127 or byte in (9, 10) else f"^{chr(byte ^ 64)}"
