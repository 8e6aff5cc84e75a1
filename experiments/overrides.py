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

from data.errors import UserError

CONFIGS = Path(__file__).resolve().parent / "configs"
NO_TEXTS = ("null", "true", "false", "nan", "inf", "infinity")  # words that Hydra reads as something else
NO_FORM = "not of the form key=value."
PLACES = "hydra.searchpath"
NO_SWEEPS = ("compare", "reproduce")  # commands whose keys -m cannot sweep
ADDED = {"experiment", "clipping"}  # groups of which a run has none by default
NO_CHOICES = ("hydra", "commands")  # folders of CONFIGS whose YAMLs are no choice of a run


def file_of(name: str) -> Path:
    """Returns the YAML of a command.

    Those of all commands but run.py have a folder of their own: keys that are called like a group of a run's
    (budget) would be taken for a choice beside it.
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
    return shlex.quote(override(key, value))


def places_of(config: DictConfig) -> list[Path]:
    """Returns the folders that ``config`` is composed from: the suite's, and those of hydra.searchpath."""
    return [Path(one.path) for one in config.hydra.runtime.config_sources if one.schema == "file"]


def readable(text: str) -> str:
    """Returns the override ``text``, quoted where YAML reads its list or mapping and Hydra's grammar does not."""
    key, _, value = text.partition("=")
    with suppress(yaml.YAMLError, RecursionError):
        if value[:1] in ("[", "{") and unreadable([text]) and (node := yaml.compose(value, yaml.SafeLoader)):
            return f"{key}={_requoted(node)}"
    return text


def _requoted(node: yaml.Node) -> str:
    """Returns a YAML node in Hydra's grammar: a scalar is quoted if it was or if Hydra cannot read it bare."""
    if isinstance(node, yaml.MappingNode):
        return f"{{{', '.join(f'{_requoted(key)}: {_requoted(value)}' for key, value in node.value)}}}"
    if isinstance(node, yaml.SequenceNode):
        return f"[{','.join(map(_requoted, node.value))}]"
    assert isinstance(node, yaml.ScalarNode)
    bare = not node.style and node.value and not re.search(r"[,\[\]{}]", node.value)
    return str(node.value) if bare and not unreadable([f"x={node.value}"]) else quoted(node.value)


def unreadable(overrides: Iterable[str]) -> dict[str, str]:
    """Returns a message for each override that is not of Hydra's grammar."""
    parser, found = OverridesParser.create(), {}
    for text in overrides:
        try:
            parser.parse_override(text)
        except HydraException:
            key, equals, value = text.partition("=")
            if "," in value and re.fullmatch(r"[\w.,/+-]*", value):
                kept = ",".join(filter(None, value.split(",")))
                found[text] = f"{text}: a value beside a comma is missing: write {key}={kept}."
            elif value.startswith("~"):  # between quotes the shell would not replace it
                found[text] = f"{text}: write the folder out: {typed(key, Path(value).expanduser())}"
            else:
                found[text] = f"{text}: " + (f"such text {_cured(text)}" if equals else NO_FORM)
    return found


def sieve(overrides: list[str], name: str) -> tuple[list[str], list[str]]:
    """Returns the overrides that Hydra accepts, groups first (they bring keys along), and the others' faults."""
    bad = unreadable(overrides)
    places = [CONFIGS]
    if named := [text for text in overrides if text not in bad and key_of(text) == PLACES]:
        with suppress(HydraException, OmegaConfBaseException):
            places = places_of(compose(named, name))
    known = {*groups(places)} if name == "run" else set()
    first = known | {"experiment", PLACES}
    readable = sorted((text for text in overrides if text not in bad), key=lambda text: key_of(text) not in first)
    with suppress(HydraException, OmegaConfBaseException):
        compose(readable, name)
        return readable, [*bad.values()]
    good, found = list[str](), [*bad.values()]
    for text in readable:
        try:
            compose([*good, text], name)
            good.append(text)
        except (HydraException, OmegaConfBaseException) as error:
            found.append(_explain(text, error, known, compose(good, name), places, sweeps=name not in NO_SWEEPS))
    return good, found


def _cured(text: str) -> str:
    """Returns the end of a message: how the override ``text``, which Hydra cannot read, is to be typed."""
    start, _, value = text.partition("=")
    shown = "['a, b', c]" if value[:1] in ("[", "{") else quoted(value)
    return f"must be quoted, once for Hydra and again for the shell: {shlex.quote(f'{start}={shown}')}"


def groups(places: Iterable[Path] = (CONFIGS,)) -> dict[str, list[str]]:
    """Returns the groups that a run is composed of, and the names in each."""
    found: dict[str, list[str]] = {}
    for place in places:
        for path in sorted(place.rglob("*.yaml")):
            inside = path.relative_to(place)
            if len(inside.parts) > 1 and inside.parts[0] not in NO_CHOICES:
                found.setdefault(inside.parent.as_posix(), []).append(inside.stem)
    return found


def _explain(
    text: str, error: Exception, groups: set[str], config: DictConfig, places: Sequence[Path], *, sweeps: bool
) -> str:
    """Returns one line on why Hydra refuses the override ``text``; ``config`` is composed without it."""
    key, equals, value = text.lstrip("+~").partition("=")
    if not equals:
        return f"{text}: {NO_FORM}"
    if key == "experiment" and (own := _faults_of_own(value, groups, places)):
        return own
    if key in groups | {"experiment"}:
        names = options(key, places)
        if not {*value.split(",")} <= {*names}:
            if key == "experiment" and value in _figures():
                return f"{text}: it is a figure or table: python experiments/reproduce.py figure={value}."
            return f"{text}: no such {key}.{guess(value, names)} There are {', '.join(names)}."
        if key == "experiment" and not text.startswith("+"):
            return f"{text}: an experiment is added; write +{text}."
        return f"{text}: {'several values to run one by one need -m.' if ',' in value else first_line(error)}"
    if key == "hydra/launcher":
        return (
            f"{text}: no such launcher is installed; pip install -e '.[sweeps]' brings joblib and submitit, and "
            "docs/at-scale.md says where Ray's is from."
        )
    known = {*_dotted(OmegaConf.to_container(ours(config)))} | {
        group for group in groups if not group.startswith("experiment/")
    }
    if key not in known:
        group, _, name = key.partition(".")
        if name and group in groups and (having := _having(group, name, places)):
            return f"{key}: this {group} has no such key; it is one of {', '.join(having)}."
        plus = groups and nearest(key, {*known, "experiment"}) == "experiment"
        return f"{key}: no such key." + (" Did you mean +experiment?" if plus else guess(key, known))
    if "," in value and "Ambiguous value" in str(error):
        default = OmegaConf.select(config, key)
        hints = [f"a list has brackets, {key}=[{value}]"] * (default is None or OmegaConf.is_list(default))
        hints += ["several values to run one by one need -m"] * sweeps
        if (isinstance(default, str | None) and re.search(r"[^\d.,e+-]", value)) or not hints:
            hints.append(f"one text {_cured(text)}")
        return f"{text}: {'; '.join(hints)}."
    return f"{text}: {first_line(error)}"


def _figures() -> list[str]:
    from analysis.figures import catalogue  # late: few need it

    return catalogue.names()


def _faults_of_own(name: str, groups: set[str], places: Sequence[Path]) -> str:
    """Returns a line on what keeps a user's own experiment from changing the choices of a run; "" for nothing."""
    path = next((file for place in places[1:] if (file := place / "experiment" / f"{name}.yaml").is_file()), None)
    if path is None:
        return ""
    text = path.read_text(encoding="utf-8")
    content = yaml.safe_load(text)
    if not re.match(r"\s*#\s*@package _global_", text):
        return f"{path}: its first line must be '# @package _global_', as it sets keys of the whole run."
    entries = content.get("defaults") if isinstance(content, Mapping) else None
    for key, choice in (pair for one in entries or () if isinstance(one, Mapping) for pair in one.items()):
        group = str(key).removeprefix("override ").strip().lstrip("/")
        if group in groups - ADDED and str(key) != f"override /{group}":
            return f"{path}: a run has its {group} already: write '- override /{group}: {choice}' in its defaults."
        if group in groups and choice not in (names := options(group, places)):
            return f"{path}: no such {group}: {choice}.{guess(str(choice), names)}"
    return ""


def options(group: str, places: Iterable[Path] = (CONFIGS,)) -> list[str]:
    """Returns the names in a folder of YAMLs, "declutr/small" of those in a folder inside."""
    found = [
        path.relative_to(place / group).with_suffix("").as_posix()
        for place in places
        for path in sorted((place / group).rglob("*.yaml"))
    ]
    return list(dict.fromkeys(found))


def choice_of(encoder: str, name: str) -> str:
    """Returns what ``encoder=`` is given for an encoder of a dotted class: its ``name`` where that is a choice."""
    classes = {}
    for option in options("encoder"):
        own = yaml.safe_load((CONFIGS / "encoder" / f"{option}.yaml").read_text(encoding="utf-8"))
        if name in (option, own.get("name")) and own.get("_target_", encoder) == encoder:
            return option
        classes[own.get("_target_")] = option
    return str(classes.get(encoder, "<its kind>"))


def _having(group: str, name: str, places: Sequence[Path]) -> list[str]:
    """Returns the choices of ``group`` that have a key of this (dotted) name: "corpus=text"."""
    found = []
    for option in options(group, places):
        try:
            chosen = compose([f"{group}={option}"], "run")
        except (HydraException, OmegaConfBaseException):
            continue
        if name in _dotted(OmegaConf.to_container(chosen.get(group) or OmegaConf.create())):
            found.append(f"{group}={option}")
    return found


def guess(word: str, known: Iterable[str]) -> str:
    """Returns "Did you mean ...?" for the closest name, or a dotted one with the closest last part; else ""."""
    known = sorted(known)
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
    close = difflib.get_close_matches(word.lower(), list(lowered), n=1, cutoff=0.6)
    return lowered[close[0]] if close else None


def _dotted(node: Any, path: str = "") -> Iterator[str]:
    """Yields the dotted names of all keys below ``node``."""
    if isinstance(node, Mapping):
        for key, value in node.items():
            name = f"{path}.{key}" if path else str(key)
            yield name
            yield from _dotted(value, name)


def first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0]
