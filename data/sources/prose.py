"""Extracts English prose from docstrings: simple rules remove code, tables, signatures and mark-up."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

FEWEST_WORDS = 6  # of a paragraph
PLAIN_SHARE = 0.75  # of its words that are letters only

_ROLE = re.compile(r":[\w:+.-]+:`(?:[^`]*<~?([^`<>]*)>|~?([^`]*))`")  # :class:`~torch.Tensor`
_LINK = re.compile(r"\[`~?([^\]`]*)`\](?:\([^)\s]*\))?|\[([^\]]*)\]\([^)\s]*\)|`([^`<]+?)\s*<[^`>]*>`__?")
_NOISE = re.compile(r"<?\w+://\S+|</?[A-Za-z][^>]*>|\[#?[\d, ]+\]_?|``|\*\*|(?<!\w)[`*_]|[`*](?!\w)|`_+")
_HEADING_RULE = re.compile(r"([=\-~^\"'*+#.:_`])\1{2,}")
_TABLE = re.compile(r"\||\+[-=+]+|[=\-]{2,}(\s+[=\-]{2,})+")
_FENCE = re.compile(r"```|~~~")
_DIRECTIVE = re.compile(r"\.\.(?:\s+(?P<name>[\w-]+)::)?\s*")
_NUMPY_ENTRY = re.compile(r"[\w*,. `]+ : ")  # x : array_like
_ENTRY = re.compile(r"(?::\w[\w *]*|[`*]*\w[\w.]*[`*]*(?:\s*\(.*\))?):(?:\s+|$)")  # x (int): and :param x:
_BULLET = re.compile(r"^(?:[-*+•]|\(?\w{1,2}[.)])\s+")
_PLAIN = re.compile(r"[\"'(]*[A-Za-z]+(?:['’/-][A-Za-z]+)*[\"')]*[.,;:!?]?[\"')]*")

_PROSE_DIRECTIVES = {"note", "warning", "tip", "important", "deprecated", "versionadded", "versionchanged"}


def paragraphs(docstring: str) -> Iterator[str]:
    """Yields the paragraphs of ``docstring`` that are prose, each in one line."""
    for block in _blocks(inspect.cleandoc(docstring).splitlines()):
        text = _ROLE.sub(r"\1\2", " ".join(block))
        text = _NOISE.sub("", _LINK.sub(r"\1\2\3", text))
        words = text.split()
        plain = sum(map(bool, map(_PLAIN.fullmatch, words)))
        if len(words) >= FEWEST_WORDS and plain >= PLAIN_SHARE * len(words):
            yield " ".join(words)


def _blocks(lines: list[str]) -> Iterator[list[str]]:
    """Yields runs of lines, some empty, between blank lines or entries, without code, tables and headings."""
    block: list[str] = []
    inside: int | None = None  # indentation of what opened a literal block or a directive: all that is deeper goes
    fenced = doctest = False
    for line in [*lines, ""]:
        text = line.strip()
        indent = len(line) - len(line.lstrip())
        if fenced or _FENCE.match(text):
            fenced ^= bool(_FENCE.match(text))
            text = ""
        elif inside is not None and (not text or indent > inside):
            continue
        inside = None
        doctest = bool(text) and (doctest or text.startswith(">>>"))
        if doctest or _NUMPY_ENTRY.match(text):
            text = ""
        elif _TABLE.match(text):
            block, text = [], ""
        elif _HEADING_RULE.fullmatch(text):
            block, text = block[:-1], ""
        elif directive := _DIRECTIVE.match(text):
            inside = None if directive["name"] in _PROSE_DIRECTIVES else indent
            text = text[directive.end() :] if inside is None else ""
            yield block
            block = []
        elif text.endswith("::"):
            inside, text = indent, text[:-1]
        elif entry := _ENTRY.match(text):
            text = text[entry.end() :]
            yield block
            block = []
        if text:
            block.append(_BULLET.sub("", text))
        else:
            yield block
            block = []
