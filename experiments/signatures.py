"""Holds a configuration against the constructors it names: their typed, keyword-only signatures are its schema."""

from __future__ import annotations

import difflib
import importlib
import inspect
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import is_dataclass
from functools import partial
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter, ValidationError

from data.errors import UserError

PACKAGES = ("data", "encoders", "objectives", "experiments", "analysis")
NAMED = {"a valid array": "a list, as [a,b]", "an object": "a mapping, as {key: value}"}  # kinds of JSON, in YAML
MISSING = "???"  # OmegaConf's sign for a value that the user must give


def locate(target: str) -> Callable[..., Any]:
    """What a ``_target_`` names, e.g. ``objectives.declutr.Declutr``.

    Run folders are passed on, and what their config.yaml names is called: nothing but the suite's own is taken,
    not even what one of its modules has imported.

    Raises:
        UserError: if there is no such class or function in the suite.
    """
    module, _, name = target.rpartition(".")
    found, why = None, f"there is none in {', '.join(PACKAGES)}"
    if _ours(module):
        try:
            found = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError) as error:
            why = str(error)
    if not callable(found) or not _ours(getattr(found, "__module__", "")):
        raise UserError(f"_target_ must name a class or function of the suite. Got {target!r} instead ({why}).")
    return found


def _ours(module: str) -> bool:
    return module.partition(".")[0] in PACKAGES


def build(node: Mapping[str, Any], **extra: Any) -> Any:
    """Calls what ``node["_target_"]`` names with the node's other keys and ``extra``."""
    target = locate(node["_target_"])
    values = {key: value for key, value in node.items() if not key.startswith("_")}
    if node.get("_partial_"):
        return partial(target, **values | extra)
    return target(**values | extra)


def faults(target: Callable[..., Any], values: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """One line for each key of ``values`` that ``target`` does not take, or not with this type of value."""
    parameters = inspect.signature(target).parameters
    hints = get_type_hints(target.__init__ if inspect.isclass(target) else target, include_extras=True)
    for key, value in values.items():
        name = f"{path}.{key}" if path else key
        if key.startswith("_"):
            continue
        if key not in parameters:
            close = nearest(key, parameters)
            guess = f" Did you mean {path + '.' if path else ''}{close}?" if close else ""
            yield f"{name}: no such key.{guess}"
        elif value == MISSING:
            yield f"{name} is not set."
        elif isinstance(value, Mapping) and (inner := _schema(hints.get(key))):
            yield from faults(inner, value, name)
        elif key in hints and (message := _type_fault(hints[key], value)):
            yield f"{name} {message}"


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The closest of ``known`` whatever the case, or None where none is close."""
    lowered = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower(), list(lowered), n=1, cutoff=0.6)
    return lowered[close[0]] if close else None


def _schema(hint: Any) -> Callable[..., Any] | None:
    """What takes the keys of a mapping as its arguments, among ``hint`` and its alternatives.

    That is a dataclass, or the class in Annotated[Mapping[str, Any], <class>].
    """
    for kind in (hint, *get_args(hint)):
        if get_origin(kind) is Annotated:
            return get_args(kind)[1]
        if isinstance(kind, type) and is_dataclass(kind):
            return kind
    return None


def _type_fault(hint: Any, value: Any) -> str | None:
    if isinstance(value, float) and not math.isfinite(value):  # which every comparison with a bound lets pass
        return f"must be a finite number. Got {value} instead."
    try:
        # As JSON, a list is fit for a tuple and a string for a path, but nothing else is bent ("1" is no number).
        TypeAdapter(hint).validate_json(json.dumps(value), strict=True)
    except ValidationError as error:
        first = error.errors()[0]["msg"].replace("Input should", "must")
        for pydantics, ours in NAMED.items():
            first = first.replace(pydantics, ours)
        return f"{first}. Got {'null' if value is None else repr(value)} instead."
    return None
