"""Checks a configuration against the typed, keyword-only signatures of the constructors that it names."""

from __future__ import annotations

import difflib
import importlib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from inspect import isabstract
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from data.errors import UserError
from data.schema import fault

# Each component of a configuration names a subclass of its base class: from the base's module, or from any in its
# package where that module is called base.
BASES = {
    "objective": "objectives.base.Objective",
    "encoder": "encoders.base.Encoder",
    "corpus": "data.sources.base.Source",
    "budget": "experiments.budget.Budget",
    "optimizer": "experiments.optimizer.Optimizer",
    "schedule": "experiments.schedules.Schedule",
}
EVALUATIONS = ("analysis.quick.evaluate", "analysis.senteval.along.SentEval")
RENAMED = {"analysis.quick.judge": "analysis.quick.evaluate"}  # names in run folders of version 0.1
MISSING = "???"  # OmegaConf's sign for a value that the user must give


def locate(target: Any, component: str | None = None) -> Any:
    """Returns the class or function that a ``_target_`` names, e.g. ``objectives.declutr.Declutr``.

    Run folders are passed on, and their config.yaml names what is called: only what can be the ``component`` of a
    configuration (None: any of them) is returned, and no module is imported that cannot hold it.

    Raises:
        UserError: if there is no such class or function.
    """
    allowed = [component] if component else [*BASES, "evaluation"]
    target = RENAMED.get(str(target), target)
    module, _, name = str(target).rpartition(".")
    why = "that is none of its components"
    if component:
        why = f"{component} takes {' or '.join(EVALUATIONS) if component == 'evaluation' else BASES[component]}"
    try:
        if "evaluation" in allowed and target in EVALUATIONS:
            return getattr(importlib.import_module(module), name)
        for base in (BASES[each] for each in allowed if each in BASES):
            if _may_hold(module, base):
                found, (home, _, base_name) = getattr(importlib.import_module(module), name), base.rpartition(".")
                if issubclass(found, getattr(importlib.import_module(home), base_name)) and not isabstract(found):
                    return found
    except (ImportError, AttributeError, TypeError) as error:
        why = str(error)
    raise UserError(f"_target_ must name a class or function of the suite. Got {target!r} instead ({why}).")


def _may_hold(module: str, base: str) -> bool:
    package = base.rpartition(".")[0].removesuffix(".base")
    return f"{module}.".startswith(f"{package}.") and all(map(str.isidentifier, module.split(".")))


def build(node: Mapping[str, Any], component: str | None = None, **extra: Any) -> Any:
    """Returns the function that ``node["_target_"]`` names, or its class called with the other keys."""
    target = locate(node["_target_"], component)
    return target(**arguments(node) | extra) if inspect.isclass(target) else target


def arguments(node: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the keys of ``node`` that its ``_target_`` takes."""
    return {
        key: value for key, value in node.items() if key not in ("_target_", "_partial_")
    }  # the latter of version 0.1


def faults(target: Callable[..., Any], values: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Yields a line for each key that is missing or unknown to ``target``, and each wrong or empty value."""
    # A function is built as it is: it gets its arguments later.
    parameters = inspect.signature(target).parameters if inspect.isclass(target) else {}
    hints = get_type_hints(target.__init__, include_extras=True) if inspect.isclass(target) else {}
    prefix = f"{path}." if path else ""
    for key, value in values.items():
        name = prefix + key
        if key not in parameters:
            close = nearest(key, parameters)
            yield f"{name}: no such key." + (f" Did you mean {prefix}{close}?" if close else "")
        elif value == MISSING:
            yield f"{name} is not set."
        elif _empty(value) and value != parameters[key].default:
            yield f"{name} must not be empty."
        elif isinstance(value, Mapping) and (inner := _schema(hints.get(key))):
            yield from faults(inner, value, name)
        elif key in hints and (message := fault(hints[key], value)):
            yield f"{name} {message}"
    for key, parameter in parameters.items():
        if parameter.default is parameter.empty and parameter.kind is parameter.KEYWORD_ONLY and key not in values:
            yield f"{prefix}{key} is not set."


def listed(schema: type[Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns ``values`` with a list of one for each single value of a key of ``schema`` that takes lists only."""
    hints = get_type_hints(schema)
    return {
        key: [value] if isinstance(value, (str, int, float)) and _takes_lists(hints.get(key)) else value
        for key, value in values.items()
    }


def _takes_lists(hint: Any) -> bool:
    return bool(kinds(hint)) and kinds(hint) <= {list, tuple, Sequence}


def kinds(hint: Any) -> set[Any]:
    """Returns the types, without their parameters, that a value of type ``hint`` may have besides None."""
    if get_origin(hint) is Annotated:
        return kinds(get_args(hint)[0])
    if get_origin(hint) in (Union, UnionType):
        return set().union(*map(kinds, get_args(hint)))
    return {get_origin(hint) or hint} - {None, NoneType}


def _empty(value: Any) -> bool:
    """Returns whether ``value`` is blank text or holds some: as a path it would be the working directory."""
    return any(map(_empty, value)) if isinstance(value, list) else isinstance(value, str) and not value.strip()


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The closest of ``known`` whatever the case, or None where none is close."""
    lowered = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower(), list(lowered), n=1, cutoff=0.6)
    return lowered[close[0]] if close else None


def _schema(hint: Any) -> Callable[..., Any] | None:
    """Returns what takes the keys of a mapping as its arguments, among ``hint`` and its alternatives.

    That is a dataclass, or the class in Annotated[Mapping[str, Any], <class>].
    """
    for kind in (hint, *get_args(hint)):
        if get_origin(kind) is Annotated and inspect.isclass(get_args(kind)[1]):
            return get_args(kind)[1]
        if isinstance(kind, type) and is_dataclass(kind):
            return kind
    return None
