"""Typesets the plain-text equations of docstrings as MathML, which browsers draw without a script or a font."""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree.ElementTree import Element, SubElement, tostring

_SIGNS = {"-": "−", "*": "∗", ".": "·", "..": "…", "~": "∼", "!=": "≠", "<=": "≤", ">=": "≥", "sum": "∑"}
_GREEK = {"alpha": "α", "beta": "β", "lambda": "λ", "sigma": "σ", "tau": "τ", "theta": "θ"}
_FUNCTIONS = ("exp", "log", "cos", "tanh", "sigmoid", "softmax", "max", "min", "mean")
_SPACE = Element("mspace", width="0.2em")
_LIMITS = ("∑", "mean", "max", "min")  # an index stands below them
_TOKEN = re.compile(
    r"(?!sum_|mean_|max_|min_)[A-Za-z]{2,}(?:_[A-Za-z]+)+"  # a name with underscores, such as a config key
    r"|[A-Za-z]+(?:-[a-z]{2,})+|[A-Za-z][A-Za-z0-9]*'*|\d+(?:\.\d+)?|\.\.|[!<>]=|\S"
)
_SCRIPT = re.compile(r"([_^])(?:\{([^{}]*)\}|([A-Za-z]+\d*|\d+))")


def typeset(equation: str) -> list[list[str]]:
    """Returns the lines of ``equation``, each a list of ``<math>`` elements (escaped HTML), split at three blanks.

    Args:
        equation: plain text as in the suite's docstrings: ``x_i``, ``x_{i,j}``, ``x^2``, ``sum_{j in C}``. Two
            blanks separate terms; ``a / b`` within a term becomes a fraction. Anything else is kept as text.
    """
    lines = equation.replace("``", "").splitlines()  # marks of code in docstrings
    return [[_math(part) for part in re.split(r" {3,}", line.strip())] for line in lines]


def _math(text: str) -> str:
    math = Element("math", displaystyle="true")
    for number, term in enumerate(re.split(r" {2,}", text)):
        if number:
            math.append(_SPACE)
        outside = _without_brackets(term)
        place = outside.find(" / ")
        if place < 0:
            math.extend(_row(term))
            continue
        head = max((match.end() for match in re.finditer(r"(?<!\S)[=~-] ?", outside[:place])), default=0)
        math.extend(_row(term[:head]))
        fraction = SubElement(math, "mfrac")
        for side in (term[head:place], term[place + 3 :]):
            SubElement(fraction, "mrow").extend(_row(side))
    return tostring(math, encoding="unicode")  # escaped


def _without_brackets(text: str) -> str:
    """Replaces text within brackets by "#", at equal length."""
    depth, kept = 0, ""
    for sign in text:
        depth -= sign in ")]}"
        kept += "#" if depth > 0 else sign
        depth += sign in "([{"
    return kept


def _row(text: str, index: bool = False) -> Iterator[Element]:
    """Yields the elements of ``text``; in an ``index``, "in" means membership."""
    place, prose = 0, False
    while match := _TOKEN.search(text, place):
        token, spaced = match[0], text[place : match.start()] != ""
        place = match.end()
        follows = text[place:]
        if index and token == "in":
            yield _leaf("mo", "∈")
            continue
        if _is_word(token, follows, prose):
            before, after = "\u00a0" if spaced and not prose else "", "\u00a0" if follows.startswith(" ") else ""
            yield _leaf("mtext", f"{before}{token}{after}")
            prose = True
            continue
        prose = False
        if spaced and token[:2].isalpha() and token[1:2]:
            yield _SPACE
        atom = _atom(token, bar=token == "|" and not (spaced and follows.startswith(" ")))
        while script := _SCRIPT.match(text, place):
            under = script[1] == "_" and atom.text in _LIMITS
            whole = Element("munder" if under else {"_": "msub", "^": "msup"}[script[1]])
            whole.append(atom)
            SubElement(whole, "mrow").extend(_row(script[2] or script[3], index=True))
            atom, place = whole, script.end()
        yield atom
        if token in _FUNCTIONS and text[place : place + 1] == " ":
            yield _SPACE


def _is_word(token: str, follows: str, prose: bool) -> bool:
    if token == "a":
        return prose and re.match(" [a-z]{2}", follows) is not None
    name = token in (*_FUNCTIONS, *_GREEK, "sum") or token.isupper() or follows[:1] in ("(", "_", "^")
    return re.fullmatch("[A-Za-z-]{2,}", token) is not None and not name


def _atom(token: str, bar: bool) -> Element:
    """Returns a name, a number or a sign; a ``bar`` is one of a pair and has no space around it."""
    if token[0].isalpha() and token not in _SIGNS:
        name = _leaf("mi", _GREEK.get(token, token).rstrip("'"))
        if not token.endswith("'"):
            return name
        primed = Element("msup")
        primed.extend((name, _leaf("mo", "′" * token.count("'"))))
        return primed
    if token[0].isdigit():
        return _leaf("mn", token)
    space = {"lspace": "0", "rspace": "0"} if bar else {}
    return _leaf("mo", _SIGNS.get(token, token), stretchy="false", movablelimits="false", **space)


def _leaf(kind: str, text: str, **attributes: str) -> Element:
    leaf = Element(kind, attributes)
    leaf.text = text
    return leaf
