"""Both tokenisers and ``escape_bytes`` against sed, perl and cat, and against the toolkit's own files."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from analysis.senteval.tokenisers import escape_bytes, moses, penn
from tests.real_data import suite_data

# Line, output of `sed -f tokenizer.sed` (GNU sed 4.9) and of `tokenizer.perl -l en -no-escape` (perl 5.36).
CASES = [
    (
        '"Hello," she said, "it\'s 5,300.50 (or so)!"',
        "`` Hello , '' she said , `` it 's 5 , 300.50 ( or so ) ! '' ",
        '" Hello , " she said , " it \'s 5,300.50 ( or so ) ! "',
    ),
    (
        "Mr. Smith can't go to the U.S. today. No. 5 is No. good.",
        "Mr. Smith ca n't go to the U.S. today. No. 5 is No. good . ",
        "Mr. Smith can 't go to the U.S. today . No. 5 is No. good .",
    ),
    (
        "the 1990's and the '90s; rock 'n' roll...",
        "the 1990 's and the '90s ; rock 'n ' roll ... ",
        "the 1990 's and the ' 90s ; rock ' n ' roll ...",
    ),
    (
        "He paid $5.00 for A,B,C and 1,2,3,",
        "He paid $ 5.00 for A , B , C and 1 , 2 , 3 , ",
        "He paid $ 5.00 for A , B , C and 1,2,3 ,",
    ),
    (
        "wait.. what? e.g. this vs. that... (yes)",
        "wait.. what ? e.g. this vs. that ... ( yes ) ",
        "wait .. what ? e.g. this vs. that ... ( yes )",
    ),
    (
        "'tis cannot gonna wanna more'n d'ye 'twas",
        "'t is can not gon na wan na more 'n d' ye 't was ",
        "'tis cannot gonna wanna more 'n d 'ye ' twas",
    ),
    (
        "café ½ cup of naïve 5² – “quoted” text…",
        "café ½ cup of naïve 5² – “quoted” text… ",
        "café ½ cup of naïve 5 ² – “ quoted ” text …",
    ),
    ("the end.'", "the end . ' ", "the end . ' "),
    (
        "I'll we're they've don't I'D WE'LL N'T",
        "I 'll we 're they 've do n't I 'D WE 'LL N'T ",
        "I 'll we 're they 've don 't I 'D WE 'LL N 'T",
    ),
    ("[a] {b} <c> -- d--e & f@g #h %i", "[ a ] { b } < c > -- d -- e & f @ g # h % i ", None),
    ("a\tb\x0c\u00a0c\x01d", None, "a b cd"),
]


@pytest.mark.parametrize(("line", "by_sed", "by_perl"), CASES)
def test_tokenisers_equal_sed_and_perl(line: str, by_sed: str | None, by_perl: str | None) -> None:
    if by_sed is not None:
        assert penn(line) == by_sed
    if by_perl is not None:
        assert moses(line) == by_perl


def test_blank_lines_are_tokenised_to_nothing() -> None:
    assert penn("") == moses("") == moses(" \t ") == ""


def test_visible_shows_control_and_high_bytes() -> None:
    assert escape_bytes(b"a\tb~") == "a\tb~"
    assert escape_bytes(b"clich\xe9s \x00\r\x7f\x85\x89\x8a\xa0\xff") == "clichM-is ^@^M^?M-^EM-^IM-^JM- M-^?"
    assert all(escape_bytes(bytes([byte])).isascii() for byte in range(256))


@pytest.mark.skipif(shutil.which("cat") is None, reason="no cat")
def test_visible_equals_cat_v() -> None:
    raw = bytes(range(256)).replace(b"\n", b"")
    shown = subprocess.run(["cat", "-v"], input=raw, capture_output=True, check=False)
    if shown.returncode:
        pytest.skip("cat has no -v")
    assert shown.stdout.decode() == escape_bytes(raw)


def joined(line: str) -> str:
    """Returns the tokens of a line joined as in raw text."""
    line = re.sub(r" ([.,!?;:%)\]}])", r"\1", line)
    line = re.sub(r"([(\[{$#]) ", r"\1", line)
    return re.sub(r" ('(?:s|re|ve|ll|d|m|t)\b)", r"\1", line)


def test_sick_tokenised_again_equals_the_toolkits() -> None:
    """Each sentence of SICK's trial set, joined and tokenised again, is unchanged."""
    text = suite_data("senteval/downstream/SICK/SICK_trial.txt").read_text("utf-8")
    sentences = [cell for line in text.splitlines()[1:] for cell in line.split("\t")[1:3]]
    assert len(sentences) == 1000 and [moses(joined(sentence)) for sentence in sentences] == sentences


def test_the_toolkits_snli_is_already_tokenised() -> None:
    sentences = suite_data("senteval/downstream/SNLI/s2.train").read_text("utf-8").splitlines()
    assert len(sentences) == 3000 and [penn(sentence).rstrip() for sentence in sentences] == [
        sentence.rstrip() for sentence in sentences
    ]
