"""Composes configurations from overrides, and checks them against all constructors at once."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from data.errors import UserError
from data.files import read_json, read_yaml
from experiments import signatures
from experiments.overrides import choice_of, compose, first_line, guess, key_of, ours, readable, sieve, typed
from experiments.settings import Settings, no_model

NAMED = ("objective", "encoder", "corpus", "budget")  # the choices that a run's name and tables carry
COMPONENTS = ("objective", "encoder", "corpus", "budget", "optimizer", "schedule")
SEVERAL = "encoders.concatenated.Concatenated"  # of objectives that train several encoders, of any class
# The keys of a configuration that have no default where a run reads them.
NEEDED = {*COMPONENTS, "names", "checkpoint", "accumulation", "gradient_norm", "seed"}
LATE = ("encoder", "evaluation")  # not built for the check: it takes a model
LIGHT, HEAVY = ("corpus", "schedule", "budget", "evaluation"), ("optimizer", "objective", "encoder")  # to import
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
        values = signatures.listed(schema, values)
        found = list(signatures.faults(schema, values))
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


def _text(values: Mapping[str, Any], key: str) -> str:
    """The value of ``key`` if it is text, else ""; other types are named as faults later."""
    value = values.get(key)
    return value if isinstance(value, str) else ""


def _absent(config: Mapping[str, Any]) -> Iterator[str]:
    """Yields a line for each folder or file of models and SentEval that is not there, before heavy imports."""
    own, evaluation = (
        {} if not isinstance(config.get(k), Mapping) else config[k] for k in ("encoder", "evaluation")
    )
    warm = _text(config, "warm_start")
    model, path = _text(config, "model"), _text(own, "path")
    if warm and not Path(warm).is_dir():
        yield f"warm_start={warm}: there is no such folder."
    if path and not warm and not Path(path).expanduser().is_dir():
        yield f"encoder.path: there is no folder {path}."
    for key in ("vectors", "counts"):
        if (file := _text(own, key)) and not warm and not Path(file).expanduser().is_file():
            yield f"encoder.{key}: there is no file {file}."
    for key in ("data", "probing"):
        if (folder := _text(evaluation, key)) and not Path(folder).is_dir():
            yield f"evaluation.{key}={folder}: there is no such folder."
    if model and (line := no_model(model)):
        yield line


def _faults(
    config: dict[str, Any], overrides: list[str], *, faulty: bool, absent: Sequence[str] = ()
) -> Iterator[str]:
    """Yields one line for each key, type and value in ``config`` that its constructor would not take.

    Components whose constructors take seconds to import come last. Once there is a fault (``faulty``, or one of
    ``absent``), only those of them are checked that an override sets a value of: the values in YAMLs are tested.
    """
    known = {*Settings.__dataclass_fields__, *COMPONENTS, "evaluation", "names"}
    found = {"": [f"{key}: no such key.{guess(key, known)}" for key in config.keys() - known]}
    settings = {key: config[key] for key in Settings.__dataclass_fields__ if key in config}
    found[""] += list(signatures.faults(Settings, settings)) or list(_trial(lambda: Settings.of(config)))
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
        if name != "evaluation":
            yield f"{name} is not set."
        return
    if not isinstance(node, Mapping):
        yield f"{name} must be a mapping, as {{key: value}}. Got {node!r} instead."
        return
    try:
        target = signatures.locate(node.get("_target_"), name)
    except UserError as error:
        yield f"{name}: {error}"
        return
    found = list(signatures.faults(target, signatures.arguments(node), name))
    yield from found
    if not found and name not in LATE:
        checkpoint = config.get("checkpoint") if name == "objective" else None
        metric = checkpoint.get("metric") if isinstance(checkpoint, Mapping) else None
        yield from _trial(functools.partial(_build, node, name, metric))


def _build(node: Mapping[str, Any], name: str, metric: str | None) -> None:
    built = signatures.build(node, name)
    measured = [f"dev_{part}" for part in built.part_names] if metric else []
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
        if not signatures.locate(stored["schedule"].get("_target_"), "schedule").extendable:
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
