"""Run folders as rows of a table: configuration, state, amounts and scores."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.model_names import CONFIG, EXPORT
from analysis.tables import render
from data.errors import UserError, reading
from data.files import read_json, read_yaml

# Settings that may differ between two runs of the same experiment.
FREE = {
    "names", "evaluation", "run_dir", "resume", "device", "processes", "threads", "workers", "cache",
    "log_every", "deterministic",
}  # fmt: skip
OVERVIEW = ["run", "state", "steps", "loss", "start.recall@1", "recall@1", "senteval"]
# Keys whose values are shown if they differ.
VARIED = r"^(objective|encoder|corpus|optimizer|schedule|budget)\.(?!_target_)"
MOST_VARIED = 3


def comparable(config: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings that determine a run's result."""
    return {key: value for key, value in config.items() if key not in FREE}


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
        ``corpus`` and ``budget``, ``seed``, ``steps``, ``tokens``, ``loss``, ``seconds``, ``tokens_per_second``
        and ``memory_gib`` of training (None before the first step), ``start``, ``trained``, ``chance``, ``facts``
        and ``weights`` (of quick.json), ``averages`` (of senteval.json), ``senteval`` (the first of them),
        ``environment`` and ``config``.

    Raises:
        UserError: if a file is damaged.
    """
    with reading("run", folder):
        config, journal = read_yaml(folder / CONFIG), read_lines(folder / "metrics.jsonl")
        quick, senteval, environment = (
            dict(read_json(folder / name)) if (folder / name).exists() else {}
            for name in ("quick.json", "senteval.json", "environment.json")
        )
        timings = [{}, *read_lines(folder / "timings.jsonl")]
        last = [{}, *(line for line in journal if "loss" in line)][-1]
        averages = senteval.get("averages", {})
        return {
            "run": folder.name,
            "state": "finished" if (folder / EXPORT).is_dir() else "unfinished",
            **config["names"],
            "seed": int(config["seed"]),
            "steps": last.get("step"),
            "tokens": last.get("tokens"),
            "loss": last.get("loss"),
            **{key: timings[-1].get(key) for key in ("seconds", "tokens_per_second", "memory_gib")},
            **{key: {} for key in ("start", "trained", "chance", "facts")},
            **quick,
            "senteval": next(iter(averages.values()), None),
            "averages": averages,
            "environment": environment,
            "config": config,
        }


def read_runs(*folders: Path) -> pd.DataFrame:
    """Returns a row for each run in ``folders``: run folders, or folders that hold them.

    The columns are the values of ``read_run``: scores by their keys ("recall@5"; before training
    "start.recall@5"), averages by their names, and the keys of the configuration ("optimizer.lr").

    A damaged run has only its name and the state "damaged".

    Raises:
        UserError: if there is no run.
    """
    paths = [path for folder in folders for path in sorted([*folder.glob(CONFIG), *folder.glob(f"*/{CONFIG}")])]
    if not paths:
        raise UserError("no run in this folder", key=str(folders[0]))
    rows = []
    for path in paths:
        try:
            rows.append(read_run(path.parent))
        except UserError:
            rows.append({"run": path.parent.name, "state": "damaged"})
    frame = pd.json_normalize(rows)
    frame.columns = frame.columns.str.replace(r"^(trained|averages|config)\.", "", regex=True)
    return frame.loc[:, ~frame.columns.duplicated()]


def sum_costs(frame: pd.DataFrame) -> str:
    """Returns the costs of the runs of ``read_runs``, diverged ones included, as text."""
    hours = frame["seconds"] * frame["environment.threads"] * frame["environment.processes"] / 3600
    amounts = f"{frame['steps'].sum():,.0f} updates, {frame['tokens'].sum():,.0f} tokens"
    return f"{len(frame)} runs, {amounts}, {hours.sum():.3g} core hours"


def overview(frame: pd.DataFrame) -> str:
    """Returns columns of ``read_runs`` as a table, without empty ones; "start": recall@1 before training.

    Of the keys that all runs have, up to MOST_VARIED in which they differ are among them.
    """
    varied = frame.filter(regex=VARIED).dropna(axis="columns").astype(str)
    varied = varied.loc[:, varied.nunique() > 1].iloc[:, :MOST_VARIED]
    table = frame.reindex(columns=OVERVIEW).dropna(axis="columns", how="all").convert_dtypes()
    return render(table.join(varied).rename(columns={"start.recall@1": "start"}))
