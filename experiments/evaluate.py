"""Evaluates an encoder on SentEval, or by another evaluation: ``python experiments/evaluate.py --help``."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

sys.path.pop(0)  # this folder, which Python puts there
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import experiments  # noqa: F401  # reports missing packages

# isort: split
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode

from analysis.settings import BUNDLED, EVALUATIONS, CheckedSettings, EvaluationSettings
from data.errors import UserError
from experiments.command import command
from experiments.command_line import one_line_errors
from experiments.overrides import NO_FORM, guess, typed
from experiments.settings import require_models


def report(results: list[Path | None]) -> None:
    """Compares the results of a sweep in one table."""
    from experiments import evaluation  # late, as below

    if len(paths := [path for path in results if path is not None]) > 1:
        evaluation.compare(paths)


@command("evaluate", EvaluationSettings, report=report)
def senteval(settings: EvaluationSettings) -> Path | None:
    require_models("model", [settings.model])
    from experiments import evaluation  # late: its imports take seconds, and mistakes are reported before

    if settings.embed is not None:
        evaluation.embed(settings)
        return None
    if settings.ensemble is not None:
        return evaluation.combine(settings)
    return evaluation.evaluate_model(settings, several=HydraConfig.get().mode == RunMode.MULTIRUN)


def main() -> None:
    name = next((text for text in sys.argv[1:] if text in EVALUATIONS), None)
    if name is None:
        with one_line_errors():
            wrong = sys.argv[1] if sys.argv[1:] else ""
            folder = "/" in wrong or any((place / wrong).is_dir() for place in (BUNDLED, Path()))
            if wrong and "=" not in wrong and folder:
                raise UserError(f"{wrong}: {NO_FORM} Did you mean {typed('model', wrong)}?")
            if re.fullmatch(r"\w+", wrong):
                hint = guess(wrong, EVALUATIONS) or f" Available: {', '.join(EVALUATIONS)}."
                raise UserError(f"{wrong}: no such evaluation, and not of the form key=value.{hint}")
        senteval()
        return
    sys.argv.remove(name)

    @command(name, EVALUATIONS[name])
    def evaluation(settings: CheckedSettings) -> None:
        require_models("models", getattr(settings, "models", ()))
        importlib.import_module(settings.module).run(settings)  # late, as above

    evaluation()


if __name__ == "__main__":
    main()
