"""Composes a configuration with Hydra, checks it against the constructors that it names, and builds them."""

from __future__ import annotations

import functools
import inspect
import json
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from difflib import get_close_matches
from pathlib import Path
from pkgutil import resolve_name
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import hydra
from hydra.core.global_hydra import GlobalHydra
from omegaconf import DictConfig, OmegaConf
from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from analysis.model_names import CONFIG, EXPORT, run_folder
from data.display import flatten
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
# Keys of a resumed run that may differ from those of its folder.
RESUME = ("resume", "cache", "device", "processes", "threads", "workers", "budget.steps")
# Keys of the encoder that have an effect beside warm_start; its folder sets the others.
WARM = ("attention", "dropout", "max_length", "normalize", "pooling", "summary", "train_vectors")


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


def quote_signs(override: str) -> str:
    """Quotes texts of a value with "=" ("name=folder") or "~" (in a mapping "~/"), which Hydra's grammar lacks."""
    key, equals, value = override.partition("=")
    text = r"~/[^\[\]{},]*" if "{" in value else r"[^\[\],]*[=~][^\[\],]*"
    return override if re.search("['\"]", value) else key + equals + re.sub(text, r"'\g<0>'", value)


def choices(*folders: Path) -> dict[str, list[str]]:
    """Returns the names in each group of configurations, in the suite's and further ``folders``."""
    groups: dict[str, list[str]] = {}
    for folder in (CONFIGS, *folders):
        for path in sorted(folder.rglob("*.yaml")):
            group, _, name = path.relative_to(folder).with_suffix("").as_posix().partition("/")
            if name and group != "commands":
                groups.setdefault(group, []).append(name)
    return groups


def config_folder(name: str) -> Path:
    """Returns the folder of a command's YAML; a key like "budget" would be a group beside run.yaml."""
    return CONFIGS if name == "run" else CONFIGS / "commands"


def compose(overrides: Sequence[str], name: str = "run") -> dict[str, Any]:
    """Returns the composed and resolved configuration of ``run.yaml`` or of another command."""
    prepared = prepare(overrides, name)
    in_main = GlobalHydra.instance().is_initialized()
    with nullcontext() if in_main else hydra.initialize_config_dir(str(config_folder(name)), version_base="1.3"):
        config = hydra.compose(name, prepared, return_hydra_config=True)
    return resolve(config, config.hydra)


def prepare(overrides: Sequence[str], name: str = "run") -> list[str]:
    """Returns ``overrides`` as Hydra gets them; ``encoder=<folder>`` and ``warm_start`` choose their encoder.

    Keys of no group are added by force, so that ``check`` reports unknown ones.

    Raises:
        UserErrors: for overrides that are not ``key=value``, name no choice of their group, or have no effect
            beside ``warm_start``.
    """
    overrides = [*map(quote_signs, overrides)]
    values = {override_key(text): text.partition("=")[2].strip("'\"") for text in overrides}
    folders = map(Path, re.findall(r"file://([^'\"\],]+)", values.get("hydra.searchpath", "")))
    groups = choices(*folders) if name == "run" else {}
    prepared, errors = list[str](), list[UserError]()
    export = Path(values.get("warm_start", "null")).expanduser() / EXPORT
    if warm := export.is_dir():
        prepared.append(f"encoder={encoder_choice(export)}")
    for text in overrides:
        key, value = override_key(text), values[override_key(text)]
        folder = Path(value).expanduser()
        if "=" not in text and not text.startswith("~"):
            errors.append(UserError("key=value expected; quote values with spaces", key=text))
        elif warm and key.startswith(("encoder", "weights")) and key.removeprefix("encoder.") not in WARM:
            errors.append(UserError("warm_start sets it", key=key))
        elif key == "encoder" and value not in groups.get(key, value) and folder.is_dir():
            folder = folder / EXPORT if (folder / EXPORT).is_dir() else folder
            prepared += [f"encoder={encoder_choice(folder)}", f"++encoder.path={quote(folder)}"]
        elif key in groups:
            words = [word for word in value.strip("[]").split(",") if word not in groups[key]]
            errors += [unknown(f"{key}={word}", word, groups[key], f"no such {key}") for word in words]
            prepared.append(text)
        else:
            prepared.append(text if re.match(r"[+~]|hydra[./]", text) else f"++{text}")
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
    marker = folder / "encoder.json"
    if not marker.exists():
        return "transformer"
    with reading("encoder", folder):
        return str(read_json(marker)["class"].split(".")[1])  # its module


def resolve(config: DictConfig, hydra_config: Any) -> dict[str, Any]:
    """Returns a composed configuration as a dictionary; a resumed run's is that of its folder."""
    config = OmegaConf.masked_copy(config, [str(key) for key in config if key != "hydra"])
    values: dict[str, Any] = OmegaConf.to_container(config, resolve=True)  # type: ignore[assignment]
    if hydra_config.job.config_name != "run":
        return values
    if values.get("resume") is not None:
        stored, keys = read_config("resume", values), {*map(override_key, hydra_config.overrides.task)}
        hint = f"{argument('warm_start', values['resume'])} starts a new run from its encoder."
        if fixed := keys - {*RESUME}:
            raise UserErrors([UserError("a resumed run keeps it", key=key, hint=hint) for key in sorted(fixed)])
        if "budget.steps" in keys:
            stored["budget"]["steps"] = values["budget"]["steps"]
        changed = {key: values[key] for key in {*keys, "cache"} & values.keys()}
        return stored | changed | {"run_dir": str(Path(values["resume"]).expanduser())}
    values["names"] = names = {key: hydra_config.runtime.choices.get(key) for key in NAMES}
    encoder = values.get("encoder") or {}
    model = str(encoder.get("path") or encoder.get("name") or names["encoder"])
    names["encoder"] = (run_folder(model) or Path(model)).name
    if values.get("warm_start") is not None:
        names["encoder"] = str(read_config("warm_start", values)["names"]["encoder"])
    return values


def read_config(key: str, values: Mapping[str, Any]) -> Any:
    """Returns the configuration of the run folder that the value of ``key`` names."""
    with reading("run folder", str(values[key])):
        config = read_yaml(Path(str(values[key])).expanduser() / CONFIG)
        return {name: config[name] for name in (*config, *BASES)}  # one that is cut lacks components


def check(config: Mapping[str, Any]) -> None:
    """Raises UserErrors for all wrong keys of a run's configuration: unknown or missing ones, types, ranges."""
    from experiments.settings import Settings

    errors = [UserError("missing", key=key) for key, value in flatten(config) if value == "???"]
    # Components as in run.yaml and the bundled encoder are right, and their classes take up to seconds to import.
    right = compose([])
    changed = [key for key in BASES if config.get(key) != right.get(key)]
    if {"encoder", "evaluation"} & {*changed}:
        right = compose(["encoder=bundled", "evaluation=none"])
        changed = [key for key in changed if config.get(key) != right.get(key)]
    nodes: dict[str, Any] = {key: config.get(key) or {} for key in changed}
    nodes[""] = {key: config[key] for key in config if key not in (*BASES, "names")}
    for group, node in nodes.items():
        try:
            parse(locate(node.get("_target_"), group) if group else Settings, node, group)
        except UserError as error:
            errors.append(error)
    if errors:
        raise UserErrors(errors)


def parse(target: Callable[..., Any], values: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    """Returns ``values``, those below the key ``path``, as the types of the keyword-only arguments of ``target``.

    Raises:
        UserErrors: all that are wrong: unknown or missing keys, types, ranges.
    """
    values = {key: value for key, value in values.items() if key != "_target_" and value != "???"}
    try:
        model = schema(target).model_validate_json(json.dumps(values), strict=True)
        parsed = {key: getattr(model, key) for key in values}  # a mapping stays one
        return {key: values[key] if isinstance(value, BaseModel) else value for key, value in parsed.items()}
    except ValidationError as error:
        faults = error.errors(include_url=False)
    errors = dict[str, UserError]()
    for fault in faults:
        parent: Any = values
        node, keys, kind = parent, [path] * bool(path), fault["type"]
        for part in map(str, fault["loc"]):  # beyond keys, it names alternatives of a type
            if isinstance(node, Mapping) and (part in node or kind == "missing"):
                parent, node = node, node.get(part)
                keys.append(part)
        key, text = ".".join(keys), "missing" if kind == "missing" else f"{fault['msg']}, got {json.dumps(node)}"
        is_unknown = kind in ("extra_forbidden", "unexpected_keyword_argument")
        errors.setdefault(key, unknown(key, keys[-1], parent) if is_unknown else UserError(text, key=key))
    raise UserErrors([*errors.values()])


@functools.cache
def schema(target: Callable[..., Any]) -> type[BaseModel]:
    """Returns a model of keyword-only arguments; ``**options`` stands for those of a base class or a TypedDict."""
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
    """Returns the class that ``_target_`` names; outside its group's package nothing is imported."""
    base = BASES[group]
    package = base.rpartition(".")[0].removesuffix(".base")
    if str(target).startswith(f"{package}."):
        with suppress(ImportError, AttributeError, TypeError, ValueError):
            cls: type = resolve_name(target)
            if issubclass(cls, resolve_name(base)) and not inspect.isabstract(cls):
                return cls
    raise UserError(f"not a subclass of {base}", key=f"{group}._target_={target}")


def build(node: Mapping[str, Any], group: str, **extra: Any) -> Any:
    """Constructs the component of ``group`` whose class and arguments are in ``node`` and ``extra``."""
    cls = locate(node["_target_"], group)
    return cls(**parse(cls, node, group) | extra)
