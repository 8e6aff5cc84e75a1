"""Lists the runs in a folder with their scores.

    python experiments/runs.py [folder] [where=CONDITION] [sort=COLUMN] [format=text|csv]
    python experiments/runs.py runs where='objective == "declutr" and loss < 3' sort=-senteval
    python experiments/runs.py where='`optimizer.lr` < 1e-3' format=csv > runs.csv

where is a condition of pandas' DataFrame.query: texts in quotes, names with other signs in backticks. format=csv
has all columns: names, amounts, scores, and the configurations' keys. sort=-COLUMN begins with the largest.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[1])  # Python puts this folder there

import experiments  # noqa: F401  # reports missing packages

# isort: split
from analysis.runs import overview, read_runs
from data.errors import UserError, reason
from experiments.command import read_arguments, rendered_errors
from experiments.config import unknown

HINT = "Equal is ==, as in where='objective == \"declutr\" and `optimizer.lr` < 1e-3'."


def main() -> None:
    options = {"folder": "runs", "where": "", "sort": "", "format": "text"}
    with rendered_errors():
        flags, arguments = read_arguments()
        if flags:
            print(__doc__)
            return
        for text in arguments:
            key, _, value = text.partition("=") if "=" in text else ("folder", "", text)
            if key not in options:
                raise unknown(key, key, options)
            options[key] = value
        folder, where, sort, form = options.values()
        frame, column = read_runs(Path(folder).expanduser()), sort.removeprefix("-")
        if form not in ("text", "csv"):
            raise unknown(f"format={form}", form, ("text", "csv"))
        if column and column not in frame:
            raise unknown(f"sort={column}", column, frame.columns)
        try:
            frame = frame[frame.eval(where, engine="python")] if where else frame
        except Exception as error:  # pandas raises many kinds
            raise UserError(reason(error), key="where", hint=HINT) from error
        if column:
            mixed = frame[column].dropna().map(type).nunique() > 1  # texts and lists, say, have no common order
            order = frame[column].map(str, na_action="ignore") if mixed else frame[column]
            frame = frame.loc[order.sort_values(ascending=column == sort, kind="stable").index]
        if form == "csv":
            print(frame.to_csv(index=False), end="")
        else:
            print(overview(frame) if len(frame) else "No run.")


if __name__ == "__main__":
    main()
