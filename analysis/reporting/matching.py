"""Results that may be held against each other: of one protocol, and the same tasks judged on the same files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from analysis.senteval.records import PUBLISHED
from analysis.senteval.results import FILE, Results, read_results
from analysis.senteval.tasks import find
from data.errors import UserError, readable
from data.files import read_yaml

CONFIG = "config.yaml"  # a run's, in its folder


class Judged(NamedTuple):
    """A result and the folder that it lies in."""

    folder: Path
    results: Results


def read_alike(paths: Sequence[Path | str], tasks: Sequence[str] | None = None) -> tuple[list[Judged], list[str]]:
    """Reads results (folders, or their senteval.json), and the tasks to take of each, in SentEval's order.

    Args:
        tasks: which; None: all that any of them has.

    Raises:
        UserError: in one line, where protocols differ, one lacks a task, or a task's files were others.
    """
    if not paths:
        raise UserError(f"No results are named: name folders that hold a {FILE}.")
    folders = [path.parent if path.name == FILE else path for path in map(Path, paths)]
    judged = [Judged(folder, read_results(folder)) for folder in folders]
    first = judged[0]
    for one in judged[1:]:
        if one.results.protocol != first.results.protocol:
            raise UserError(
                f"{first.folder} is judged by the protocol {first.results.protocol}, {one.folder} by "
                f"{one.results.protocol}: evaluate both by one protocol."
            )
    named = {name for one in judged for name in one.results.tasks}
    wanted = named if tasks is None else {task.name for task in find(tasks)}
    for task in (task for task in PUBLISHED if task in wanted):
        for one in judged:
            if task not in one.results.tasks:
                raise UserError(f"{one.folder} has no result of {task}: evaluate it there, or name other tasks.")
            if one.results.tasks[task].get("files") is None:
                raise UserError(f"{one.folder} does not tell which files of {task} it read: evaluate it again.")
            if one.results.tasks[task].get("files") != first.results.tasks[task].get("files"):
                raise UserError(
                    f"{first.folder} and {one.folder} are judged on other files of {task}: evaluate both on the "
                    "same data."
                )
    return judged, [task for task in PUBLISHED if task in wanted]


def label(judged: Judged, keys: Sequence[str]) -> str | None:
    """What the configuration of the run that was judged has at ``keys`` ("objective.task"): "conssent D 2".

    Keys that it has not are passed over; None where it has none of them, or no run was judged.

    Raises:
        UserError: if the run's configuration cannot be read.
    """
    return told(_config(judged), keys)


def named(given: str) -> tuple[str, str]:
    """Name ("" where there is none) and path of "PATH" or "NAME=PATH"; a path may have "=" in it itself."""
    name, equals, path = given.partition("=")
    return (name, path) if equals and not Path(given).exists() else ("", given)


def told(config: Mapping[str, Any], keys: Sequence[str]) -> str | None:
    """What ``config`` has at ``keys``, as ``label`` gives it."""
    values = [_at(config, key.split(".")) for key in keys]
    return " ".join(str(value) for value in values if value is not None) or None


def _config(judged: Judged) -> Mapping[str, Any]:
    """Of the run whose folder has the result, or whose encoder it names."""
    named = judged.results.model.get("path")
    places = [judged.folder] + ([Path(named), Path(named).parent] if isinstance(named, str) else [])
    with readable(judged.folder):  # the path is a file's, and may be none that the system takes
        path = next((place / CONFIG for place in places if (place / CONFIG).is_file()), None)
    if path is None:
        return {}
    with readable(path):
        try:
            found = read_yaml(path)
        except ValueError:
            raise UserError(f"{path} is not YAML: it was cut short, or is another file.") from None
    return found if isinstance(found, Mapping) else {}


def _at(value: Any, keys: Sequence[str]) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value
