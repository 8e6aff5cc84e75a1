"""Run folders as rows of a table: configuration, state, amounts and scores."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from data.display import printable
from data.errors import UserError, reading
from data.files import read_json, read_yaml

if TYPE_CHECKING:
    import pandas as pd

NAMES = ("objective", "encoder", "corpus", "budget")
# Settings that may differ between two runs of the same experiment.
FREE = {
    "names", "evaluation", "run_dir", "resume", "device", "processes", "threads", "workers", "trackers", "cache",
    "log_every", "verbose", "deterministic",
}  # fmt: skip
COLUMNS = (
    *("run", "state", *NAMES, "seed", "weights", "steps", "tokens", "loss", "start.recall@1", "recall@1"),
    *("senteval", "tasks", "overrides"),
)


def comparable(config: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings that determine a run's result."""
    return {key: value for key, value in config.items() if key not in FREE}


def special(overrides: Sequence[str]) -> list[str]:
    """Returns the overrides that determine a run's result and are not part of its name."""
    known = {*NAMES, "seed", *FREE}
    return [text for text in overrides if text.lstrip("+~").partition("=")[0] not in known and text[:5] != "hydra"]


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Returns the lines of a journal; none if it is missing, and no last line that a kill cut short.

    Raises:
        UserError: if another line is not a JSON object.
    """
    if not path.exists():
        return []
    with reading("journal", path):
        return [dict(json.loads(line)) for line in path.read_text(encoding="utf-8").split("\n")[:-1]]


def read_run(folder: Path) -> dict[str, Any]:
    """Reads a run folder.

    Returns:
        ``run`` (its name), ``state`` ("finished" or "unfinished"), the names of its ``objective``, ``encoder``,
        ``corpus`` and ``budget``, ``seed``, ``weights``, ``steps``, ``tokens`` and ``loss`` (None before the first
        step), ``overrides`` (as ``special`` returns them), ``start``, ``trained`` and ``chance`` (scores of
        quick.json in percent), ``averages`` (of senteval.json, by label), ``tasks`` (their number), ``facts``,
        ``config`` and ``environment``.

    Raises:
        UserError: if a file is damaged.
    """
    with reading("run", folder):
        config = read_yaml(folder / "config.yaml")
        quick, senteval, environment = (
            read_json(folder / name) if (folder / name).exists() else {}
            for name in ("quick.json", "senteval.json", "environment.json")
        )
        names = config.get("names") or {}
        steps = [line for line in read_lines(folder / "metrics.jsonl") if "loss" in line] or [{}]
        return {
            "run": folder.name,
            "state": "finished" if (folder / "encoder").is_dir() else "unfinished",
            **{key: names.get(key) for key in NAMES},
            "seed": int(config["seed"]),
            "weights": quick.get("weights") or names.get("weights") or config.get("weights"),
            **{key: None for key in ("steps", "tokens", "loss")},
            **_numbers({"steps": steps[-1].get("step"), "tokens": steps[-1].get("tokens")}, int),
            **_numbers({"loss": steps[-1].get("loss")}),
            "overrides": special(environment.get("overrides") or []),
            **{key: _numbers(quick.get(key) or {}) for key in ("start", "trained", "chance")},
            "averages": _numbers(senteval.get("averages") or {}),
            "tasks": len(senteval.get("tasks") or {}),
            "facts": dict(quick.get("facts") or {}),
            "config": config,
            "environment": environment,
        }


def read_runs(*folders: Path, config: bool = False) -> pd.DataFrame:
    """Returns a row for each run in ``folders``: run folders, or folders that hold them.

    The columns are ``COLUMNS``, then further scores by their keys ("recall@5"; before training "start.recall@5")
    and averages by their labels; "senteval" is the first of them. A damaged run has the state "broken: <cause>".

    Args:
        folders: paths.
        config: adds the keys of the configurations ("optimizer.lr").

    Raises:
        UserError: if a folder is missing.
    """
    import pandas as pd

    rows = []
    for folder in _list_runs(folders):
        try:
            run = read_run(folder)
        except UserError as error:
            rows.append({"run": folder.name, "state": f"broken: {error.text}"})
            continue
        row = {key: run[key] for key in COLUMNS if key in run} | run["trained"] | run["averages"]
        row |= {f"start.{key}": value for key, value in run["start"].items()}
        row |= {"senteval": next(iter(run["averages"].values()), None), "overrides": " ".join(run["overrides"])}
        rows.append((pd.json_normalize(run["config"]).iloc[0].to_dict() if config else {}) | row)
    columns = dict.fromkeys([*COLUMNS, *(key for row in rows for key in row)])
    return pd.DataFrame(rows, columns=[*columns]).fillna(float("nan"))


def overview(frame: pd.DataFrame) -> pd.DataFrame:
    """Returns a few columns of ``read_runs`` as text for a terminal of 80 columns; "start" is before training."""
    columns = ["run", "seed", "steps", "loss", "start.recall@1", "recall@1", "senteval"]
    table = frame[columns].rename(columns={"start.recall@1": "start"}).round(2)
    if (states := frame["state"].str.split(":").str[0]).ne("finished").any():
        table["state"] = states
    text = table.map(lambda value: printable(value)[:40] if isinstance(value, str) else f"{value:.10g}")
    return text.replace("nan", "")


def _list_runs(folders: Sequence[Path]) -> Iterator[Path]:
    for folder in folders:
        if not folder.is_dir():
            raise UserError("there is no such folder", key=str(folder))
        if (folder / "config.yaml").exists():
            yield folder
        else:
            yield from sorted(path.parent for path in folder.glob("*/config.yaml"))


def _numbers(values: Mapping[str, Any], kind: type = float) -> dict[str, Any]:
    return {key: kind(value) for key, value in values.items() if value is not None}
