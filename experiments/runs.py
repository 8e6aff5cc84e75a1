"""Lists the runs under a folder with their scores: ``python experiments/runs.py [folder]``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.pop(0)  # this folder, which Python puts there
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from rich.console import Console

from analysis import runs
from data.errors import UserError
from experiments import compose


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", default="runs", help="default: runs")
    with compose.one_line_errors():
        folder = parser.parse_args().folder
        if not folder:
            raise UserError("folder must not be empty: name the folder that holds the run folders (runs, say).")
        table = runs.table(runs.scan(Path(folder)))
        # As wide as it is: squeezed into a narrow terminal no name could be read or copied.
        wide = Console(width=1000)
        Console(width=wide.measure(table).maximum, emoji=False).print(table)


if __name__ == "__main__":
    main()
