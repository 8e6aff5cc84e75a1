"""Composes a configuration, checks it against the constructors that it names, and builds what they make."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from inspect import isabstract
from pathlib import Path
from pkgutil import resolve_name
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from omegaconf import MISSING, DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from data.errors import UserError
from data.schema import fault, require_path
from experiments import continuation
from experiments.continuation import NAMED
from experiments.help import meaning
from experiments.overrides import NOT_GLOBAL, compose_accepted, first_line, guess, key_of, keys_of_own, ours
from experiments.settings import Settings

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
EVALUATIONS = ("analysis.quick.evaluate", "analysis.training_evaluation.SentEval")
RENAMED = {  # names in run folders of version 0.1
    "analysis.quick.judge": "analysis.quick.evaluate",
    "analysis.senteval.along.SentEval": "analysis.training_evaluation.SentEval",
}
COMPONENTS = tuple(BASES)
LATE = ("encoder", "evaluation")  # not built for the check: it takes a model
LIGHT, HEAVY = ("corpus", "schedule", "budget", "evaluation"), ("optimizer", "objective", "encoder")  # to import
PATHS = {"warm_start": "folder", "encoder.path": "folder", "encoder.vectors": "file", "encoder.counts": "file"}
PATHS |= {"evaluation.data": "folder", "evaluation.probing": "folder"}
# Paths at the top level of any command, in which ~ is the home folder.
EXPANDED = ("resume", "run_dir", "warm_start", "cache", "data", "probing", "vectors", "runs", "out")
UNSET = " is not set."
LISTS = {list, tuple, Sequence}
Schema = type[Any]  # a dataclass with a method ``of`` that makes it from a configuration


def check(
    overrides: list[str],
    name: str = "run",
    schema: Schema | None = None,
    found: Mapping[str, str] | None = None,
) -> Any:
    """Returns the configuration that ``overrides`` make: of a run as a dictionary, of others as their ``schema``.

    Args:
        overrides: as on the command line.
        name, schema: as ``command`` in ``experiments.command`` has them.
        found: faults already known, by override; faults that merely follow from them are not reported.

    Raises:
        UserError: with one line for each fault.
    """
    config, more = compose_accepted(overrides, name)
    return check_composed(config, config.hydra, schema, {**(found or {}), **more})


def check_all(jobs: Iterable[list[str]], name: str = "run", schema: Schema | None = None) -> None:
    """Checks several lists of overrides, and reports the faults of all of them, each once."""
    found: dict[str, None] = {}
    for overrides in jobs:
        try:
            check(overrides, name, schema)
        except UserError as error:
            found |= dict.fromkeys(str(error).split("\n"))
    if found:
        raise UserError(*found)


def check_composed(config: DictConfig, hydra: Any, schema: Schema | None, found: Mapping[str, str]) -> Any:
    """Returns ``config`` resolved and checked against all constructors; to resume a run, what it was started with.

    Args:
        config: as Hydra composes it.
        hydra: Hydra's own part of it.
        schema: as ``command`` has it.
        found: faults of overrides that are left out of ``config``, by the override.

    Raises:
        UserError: with one line for each fault.
    """
    texts: Any = OmegaConf.to_container(hydra.overrides.task)  # without resolving interpolations in them
    given = {key_of(text): text.partition("=")[2] for text in texts}
    refused = {*map(key_of, found)}
    try:
        values: dict[str, Any] = OmegaConf.to_container(ours(config), resolve=True)  # type: ignore[assignment]
        for key in EXPANDED:
            if (path := _text(values, key)).startswith("~"):
                values[key] = str(Path(path).expanduser())
        if schema is not None:
            values = listed(schema, values)
            more = [*faults(schema, values)]
            if not (found or more):
                return schema.of(values)
        elif resume := _text(values, "resume"):
            values = continuation.resumed(Path(resume), values, {*given, *refused})
            target = _text(values["schedule"], "_target_")
            if continuation.STEPS in given and not locate(target, "schedule").extendable:
                raise UserError(continuation.NOT_EXTENDABLE)
            more = [f"resume={resume}: {line}" for line in _faults(values, given, faulty=bool(found))][:1]
        else:
            more = _faults_of_new(values, hydra, given, refused)
    except (OmegaConfBaseException, ValueError) as error:
        raise UserError(*found.values(), first_line(error)) from None
    lines = [*found.values()]
    for line in more:
        key = line.removesuffix(UNSET)
        if key not in refused and not any(fault.endswith(f"Did you mean {key}?") for fault in found.values()):
            about = meaning(key, hydra) if key != line else ""
            lines.append(f"{line[:-1]}: {about}." if about else line)
    if lines:
        raise UserError(*dict.fromkeys(lines))
    return values


def _faults_of_new(
    config: dict[str, Any], hydra: Any, given: Mapping[str, str], refused: Collection[str]
) -> list[str]:
    """Names what a new run trains in its ``config``, and returns a line for each fault of it."""
    lines, own = [*_absent(config)], keys_of_own(hydra, given)
    if place := next((path for key, path in own.items() if key.startswith("experiment.")), None):
        lines.append(NOT_GLOBAL.format(place))  # the line would have put its keys where they belong
        config.pop("experiment")
    try:
        config["names"] = _names(config, hydra.runtime.choices, given)
    except UserError as error:
        if not any(key.startswith("encoder") for key in refused):  # else another encoder may be meant
            lines.append(str(error))
    lines += _faults(config, [*given, *own], faulty=bool(refused or lines))
    keys = [re.split(r":? ", line)[0] for line in lines]
    return [f"{own[key]}: {line}" if key in own else line for key, line in zip(keys, lines, strict=True)]


def _names(config: Mapping[str, Any], choices: Mapping[str, Any], given: Mapping[str, str]) -> dict[str, Any]:
    """Returns the names of what a run trains, and on what."""
    names = {key: choices.get(key) for key in NAMED}
    encoder = config["encoder"] if isinstance(config.get("encoder"), Mapping) else {}
    if path := _text(encoder, "path") or _text(encoder, "name"):  # another model: what is trained gives the name
        names["encoder"] = Path(path).name
    if (folder := _text(config, "warm_start")) and Path(folder).is_dir():
        names["encoder"] = continuation.started_from(Path(folder), encoder, str(names["encoder"]), given)
    return names


def _text(values: Any, key: str) -> str:
    """Returns the value of ``key`` if it is text, else ""; other types are reported later."""
    value = values.get(key) if isinstance(values, Mapping) else None
    return value if isinstance(value, str) else ""


def _absent(config: Mapping[str, Any]) -> Iterator[str]:
    """Yields a line for each folder or file of models and SentEval that is not there, before heavy imports."""
    for name, kind in PATHS.items():
        group, _, key = name.rpartition(".")
        value = _text(config.get(group) if group else config, key)
        # (With warm_start that folder's encoder takes its place.)
        if value and value != MISSING and not (group == "encoder" and _text(config, "warm_start")):
            try:
                require_path(name, value, kind)
            except ValueError as error:
                yield str(error)


def _faults(config: dict[str, Any], given: Iterable[str], *, faulty: bool) -> Iterator[str]:
    """Yields one line for each key, type and value in ``config`` that its constructor would not take.

    Components that take seconds to import come last. Once a fault is known (``faulty``), only those with an
    overridden value are checked.
    """
    known = {*Settings.__dataclass_fields__, *COMPONENTS, "evaluation", "names"}
    found = {"": [f"{key}: no such key.{guess(key, known)}" for key in config if key not in known]}
    settings = {key: config[key] for key in Settings.__dataclass_fields__ if key in config}
    found[""] += faults(Settings, settings)
    if not found[""]:
        try:
            Settings.of(config)
        except ValueError as error:
            found[""].append(first_line(error))
    changed = {key.partition(".")[0] for key in given if "." in key and key not in PATHS}
    if "budget" in changed:
        changed.add("objective")  # whose sizes come from it
    for name in (*LIGHT, *HEAVY):
        if name in LIGHT or name in changed or not (faulty or any(found.values())):
            found[name] = _component(config, name)
    for name in ("", *COMPONENTS, "evaluation"):
        yield from found.get(name, ())


def _component(config: dict[str, Any], name: str) -> list[str]:
    """Returns the faults of one component."""
    node = config.get(name)
    if not node:
        return [] if name == "evaluation" else [name + UNSET]
    if not isinstance(node, Mapping):
        return [f"{name} must be a mapping, as {{key: value}}. Got {node!r} instead."]
    try:
        found = [*faults(locate(node.get("_target_"), name), arguments(node), name)]
        if found or name in LATE:
            return found
        made = build(node, name)
    except (UserError, ValueError) as error:
        return [first_line(error)]
    metric = _text(config.get("checkpoint"), "metric") if name == "objective" else ""
    if metric and metric not in (measured := [f"dev_{part}" for part in made.part_names]):
        return [f"checkpoint.metric={metric}: this run has the metrics {', '.join(measured)}."]
    return []


def locate(target: Any, component: str) -> Any:
    """Returns the class or function that a ``_target_`` names, e.g. ``objectives.declutr.Declutr``.

    Run folders are passed on, and their config.yaml names what is called: only what can be this ``component`` of a
    configuration is returned, and no module is imported that cannot hold it.

    Raises:
        UserError: if there is no such class or function.
    """
    target, base = RENAMED.get(str(target), target), BASES.get(component)
    module, _, name = str(target).rpartition(".")
    why = f"{component} must be " + (f"a subclass of {base}" if base else " or ".join(EVALUATIONS))
    try:
        if base is None and target in EVALUATIONS:
            return resolve_name(target)
        package = str(base).rpartition(".")[0].removesuffix(".base")
        if f"{module}.".startswith(f"{package}.") and all(map(str.isidentifier, module.split("."))):
            found = getattr(importlib.import_module(module), name)
            if issubclass(found, resolve_name(str(base))):
                if not isabstract(found):
                    return found
                why = f"it lacks {', '.join(sorted(found.__abstractmethods__))}"
    except (ImportError, AttributeError, TypeError) as error:
        why = str(error)
    raise UserError(
        f"{component}: _target_ must name a class or function of the suite. Got {target!r} instead ({why})."
    )


def build(node: Mapping[str, Any], component: str, **extra: Any) -> Any:
    """Returns the function that ``node["_target_"]`` names, or its class called with the other keys."""
    target = locate(node["_target_"], component)
    return target(**arguments(node) | extra) if inspect.isclass(target) else target


def arguments(node: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the keys of ``node`` that its ``_target_`` takes; version 0.1 wrote ``_partial_``."""
    return {key: value for key, value in node.items() if key not in ("_target_", "_partial_")}


def faults(target: Callable[..., Any], values: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Yields a line for each key that is missing or unknown to ``target``, and each wrong or empty value."""
    # A function is built as it is: it gets its arguments later.
    parameters = inspect.signature(target).parameters if inspect.isclass(target) else {}
    hints = get_type_hints(target.__init__, include_extras=True) if inspect.isclass(target) else {}
    prefix = f"{path}." if path else ""
    for key, value in values.items():
        name = prefix + key
        if key not in parameters:
            yield f"{name}: no such key.{guess(name, [prefix + known for known in parameters])}"
        elif value == MISSING:
            yield name + UNSET
        elif _empty(value) and value != parameters[key].default:
            yield f"{name} must not be empty."
        elif isinstance(value, Mapping) and (inner := _schema(hints.get(key))):
            yield from faults(inner, value, name)
        elif key in hints and (message := fault(hints[key], value)):
            yield f"{name} {message}"
    for key, parameter in parameters.items():
        if parameter.default is parameter.empty and parameter.kind is parameter.KEYWORD_ONLY and key not in values:
            yield prefix + key + UNSET


def listed(schema: type[Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns ``values`` with a list of one for each single value of a key of ``schema`` that takes lists only."""
    hints = get_type_hints(schema)
    return {
        key: [value]
        if isinstance(value, (str, int, float)) and value != MISSING and kinds(hints.get(key)) <= LISTS
        else value
        for key, value in values.items()
    }


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
