"""Checks ``resume=`` and ``warm_start=`` against the run folder that they name, before heavy imports."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import yaml

from analysis.settings import near_run
from data.errors import UserError
from data.files import read_json, read_yaml, refuse_links_out
from experiments.overrides import CONFIGS, choices, guess, override, typed

GONE = (("heads", "random"), ("words", "random"))  # settings of version 0.1, at the only values that are left
# May differ when a run is resumed. The cache never comes from the folder, which may be a stranger's.
RESUME_KEYS = ("resume", "cache", "device", "processes", "threads", "workers", "trackers", "verbose")
STEPS = "budget.steps"  # may differ, too, if the schedule is extendable
NOT_EXTENDABLE = (
    f"{STEPS}: the learning rate of this run depends on its length. Only a run whose schedule does not depend "
    "on its length (schedule=wsd or constant, say) can be resumed with another one."
)
NAMED = ("objective", "encoder", "corpus", "budget")  # the choices that a run's name and tables carry
# The keys that have no default where a run reads them.
NEEDED = {*NAMED, "optimizer", "schedule", "names", "checkpoint", "accumulation", "gradient_norm", "seed"}
SEVERAL = "encoders.concatenated.Concatenated"  # of objectives that train several encoders, of any class
# The keys of an encoder that a warm start takes; all others are those of the encoder that it starts from.
TAKEN = ("attention", "dropout", "max_length", "normalize", "pooling", "summary", "train_vectors", "weights")


def resumed(folder: Path, values: Mapping[str, Any], given: Collection[str]) -> dict[str, Any]:
    """Returns the configuration of the run to resume, with those keys of this command that may differ.

    Args:
        folder: of the run.
        values: the configuration of this command.
        given: keys of its overrides.

    Raises:
        UserError: if there is no run that can be resumed, or an override would change it.
    """
    if not (folder / "config.yaml").is_file():
        inside = (folder.parent / "config.yaml").is_file()  # its encoder, say
        near = folder.parent if inside else near_run(folder if len(folder.parts) > 1 else Path("runs") / folder)
        hint = f" Did you mean {typed('resume', near)}?" if near else ""
        what = "not a run folder (it has no config.yaml)" if folder.exists() else "there is no such folder"
        raise UserError(f"resume={folder}: {what}.{hint}")
    if refused := sorted({*given} - {*RESUME_KEYS, STEPS}):
        raise UserError(
            f"{', '.join(refused)}: a resumed run keeps its settings; beside resume= only "
            f"{', '.join(RESUME_KEYS[1:])} may be given.{guess(refused[0], RESUME_KEYS)} To change others, "
            f"start a new run: {typed('warm_start', folder)}"
        )
    broken = UserError(
        f"resume={folder}: its config.yaml is broken. Only a folder that run.py wrote can be resumed."
    )
    try:
        stored = read_yaml(folder / "config.yaml")
    except (OSError, ValueError) as error:
        raise broken from error
    if isinstance(stored, dict) and "joins" in stored:
        raise UserError(f"resume={folder}: it joins the encoders of finished runs, and was not trained itself.")
    if not isinstance(stored, dict) or not stored.keys() >= NEEDED:
        raise broken
    from analysis import runs  # late: its tables take a while to import

    if problem := runs.read(folder)["problem"]:
        raise UserError(f"resume={folder}: its files are damaged ({problem}).")
    if not (stored["names"] or {}).keys() >= {*NAMED}:
        raise broken
    if isinstance(stored["encoder"], dict):
        stored["encoder"] = {key: value for key, value in stored["encoder"].items() if (key, value) not in GONE}
    if STEPS in given:
        if not isinstance(stored["budget"], dict):
            raise broken
        stored["budget"]["steps"] = values["budget"]["steps"]
    kept = {key: values[key] for key in {*given, "cache"} & values.keys() - {STEPS}}
    # (A run of version 0.1 had one process.)
    return {"processes": 1} | stored | kept | {"run_dir": str(folder)}


def started_from(folder: Path, encoder: Mapping[str, Any], name: str, given: Mapping[str, str]) -> str:
    """Returns the name of the encoder that a run with ``warm_start`` trains: that in ``folder``, if it is known.

    Args:
        folder: of the run to start from.
        encoder: the configuration's.
        name: of what the configuration alone would train.
        given: the overrides, by key.

    Raises:
        UserError: if there is no trained encoder, or one of another class than ``encoder``, or if the overrides
            name another one or other sizes.
    """
    if not (folder / "encoder").is_dir():
        hint = (
            f" (the run is not finished: finish it with {typed('resume', folder)})"
            * (folder / "config.yaml").exists()
        )
        raise UserError(f"warm_start={folder}: there is no trained encoder in it{hint}.")
    from analysis import runs  # late, as above

    there = runs.read(folder).get("encoder")
    try:
        refuse_links_out(folder / "encoder")
        marker = read_json(folder / "encoder" / "encoder.json")
        joined = sorted((folder / "encoder").glob("encoder_*/encoder.json")) if "members" in marker else []
        kinds = {str(read_json(one)["class"]) for one in joined} or {str(marker["class"])}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        there = None
    if there is None:
        return name  # what is missing is reported where it is opened
    holds = f"{len(joined)} encoders side by side, each {there}" if joined else there
    if encoder.get("_target_") not in kinds | ({SEVERAL} if joined else set()):
        choice = choice_of(kinds.pop(), there) if len(kinds) == 1 else "concatenated"
        raise UserError(f"warm_start={folder} holds {holds}: add encoder={choice}.")
    asked = given.get("encoder")
    if asked and encoder.get("name") and there not in (name, asked):
        raise UserError(f"warm_start={folder} holds {holds}, and not {name}: leave out encoder={asked}.")
    _require_same_sizes(folder, encoder, given)
    return str(there)


def _require_same_sizes(folder: Path, encoder: Mapping[str, Any], given: Mapping[str, str]) -> None:
    """Refuses overrides of the encoder that differ from the run in ``folder``, whose encoder keeps what it has."""
    stored = read_yaml(folder / "config.yaml").get("encoder")
    kept, asked = [], []
    for key, value in given.items():
        group, _, name = key.partition(".")
        first = name.partition(".")[0]
        kept_too = group == "encoder" and isinstance(stored, Mapping) and first in stored.keys() - {*TAKEN}
        if kept_too and (has := _at(stored, name)) != _at(encoder, name):
            kept.append(override(key, has))
            asked.append(f"{key}={value}")
    if kept:
        raise UserError(f"warm_start={folder} keeps its {', '.join(kept)}: leave out {', '.join(asked)}.")


def _at(node: Any, name: str) -> Any:
    """Returns the value at the dotted ``name`` below ``node``, None if there is none."""
    for part in name.split("."):
        node = node.get(part) if isinstance(node, Mapping) else None
    return node


def choice_of(encoder: str, name: str) -> str:
    """Returns what ``encoder=`` is given for an encoder of a dotted class: its ``name`` where that is a choice."""
    classes = {}
    for option in choices()["encoder"]:
        own = yaml.safe_load((CONFIGS / "encoder" / f"{option}.yaml").read_text(encoding="utf-8"))
        if name in (option, own.get("name")) and own.get("_target_", encoder) == encoder:
            return option
        classes[own.get("_target_")] = option
    return str(classes.get(encoder, "<its kind>"))
