"""Evaluates an encoder or an ensemble on SentEval, or embeds a file: ``python experiments/evaluate.py --help``."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.pop(0)  # this folder, which Python puts there
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode

from experiments.command import command
from experiments.settings import EvaluationSettings


def report(results: list[Path | None]) -> None:
    """Compares the results of a sweep in one table."""
    from experiments import evaluation  # late, as below

    if len(paths := [path for path in results if path is not None]) > 1:
        evaluation.compare(paths)


@command("evaluate", EvaluationSettings, report=report)
def main(settings: EvaluationSettings) -> Path | None:
    settings.require_model()
    from experiments import evaluation  # late: its imports take seconds, and mistakes are reported before

    if settings.embed is not None:
        evaluation.embed(settings)
        return None
    if settings.ensemble is not None:
        return evaluation.combine(settings)
    return evaluation.evaluate_model(settings, several=HydraConfig.get().mode == RunMode.MULTIRUN)


if __name__ == "__main__":
    main()
