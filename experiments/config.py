"""Composes a configuration with Hydra, checks it against the constructors that it names, and builds them."""

from __future__ import annotations

import functools
import inspect
import json
import re
import shlex
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from pkgutil import resolve_name
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import hydra
from omegaconf import DictConfig, OmegaConf
from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from analysis.model_names import EXPORT, run_folder
from analysis.runs import NAMES
from data.errors import UserError, UserErrors, reading
from data.files import read_json, read_yaml

CONFIGS = Path(__file__).resolve().parent / "configs"
BASES = {  # base class of each component
    "corpus": "data.sources.base.Source",
    "schedule": "experiments.schedules.Schedule",
    "budget": "experiments.budget.Budget",
    "evaluation": "analysis.training_evaluation.Quick",
    "optimizer": "experiments.optimizer.Optimizer",
    "objective": "objectives.base.Objective",
    "encoder": "encoders.base.Encoder",
}
HEAVY = ("optimizer", "objective", "encoder")  # their modules import torch, which takes seconds
# Keys of a resumed run that may differ from those of its folder.
RESUME = ("resume", "cache", "device", "processes", "threads", "workers", "trackers", "verbose", "budget.steps")
# Keys of the encoder beside warm_start; all others are those of the encoder that the run starts from.
WARM = ("attention", "dropout", "max_length", "normalize", "pooling", "summary", "train_vectors", "weights")


def override_key(override: str) -> str:
    """Returns the key that an override sets: "encoder.hidden" of "++encoder.hidden=8"."""
    return override.lstrip("+~").partition("=")[0]


def quote(value: Any) -> str:
    """Returns a value in Hydra's grammar: text in quotes where it needs them, a list in brackets."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key}: {quote(part)}' for key, part in value.items())}}}"
    plain = isinstance(value, (str, Path)) and re.fullmatch(r"[A-Za-z/.][\w./-]*", str(value))
    return str(value) if plain else json.dumps(value, default=str, ensure_ascii=False)


def argument(key: str, value: Any) -> str:
    """Returns ``key=value`` as it is typed into a shell."""
    return shlex.quote(f"{key}={quote(value)}")


def choices(*folders: Path) -> dict[str, list[str]]:
    """Returns the names in each group of configurations, in the suite's and further ``folders``."""
    groups: dict[str, list[str]] = {}
    for folder in (CONFIGS, *folders):
        for path in sorted(folder.rglob("*.yaml")):
            group, _, name = path.relative_to(folder).with_suffix("").as_posix().partition("/")
            if name and group != "commands":
                groups.setdefault(group, []).append(name)
    return groups


def compose(overrides: Sequence[str], name: str = "run") -> dict[str, Any]:
    """Returns the composed and resolved configuration of ``run.yaml`` or of a command.

    Raises:
        UserErrors: for overrides that are not ``key=value`` or name no choice of their group.
    """
    config = compose_with_hydra(prepare(overrides, name), name)
    return resolve(config, config.hydra)


def yaml_path(name: str) -> Path:
    """Returns the YAML of run.py or of another command."""
    return (CONFIGS if name == "run" else CONFIGS / "commands") / f"{name}.yaml"


def compose_with_hydra(overrides: Sequence[str], name: str) -> DictConfig:
    """Returns the composed configuration; Hydra's own part is in the key "hydra"."""
    with hydra.initialize_config_dir(str(yaml_path(name).parent), version_base="1.3"):
        return hydra.compose(name, [*overrides], return_hydra_config=True)


def prepare(overrides: Iterable[str], name: str = "run") -> list[str]:
    """Returns ``overrides`` as Hydra gets them.

    Keys of no group are added by force, so that ``check`` reports unknown ones. ``encoder=<folder>`` and
    ``warm_start`` choose the encoder that opens their folder.

    Raises:
        UserErrors: for overrides that are not ``key=value`` or name no choice of their group.
    """
    overrides = [*overrides]
    values = {override_key(text): text.partition("=")[2].strip("'\"") for text in overrides}
    folders = map(Path, re.findall(r"file://([^'\"\],]+)", values.get("hydra.searchpath", "")))
    groups = choices(*folders) if name == "run" else {}
    prepared, errors = list[str](), list[UserError]()
    for text in overrides:
        key, value = override_key(text), values[override_key(text)]
        folder = Path(value).expanduser()
        if "=" not in text and text[0] != "~":
            errors.append(UserError("key=value expected; quote values with spaces", key=text))
        elif key == "encoder" and value not in groups.get(key, value) and folder.is_dir():
            folder = folder / EXPORT if (folder / EXPORT).is_dir() else folder
            prepared += [f"encoder={encoder_choice(folder)}", f"++encoder.path={quote(folder)}"]
        elif key in groups:
            words = [word for word in value.strip("[]").split(",") if word not in groups[key]]
            errors += [unknown(f"{key}={word}", word, groups[key]) for word in words]
            prepared.append(text)
        else:
            prepared.append(text if re.match(r"[+~]|hydra[./]", text) else f"++{text}")
    if "warm_start" in values and (export := Path(values["warm_start"]).expanduser() / EXPORT).is_dir():
        prepared.append(f"encoder={encoder_choice(export)}")
        errors += [UserError("warm_start sets it", key=key) for key in values if is_size(key)]
    if errors:
        raise UserErrors(errors)
    return prepared


def unknown(key: str, word: str, names: Iterable[str]) -> UserError:
    """Returns an error about ``word``, with which ``key`` may end, and the name that is most like it."""
    near = get_close_matches(word, [name for name in names if name != word], 1, 0.7)
    prefix = key.removesuffix(word) if key.endswith(word) else ""
    return UserError("unknown", key=key, hint=f"Did you mean {prefix}{near[0]}?" if near else "")


def is_size(key: str) -> bool:
    """Returns True for keys of the encoder that warm_start sets."""
    group, _, name = key.partition(".")
    return group == "encoder" and name.partition(".")[0] not in WARM


def encoder_choice(folder: Path) -> str:
    """Returns the choice of ``encoder`` that opens a folder; those of other libraries hold transformers."""
    target, marker = "encoders.transformer.Transformer", folder / "encoder.json"
    if marker.exists():
        with reading("encoder", folder):
            target = read_json(marker)["class"]
    for path in (CONFIGS / "encoder").glob("*.yaml"):
        if f"_target_: {target}\n" in path.read_text(encoding="utf-8"):
            return path.stem
    raise UserError(f"{target} is no encoder of this suite", key=str(folder))


def merge(overrides: Iterable[str], more: Sequence[str]) -> list[str]:
    """Returns ``overrides`` followed by ``more``, without those that ``more`` replaces.

    A choice of a group in ``more`` (encoder=...) also replaces earlier keys below it (encoder.hidden=...).
    """
    keys = {override_key(text) for text in more}
    groups = tuple(f"{key}." for key in keys & BASES.keys())
    return [
        text for text in overrides if override_key(text) not in keys and not override_key(text).startswith(groups)
    ] + [*more]


def resolve(config: DictConfig, hydra_config: Any) -> dict[str, Any]:
    """Returns a composed configuration as a dictionary; a resumed run's is that of its folder.

    Args:
        config: composed configuration.
        hydra_config: Hydra's own part of it.
    """
    public = OmegaConf.masked_copy(config, [str(key) for key in config if key != "hydra"])
    values: dict[str, Any] = OmegaConf.to_container(public, resolve=True)  # type: ignore[assignment]
    if hydra_config.job.config_name != "run":
        return values
    if values.get("resume") is not None:
        keys = {*map(override_key, hydra_config.overrides.task)}
        return restore_config(Path(str(values["resume"])).expanduser(), values, keys)
    values["names"] = names = {key: hydra_config.runtime.choices.get(key) for key in NAMES}
    encoder = values.get("encoder") or {}
    model = str(encoder.get("path") or encoder.get("name") or names["encoder"])
    names["encoder"] = (run_folder(model) or Path(model)).name
    if values.get("warm_start") is not None:
        folder = Path(str(values["warm_start"])).expanduser()
        with reading("finished run", folder):
            names["encoder"] = str(read_yaml(folder / "config.yaml")["names"]["encoder"])
    return values


def restore_config(folder: Path, values: Mapping[str, Any], keys: Collection[str]) -> dict[str, Any]:
    """Returns the configuration of the run in ``folder`` with those keys of this command that may differ.

    Args:
        folder: run folder.
        values: configuration of this command.
        keys: keys of its overrides.
    """
    if fixed := {*keys} - {*RESUME}:
        raise UserErrors([UserError("a resumed run keeps its settings", key=key) for key in sorted(fixed)])
    with reading("run folder", folder):
        stored = read_yaml(folder / "config.yaml")
        if "budget.steps" in keys:
            stored["budget"]["steps"] = values["budget"]["steps"]
        return stored | {key: values[key] for key in {*keys, "cache"} & values.keys()} | {"run_dir": str(folder)}


def check(config: Mapping[str, Any], changed: Set[str] | None = None) -> None:
    """Checks all keys of a run's configuration: unknown or missing ones, types, ranges.

    Args:
        config: as ``compose`` returns it.
        changed: keys that the command sets: components that take seconds to import are checked only where one of
            these is theirs; None: all are.

    Raises:
        UserErrors: all that are wrong.
    """
    from experiments.settings import Settings

    nodes = {"": {key: value for key, value in config.items() if key not in (*BASES, "names")}}
    nodes |= {group: dict(config.get(group) or {}) for group in BASES}
    errors = list[UserError]()
    for group, values in nodes.items():
        target = values.pop("_target_", None)
        touched = changed is None or any(key.startswith(f"{group}.") for key in changed)
        if (group in HEAVY and not touched) or (group == "evaluation" and target is None):
            continue
        try:
            parse(locate(target, group) if group else Settings, values, group)
        except UserError as error:
            errors.append(error)
    if errors:
        raise UserErrors(errors)


def parse(target: Callable[..., Any], values: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    """Returns ``values`` as the types of the keyword-only arguments of a class or function.

    Args:
        target: class or function; its annotations have the ranges.
        values: as YAML has them.
        path: key that they are below.

    Raises:
        UserErrors: all that are wrong.
    """
    values = {key: value for key, value in values.items() if value != "???"}
    try:
        model = schema(target).model_validate_json(json.dumps(values), strict=True)
        parsed = {key: getattr(model, key) for key in values}  # a mapping stays one
        return {key: values[key] if isinstance(value, BaseModel) else value for key, value in parsed.items()}
    except ValidationError as error:
        errors = dict[str, UserError]()
        for fault in error.errors(include_url=False):
            node: Any = values
            parent, keys = node, [path] * bool(path)
            for part in map(str, fault["loc"]):  # beyond keys, it names alternatives of a type
                if isinstance(node, Mapping) and (part in node or fault["type"] == "missing"):
                    parent, node = node, node.get(part)
                    keys.append(part)
            key = ".".join(keys)
            if fault["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
                errors[key] = unknown(key, keys[-1], parent)
            else:
                got = "" if fault["type"] == "missing" else f", got {json.dumps(node)}"
                errors.setdefault(key, UserError(fault["msg"] + got, key=key))
        raise UserErrors([*errors.values()]) from None


@functools.cache
def schema(target: Callable[..., Any]) -> type[BaseModel]:
    """Returns a model of the keyword-only arguments of a class or function.

    Arguments that it passes on (``**options``) are those of its base class, or of a TypedDict. A mapping annotated
    with a class has the arguments of that class.
    """
    fields: dict[str, Any] = {}
    classes = target.__mro__ if inspect.isclass(target) else ()
    for function in [vars(cls)["__init__"] for cls in classes if "__init__" in vars(cls)] or [target]:
        hints = get_type_hints(function, include_extras=True)
        for each in inspect.signature(function).parameters.values():
            if each.kind is each.KEYWORD_ONLY:
                default = ... if each.default is each.empty else each.default
                fields.setdefault(each.name, (nested_schema(hints[each.name]), default))
            elif each.kind is each.VAR_KEYWORD:
                for options in get_args(hints.get(each.name)):
                    names = get_type_hints(options, include_extras=True)
                    fields |= {name: (nested_schema(hint), None) for name, hint in names.items()}
        if each.kind is not each.VAR_KEYWORD:  # it is the last one
            break
    config = ConfigDict(extra="forbid", arbitrary_types_allowed=True, allow_inf_nan=False, protected_namespaces=())
    return create_model("Values", __config__=config, **fields)


def nested_schema(hint: Any) -> Any:
    """Returns the schema of the class that a mapping is annotated with; of other types, ``hint``."""
    for part in (hint, *get_args(hint)):
        if get_origin(part) is Annotated and inspect.isclass(get_args(part)[1]):
            return schema(get_args(part)[1]) | None
    return hint


def locate(target: Any, group: str) -> type:
    """Returns the class that ``_target_`` names, a subclass of its group's base class from the same package.

    Folders of runs are passed on, so nothing else is imported.
    """
    base = BASES[group]
    package = base.rpartition(".")[0].removesuffix(".base")
    if str(target).startswith(f"{package}."):
        with suppress(ImportError, AttributeError, TypeError, ValueError):
            cls: type = resolve_name(target)
            if issubclass(cls, resolve_name(base)) and not inspect.isabstract(cls):
                return cls
    raise UserError(f"not a subclass of {base}", key=f"{group}._target_={target}")


def build(node: Mapping[str, Any], group: str, **extra: Any) -> Any:
    """Constructs the component of a group that ``node`` describes.

    Args:
        node: the class in ``_target_``, and its arguments.
        group: as "objective".
        extra: further arguments.
    """
    values = {key: value for key, value in node.items() if key != "_target_"}
    return locate(node["_target_"], group)(**values | extra)
