"""Lists the runs under a folder with what is special about each and its scores.

    python experiments/runs.py [folder] [sort=KEY] [where=CONDITIONS]
    python experiments/runs.py runs sort=-senteval where='objective=declutr,optimizer.lr<1e-3,state=finished'

Keys are those of a run's configuration (optimizer.lr), and run, state, steps, tokens, loss, recall@1, recall@5,
probes (their mean) and senteval (the average over its tasks). sort=-KEY begins with the highest.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.pop(0)  # this folder, which Python puts there
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import experiments  # noqa: F401  # reports missing packages

# isort: split
from rich.table import Table

from analysis import run_tables, runs
from data.display import wide_console
from data.errors import UserError
from experiments.command_line import HELP, one_line_errors, split
from experiments.overrides import in_shell, nearest


def main() -> None:
    with one_line_errors():
        options = {"folder": "runs", "sort": "", "where": ""}
        flags, given = split(sys.argv[1:], lambda _: options, HELP)
        if flags:
            print((__doc__ or "").rstrip())
            return
        for text in given:
            key, equals, value = text.partition("=")
            if equals and key in options:
                options[key] = value
            elif equals and not Path(text).exists():
                near = nearest(key, [*options, *runs.NAMED])
                meant = f"folder={value}" if value and Path(value).is_dir() else f"where={text}"
                meant = f"{near}={value}" if near in options else meant
                raise UserError(f"{text}: no such option or folder. Did you mean {in_shell(meant)}?")
            else:
                options["folder"] = text
        if not options["folder"]:
            raise UserError("folder must not be empty: name the folder that holds the run folders (runs, say).")
        every = runs.scan(Path(options["folder"]))
        rows = run_tables.select(every, options["where"])
        if every and not rows:
            print(run_tables.none_selected(every, options["where"]))
            return
        show(run_tables.table(run_tables.sort(rows, options["sort"]) if options["sort"] else rows))


def show(table: Table) -> None:
    """Prints ``table`` as wide as it needs."""
    wide_console(table, emoji=False).print(table)


def show_sweep(folders: list[Path]) -> None:
    """Prints the runs of a sweep, and their means over seeds."""
    rows = [runs.read(folder) for folder in folders]
    show(run_tables.table(rows))
    show(run_tables.mean_table(rows))


if __name__ == "__main__":
    main()
