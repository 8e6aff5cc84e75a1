"""Checks plain values, as JSON and YAML have them, against annotated types and the ranges in them."""

from __future__ import annotations

import functools
import inspect
import json
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo

NAMED = {  # pydantic's terms in plain words
    "a valid array": "a list, as [a,b]",
    "an object": "a mapping, as {key: value}",
    "a valid integer": "a whole number",
    "a valid number": "a number",
    "a valid boolean": "true or false",
    "a valid string": "text",
}
BOUNDS = {  # pydantic's names of errors, and what each bound asks for
    "greater_than": "be above {gt}",
    "greater_than_equal": "be at least {ge}",
    "less_than": "be below {lt}",
    "less_than_equal": "be at most {le}",
    "too_short": "have at least {min_length} values",
    "too_long": "have at most {max_length} values",
}


def mismatch(kind: Any, value: Any) -> tuple[str, str] | None:
    """Returns the dotted path of the first part of ``value`` that does not fit type ``kind``, and why; else None.

    As in JSON, a list fits a tuple and a string fits a path, but nothing else is converted ("1" is no number). A
    mapping fits a dataclass, even with further keys. Ranges in ``kind`` count: ``Annotated[float, Gt(0)]``.
    """
    try:
        TypeAdapter(kind).validate_json(json.dumps(value), strict=True)
    except PydanticUserError:  # a type that no plain value can stand for
        return "", "cannot be set in a configuration"
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        if first["type"] == "missing":
            return where, "is missing"
        if first["type"] in BOUNDS:
            return where, _bound(kind, first["type"], first["ctx"])
        how = first["msg"].replace("Input should", "must")
        for pydantics, ours in NAMED.items():
            how = how.replace(pydantics, ours)
        return where, how
    return None


def fault(kind: Any, value: Any) -> str | None:
    """Returns how ``value`` does not fit type ``kind``, as "must be ... Got ... instead."; None where it fits."""
    if isinstance(value, float) and not math.isfinite(value):  # some of these pass all bounds
        return f"must be a finite number. Got {value} instead."
    found = mismatch(kind, value)
    return f"{found[1]}. Got {'null' if value is None else repr(value)} instead." if found else None


def require(constructor: Callable[..., Any], values: Mapping[str, Any], prefix: str = "") -> None:
    """Checks arguments of a constructor against the ranges and choices in its annotations.

    Other types are left to type checkers. A configuration is checked whole before anything is constructed
    (``experiments.compose``); this is for direct calls.

    Args:
        constructor: an ``__init__``, or a dataclass.
        values: arguments by name.
        prefix: put before their names in messages: "objective"; "" for none.

    Raises:
        ValueError: with a line for each argument out of its range.
    """
    bounded = _bounded(constructor)
    found = {name: fault(bounded[name], values[name]) for name in values.keys() & bounded.keys()}
    if lines := [f"{prefix}{'.' * bool(prefix)}{name} {line}" for name, line in found.items() if line]:
        raise ValueError("\n".join(sorted(lines)))


def require_path(key: str, path: str | None, kind: str) -> None:
    """Refuses a path at which there is no file or folder.

    Args:
        key: of the setting, for the message.
        path: None: nothing is checked.
        kind: "file" or "folder", which must be there.

    Raises:
        ValueError: naming ``key``.
    """
    there = Path(path).expanduser() if path is not None else None
    if there is not None and not (there.is_dir() if kind == "folder" else there.is_file()):
        raise ValueError(f"{key}={path}: there is no such {kind}.")


def dotted(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yields each value in nested mappings with its dotted key ("part.size"), after ``prefix``."""
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from dotted(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def validated(cls: type, prefix: str | None = None) -> None:
    """Wraps the ``__init__`` that ``cls`` defines, so that ``require`` checks its keyword arguments first.

    If it passes further keywords on (``**shared``), its signature also gets those of the base class.

    Args:
        cls: is changed in place.
        prefix: as in ``require``; None: the attribute ``name`` of the object.
    """
    if "__init__" not in vars(cls):
        return
    original = vars(cls)["__init__"]

    @functools.wraps(original)  # so that its signature, the schema of a configuration, stays what it is
    def checked(self: Any, *arguments: Any, **values: Any) -> None:
        require(original, values, self.name if prefix is None else prefix)
        original(self, *arguments, **values)

    own = inspect.signature(original)
    base = super(cls, cls).__init__  # type: ignore[arg-type]
    if any(one.kind is one.VAR_KEYWORD for one in own.parameters.values()):
        further = inspect.signature(base).parameters
        named = [one for one in own.parameters.values() if one.kind is not one.VAR_KEYWORD]
        named += [one for name, one in further.items() if name not in own.parameters]
        checked.__signature__ = own.replace(parameters=named)  # type: ignore[attr-defined]
        checked.__annotations__ = get_type_hints(base, include_extras=True) | original.__annotations__
    setattr(cls, "__init__", checked)  # noqa: B010  (mypy refuses the assignment)


class Validated:
    """Base of classes all of whose constructors are ``validated``.

    Attributes:
        key_prefix: of their arguments' names in messages; None: the attribute ``name`` of the object.
    """

    key_prefix: ClassVar[str | None] = None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        validated(cls, cls.key_prefix)


@functools.cache
def _bounded(constructor: Callable[..., Any]) -> dict[str, Any]:
    """Returns the annotations of a constructor's parameters that hold a range or a choice."""
    hints = get_type_hints(constructor, include_extras=True)
    return {name: hint for name, hint in hints.items() if any(map(_is_limit, _parts(hint)))}


def _parts(hint: Any) -> Iterator[Any]:
    yield hint
    for part in () if get_origin(hint) is Literal else get_args(hint):
        yield from _parts(part)


def _is_limit(part: Any) -> bool:
    return isinstance(part, FieldInfo) or get_origin(part) is Literal


def _bound(kind: Any, error: str, limits: Mapping[str, Any]) -> str:
    """Describes the bound that a value violates, or both bounds if the upper one is at most 1."""
    if error == "greater_than" and limits["gt"] == 0:
        asked = "be a positive number"
    else:
        asked = BOUNDS[error].format_map({name: _plain(limit) for name, limit in limits.items()})
    bounds = [limit for part in _parts(kind) if isinstance(part, FieldInfo) for limit in part.metadata]
    upper = [getattr(limit, name) for limit in bounds for name in ("lt", "le") if hasattr(limit, name)]
    if upper and max(upper) <= 1:
        words = {"gt": "above 0", "ge": "at least 0", "lt": "below 1", "le": "at most 1"}
        said = dict.fromkeys(word for limit in bounds for name, word in words.items() if hasattr(limit, name))
        asked = f"be {' and '.join(said)}"
    return f"must {asked}"


def _plain(limit: Any) -> Any:
    return int(limit) if isinstance(limit, float) and limit.is_integer() and abs(limit) < 2**53 else limit
