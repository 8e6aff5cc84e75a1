"""Trains, evaluates and draws a paper's figure or table: ``python experiments/reproduce.py --help``."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.pop(0)  # this folder, which Python puts there
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from experiments.command import command_of_runs
from experiments.reproduction.settings import Reproduction, read


@command_of_runs("reproduce", read)
def main(wanted: Reproduction, passed: list[str]) -> int:
    # Imported late, as it takes seconds: mistakes are reported before.
    from experiments.reproduction import command

    return command.reproduce(wanted, passed)


if __name__ == "__main__":
    main()
