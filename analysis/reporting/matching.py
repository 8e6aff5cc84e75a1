"""Results named on a command line: their folders, their runs' configurations, and which belong together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from analysis.model_names import CONFIG, run_folder, split_members
from analysis.runs import comparable
from analysis.senteval.records import PUBLISHED
from analysis.senteval.results import FILE, Results, read_results
from analysis.senteval.tasks import find
from data.errors import UserError, reading
from data.files import read_yaml


class StoredResults(NamedTuple):
    """Results and the folder that holds them."""

    folder: Path
    results: Results


def read_named(paths: Sequence[str], by: Sequence[str] = ()) -> list[StoredResults]:
    """Reads results, each under its model's name or another one.

    Args:
        paths: FOLDER or NAME=FOLDER; "*" and "?" in a folder stand for any letters.
        by: keys of the runs' configurations, whose values name results without a NAME.

    Raises:
        UserError: if no folder matches, or one cannot be read.
    """
    stored = []
    for text in paths:
        name, path = split_name(text)
        for folder in expand(path):
            stored.append(read_stored(folder))
            if title := name or (by and label(stored[-1], by)):
                stored[-1].results.model = stored[-1].results.model | {"name": title}
    return stored


def split_name(text: str) -> tuple[str, str]:
    """Splits "PATH" or "NAME=PATH" into name ("" without one) and path; an existing path may contain "="."""
    name, equals, path = text.partition("=")
    return (name, path) if equals and not Path(text).exists() else ("", text)


def expand(path: str) -> list[str]:
    """Returns the folders with results or a run that ``path`` with "*" and "?" matches, in order.

    Raises:
        UserError: if none matches.
    """
    if Path(path).exists() or not any(sign in path for sign in "*?"):
        return [path]
    with reading("pattern", path):
        root = Path(path).anchor
        matches = sorted(Path(root).glob(path.removeprefix(root)))
    folders = [str(match) for match in matches if (match / FILE).is_file() or (match / CONFIG).is_file()]
    if not folders:
        raise UserError("no folder matches", key=path)
    return folders


def read_stored(path: Path | str) -> StoredResults:
    """Reads results from their folder or their senteval.json.

    Raises:
        UserError: if they cannot be read.
    """
    path = Path(path)
    return StoredResults(path.parent if path.name == FILE else path, read_results(path))


def require_protocol(stored: Sequence[StoredResults]) -> None:
    """Refuses results of several protocols.

    Raises:
        UserError: naming two.
    """
    first = stored[0]
    for other in stored[1:]:
        if other.results.protocol != first.results.protocol:
            raise UserError(
                f"evaluated by the protocol {other.results.protocol}, {first.folder} by {first.results.protocol}",
                key=str(other.folder),
            )


def require_matching(stored: Sequence[StoredResults], tasks: Sequence[str] | None = None) -> list[str]:
    """Returns the common tasks of results, in SentEval's order.

    Args:
        stored: results.
        tasks: names of tasks; None: all tasks of any of the results, which all must have.

    Raises:
        UserError: if protocols differ, a task is missing in one, or its files differ.
    """
    require_protocol(stored)
    first = stored[0]
    chosen = None if tasks is None else [task.name for task in find(tasks)]
    names = set(chosen or (name for other in stored for name in other.results.tasks))
    for task in names:
        for other in stored:
            if task not in other.results.tasks:
                raise UserError(f"no result of {task}", key=str(other.folder))
            if other.results.tasks[task].get("files") != first.results.tasks[task].get("files"):
                raise UserError(f"evaluated on other files of {task} than {first.folder}", key=str(other.folder))
    return [task for task in PUBLISHED if task in names]


def require_equal(stored: Sequence[StoredResults]) -> None:
    """Refuses to pool results of one name whose runs differ in more than their seed.

    Raises:
        UserError: naming the keys in which two differ.
    """
    firsts: dict[tuple[str, str], StoredResults] = {}
    for other in stored:
        name = str(other.results.model.get("name"))
        first = firsts.setdefault((name, other.results.protocol), other)
        ours, theirs = _experiment(other), _experiment(first)
        if keys := sorted(key for key in ours.keys() | theirs.keys() if ours.get(key) != theirs.get(key)):
            text = f"{first.folder} and {other.folder} differ in {', '.join(keys)}"
            raise UserError(text, key=f"results: {name}", hint="Give them different names.")


def label(stored: StoredResults, keys: Sequence[str]) -> str | None:
    """Returns the values of the run's configuration at ``keys`` ("objective.task"), as "D 2".

    Missing keys are skipped; None if all are missing, or if the results are not those of a run.

    Raises:
        UserError: if the run's configuration cannot be read.
    """
    [config, *_] = configs(stored)
    values = []
    for key in keys:
        value: Any = config
        for part in key.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        values.append(value)
    return " ".join(str(value) for value in values if value is not None) or None


def configs(stored: StoredResults) -> list[Mapping[str, Any]]:
    """Reads the configurations of the runs whose encoders were evaluated; {"model": name} for other models.

    Raises:
        UserError: if one cannot be read.
    """
    if (stored.folder / CONFIG).is_file():
        return [_read_config(stored.folder)]
    members = split_members(str(stored.results.model.get("path")))
    return [_read_config(run) if (run := run_folder(member)) else {"model": member} for member in members]


def _read_config(run: Path) -> Mapping[str, Any]:
    config = read_yaml(run / CONFIG)
    if not isinstance(config, Mapping):
        raise UserError("not a run's configuration", key=str(run / CONFIG))
    return config


def _experiment(stored: StoredResults) -> dict[str, Any]:
    """Returns the settings that results of one name share: of training, or the model itself, and of evaluation."""
    model = stored.results.model
    if members := model.get("members"):  # of an ensemble
        return {"members": [_experiment(read_stored(member["results"])) for member in members]}
    first, *others = (comparable(config) | {"seed": None} for config in configs(stored))
    evaluation = {key: model.get(key) for key in ("pooling", "layers", "vectors")}
    return first | evaluation | ({"members": others} if others else {})
