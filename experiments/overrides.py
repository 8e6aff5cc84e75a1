"""Overrides on the command line: composes a configuration from them, and explains each that Hydra refuses."""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import hydra
import yaml
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Quote, QuotedString
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from analysis.settings import BUNDLED
from data.errors import UserError

CONFIGS = Path(__file__).resolve().parent / "configs"
NO_TEXTS = ("null", "true", "false", "nan", "inf", "infinity")  # words that Hydra reads as something else
NO_FORM = "not of the form key=value."
PLACES = "hydra.searchpath"
NO_SWEEPS = ("compare", "reproduce")  # commands whose keys -m cannot sweep
FOLDER_NAMES = ("dir", "folder", "out", "output", "output_dir", "runs")  # what others call run_dir
ADDED = {"experiment", "clipping"}  # groups of which a run has none by default
GLOBAL = re.compile(r"\s*#\s*@package _global_")  # the first line of a YAML that sets keys of a whole run
NOT_GLOBAL = "{}: its first line must be '# @package _global_', as it sets keys of the whole run."
NO_CHOICES = ("hydra", "commands")  # folders of CONFIGS whose YAMLs are no choice of a run


def file_of(name: str) -> Path:
    """Returns the YAML of a command.

    Commands other than run.py have their own folder: in a run's, Hydra would take a key named like a group
    (budget) for a choice of it.
    """
    return (CONFIGS if name == "run" else CONFIGS / "commands") / f"{name}.yaml"


def compose(overrides: list[str], name: str) -> DictConfig:
    """Composes ``name``.yaml and ``overrides``; Hydra's own part is in the key "hydra".

    Raises:
        HydraException, OmegaConfBaseException: if Hydra refuses them.
        UserError: naming file and line, if a YAML of the user's own cannot be read.
    """
    with hydra.initialize_config_dir(str(file_of(name).parent), version_base="1.3"):
        try:
            return hydra.compose(name, overrides, return_hydra_config=True)
        except ValueError as error:  # of Hydra's own, where a group is null
            raise HydraException(first_line(error)) from None
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark
            where = f"{mark.name}, line {mark.line + 1}" if mark else name
            raise UserError(f"{where}: not YAML ({error.problem}).") from None


def ours(config: DictConfig) -> DictConfig:
    """``config`` without Hydra's own part."""
    return OmegaConf.masked_copy(config, [str(key) for key in config if key != "hydra"])


def quoted(value: Any) -> str:
    """Returns what Hydra reads as ``value`` in an override, with quotes only where it needs them.

    Args:
        value: text, a path, a number, a truth value, None, or lists of these and mappings by plain names.
    """
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key}: {quoted(part)}' for key, part in value.items())}}}"
    if isinstance(value, (list, tuple)):
        return f"[{','.join(map(quoted, value))}]"
    if value is None or isinstance(value, (bool, int, float)):
        return "null" if value is None else str(value).lower()
    # What OmegaConf would take for an interpolation is escaped, with the backslashes before it.
    text = re.sub(r"(\\*)\$\{", r"\1\1\\${", str(value))
    plain = re.fullmatch(r"[A-Za-z/][\w./-]*", text, re.ASCII) and text.lower() not in NO_TEXTS
    return text if plain else QuotedString(text, Quote.single).with_quotes()


def key_of(override: str) -> str:
    """Returns the key that an override sets: "encoder.hidden" of "+encoder.hidden=8"."""
    return override.lstrip("+~").partition("=")[0]


def override(key: str, value: Any) -> str:
    """Returns the argument that sets ``key`` to ``value``."""
    return f"{key}={quoted(value)}"


def typed(key: str, value: Any) -> str:
    """Returns ``override(key, value)`` as it is typed into a shell, for messages."""
    return in_shell(override(key, value))


def in_shell(text: str) -> str:
    """Returns ``text`` as an argument of a shell: where it has single quotes, between double ones if that does."""
    return f'"{text}"' if "'" in text and not re.search(r'["$`\\!]', text) else shlex.quote(text)


def places_of(hydra: DictConfig) -> list[Path]:
    """Returns the folders of YAMLs by Hydra's part of a configuration: the suite's, those of hydra.searchpath."""
    return [Path(one.path) for one in hydra.runtime.config_sources if one.schema == "file"]


def requoted(text: str) -> str:
    """Returns the override ``text``, quoted where YAML reads its list or mapping and Hydra's grammar does not."""
    key, _, value = text.partition("=")
    if value[:1] in ("[", "{") and unreadable([text]):
        with suppress(yaml.YAMLError, OmegaConfBaseException, RecursionError):
            return f"{key}={quoted(OmegaConf.to_container(OmegaConf.create(value)))}"
    return text


def unreadable(overrides: Iterable[str]) -> dict[str, str]:
    """Returns a message for each override that is not of Hydra's grammar."""
    parser, found = OverridesParser.create(), dict[str, str]()
    for text, split in _joined(overrides):
        if split:
            typed_in = " ".join((text, *split))
            whole = re.sub(r" *= *", "=", typed_in, count=1)
            cure = in_shell(whole) if not unreadable([whole]) else typed(*whole.split("=", 1))
            found |= dict.fromkeys(
                (text, *split), f"{typed_in}: the shell splits arguments at spaces; write {cure}"
            )
            continue
        try:
            parser.parse_override(text)
        except HydraException:
            key, equals, value = text.partition("=")
            if "," in value and re.fullmatch(r"[\w.,/+-]*", value):
                kept = ",".join(filter(None, value.split(",")))
                found[text] = f"{text}: a value beside a comma is missing: write {key}={kept}"
            elif re.fullmatch(r"\[[\w.,/+-]+", value):
                found[text] = f"{text}: a closing ] is missing"
            elif value.startswith("~"):  # between quotes the shell would not replace it
                found[text] = f"{text}: write the folder out: {typed(key, Path(value).expanduser())}"
            else:
                found[text] = f"{text}: " + (f"such text {_cured(text)}" if equals else NO_FORM)
    return found


def _joined(overrides: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    """Yields each override with the arguments behind it that have no key: a value that the shell has split."""
    found: list[tuple[str, list[str]]] = []
    for text in overrides:
        before = "".join([found[-1][0], *found[-1][1]]) if found else ""
        if before and (text.startswith("=") or ("=" in before and "=" not in text and text[0] not in "~-")):
            found[-1][1].append(text)
        else:
            found.append((text, []))
    return iter(found)


def compose_accepted(overrides: list[str], name: str) -> tuple[DictConfig, dict[str, str]]:
    """Returns the configuration of those overrides that Hydra accepts, and a line on each other one, by its text.

    The config is ``name``.yaml. Groups come first, as they bring keys along.

    Raises:
        UserError: if a YAML of the user's own cannot be read.
    """
    found = unreadable(overrides := [*map(requoted, overrides)])
    good = [text for text in overrides if text not in found]
    with suppress(HydraException, OmegaConfBaseException):
        return compose(good, name), found
    places = [CONFIGS]
    with suppress(HydraException, OmegaConfBaseException):
        places = places_of(compose([text for text in good if key_of(text) == PLACES], name).hydra)
    groups = choices(places) if name == "run" else {}
    rest, good = sorted(good, key=lambda text: key_of(text) not in {*groups, PLACES}), []
    for text in rest:
        try:
            compose([*good, text], name)
            good.append(text)
        except (HydraException, OmegaConfBaseException) as error:
            found[text] = _explain(text, error, groups, compose(good, name), places, sweeps=name not in NO_SWEEPS)
    return compose(good, name), found


def keys_of(overrides: list[str], name: str) -> dict[str, Any]:
    """Returns the keys of a command under ``overrides``, dotted, and their values.

    Raises:
        UserError: if a YAML of the user's own cannot be read.
    """
    found = _dotted(OmegaConf.to_container(ours(compose_accepted(overrides, name)[0])))
    return found | {f"+{group}": None for group in ADDED if name == "run"}


def _cured(text: str) -> str:
    """Returns the end of a message: how the override ``text``, which Hydra cannot read, is to be typed."""
    start, _, value = text.partition("=")
    shown = "['a, b', c]" if value[:1] in ("[", "{") else quoted(value)
    return f"must be quoted, once for Hydra and again for the shell: {in_shell(f'{start}={shown}')}"


def choices(places: Iterable[Path] = (CONFIGS,)) -> dict[str, list[str]]:
    """Returns the groups that a run is composed of, and the names in each: "declutr/small" of one in a folder."""
    found: dict[str, dict[str, None]] = {}
    for place in places:
        for path in sorted(place.rglob("*.yaml")):
            group, _, name = path.relative_to(place).with_suffix("").as_posix().partition("/")
            if name and group not in NO_CHOICES:
                found.setdefault(group, {})[name] = None
    return {group: [*names] for group, names in found.items()}


def _explain(
    text: str,
    error: Exception,
    groups: Mapping[str, Sequence[str]],
    config: DictConfig,
    places: Sequence[Path],
    *,
    sweeps: bool,
) -> str:
    """Returns one line on why Hydra refuses the override ``text``; ``config`` is composed without it."""
    key, equals, value = text.lstrip("+~").partition("=")
    if not equals:
        return f"{text}: {NO_FORM}"
    if key == "experiment" and (own := _faults_of_own(value, groups, places)):
        return own
    if names := groups.get(key):
        if not {*value.split(",")} <= {*names}:
            from analysis.figures import catalogue  # late: few need it

            if key == "experiment" and value in catalogue.names():
                return f"{text}: it is a figure or table: python experiments/reproduce.py figure={value}."
            if key == "encoder" and value in (path.name for path in BUNDLED.iterdir()):
                return f"{text}: its weights are bundled: write encoder=transformer encoder.name={value}."
            return f"{text}: no such {key}.{guess(value, names)} Available: {', '.join(names)}."
        if key == "experiment" and not text.startswith("+"):
            return f"{text}: an experiment is added; write +{text}"
        return f"{text}: {'several values need -m (a sweep).' if ',' in value else first_line(error)}"
    if key == "hydra/launcher":
        return (
            f"{text}: no such launcher is installed; pip install -e '.[sweeps]' brings joblib and submitit, and "
            "docs/at-scale.md explains how to install Ray's."
        )
    known = {*_dotted(OmegaConf.to_container(ours(config)))} | {"+" * (one in ADDED) + one for one in groups}
    if key not in known:
        group, _, name = key.partition(".")
        if name and (having := _having(group, name, groups)):
            return f"{key}: this {group} has no such key; it exists with {' or '.join(having)}."
        return f"{key}: no such key.{guess(key, known)}"
    if "," in value and Path(value).expanduser().exists():
        return f"{text}: a name with a comma {_cured(text)}."
    if "," in value and "Ambiguous value" in str(error):
        default = OmegaConf.select(config, key)
        hints = [f"write a list in brackets: {key}=[{value}]"] * (default is None or OmegaConf.is_list(default))
        hints += ["several values need -m (a sweep)"] * sweeps
        if (isinstance(default, str | None) and re.search(r"[^\d.,e+-]", value)) or not hints:
            hints.append(f"one text {_cured(text)}")
        return f"{text}: {'; '.join(hints)}."
    return f"{text}: {first_line(error)}"


def _faults_of_own(name: str, groups: Mapping[str, Sequence[str]], places: Sequence[Path]) -> str:
    """Returns a line on what keeps a user's own experiment from changing the choices of a run; "" for nothing."""
    path = next((file for place in places[1:] if (file := place / "experiment" / f"{name}.yaml").is_file()), None)
    if path is None:
        return ""
    text = path.read_text(encoding="utf-8")
    content = yaml.safe_load(text)
    if not GLOBAL.match(text):
        return NOT_GLOBAL.format(path)
    entries = content.get("defaults") if isinstance(content, Mapping) else None
    for key, choice in (pair for one in entries or () if isinstance(one, Mapping) for pair in one.items()):
        group = str(key).removeprefix("override ").strip().lstrip("/")
        if group in groups.keys() - ADDED and str(key) != f"override /{group}":
            return f"{path}: a run has its {group} already: write '- override /{group}: {choice}' in its defaults."
        if group in groups and choice not in groups[group]:
            return f"{path}: no such {group}: {choice}.{guess(str(choice), groups[group])}"
    return ""


def keys_of_own(hydra: DictConfig, given: Iterable[str]) -> dict[str, Path]:
    """Returns the keys that YAMLs of the user's own set, and no override (``given``, by key), with their paths."""
    found: dict[str, Path] = {}
    for place in places_of(hydra)[1:]:
        for group, choice in hydra.runtime.choices.items():
            if (path := place / f"{group}/{choice}.yaml").is_file():
                text = path.read_text(encoding="utf-8")
                found |= dict.fromkeys(_dotted(yaml.safe_load(text), "" if GLOBAL.match(text) else group), path)
    return {key: path for key, path in found.items() if key not in given}


def _having(group: str, name: str, groups: Mapping[str, Iterable[str]]) -> list[str]:
    """Returns the choices of ``group`` that have a key of this (dotted) name: "corpus=text"."""
    leaf, files = f"{name.rpartition('.')[2]}:", (CONFIGS / group).rglob("*.yaml")
    # Composing every choice takes seconds, and most unknown keys are misspelt.
    if group not in groups or not any(leaf in path.read_text(encoding="utf-8") for path in files):
        return []
    found = []
    for option in groups[group]:
        with suppress(HydraException, OmegaConfBaseException):
            chosen = compose([f"{group}={option}"], "run")
            if name in _dotted(OmegaConf.to_container(chosen.get(group) or OmegaConf.create())):
                found.append(f"{group}={option}")
    return found


def guess(word: str, known: Iterable[str]) -> str:
    """Returns "Did you mean ...?" for the closest name, or a dotted one with the closest last part; else ""."""
    known = sorted(known)
    if word in FOLDER_NAMES and "run_dir" in known:
        return " Did you mean run_dir?"
    group, dot, own = word.rpartition(".")
    last = {name.rpartition(".")[2]: name for name in reversed(known)}
    beside = {name.removeprefix(group + dot): name for name in known if dot and name.startswith(group + dot)}
    close = beside.get(nearest(own, beside) or "") if beside else nearest(word, known)
    if close is None and (part := nearest(own, last)):
        close = last[part]
    return f" Did you mean {close}?" if close else ""


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Returns the closest of ``known``, whatever the case; None if none is close."""
    lowered = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower(), list(lowered), n=1, cutoff=0.7)
    return lowered[close[0]] if close else None


def _dotted(node: Any, path: str = "") -> dict[str, Any]:
    """Returns the values of all keys below ``node`` by their dotted names."""
    found: dict[str, Any] = {}
    if isinstance(node, Mapping):
        for key, value in node.items():
            name = f"{path}.{key}" if path else str(key)
            found |= {name: value} | _dotted(value, name)
    return found


def first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0]
