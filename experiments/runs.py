"""Lists the runs under a folder with their scores: ``python experiments/runs.py [folder]``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.pop(0)  # this folder, which Python puts there
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from rich.console import Console

from analysis import runs
from experiments import compose


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", default="runs", help="default: runs")
    with compose.one_line_errors():
        table = runs.table(runs.scan(Path(parser.parse_args().folder)))
        # As wide as it is: squeezed into a narrow terminal no name could be read or copied.
        wide = Console(width=1000)
        Console(width=wide.measure(table).maximum).print(table)


if __name__ == "__main__":
    main()
