"""Joins encoders of finished runs side by side, in a folder like a run's (rows of GenSen's table 2)."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from filelock import FileLock

import encoders
from analysis.models import EXPORT
from data.errors import UserError
from data.files import atomic_write, read_yaml
from data.sources.reading import digest
from encoders.concatenated import Concatenated
from experiments import planned_runs


def join(folder: Path, members: Sequence[Path]) -> None:
    """Writes the encoders of the runs ``members`` into ``folder`` as one, unless it is there already.

    ``config.yaml``, which is written last, names the runs with a digest of each one's weights. Scores of other
    weights are removed.

    Raises:
        UserError: if a run is not finished, its encoder cannot be opened, or ``folder`` cannot be written.
    """
    if unfinished := [member.name for member in members if planned_runs.state(member) != "finished"]:
        raise UserError(f"It joins the encoder of {unfinished[0]}, which is not finished.")
    lock = planned_runs.log_of(folder).with_suffix(".lock")  # two commands may join the same runs
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(lock):
            _join(folder, members)
    except (OSError, ValueError, LookupError, RuntimeError) as error:
        raise UserError(f"{folder} could not be joined: {error}") from error


def _join(folder: Path, members: Sequence[Path]) -> None:
    weights = {member: sorted((member / EXPORT).rglob("*.safetensors")) for member in members}
    joins = {member.name: [digest(path) for path in paths] for member, paths in weights.items()}
    if planned_runs.state(folder) == "finished" and _config(folder).get("joins") == joins:
        return
    if folder.exists():
        shutil.rmtree(folder)  # refuses a link
    encoder = Concatenated([encoders.load(member / EXPORT) for member in members])
    encoder.save(folder / EXPORT)
    first = _config(members[0])
    names = {key: (first.get("names") or {}).get(key) for key in ("objective", "corpus", "budget")}
    head = {"names": names | {"encoder": "concatenated", "origin": encoder.origin}, "seed": first.get("seed")}
    with atomic_write(folder / "config.yaml") as file:
        yaml.safe_dump(head | {"weights": encoder.weights, "joins": joins}, file, sort_keys=False)


def _config(folder: Path) -> dict[str, Any]:
    return dict(read_yaml(folder / "config.yaml"))
