"""Run folders: configuration, state and scores of each; a damaged one is read as broken."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeGuard

from pydantic import StringConstraints

from analysis.quick import VERSION
from data.errors import UserError
from data.files import JOURNAL_BYTES, read_json, read_text, read_yaml
from data.schema import mismatch

# Exceptions of reading a file that was cut short, altered or locked.
UNREADABLE = (OSError, ValueError, MemoryError)
OF_A_RUN = ("config.yaml", "metrics.jsonl")
# Keys that may differ between two runs of the same experiment.
FREE = {
    "names", "evaluation", "run_dir", "resume", "device", "processes", "threads", "workers", "trackers", "cache",
    "log_every", "verbose", "deterministic",
}  # fmt: skip
# Name of a component; run folders are named after components.
Name = Annotated[str, StringConstraints(pattern=r"^[^/\x00-\x1f]*$", max_length=200)]
Scores = dict[str, float | None]
MOST_NUMBERS, MOST_LINES = 256, 5_000_000  # limits for a line of a journal, and for their number
NAMED = ("objective", "encoder", "corpus", "budget", "seed")  # listed separately from other overrides


@dataclass(frozen=True, kw_only=True)
class Names:
    """``names`` in a run's config.yaml: the keys that this module and a resumed run read."""

    objective: Name | None = None
    encoder: Name | None = None
    corpus: Name | None = None
    budget: Name | None = None
    weights: str | None = None
    origin: str | None = None
    store: str | None = None


@dataclass(frozen=True, kw_only=True)
class EncoderKeys:
    """``encoder`` in a run's config.yaml: the keys read here."""

    vectors: str | None = None


@dataclass(frozen=True, kw_only=True)
class Config:
    """A run's config.yaml: the keys read here."""

    names: Names | None = None
    seed: int | None = None
    weights: str | None = None
    encoder: EncoderKeys | None = None


@dataclass(frozen=True, kw_only=True)
class Environment:
    """A run's environment.json: the keys read here."""

    command: str | None = None
    overrides: list[str] | None = None
    commit: str | None = None
    packages: dict[str, str] | None = None


@dataclass(frozen=True, kw_only=True)
class Quick:
    """A run's quick.json."""

    start: Scores
    trained: Scores | None = None
    chance: Scores | None = None
    weights: str | None = None
    version: int = 1
    facts: dict[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class Tasks:
    """Tasks of an average."""

    tasks: list[str] | None = None


@dataclass(frozen=True, kw_only=True)
class SentEval:
    """A run's senteval.json: the keys read here."""

    averages: Scores | None = None
    averages_over: dict[str, Tasks] | None = None


def comparable(config: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings that determine a run's result: all but ``FREE`` and limits on its text."""
    kept = {key: value for key, value in config.items() if key not in FREE}
    if isinstance(kept.get("corpus"), dict):
        kept["corpus"] = {
            key: value
            for key, value in kept["corpus"].items()
            if key != "max_bytes" and (key, value) != ("document", None)  # of which older runs know nothing
        }
    return kept


def special(overrides: Sequence[str]) -> list[str]:
    """Returns the ``overrides`` that determine a run's result and are not part of its name."""
    kept = []
    for text in overrides:
        key, equals, _ = text.lstrip("+~").partition("=")
        if equals and key not in {*NAMED, *FREE} and not key.startswith("hydra"):
            kept.append(text)
    return kept


def scan(root: Path) -> list[dict[str, Any]]:
    """Reads each run folder in ``root`` (or ``root`` itself, if it is one), in order of their names.

    Raises:
        UserError: if there is no folder ``root``.
    """
    root = Path(root)
    if not root.is_dir():
        raise UserError(f"There is no folder {root}: name the folder that holds the run folders (such as runs).")
    if (root / "config.yaml").exists():
        return [read(root)]
    # There may be other folders: plots, tables, files of a sweep.
    return [read(path) for path in sorted(root.iterdir()) if _is_run(path)]


def _is_run(folder: Path) -> bool:
    try:
        return any((folder / name).exists() for name in OF_A_RUN)
    except OSError:  # it cannot be read: listed as broken
        return True


def read(folder: Path) -> dict[str, Any]:
    """Reads the facts and scores of one run.

    Returns:
        ``run`` (its name), ``path``, ``state`` ("finished", "unfinished", "broken"), ``problem`` (a line if
        it is broken), and if known ``objective``, ``encoder``, ``corpus``, ``budget``, ``origin`` (names),
        ``seed``, ``weights``, ``vectors`` (file of word vectors to begin with), ``steps``, ``tokens``, ``loss``,
        ``start``, ``trained`` and ``chance`` (scores of quick.json), ``version`` (of its probes), ``facts``
        (what scores depend on), ``senteval`` (averages of senteval.json), ``over`` (their tasks), ``special``
        (its overrides, as ``special`` returns them), ``config`` and ``environment`` (of environment.json).
    """
    row: dict[str, Any] = {"run": folder.name, "path": str(folder), "state": "unfinished", "problem": None}
    try:
        config = _checked(Config, read_yaml(folder / "config.yaml"), "config.yaml")
        names = config.get("names") or {}
        row |= {key: names.get(key) for key in ("objective", "encoder", "corpus", "budget", "origin")}
        row |= {"seed": config.get("seed"), "config": config}
        row |= {"vectors": (config.get("encoder") or {}).get("vectors")}
        if (folder / "environment.json").exists():
            about = _checked(Environment, read_json(folder / "environment.json"), "environment.json")
            command = (about.get("command") or "").split()  # version 0.1 wrote only this
            row["special"] = special(command if about.get("overrides") is None else about["overrides"])
            row["environment"] = about
        last: dict[str, Any] = next(
            (line for line in reversed(read_lines(folder / "metrics.jsonl")) if "loss" in line), {}
        )
        row |= {"steps": last.get("step"), "tokens": last.get("tokens"), "loss": last.get("loss")}
        read_lines(folder / "timings.jsonl")
        quick, senteval = (
            _checked(kind, read_json(folder / name), name) if (folder / name).exists() else {}
            for kind, name in ((Quick, "quick.json"), (SentEval, "senteval.json"))
        )
        row["version"] = probes_version(quick) if quick else None
        row |= {column: quick.get(column) or {} for column in ("start", "trained", "chance", "facts")}
        row |= {"senteval": senteval.get("averages") or {}, "over": senteval.get("averages_over") or {}}
        row["weights"] = quick.get("weights") or names.get("weights") or config.get("weights")  # "auto" resolved
        if (folder / "encoder").is_dir():
            row["state"] = "finished"
    except UNREADABLE as error:
        row |= {"state": "broken", "problem": " ".join(str(error).split())[:300] or type(error).__name__}
    return row


def _checked(kind: type[Any], value: Any, name: str) -> dict[str, Any]:
    """Returns ``value``, read from the file ``name``, if it is a mapping that fits ``kind``.

    Raises:
        ValueError: naming the file and the first key that does not fit.
    """
    if not isinstance(value, dict):
        raise ValueError(f"{name} is not a {'mapping' if name.endswith('yaml') else 'JSON object'}")
    if found := mismatch(kind, value):
        raise ValueError(f"{name}: {' '.join(found)}")
    return value


def probes_version(quick: Mapping[str, Any]) -> int:
    """Returns the version of the probes' classifier in the content of a quick.json.

    Raises:
        ValueError: if it is not one that this version of the suite knows.
    """
    version: int = quick.get("version", 1)
    if not 1 <= version <= VERSION:
        raise ValueError(f"quick.json is of version {version}; known here are versions 1 to {VERSION}")
    return version


def mixed_probes(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns a sentence if probes of ``rows`` are by different classifiers, so that they cannot be compared."""
    probed = [row for row in rows if any(key.startswith("probe_") for key in row.get("trained") or ())]
    newest = max((row["version"] for row in probed), default=1)
    old = [row["run"] for row in probed if row["version"] < newest]
    if not old:
        return []
    names = ", ".join(old[:3]) + (f" and {len(old) - 3} more runs" if len(old) > 3 else "")
    return [f"Not comparable: the probes of {names} are by an earlier classifier than the others'."]


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Returns the lines of a journal, none if it is missing; a last line cut short by a kill is left out.

    Raises:
        OSError: if it cannot be read.
        ValueError: naming file and line, if any other line is not a JSON object of a step and its numbers.
    """
    if not path.exists():
        return []
    result: list[dict[str, Any]] = []
    cut_short = 0
    for number, match in enumerate(re.finditer(r"[^\n]*\n|[^\n]+", read_text(path, JOURNAL_BYTES)), start=1):
        if cut_short or number > MOST_LINES:
            why = f":{cut_short} is not JSON" if cut_short else f" has more than {MOST_LINES:,} lines"
            raise ValueError(f"{path.name}{why}")
        try:
            value = json.loads(match[0])
        except (ValueError, RecursionError):
            cut_short = number  # right for the last line only
            continue
        if not isinstance(value, dict):
            raise ValueError(f"{path.name}:{number} is not a JSON object")
        known = [one for one in value.values() if one is not None]
        plain = len(value) <= MOST_NUMBERS and all(key.isascii() and key.isprintable() for key in value)
        counts = [value.get(key, 0) for key in ("step", "tokens")]
        whole = "step" in value and all(type(count) is int and count >= 0 for count in counts)
        if not plain or not whole or value.get("loss", 0) is None or not all(map(is_number, known)):
            raise ValueError(f"{path.name}:{number} is not a step and its numbers")
        result.append(value)
    return result


def is_number(value: Any) -> TypeGuard[float]:
    """Returns True if ``value`` is a float of a size that can be drawn, or a 64-bit integer, but not a bool."""
    if isinstance(value, float):
        return abs(value) < 1e100 or not math.isfinite(value)
    return type(value) is int and abs(value) < 2**63
