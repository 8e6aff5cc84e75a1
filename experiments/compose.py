"""Composes a configuration, checks it against the constructors that it names, and builds what they make."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from functools import partial
from inspect import isabstract
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from data.errors import UserError
from data.files import read_json, read_yaml
from data.schema import fault, require_path
from experiments.overrides import choice_of, compose, first_line, guess, key_of, ours, readable, sieve, typed
from experiments.settings import Settings, no_model

NAMED = ("objective", "encoder", "corpus", "budget")  # the choices that a run's name and tables carry
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
SEVERAL = "encoders.concatenated.Concatenated"  # of objectives that train several encoders, of any class
# The keys of a configuration that have no default where a run reads them.
NEEDED = {*COMPONENTS, "names", "checkpoint", "accumulation", "gradient_norm", "seed"}
LATE = ("encoder", "evaluation")  # not built for the check: it takes a model
LIGHT, HEAVY = ("corpus", "schedule", "budget", "evaluation"), ("optimizer", "objective", "encoder")  # to import
PATHS = {"warm_start": "folder", "encoder.path": "folder", "encoder.vectors": "file", "encoder.counts": "file"}
PATHS |= {"evaluation.data": "folder", "evaluation.probing": "folder"}
LISTS = {list, tuple, Sequence}
MISSING = "???"  # OmegaConf's sign for a value that the user must give
Schema = type[Any]  # a dataclass with a method ``of`` that makes it from a configuration
# What may differ when a run goes on; the cache is never that of its folder, which may come from a stranger.
STEPS = "budget.steps"  # may differ, too, if the schedule is extendable
RESUME_KEYS = ("resume", "cache", "device", "processes", "threads", "workers", "trackers")


def check(
    overrides: list[str],
    name: str = "run",
    schema: Schema | None = None,
    *,
    present: bool = False,
    between: bool = True,
) -> dict[str, Any]:
    """Returns the configuration that ``overrides`` make.

    Args:
        overrides: as on the command line.
        name, schema: as ``command`` in ``experiments.command`` has them.
        present: whether the models that it names must be on this machine; runs that are planned may name those of
            runs before them.
        between: whether faults between keys of ``schema`` count.

    Raises:
        UserError: with one line for each fault.
    """
    overrides = [*map(readable, overrides)]
    config = composed(overrides, name, schema)
    return checked(config, dict(config.hydra.runtime.choices), overrides, schema, present=present, between=between)


def composed(overrides: list[str], name: str, schema: Schema | None) -> DictConfig:
    try:
        return compose(overrides, name)
    except (HydraException, OmegaConfBaseException):
        raise UserError(*_refused(overrides, name, schema)) from None


def _refused(overrides: list[str], name: str, schema: Schema | None) -> Iterator[str]:
    """Yields the faults of a command line that Hydra refuses, then those of what is left of it."""
    for text in overrides:
        if text.startswith("resume=") and text != "resume=null":  # its objective may have other keys
            _only_beside_resume(Path(text.partition("=")[2]), overrides)
    good, found = sieve(overrides, name)
    yield from found
    bad = {*overrides} - {*good}
    if any(text.lstrip("+~").startswith("encoder") for text in bad):
        good = [text for text in good if not text.startswith("warm_start=")]  # the encoder to start is not known
    refused = {key_of(text) for text in bad}
    try:
        config = compose(good, name)
        checked(config, dict(config.hydra.runtime.choices), good, schema, faulty=True)
    except UserError as error:
        yield from (line for line in str(error).split("\n") if line.removesuffix(" is not set.") not in refused)


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


def checked(
    config: DictConfig,
    choices: Mapping[str, Any],
    overrides: list[str],
    schema: Schema | None,
    *,
    faulty: bool = False,
    present: bool = False,
    between: bool = True,
) -> dict[str, Any]:
    """Returns ``config`` resolved and checked against all constructors; to resume a run, what it was started with.

    Args:
        config: as Hydra composes it.
        choices: of its groups.
        overrides: that it is composed of.
        schema: as ``command`` has it.
        faulty: whether other faults have been found; see ``_faults``.
        present, between: as ``check`` has them.

    Raises:
        UserError: with one line for each fault.
    """
    try:
        values: dict[str, Any] = OmegaConf.to_container(ours(config), resolve=True)  # type: ignore[assignment]
    except OmegaConfBaseException as error:
        raise UserError(first_line(error)) from None
    if schema is not None:
        values = listed(schema, values)
        found = list(faults(schema, values))
        if between and not found:
            found += _trial(lambda: schema.of(values))
        if found := found or list(_absent(values) if present else ()):
            raise UserError(*found)
        return values
    absent: list[str] = []
    if resume := _text(values, "resume"):
        values = _resumed(Path(resume), values, overrides)
    else:
        values["names"] = {key: choices.get(key) for key in NAMED}
        own = values["encoder"] if isinstance(values.get("encoder"), Mapping) else {}
        if path := _text(own, "path") or _text(own, "name"):  # another model: what is trained gives the name
            values["names"]["encoder"] = Path(path).name
        if folder := _text(values, "warm_start"):
            given = choices.get("encoder") if "encoder" in map(key_of, overrides) else None
            values["names"]["encoder"] = _started_from(Path(folder), own, values["names"]["encoder"], given)
        absent += _absent(values) if present else ()
    found = [*absent, *_faults(values, overrides, faulty=faulty, absent=absent)]
    if found:
        raise UserError(*[f"resume={resume}: {found[0]}"] if resume else found)
    return values


def _text(values: Any, key: str) -> str:
    """Returns the value of ``key`` if it is text, else ""; other types are reported later."""
    value = values.get(key) if isinstance(values, Mapping) else None
    return value if isinstance(value, str) else ""


def _absent(config: Mapping[str, Any]) -> Iterator[str]:
    """Yields a line for each folder or file of models and SentEval that is not there, before heavy imports."""
    for name, kind in PATHS.items():
        group, _, key = name.rpartition(".")
        value = _text(config.get(group) if group else config, key)
        if value and not (group == "encoder" and _text(config, "warm_start")):  # which takes its place
            yield from _trial(partial(require_path, name, value, kind))
    named = [("model", _text(config, "model")), *(("models", model) for model in config.get("models") or ())]
    for key, model in named:
        if model and (line := no_model(model, key)):
            yield line


def _faults(
    config: dict[str, Any], overrides: list[str], *, faulty: bool, absent: Sequence[str] = ()
) -> Iterator[str]:
    """Yields one line for each key, type and value in ``config`` that its constructor would not take.

    Components whose constructors take seconds to import come last. Once there is a fault (``faulty``, or one of
    ``absent``), only those of them are checked that an override sets a value of: the values in YAMLs are tested.
    """
    known = {*Settings.__dataclass_fields__, *COMPONENTS, "evaluation", "names"}
    found = {"": [f"{key}: no such key.{guess(key, known)}" for key in config.keys() - known - {"experiment"}]}
    if "experiment" in config:  # a package line would have put its keys where they belong
        own = next((text.partition("=")[2] for text in overrides if key_of(text) == "experiment"), "<name>")
        found[""].append(
            f"experiment/{own}.yaml: its first line must be '# @package _global_', as it sets keys of a run."
        )
    settings = {key: config[key] for key in Settings.__dataclass_fields__ if key in config}
    found[""] += list(faults(Settings, settings)) or list(_trial(lambda: Settings.of(config)))
    given = {group for group, dot, _ in (key_of(text).partition(".") for text in overrides) if dot}
    if "budget" in given:
        given.add("objective")  # whose sizes come from it
    if any(line.startswith("encoder.") for line in absent):
        given.discard("encoder")
    faulty = faulty or bool(absent)
    for name in (*LIGHT, *HEAVY):
        if name in LIGHT or name in given or not (faulty or any(found.values())):
            found[name] = list(_component(config, name))
    for name in ("", *COMPONENTS, "evaluation"):
        yield from found.get(name, ())


def _component(config: dict[str, Any], name: str) -> Iterator[str]:
    """Yields the faults of one component."""
    node = config.get(name)
    if not node:
        yield from [] if name == "evaluation" else [f"{name} is not set."]
    elif not isinstance(node, Mapping):
        yield f"{name} must be a mapping, as {{key: value}}. Got {node!r} instead."
    else:
        try:
            found = [*faults(locate(node.get("_target_"), name), arguments(node), name)]
        except UserError as error:
            found = [f"{name}: {error}"]
        yield from found
        if not found and name not in LATE:
            metric = _text(config.get("checkpoint"), "metric") if name == "objective" else ""
            yield from _trial(lambda: _require_metric(metric, build(node, name)))


def _require_metric(metric: str, objective: Any) -> None:
    measured = [f"dev_{part}" for part in objective.part_names] if metric else []
    if metric and metric not in measured:
        raise ValueError(f"checkpoint.metric={metric}: this run measures {', '.join(measured)}.")


def _trial(build: Callable[[], Any]) -> Iterator[str]:
    try:
        build()
    except (ValueError, UserError) as error:
        yield first_line(error)


def _resumed(folder: Path, values: Mapping[str, Any], overrides: list[str]) -> dict[str, Any]:
    """The configuration of the run to resume, with those keys of this command that may differ."""
    if not (folder / "config.yaml").is_file():
        raise UserError(f"resume={folder}: not a run folder (it has no config.yaml).")
    given = _only_beside_resume(folder, overrides)
    broken = UserError(f"resume={folder}: its config.yaml is broken. Only a folder that run.py wrote can go on.")
    try:
        stored = read_yaml(folder / "config.yaml")
    except (OSError, ValueError) as error:
        raise broken from error
    if isinstance(stored, dict) and "joins" in stored:
        raise UserError(f"resume={folder}: it joins the encoders of finished runs, and was not trained itself.")
    if not isinstance(stored, dict) or not stored.keys() >= NEEDED:
        raise broken
    from analysis import runs  # late: its tables take a while to import

    if problem := runs.read(folder)["problem"]:
        raise UserError(f"resume={folder}: its files are damaged ({problem}).")
    if not (stored["names"] or {}).keys() >= {*NAMED}:
        raise broken
    if STEPS in given:
        if not all(isinstance(stored[key], dict) for key in ("schedule", "budget")):
            raise broken
        if not locate(stored["schedule"].get("_target_"), "schedule").extendable:
            raise UserError(
                f"{STEPS}: the learning rate of this run depends on its length. Only runs with schedule=wsd or "
                "schedule=constant can be resumed with another one."
            )
        stored["budget"]["steps"] = values["budget"]["steps"]
    kept = {key: values[key] for key in {*given, "cache"} - {STEPS}}
    # (A run of version 0.1 had one process.)
    return {"processes": 1} | stored | kept | {"run_dir": str(folder)}


def _started_from(folder: Path, encoder: Mapping[str, Any], name: str, given: str | None) -> str:
    """Returns the name of the encoder that a run with ``warm_start`` trains: that in ``folder``, if it is known.

    Args:
        folder: of the run to start from.
        encoder: the configuration's.
        name: of what the configuration alone would train.
        given: the choice, if the user made it: encoder=<given>.

    Raises:
        UserError: if what is there is of another class than ``encoder``, or another one than is given by name.
    """
    from analysis import runs  # late, as above

    there = runs.read(folder).get("encoder")
    try:
        marker = read_json(folder / "encoder" / "encoder.json")
        joined = [f"{folder}/encoder/{one}/encoder.json" for one in marker.get("members", ())]
        kinds = {str(read_json(Path(one))["class"]) for one in joined} or {str(marker["class"])}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        there = None
    if there is None:
        return name  # what is missing is reported where it is opened
    holds = f"{len(joined)} encoders side by side, each {there}" if joined else there
    if encoder.get("_target_") not in kinds | ({SEVERAL} if joined else set()):
        choice = choice_of(kinds.pop(), there) if len(kinds) == 1 else "concatenated"
        raise UserError(f"warm_start={folder} holds {holds}: add encoder={choice}.")
    if given and encoder.get("name") and there not in (name, given):
        raise UserError(f"warm_start={folder} holds {holds}, and not {name}: leave out encoder={given}.")
    return str(there)


def _only_beside_resume(folder: Path, overrides: list[str]) -> set[str]:
    """The keys of ``overrides``, all of which may differ when the run in ``folder`` goes on."""
    given = {key for key in map(key_of, overrides) if not key.startswith("hydra")}
    if refused := sorted(given - {*RESUME_KEYS, STEPS}):
        raise UserError(
            f"{', '.join(refused)}: a resumed run keeps its settings; beside resume= only "
            f"{', '.join(RESUME_KEYS[1:])} may be given. {typed('warm_start', folder)} begins a changed one."
        )
    return given


def locate(target: Any, component: str | None = None) -> Any:
    """Returns the class or function that a ``_target_`` names, e.g. ``objectives.declutr.Declutr``.

    Run folders are passed on, and their config.yaml names what is called: only what can be the ``component`` of a
    configuration (None: any of them) is returned, and no module is imported that cannot hold it.

    Raises:
        UserError: if there is no such class or function.
    """
    target = RENAMED.get(str(target), target)
    module, _, name = str(target).rpartition(".")
    why = "that is none of its components"
    if component:
        why = f"{component} takes {BASES.get(component, ' or '.join(EVALUATIONS))}"
    try:
        if component in (None, "evaluation") and target in EVALUATIONS:
            return getattr(importlib.import_module(module), name)
        for base in BASES.values() if component is None else filter(None, [BASES.get(component)]):
            home, _, base_name = base.rpartition(".")
            inside = f"{module}.".startswith(f"{home.removesuffix('.base')}.")
            if inside and all(map(str.isidentifier, module.split("."))):
                found = getattr(importlib.import_module(module), name)
                if issubclass(found, getattr(importlib.import_module(home), base_name)) and not isabstract(found):
                    return found
    except (ImportError, AttributeError, TypeError) as error:
        why = str(error)
    raise UserError(f"_target_ must name a class or function of the suite. Got {target!r} instead ({why}).")


def build(node: Mapping[str, Any], component: str | None = None, **extra: Any) -> Any:
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
        key: [value] if isinstance(value, (str, int, float)) and kinds(hints.get(key)) <= LISTS else value
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
