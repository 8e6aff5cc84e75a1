r"""The definition of a word, as a regular expression, for tokenizers of whole words (data.tokenizer).

``WORDS`` defines a word. It separates raw prose and text that is tokenised already (the Penn Treebank's way, as
SentEval's files, the Billion Word benchmark and GloVe's vocabulary have it: Pennington et al. 2014, section 4.2)
into the same words. Share of running words (lower-cased) that are among 10,000 frequent ones of GloVe, and how
many of these occur:

    text                           WORDS             white space       transformers' BertPreTokenizer
    raw: books                     90.2 %, 7,833     76.4 %, 7,490     90.3 %, 7,787
    tokenised: news                91.0 %, 9,705     90.8 %, 9,709     92.1 %, 9,570
    GloVe's words that stay whole  9,973             10,000            9,818

White space alone fails on raw prose. BertPreTokenizer finds more known pieces because it makes more of them: it
cuts "n't", "u.s.", "1,000" and "long-term" apart, which are words of GloVe's.
"""

from __future__ import annotations

import re

_ENDS = r"(?!-?[\p{L}\p{N}])"
_NOT = rf"[nN]'[tT]{_ENDS}"
_AUXILIARIES = "do|does|did|is|are|was|were|has|have|had|ca|wo|would|could|should|must|need|ai"
_BEFORE_NOT = re.sub(r"(\w)(\w+)", lambda word: rf"\b[{word[1].upper()}{word[1]}]{word[2]}n", _AUXILIARIES)
PARTED_NOT = rf"(?<={_BEFORE_NOT}) (?='t{_ENDS})"  # the blank in the Billion Word's "don 't", not in "Spain 't"
_CLITIC = rf"'(?:[sSmMdD]|[lL][lL]|[rR][eE]|[vV][eE]){_ENDS}"
_ABBREVIATIONS = (
    "mr|mrs|ms|dr|st|jr|sr|prof|rev|hon|gov|sen|rep|gen|maj|col|lt|capt|sgt|inc|corp|co|ltd|bros|vs|etc|"
    "jan|feb|aug|sept|oct|nov|dec|calif|conn|fla"
)
WORDS = "|".join(
    (
        _NOT,  # do|n't, ca|n't
        _CLITIC,
        r"\p{L}\.(?:\p{L}(?:\.\p{L})*\.?(?![\p{L}\p{N}])|(?<![iI]\.)(?=\s\p{L}))",  # u.s., e.g.; initials
        # The look-ahead changes no match, and is much faster where there is no abbreviation.
        rf"(?=\p{{L}}{{2,5}}\.)(?i:{_ABBREVIATIONS})\.(?![\p{{L}}\p{{N}}])",
        # Letters and digits, and what joins them: long-term, o'brien, 1,000, 3.5, 9/11, amazon.com, at&t
        rf"[\p{{L}}\p{{N}}](?:(?!{_NOT})[\p{{L}}\p{{M}}\p{{N}}]|(?:-(?=[\p{{L}}\p{{N}}])|(?<=\p{{N}})[.,:/](?=\p{{N}})"
        rf"|(?<=\p{{Ll}})\.(?=\p{{Ll}})|&(?=\p{{L}})|(?!{_CLITIC})'(?=\p{{L}}))(?!{_NOT}))*",
        r"-(?i:[lr][rcs]b)-",  # the Treebank's brackets
        r"\.{2,}|-{2,}|``|''",
        r"\S",
    )
)
