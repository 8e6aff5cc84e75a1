"""Trains one encoder with one objective on one corpus: ``python experiments/run.py --help``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.pop(0)  # this folder, which Python puts there
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from experiments.command import command


def report(folders: list[Path]) -> None:
    """Lists the runs of a sweep, and their means over seeds."""
    from experiments import runs  # late, as below

    runs.show_sweep(folders)


@command(report=report)
def main(config: dict[str, Any]) -> Path:
    from experiments import launch  # late: its imports take seconds, and mistakes are reported before

    return launch.run(config)


if __name__ == "__main__":
    main()
