"""Evaluates an encoder or an ensemble on SentEval, or embeds a file: ``python experiments/evaluate.py --help``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.pop(0)  # this folder, which Python puts there
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode

from experiments import compose
from experiments.settings import EvaluationSettings

results: list[Path] = []  # of a sweep, which ends with one table of them all


@compose.command("evaluate", EvaluationSettings)
def main(config: dict[str, Any]) -> None:
    from experiments import evaluation  # late: its imports take seconds, and mistakes are reported before

    settings = EvaluationSettings.of(config)
    if settings.embed is not None:
        evaluation.embed(settings)
    elif settings.ensemble is not None:
        results.append(evaluation.combine(settings))
    else:
        several = HydraConfig.get().mode == RunMode.MULTIRUN
        results.append(evaluation.evaluate_model(settings, several=several))


if __name__ == "__main__":
    try:
        main()
    finally:  # if one of a sweep was refused, the others are compared nevertheless
        if len(results) > 1:
            from experiments import evaluation

            evaluation.compare(results)
