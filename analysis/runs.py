"""Run folders as rows of a table: configuration, state, amounts and scores."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
        step), ``start``, ``trained`` and ``chance`` (scores of quick.json), ``facts``, ``averages`` (of
        senteval.json), ``senteval`` (the first of them), ``tasks`` (their number), ``overrides`` of its command,
        ``environment`` and ``config``.

    Raises:
        UserError: if a file is damaged.
    """
    with reading("run", folder):
        config, journal = read_yaml(folder / "config.yaml"), read_lines(folder / "metrics.jsonl")
        quick, senteval, environment = (
            dict(read_json(folder / name)) if (folder / name).exists() else {}
            for name in ("quick.json", "senteval.json", "environment.json")
        )
        steps = [line for line in journal if "loss" in line] or [{}]
        averages = dict(senteval.get("averages", {}))
        return {
            "run": folder.name,
            "state": "finished" if (folder / "encoder").is_dir() else "unfinished",
            "weights": config.get("weights"),
            **dict(config["names"]),
            **{key: {} for key in ("start", "trained", "chance", "facts")},
            **quick,
            **{key: steps[-1].get(key) for key in ("tokens", "loss")},
            "steps": steps[-1].get("step"),
            "seed": int(config["seed"]),
            "averages": averages,
            "senteval": next(iter(averages.values()), None),
            "tasks": len(senteval.get("tasks", [])),
            "overrides": " ".join(environment.get("overrides", [])),
            "environment": environment,
            "config": config,
        }


def read_runs(*folders: Path) -> pd.DataFrame:
    """Returns a row for each run in ``folders``: run folders, or folders that hold them.

    The columns are ``COLUMNS``, then further scores by their keys ("recall@5"; before training "start.recall@5"),
    averages by their names, and the keys of the configuration ("optimizer.lr"). A damaged run has the state
    "broken: <cause>".

    Raises:
        UserError: if a folder is missing.
    """
    import pandas as pd

    rows = []
    for parent in folders:
        if not parent.is_dir():
            raise UserError("there is no such folder", key=str(parent))
        for path in sorted([*parent.glob("config.yaml"), *parent.glob("*/config.yaml")]):
            try:
                rows.append(read_run(path.parent))
            except UserError as error:
                rows.append({"run": path.parent.name, "state": f"broken: {error.text}"})
    frame = pd.json_normalize(rows)
    frame.columns = frame.columns.str.replace(r"^(trained|averages|config)\.", "", regex=True)
    columns = dict.fromkeys([*COLUMNS, *frame.columns])
    return frame.loc[:, ~frame.columns.duplicated()].reindex(columns=[*columns]).fillna(float("nan"))


def overview(frame: pd.DataFrame) -> str:
    """Returns a few columns of ``read_runs`` as a table of 80 characters a line; "start" is before training.

    States of unfinished runs and averages of SentEval, where there are any, take the places of "loss" and "start".
    """
    from analysis.tables import render  # late, as it imports pandas

    table = frame.assign(state=frame["state"].str.split(":").str[0], objective=frame["objective"].str[:11])
    shown = {"state": table["state"].ne("finished").any(), "senteval": table["senteval"].notna().any()}
    others = [key for key in shown if shown[key]] or ["loss", "start.recall@1"]
    table = table[["run", "objective", "steps", *others, "recall@1"]].rename(columns={"start.recall@1": "start"})
    return render(table.convert_dtypes())
