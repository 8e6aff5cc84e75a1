"""Lists the runs in a folder with their scores.

    python experiments/runs.py [folder] [where=CONDITION] [sort=COLUMN] [format=text|csv]
    python experiments/runs.py runs where="objective == 'declutr' and loss < 3" sort=-senteval
    python experiments/runs.py where="`optimizer.lr` < 1e-3" format=csv > runs.csv

where is a condition of pandas' DataFrame.query: texts in quotes, names with other signs in backticks. format=csv
has all columns: names, amounts, scores, and the configurations' keys. sort=-COLUMN begins with the largest.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.pop(0)  # this folder, which Python puts there
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import experiments  # noqa: F401  # reports missing packages

# isort: split
from analysis.runs import overview, read_runs
from data.display import csv_cell
from data.errors import UserError, reason
from experiments.command import rendered_errors, split
from experiments.config import unknown

HINT = "Equal is ==, as in where=\"objective == 'declutr' and `optimizer.lr` < 1e-3\"."


def main() -> None:
    options = {"folder": "runs", "where": "", "sort": "", "format": "text"}
    with rendered_errors():
        flags, arguments = split(sys.argv[1:])
        if flags:
            print((__doc__ or "").rstrip())
            return
        for text in arguments:
            key, _, value = text.partition("=") if "=" in text else ("folder", "", text)
            if key not in options:
                raise unknown(key, key, options)
            options[key] = value
        print(list_runs(Path(options["folder"]), options["where"], options["sort"], options["format"]))


def list_runs(folder: Path, where: str = "", sort: str = "", form: str = "text") -> str:
    """Returns a table of the runs in ``folder``; the arguments are those of the command.

    Raises:
        UserError: naming the key of an argument that is wrong.
    """
    frame, key = read_runs(folder), sort.removeprefix("-")
    if form not in ("text", "csv"):
        raise unknown("format", form, ("text", "csv"))
    if key and key not in frame:
        raise unknown("sort", key, frame.columns)
    try:
        frame = frame[frame.eval(where, engine="python")] if where else frame
    except Exception as error:  # pandas raises many kinds
        raise UserError(reason(error), key="where", hint=HINT) from error
    frame = frame.sort_values(key, ascending=key == sort, kind="stable") if key else frame
    if form == "csv":
        return str(frame.map(csv_cell).to_csv(index=False, lineterminator="\n")).rstrip()
    return overview(frame) if len(frame) else "No run."


if __name__ == "__main__":
    main()
