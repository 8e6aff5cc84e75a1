"""Two processes give the gradient of one: language modelling, inference, Quick-Thoughts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from data.randomness import generator
from encoders.base import Encoder
from tests.objectives import test_language_model, test_nli, test_quick_thoughts
from tests.objectives.two_processes import Found, backward, check
from tests.tiny import FORMAT


def parts(name: str) -> tuple[Any, Any, Encoder, list[Any]]:
    """Objective, task, encoder, and units of very different lengths."""
    if name == "language_model":
        encoder = test_language_model.gru(False).double()
        objective = test_language_model.built(encoder)
        return objective, objective, encoder, test_language_model.UNITS
    if name == "quick_thoughts":
        units = [unit.sources[0] for unit in test_nli.pairs()]
        choice = test_quick_thoughts.QuickThoughts(batch_size=6)
        return choice, choice, test_quick_thoughts.pair(), units
    inference, tiny = test_nli.built("infersent")
    return inference, inference.tasks["nli"], tiny, test_nli.pairs()


def gradients(rank: int, world: int) -> Found:
    results = {}
    for name in ("language_model", "quick_thoughts", "nli"):
        objective, task, encoder, units = parts(name)
        share = len(units) // world
        format = encoder.format if name == "language_model" else FORMAT
        drawn = [task.draw(unit, format, generator(0)) for unit in units[rank * share : (rank + 1) * share]]
        results[name] = backward(objective.loss(encoder, task.collate(drawn, format)), world, encoder, objective)
    return results


def test_two_processes_give_the_gradient_of_one(tmp_path: Path) -> None:
    check(gradients, tmp_path)
