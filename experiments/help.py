"""The text of ``--help``: every key with its value and the comment that its YAML has beside it."""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from omegaconf import OmegaConf

from experiments.overrides import ADDED, choices, compose, ours, places_of

WIDTH = 110  # of lines at most
COLUMN = 38  # where comments begin
COMMON = ("objective", "encoder", "corpus", "budget", "evaluation", "experiment")  # groups, commonest first


def described(overrides: Sequence[str], name: str) -> str:
    """Returns the help of a command for the choices among ``overrides``; its YAML is ``name``."""
    config = compose([*overrides], name)
    places = places_of(config.hydra)
    chosen: Mapping[str, str] = config.hydra.runtime.choices
    main = _comments(*_files(places, "", name))
    parts = [main.pop("")]
    nodes: Any = OmegaConf.to_container(ours(config), resolve=True)
    named = choices(places) if name == "run" else {}
    parts += [_choices(named)] if named else []
    own = {key: value for key, value in nodes.items() if key not in named}
    parts.append("Keys, with their values now:\n" + _keys(own, main))
    for group in sorted(named.keys() & nodes.keys(), key=_order):
        found = _comments(*_files(places, group, str(chosen.get(group))))
        head = _sentence(found.pop(""))
        inner = {f"{group}.{key}": text for key, text in found.items()}
        node = {key: value for key, value in (nodes[group] or {}).items() if key != "_target_"}
        keys = _keys(node, inner, f"{group}.")
        title = textwrap.fill(f"{group}={chosen.get(group)}: {head}", _width())
        parts.append("\n".join(filter(None, (title, keys))))
    return "\n\n".join(parts)


def meaning(key: str, hydra: Any) -> str:
    """Returns the comment beside ``key`` in the YAML of its group's choice, or of the command; "" if it has none.

    Args:
        hydra: Hydra's own part of a configuration.
    """
    group, _, inner = key.partition(".")
    choice = hydra.runtime.choices.get(group)
    where = (group, choice) if inner and choice else ("", hydra.job.config_name)
    return _comments(*_files(places_of(hydra), *where)).get(inner or key, "")


def _order(group: str) -> tuple[int, str]:
    return (COMMON.index(group) if group in COMMON else len(COMMON), group)


def _choices(named: Mapping[str, Sequence[str]]) -> str:
    """Lists the names in each group; one that is added has a plus."""
    lines = ["Choices (objective=simcse --help shows the keys of that one below):"]
    lines += [
        _line(f"  {'+' * (one in ADDED)}{one}=", " | ".join(named[one])) for one in sorted(named, key=_order)
    ]
    return "\n".join(lines)


def _keys(node: Mapping[str, Any], comments: Mapping[str, str], path: str = "") -> str:
    lines = []
    for key, value in node.items():
        name = f"{path}{key}"
        if isinstance(value, Mapping) and value:
            if comments.get(name):
                lines.append(_line(f"  {name}:", comments[name]))
            lines.append(_keys(value, comments, f"{name}."))
        else:
            shown = yaml.safe_dump(value, default_flow_style=True, width=1000).split("\n")[0]
            lines.append(_line(f"  {name}: {shown}", comments.get(name, "")))
    return "\n".join(lines)


def _sentence(head: str) -> str:
    """The lines of ``head`` up to the first that ends a sentence."""
    lines = head.splitlines()
    ends = [number for number, line in enumerate(lines) if line.endswith((".", ":"))]
    return " ".join(lines[: ends[0] + 1] if ends else lines[:1]).rstrip(":")


def _width() -> int:
    return min(WIDTH, max(60, shutil.get_terminal_size((WIDTH, 24)).columns))


def _line(start: str, text: str) -> str:
    if not text:
        return start
    first = start.ljust(COLUMN - 2) + "  "
    return textwrap.fill(
        text,
        _width(),
        initial_indent=first,
        subsequent_indent=" " * COLUMN,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _files(places: Sequence[Path], group: str, choice: str) -> Iterator[Path]:
    """The YAMLs of a choice, those that it builds upon in the same group first."""
    for place in places:
        path = place / group / f"{choice}.yaml"
        if path.is_file():
            for other in (yaml.safe_load(path.read_text(encoding="utf-8")) or {}).get("defaults", []):
                if isinstance(other, str) and other != "_self_":
                    yield from _files(places, group, other)
            yield path
            return


def _comments(*paths: Path) -> dict[str, str]:
    """Returns the comment beside each key of YAMLs, by dotted name; that of "" is the head of the last one."""
    found: dict[str, str] = {"": ""}
    for path in paths:
        above: list[tuple[int, str]] = []
        last, head = "", []
        for line in path.read_text(encoding="utf-8").splitlines():
            text = line.strip()
            if text.startswith("#"):
                if above:  # goes on with the comment above
                    found[last] = f"{found[last]} {text.lstrip('# ')}"
                elif not text.startswith("# @package"):
                    head.append(text.removeprefix("#").removeprefix(" "))
            elif key := re.match(r"( *)(\w+):", line):
                above = [one for one in above if one[0] < len(key[1])] + [(len(key[1]), key[2])]
                last = ".".join(name for _, name in above)
                found[last] = line.partition("  # ")[2] or found.get(last, "")
        found[""] = "\n".join(head)
    return found
