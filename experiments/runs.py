"""Lists the runs under a folder with what is special about each and its scores.

    python experiments/runs.py [folder] [sort=KEY] [where=CONDITIONS]
    python experiments/runs.py runs sort=-senteval where='objective=declutr,optimizer.lr<1e-3,state=finished'

Keys are those of a run's configuration (optimizer.lr), and run, state, steps, tokens, loss, recall@1, recall@5,
probes (their mean) and senteval (the average over its tasks). sort=-KEY begins with the highest.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.pop(0)  # this folder, which Python puts there
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from rich.console import Console
from rich.table import Table

from analysis import run_tables, runs
from data.errors import UserError
from experiments import compose


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, usage=argparse.SUPPRESS, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("given", nargs="*", help=argparse.SUPPRESS)
    with compose.one_line_errors():
        options = {"folder": "runs", "sort": "", "where": ""}
        for text in parser.parse_args().given:
            key, equals, value = text.partition("=")
            named = bool(equals) and key in options
            options[key if named else "folder"] = value if named else text
        if not options["folder"]:
            raise UserError("folder must not be empty: name the folder that holds the run folders (runs, say).")
        rows = run_tables.select(runs.scan(Path(options["folder"])), options["where"])
        show(run_tables.table(run_tables.sort(rows, options["sort"]) if options["sort"] else rows))


def show(table: Table) -> None:
    """Prints ``table`` as wide as it is: in a narrow terminal no name could be read or copied."""
    wide = Console(width=1000)
    Console(width=wide.measure(table).maximum, emoji=False).print(table)


def show_sweep(folders: list[Path]) -> None:
    """Prints the runs of a sweep, and their means over seeds."""
    rows = [runs.read(folder) for folder in folders]
    show(run_tables.table(rows))
    show(run_tables.mean_table(rows))


if __name__ == "__main__":
    main()
