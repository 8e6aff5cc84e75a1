"""senteval.json: what an encoder scored on which tasks, by which protocol, and the averages over them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np

from analysis.senteval.averages import averages
from analysis.senteval.records import PUBLISHED, Record, fault, incomparable
from data.errors import UserError, readable
from data.files import read_json, write_json

FILE = "senteval.json"


@dataclass
class Results:
    """What senteval.json holds.

    Attributes:
        protocol: name of the protocol of all tasks.
        model: facts of the encoder; ``name`` is what tables call it.
        data: facts of the data (folders, say), any JSON.
        tasks: by task, in SentEval's order.
        missing: by task that could not be done, the file that was looked for.
    """

    protocol: str
    model: dict[str, Any]
    data: Any = None
    tasks: dict[str, Record] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)


def write_results(path: Path | str, results: Results) -> None:
    """Writes senteval.json, atomically, with ``comparable``, ``reason`` and the averages worked out.

    ``averages`` has a number by label: the rule's name where it is complete and comparable, else
    "<name> (15 of 17)"; ``averages_over`` the tasks behind each. A score that is not a number (NaN) becomes null.

    Raises:
        ValueError: if a record is not as ``records.Record`` says.
    """
    plain = {name: _plain(record) for name, record in results.tasks.items()}
    for name, record in plain.items():
        if found := fault(name, record):
            raise ValueError(found)
        reason = incomparable(name, record)
        record |= {"comparable": reason is None, "reason": reason}
    tasks = {name: plain[name] for name in PUBLISHED if name in plain}
    found_averages = averages(tasks)
    write_json(
        path,
        {
            "tasks": tasks,
            "averages": {one.label: one.value for one in found_averages},
            "averages_over": {
                one.label: {
                    "source": one.rule.source,
                    "tasks": one.tasks,
                    "missing": one.missing,
                    "not_comparable": one.apart,
                }
                for one in found_averages
            },
            "model": results.model,
            "protocol": results.protocol,
            "missing": results.missing,
            "data": results.data,
        },
    )


def read_results(path: Path | str) -> Results:
    """Reads a senteval.json, or the one in a folder.

    Raises:
        UserError: in one line, if it is not there, cannot be read, is cut short or is something else.
    """
    path = Path(path)
    if path.is_dir():
        path = path / FILE
    if not path.exists():
        raise UserError(f"There is no {path}: name a {FILE} or the folder that holds one.")
    with readable(path):
        try:
            value = read_json(path)
        except ValueError:
            raise UserError(
                f"{path} is not JSON: it was cut short, or is another file; remove it or name another folder."
            ) from None
    return _checked(path, value)


def _checked(path: Path, value: Any) -> Results:
    def refuse(what: str) -> UserError:
        return UserError(f"{path} is no {FILE} of ours: {what}.")

    if not isinstance(value, dict):
        raise refuse("it is not an object")
    for key, kind, called in (
        ("tasks", dict, "an object"),
        ("model", dict, "an object"),
        ("protocol", str, "text"),
    ):
        if not isinstance(value.get(key), kind):
            raise refuse(f'"{key}" is not {called}' if key in value else f'it has no "{key}"')
    missing = value.get("missing", {})
    if not isinstance(missing, dict) or not all(isinstance(text, str) for text in missing.values()):
        raise refuse('"missing" is not an object of texts')
    for name, record in value["tasks"].items():
        if found := fault(name, record):
            raise refuse(found)
    tasks = cast(dict[str, Record], value["tasks"])
    return Results(value["protocol"], value["model"], value.get("data"), tasks, missing)


def _plain(value: Any) -> Any:
    """What JSON can hold: nothing of NumPy and no NaN."""
    if isinstance(value, (np.generic, np.ndarray)):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    return None if isinstance(value, float) and math.isnan(value) else value
