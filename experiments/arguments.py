"""Command lines of commands that start runs: keys of the command itself, and overrides for its runs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, get_type_hints

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from data.errors import UserError
from experiments import signatures
from experiments.command_line import HELP, one_line_errors, split
from experiments.compose import COMPONENTS
from experiments.overrides import key_of
from experiments.settings import Settings

OF_RUNS = {*Settings.__dataclass_fields__, *COMPONENTS, "experiment", "clipping"}


def run(command: Callable[[list[str]], int], file: Path) -> int:
    """Runs ``command`` and returns its status; ``--help`` shows its keys and their comments in ``file``."""
    with one_line_errors():
        switches = [str(key) for key, value in OmegaConf.load(file).items() if isinstance(value, bool)]
        flags, given = split(sys.argv[1:], HELP, switches)
        if flags:
            from experiments.help import described  # late: seldom needed

            print(described([], file.stem))
            return 0
        return command(given)


def read(
    arguments: Sequence[str],
    schema: type[Any],
    file: Path,
    reserved: Mapping[str, str],
    lists: Collection[str] = (),
    texts: Collection[str] = (),
) -> tuple[dict[str, Any], list[str]]:
    """Returns the values of the command's own keys, and the overrides for its runs.

    Args:
        arguments: of the command line, each key=value.
        schema: the dataclass of the command's keys; "a.b=1" sets one value of a mapping.
        file: YAML of their defaults.
        reserved: keys of runs that the command sets itself, and what to write instead.
        lists: keys whose one value is a list of one.
        texts: which of these hold texts, in which a comma does not separate values.

    Raises:
        UserError: with one line for each fault.
    """
    defaults: dict[str, Any] = OmegaConf.to_container(OmegaConf.load(file))  # type: ignore[assignment]
    known = {*schema.__dataclass_fields__}
    own, passed, found = [], [], []
    for text in arguments:
        key = key_of(text)
        first = key.split(".")[0]
        if "=" not in text:
            found.append(f"{text}: not of the form key=value.")
        elif not text.partition("=")[2]:
            found.append(f"{key} must not be empty.")
        elif key in known or isinstance(defaults.get(first), dict):
            own.append(text)
        elif first in reserved:
            found.append(f"{key}: the command sets it for each run; {reserved[first]}.")
        elif first in OF_RUNS:
            passed.append(text)
        else:
            near = signatures.nearest(key, known | OF_RUNS)
            found.append(f"{key}: no such key." + (f" Did you mean {near}?" if near else ""))
    config, hints = OmegaConf.create(defaults), get_type_hints(schema)
    for text in own:
        key, _, value = text.partition("=")
        if key in lists and key not in texts and "," in value and not value.startswith("["):
            found.append(f"{text}: a list has brackets, {key}=[{value}].")
            continue
        if hints.get(key) in (str, str | None) and value != "null" and value[0] not in "'\"":
            text = f"{key}={json.dumps(value, ensure_ascii=False)}"  # a path may look like anything else in YAML
        try:
            config.merge_with(config, OmegaConf.from_dotlist([text]))
        except (YAMLError, OmegaConfBaseException):
            found.append(f"{text}: its value cannot be read; a list has brackets, as in seeds=[1,2].")
    values: dict[str, Any] = OmegaConf.to_container(config)  # type: ignore[assignment]
    for key in lists:
        if isinstance(values[key], (int, str)):
            values[key] = [values[key]]
    found += signatures.faults(schema, values)
    if found:
        raise UserError(*found)
    return values, passed
