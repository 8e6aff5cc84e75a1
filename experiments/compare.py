"""Trains pairs of objectives and encoders, and compares them on a page: ``experiments/compare.py --help``."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.pop(0)  # this folder, which Python puts there
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from experiments import arguments
from experiments.comparison import settings


def main() -> int:
    """Runs the command line."""
    return arguments.run(_run, settings.FILE)


def _run(given: list[str]) -> int:
    wanted, passed = settings.read(given)
    # Imported late: it takes seconds, and mistakes are reported before.
    from experiments.comparison import command

    return command.compare(wanted, passed)


if __name__ == "__main__":
    sys.exit(main())
