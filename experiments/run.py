"""Trains one encoder with one objective on one corpus: ``python experiments/run.py --help``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path[0] = str(Path(__file__).resolve().parents[1])  # Python puts this folder there

from experiments.command import call_with_hydra
from experiments.config import check


def report(paths: list[Path]) -> None:
    """Prints the runs of a sweep as a table."""
    from analysis.runs import overview, read_runs

    print(overview(read_runs(*paths)))


def train(config: dict[str, Any]) -> Path:
    """Trains in a new folder, or in that of a resumed run; returns it."""
    check(config)
    from experiments.run_folder import open_run_folder  # takes a second

    with open_run_folder(config) as path:
        from experiments import launch  # takes seconds

        launch.run(config, path)
    return path


def main() -> None:
    call_with_hydra(train, "run", report)


if __name__ == "__main__":
    main()
