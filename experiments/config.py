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
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from analysis.model_names import CONFIG, EXPORT, run_folder
from data.errors import UserError, UserErrors, reading
from data.files import read_json, read_yaml

CONFIGS = Path(__file__).resolve().parent / "configs"
NAMES = ("objective", "encoder", "corpus", "budget")  # groups whose choices name a run
BASES = {  # base class of each component
    "corpus": "data.sources.base.Source",
    "schedule": "experiments.schedules.Schedule",
    "budget": "experiments.budget.Budget",
    "evaluation": "analysis.training_evaluation.Quick",
    "optimizer": "experiments.optimizer.Optimizer",
    "objective": "objectives.base.Objective",
    "encoder": "encoders.base.Encoder",
}
HEAVY = ("evaluation", "optimizer", "objective", "encoder")  # their modules take up to a second to import
# Groups whose keys depend on the choice of a group.
DEPENDENT = {"objective": ["optimizer", "schedule"], "experiment": [*BASES]}
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


def prepare(overrides: Sequence[str], name: str = "run") -> list[str]:
    """Returns ``overrides`` as Hydra gets them.

    Keys of no group are added by force, so that ``check`` reports unknown ones. ``encoder=<folder>`` and
    ``warm_start`` choose the encoder that opens their folder.

    Raises:
        UserErrors: for overrides that are not ``key=value`` or name no choice of their group; with the mistakes in
            all others of run.yaml.
    """
    values = {override_key(text): text.partition("=")[2].strip("'\"") for text in overrides}
    folders = map(Path, re.findall(r"file://([^'\"\],]+)", values.get("hydra.searchpath", "")))
    groups = choices(*folders) if name == "run" else {}
    prepared, wrong, errors = list[str](), set[str](), list[UserError]()
    export = Path(values.get("warm_start", "null")).expanduser() / EXPORT
    if export.is_dir():
        prepared.append(f"encoder={encoder_choice(export)}")
    for text in overrides:
        key, value = override_key(text), values[override_key(text)]
        folder, (group, _, part) = Path(value).expanduser(), key.partition(".")
        if "=" not in text and text[0] != "~":
            errors.append(UserError("key=value expected; quote values with spaces", key=text))
        elif group == "encoder" and part.partition(".")[0] not in WARM and export.is_dir():
            errors.append(UserError("warm_start sets it", key=key))
        elif key == "encoder" and value not in groups.get(key, value) and folder.is_dir():
            folder = folder / EXPORT if (folder / EXPORT).is_dir() else folder
            prepared += [f"encoder={encoder_choice(folder)}", f"++encoder.path={quote(folder)}"]
        elif key in groups:
            words = [word for word in value.strip("[]").split(",") if word not in groups[key]]
            kind = f"no such choice{' or folder' * (key == 'encoder')}"
            errors += [unknown(f"{key}={word}", word, groups[key], kind) for word in words]
            wrong |= {key, *DEPENDENT.get(key, ())} if words else set()
            prepared.append(text)
        else:
            prepared.append(text if re.match(r"[+~]|hydra[./]", text) else f"++{text}")
    if errors and name == "run":
        rest = [text for text in prepared if override_key(text).partition(".")[0] not in wrong]
        try:
            config = compose_with_hydra(rest, name)
            check(resolve(config, config.hydra), {*map(override_key, rest)})
        except (UserError, HydraException, OmegaConfBaseException) as error:  # Hydra's come when these are right
            errors += getattr(error, "errors", ())
    if errors:
        raise UserErrors(errors)
    return prepared


def unknown(key: str, word: str, names: Iterable[str], text: str = "unknown") -> UserError:
    """Returns an error about ``word``, with which ``key`` may end, and the name that is most like it."""
    near = get_close_matches(word, [name for name in names if name != word], 1, 0.7)
    prefix = key.removesuffix(word) if key.endswith(word) else ""
    return UserError(text, key=key, hint=f"Did you mean {prefix}{near[0]}?" if near else "")


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
    config = OmegaConf.masked_copy(config, [str(key) for key in config if key != "hydra"])
    values: dict[str, Any] = OmegaConf.to_container(config, resolve=True)  # type: ignore[assignment]
    if hydra_config.job.config_name != "run":
        return values
    if values.get("resume") is not None:
        return restore_config(values, {*map(override_key, hydra_config.overrides.task)})
    values["names"] = names = {key: hydra_config.runtime.choices.get(key) for key in NAMES}
    encoder = values.get("encoder") or {}
    model = str(encoder.get("path") or encoder.get("name") or names["encoder"])
    names["encoder"] = (run_folder(model) or Path(model)).name
    if values.get("warm_start") is not None:
        folder, stored = read_config("warm_start", values)
        with reading("finished run", folder):
            names["encoder"] = str(stored["names"]["encoder"])
    return values


def read_config(key: str, values: Mapping[str, Any]) -> tuple[Path, Any]:
    """Returns the run folder that the value of ``key`` names, and its configuration."""
    folder = Path(str(values[key])).expanduser()
    if not (folder / CONFIG).is_file():
        raise UserError(f"not a run folder, which has a {CONFIG}", key=f"{key}={folder}")
    return folder, read_yaml(folder / CONFIG)


def restore_config(values: Mapping[str, Any], keys: Collection[str]) -> dict[str, Any]:
    """Returns the configuration of a resumed run with those keys of this command that may differ.

    Args:
        values: configuration of this command.
        keys: keys of its overrides.
    """
    folder, stored = read_config("resume", values)
    text, hint = "a resumed run keeps it", f"{argument('warm_start', folder)} starts a new run from its encoder."
    if fixed := {*keys} - {*RESUME}:
        raise UserErrors([UserError(text, key=key, hint=hint) for key in sorted(fixed)])
    with reading("run folder", folder):
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

    nodes = {group: dict(config.get(group) or {}) for group in BASES}
    nodes[""] = {key: value for key, value in config.items() if key not in (*BASES, "names")}
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

    A single value where only a list fits becomes a list.

    Args:
        target: class or function; its annotations have the ranges.
        values: as YAML has them.
        path: key that they are below.

    Raises:
        UserErrors: all that are wrong.
    """
    unset = [".".join(filter(None, (path, key))) for key, value in values.items() if value == "???"]
    errors, wrapped, faults = {key: UserError("missing", key=key) for key in unset}, False, list[Any]()
    values = json.loads(json.dumps({key: value for key, value in values.items() if value != "???"}))
    try:
        model = schema(target).model_validate_json(json.dumps(values), strict=True)
        parsed = {key: getattr(model, key) for key in values}  # a mapping stays one
        if not unset:
            return {key: values[key] if isinstance(value, BaseModel) else value for key, value in parsed.items()}
    except ValidationError as error:
        faults += error.errors(include_url=False)
    for fault in faults:
        node: Any = values
        parent, keys, kind = node, [path] * bool(path), fault["type"]
        for part in map(str, fault["loc"]):  # beyond keys, it names alternatives of a type
            if isinstance(node, Mapping) and (part in node or kind == "missing"):
                parent, node = node, node.get(part)
                keys.append(part)
        key, alternatives = ".".join(keys), len(fault["loc"]) + bool(path) - len(keys)
        if kind in ("list_type", "tuple_type") and not alternatives and isinstance(node, str | float | int):
            parent[keys[-1]], wrapped = [node], True
        elif kind in ("extra_forbidden", "unexpected_keyword_argument"):
            errors[key] = unknown(key, keys[-1], parent)
        else:
            text = "missing" if kind == "missing" else f"{fault['msg']}, got {json.dumps(node)}"
            errors.setdefault(key, UserError(text, key=key))
    if wrapped:
        return parse(target, values, path)
    raise UserErrors([*errors.values()])


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
    cls = locate(node["_target_"], group)
    return cls(**parse(cls, {key: value for key, value in node.items() if key != "_target_"}, group) | extra)
