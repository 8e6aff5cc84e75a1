"""What a reproduced figure is made of: its description, read from YAML, and the scores that fill it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Literal, NamedTuple, TypeVar, get_args

from data.errors import UserError

Kind = Literal["line", "distribution", "bars", "density", "map"]
Scale = Literal["even", "linear"]

AXES = ("panel", "group", "x")  # what a selector chooses by
# A check's keys: needed ones, then those that may be there.
CHECKS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "greater": (("left", "right"), ("margin", "most", "each")),
    "all_greater": (("left", "right"), ("margin", "each")),
    "at_most": (("left", "right"), ("margin", "each")),
    "about_equal": (("left", "right", "margin"), ("each",)),
    "rising": (("of",), ("margin",)),
    "peak_inside": (("of",), ()),
    "best": (("of", "at"), ()),
    "all": (("of",), ()),
}

Selector = Mapping[str, tuple[str, ...]]  # axis of AXES to the values wanted; an axis that is missing: all


class Point(NamedTuple):
    """One score of one trained encoder, in percent (in a figure of kind "density": one length in tokens).

    ``x`` is the place on the x axis as text ("2", "128", "none"); "" is a level that belongs to no place, as that
    of a method without the quantity of the axis. ``setting`` has the further axes of the grid that a distribution
    runs over ("P=2, tau=0.05"), never those of panel, group and x: scores of equal setting and seed are paired.
    ``run`` is the name of the run folder.
    """

    panel: str
    group: str
    x: str
    seed: int
    score: float
    setting: str = ""
    run: str = ""


class Mark(NamedTuple):
    """A value that the paper prints, in percent."""

    panel: str
    group: str
    x: str
    score: float


@dataclass(frozen=True)
class Statement:
    """What a paper says of a figure, reworded, and how it is checked.

    ``check`` is {"kind": one of CHECKS, ...} (analysis.figures.verdicts tells what each asks for), with selectors
    as {"panel": .., "group": .., "x": ..}, each a value or a list of them. None: not computed here, by ``reason``.
    """

    id: str
    says: str
    section: str
    check: Mapping[str, Any] | None = None
    reason: str = ""


@dataclass(frozen=True)
class Figure:
    """A figure of a paper, ``id`` as "declutr/s1b".

    Attributes:
        x, y: labels of the axes; y says which average and split.
        panels, groups, ticks: their order; groups are the legend's entries, ticks the places on the x axis. In
            "bars", groups stand on the x axis and ticks are the bars in each.
        printed: values that the paper prints, drawn as marks.
        legend: what the groups are, above the legend ("temperature").
        scale: of the x axis: ticks "even"ly spaced, or "linear" in their numbers.
        colours: group to the objective whose colour it has, where the group's name does not tell.
        settings: of kind "density": see analysis.figures.span_lengths; else free, for who makes the points.
    """

    id: str
    title: str
    kind: Kind
    x: str
    y: str
    panels: tuple[str, ...] = ("",)
    groups: tuple[str, ...] = ()
    ticks: tuple[str, ...] = ()
    printed: tuple[Mark, ...] = ()
    statements: tuple[Statement, ...] = ()
    legend: str = ""
    scale: Scale = "even"
    colours: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Of its files: "declutr-s1b"."""
        return self.id.replace("/", "-")


def figure_from(given: Any) -> Figure:
    """The figure that the key ``figure`` of a YAML describes; numbers there become the text of names.

    Raises:
        UserError: in one line, at the first key, kind or check that is not known, missing or malformed.
    """
    where = f"figure {given['id']}" if isinstance(given, Mapping) and "id" in given else "A figure"
    values = _checked(Figure, given, where)
    for key, choices in (("kind", get_args(Kind)), ("scale", get_args(Scale))):
        if key in values and values[key] not in choices:
            raise UserError(f"{where}: {key} must be one of {', '.join(choices)}. Got {values[key]!r} instead.")
    for key in ("panels", "groups", "ticks"):
        if key in values:
            values[key] = _texts(values[key], f"{where}: {key}")
    if values.get("scale") == "linear" and not all(map(is_number, values.get("ticks", ()))):
        raise UserError(f"{where}: scale linear needs ticks that are numbers.")
    for key in ("colours", "settings"):
        if not isinstance(values.get(key, {}), Mapping):
            raise UserError(f"{where}: {key} must be a mapping.")
    printed = _list(values.get("printed", ()), f"{where}: printed")
    values["printed"] = tuple(_mark(item, f"{where}: printed") for item in printed)
    statements = _list(values.get("statements", ()), f"{where}: statements")
    values["statements"] = tuple(_statement(item, where) for item in statements)
    figure = Figure(**values)
    for statement in figure.statements:
        for selector in selectors(statement.check or {}):
            _known(selector, figure, f"{where}, statement {statement.id}")
    return figure


def in_order(known: Sequence[str], found: Iterable[str]) -> list[str]:
    """Those of ``known`` that are ``found``, in their order, then the others as they come."""
    there = dict.fromkeys(found)
    return [name for name in known if name in there] + [name for name in there if name not in known]


def is_number(text: str) -> bool:
    """Whether a name is a number, as a place on a linear axis must be."""
    try:
        float(text)
    except ValueError:
        return False
    return True


Described = TypeVar("Described", Figure, Statement)


def _checked(kind: type[Described], given: Any, where: str) -> dict[str, Any]:
    """``given`` with exactly the keys that ``kind`` allows and needs."""
    if not isinstance(given, Mapping):
        raise UserError(f"{where} must be a mapping of keys. Got {given!r} instead.")
    allowed = [key.name for key in fields(kind)]
    needed = [key.name for key in fields(kind) if key.default is MISSING and key.default_factory is MISSING]
    _keys(given, needed, allowed, where)
    texts = {"id", "title", "x", "y", "legend", "says", "section", "reason"}
    return {key: str(value) if key in texts else value for key, value in given.items()}


def _keys(given: Mapping[str, Any], needed: Sequence[str], allowed: Sequence[str], where: str) -> None:
    if unknown := [str(key) for key in given if key not in allowed]:
        raise UserError(f"{where} has no key {unknown[0]}; it has {', '.join(allowed)}.")
    if missing := [key for key in needed if key not in given]:
        raise UserError(f"{where} lacks {', '.join(missing)}.")


def _statement(given: Any, where: str) -> Statement:
    name = given.get("id", "") if isinstance(given, Mapping) else ""
    where = f"{where}, statement {name}".rstrip()
    statement = Statement(**_checked(Statement, given, where))
    if statement.check is None:
        if not statement.reason:
            raise UserError(f"{where} has no check: give one, or the reason why it is not computed here.")
        return statement
    check = _check(statement.check, where)
    return Statement(statement.id, statement.says, statement.section, check, statement.reason)


def _check(given: Any, where: str) -> dict[str, Any]:
    """A check with its selectors as tuples of texts."""
    if not isinstance(given, Mapping):
        raise UserError(f"{where}: a check must be a mapping with a kind. Got {given!r} instead.")
    kind = given.get("kind")
    if not isinstance(kind, str) or kind not in CHECKS:
        raise UserError(f"{where}: the check's kind must be one of {', '.join(CHECKS)}. Got {kind!r} instead.")
    needed, more = CHECKS[kind]
    _keys(given, needed, ("kind", *needed, *more), f"{where}: check {kind}")
    check = dict(given)
    margin, each = check.get("margin", 0.0), check.get("each", "x")
    if isinstance(margin, bool) or not isinstance(margin, int | float) or margin < 0:
        raise UserError(f"{where}: margin must be a number of points, 0 or more. Got {margin!r} instead.")
    most = check.get("most", math.inf)
    if isinstance(most, bool) or not isinstance(most, int | float) or most <= margin:
        raise UserError(f"{where}: most must be a number of points above the margin. Got {most!r} instead.")
    if kind == "about_equal" and not margin:
        raise UserError(f"{where}: about_equal needs a margin above 0.")
    if each not in AXES:
        raise UserError(f"{where}: each must be one of {', '.join(AXES)}. Got {each!r} instead.")
    if kind == "all":
        check["of"] = [_check(part, where) for part in _list(check["of"], f"{where}: of")]
        return check
    if kind == "all_greater":
        check["right"] = [_selector(part, where) for part in _list(check["right"], f"{where}: right")]
    for key in ("left", "right", "of", "at"):
        if key in check and not isinstance(check[key], list):
            check[key] = _selector(check[key], where)
    return check


def _selector(given: Any, where: str) -> dict[str, tuple[str, ...]]:
    if not isinstance(given, Mapping):
        raise UserError(f"{where}: a selector must be a mapping of {', '.join(AXES)}. Got {given!r} instead.")
    _keys(given, (), AXES, f"{where}: a selector")
    return {axis: _texts(value, f"{where}: {axis}") for axis, value in given.items()}


def selectors(check: Mapping[str, Any]) -> Iterable[Selector]:
    """All selectors of a check, those of its parts included."""
    for key in ("left", "right", "of", "at"):
        for part in check[key] if isinstance(check.get(key), list) else [check.get(key, {})]:
            if "kind" in part:
                yield from selectors(part)
            else:
                yield part


def _known(selector: Selector, figure: Figure, where: str) -> None:
    for axis, choices in zip(AXES, (figure.panels, figure.groups, figure.ticks), strict=True):
        for value in selector.get(axis, ()):
            if choices and value and value not in choices:
                raise UserError(f"{where}: there is no {axis} {value!r}; there are {', '.join(choices)}.")


def _mark(given: Any, where: str) -> Mark:
    if not isinstance(given, Mapping):
        raise UserError(f"{where} holds marks of group, x, score and, where there are panels, panel.")
    _keys(given, ("group", "score"), Mark._fields, where)
    score = given["score"]
    if isinstance(score, bool) or not isinstance(score, int | float):
        raise UserError(f"{where}: score must be a number in percent. Got {score!r} instead.")
    panel, group, x = (str(given.get(axis, "")) for axis in AXES)
    return Mark(panel, group, x, float(score))


def _list(given: Any, where: str) -> Sequence[Any]:
    if isinstance(given, str | Mapping) or not isinstance(given, Sequence):
        raise UserError(f"{where} must be a list. Got {given!r} instead.")
    return given


def _texts(given: Any, where: str) -> tuple[str, ...]:
    """A value or a list of values as names."""
    values = [given] if isinstance(given, str | int | float) else _list(given, where)
    if bad := [value for value in values if isinstance(value, bool) or not isinstance(value, str | int | float)]:
        raise UserError(f"{where} must be names or numbers. Got {bad[0]!r} instead.")
    return tuple(map(str, values))
