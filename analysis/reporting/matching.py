"""Comparable results: one protocol, and the same tasks evaluated on the same files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from analysis.senteval.records import PUBLISHED
from analysis.senteval.results import FILE, Results, read_results
from analysis.senteval.tasks import find
from analysis.settings import BUNDLED
from data.errors import UserError, readable
from data.files import read_yaml

CONFIG = "config.yaml"  # in a run's folder


class StoredResults(NamedTuple):
    """Results and the folder that holds them."""

    folder: Path
    results: Results


def read_matching(
    paths: Sequence[Path | str], tasks: Sequence[str] | None = None
) -> tuple[list[StoredResults], list[str]]:
    """Reads results (folders, or their senteval.json) and their common tasks, in SentEval's order.

    Args:
        tasks: names of tasks; None: all tasks of any of the results, which all must have.

    Raises:
        UserError: in one line, if protocols differ, a task is missing in one, or its files differ.
    """
    if not paths:
        raise UserError(f"No results are named: name folders that hold a {FILE}.")
    folders = [results_folder(path) for path in paths]
    for folder in folders:
        if not folder.exists() and is_bundled(str(folder)):
            raise UserError(
                f"{folder} is a bundled model, and results are needed: evaluate.py model={folder} out=<folder> "
                "writes them, results=[<folder>] reads them."
            )
    stored = [StoredResults(folder, read_results(folder)) for folder in folders]
    first = stored[0]
    for one in stored[1:]:
        if one.results.protocol != first.results.protocol:
            raise UserError(
                f"{first.folder} is evaluated by the protocol {first.results.protocol}, {one.folder} by "
                f"{one.results.protocol}: evaluate both by one protocol."
            )
    named = {name for one in stored for name in one.results.tasks}
    wanted = named if tasks is None else {task.name for task in find(tasks)}
    for task in (task for task in PUBLISHED if task in wanted):
        for one in stored:
            if task not in one.results.tasks:
                raise UserError(f"{one.folder} has no result of {task}: evaluate it there, or name other tasks.")
            if one.results.tasks[task].get("files") is None:
                raise UserError(f"{one.folder} does not record which files of {task} it read: evaluate it again.")
            if one.results.tasks[task].get("files") != first.results.tasks[task].get("files"):
                raise UserError(
                    f"{first.folder} and {one.folder} are evaluated on other files of {task}: evaluate both on "
                    "the same data."
                )
    return stored, [task for task in PUBLISHED if task in wanted]


def results_folder(path: Path | str) -> Path:
    """Returns the folder of results; ``path`` is that folder or its senteval.json."""
    path = Path(path)
    return path.parent if path.name == FILE else path


def is_bundled(model: str) -> bool:
    """Returns True if ``model`` is the name of a bundled checkpoint."""
    return bool(model) and model in (folder.name for folder in BUNDLED.iterdir())


def label(stored: StoredResults, keys: Sequence[str]) -> str | None:
    """Returns the evaluated run's configuration values at ``keys`` ("objective.task"): "conssent D 2".

    Missing keys are skipped; None if all are missing, or if the results are not those of a run.

    Raises:
        UserError: if the run's configuration cannot be read.
    """
    return config_label(config_of(stored), keys)


def named(given: str) -> tuple[str, str]:
    """Splits "PATH" or "NAME=PATH" into name ("" without one) and path; the path may contain "="."""
    name, equals, path = given.partition("=")
    return (name, path) if equals and not Path(given).exists() else ("", given)


def expanded(given: Sequence[str]) -> list[str]:
    """Replaces "*" and "?" in paths, or in those of "NAME=PATH", by the folders that match, in order.

    Matches that are neither a run nor results, such as the folder of the logs, are left out if there are others.

    Raises:
        UserError: if none matches.
    """
    found = []
    for text in given:
        name, path = named(text)
        paths = [path]
        if not Path(path).exists() and any(sign in path for sign in "*?"):
            root = Path(path).anchor
            matches = sorted(map(str, Path(root).glob(path.removeprefix(root))))
            kept = [one for one in matches if any(Path(one, file).is_file() for file in (CONFIG, FILE))]
            paths = kept or matches
        if not paths:
            raise UserError(f"{path}: no folder matches.")
        found += [f"{name}={one}" if name else one for one in paths]
    return found


def config_label(config: Mapping[str, Any], keys: Sequence[str]) -> str | None:
    """Returns the values of ``config`` at ``keys``, joined as in ``label``."""
    values = [_at(config, key.split(".")) for key in keys]
    return " ".join(str(value) for value in values if value is not None) or None


def config_of(stored: StoredResults) -> Mapping[str, Any]:
    """Reads the configuration of the run whose folder holds the results, or whose encoder they name.

    Empty if there is no such run.
    """
    named = stored.results.model.get("path")
    places = [stored.folder] + ([Path(named), Path(named).parent] if isinstance(named, str) else [])
    with readable(stored.folder):  # the path comes from a file and may be invalid on this system
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
