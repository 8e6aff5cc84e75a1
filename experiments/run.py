"""Trains one encoder with one objective on one corpus: ``python experiments/run.py --help``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.pop(0)  # this folder, which Python puts there
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from experiments import compose

folders: list[Path] = []  # of the runs of a sweep, which ends with one table


@compose.command()
def main(config: dict[str, Any]) -> None:
    from experiments import launch  # late: its imports take seconds, and mistakes are reported before

    folders.append(launch.run(config))


if __name__ == "__main__":
    try:
        main()
    finally:  # if one run of a sweep failed, the others are listed
        if len(folders) > 1:
            from experiments import runs

            runs.show_sweep(folders)
