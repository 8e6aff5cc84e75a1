"""The two tokenizers of the toolkit's script.

Penn: the substitutions of R. MacIntyre's tokenizer.sed (1995). Moses: tokenizer.perl -l en -no-escape of
moses-smt/mosesdecoder. Both are reimplemented from their rules.
"""

from __future__ import annotations

import re

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
