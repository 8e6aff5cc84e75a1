"""Trains pairs of objectives and encoders, and compares them on a page: ``experiments/compare.py --help``."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.pop(0)  # this folder, which Python puts there
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from experiments.command import command_of_runs
from experiments.comparison.settings import ComparisonSettings, read


@command_of_runs("compare", read)
def main(wanted: ComparisonSettings, passed: list[str]) -> int:
    # Imported late, as it takes seconds: mistakes are reported before.
    from experiments.comparison import command

    return command.compare(wanted, passed)


if __name__ == "__main__":
    main()
