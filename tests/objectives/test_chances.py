"""What a loss or accuracy is for one who guesses: that of an encoder that tells nothing apart."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from experiments import building, compose, processes
from experiments.progress import Display
from experiments.settings import Settings
from objectives.conssent import ConsSent
from objectives.quick_thoughts import QuickThoughts, choose_neighbours
from objectives.simcse import SimCSE
from tests.test_interchange import OBJECTIVES, folder, overrides, refusal

__all__ = ["folder"]
WITH_CHANCES = {"conssent", "conssent_mt", "nsp", "sop", "simcse", "quick_thoughts"}


@pytest.mark.parametrize(
    ("objective", "task"), [pair for pair in OBJECTIVES if pair[0] in WITH_CHANCES and not refusal(*pair, "gru")]
)
def test_losses_are_those_of_an_encoder_that_sees_nothing(objective: str, task: str | None, folder: Path) -> None:
    config = compose.check(overrides(objective, task, "gru", folder))
    settings = Settings.of(config)
    shown = Display(shown=False)
    parts = building.build(config, settings, processes.start_processes(settings), shown, None)
    with torch.no_grad():
        for parameter in (*parts.encoder.parameters(), *parts.objective.parameters()):
            parameter.zero_()
    parts.encoder.eval()
    parts.objective.eval()
    chances = parts.objective.chances()
    assert chances and chances.keys() <= set(parts.objective.part_names)
    assert all(0 < value < 1 for name, value in chances.items() if name.endswith("_accuracy"))
    met = set()
    for step in range(4 * len(parts.objective.tasks)):
        batch = parts.batches("train", 1).batch(step)
        for name, value in parts.objective.loss(parts.encoder, batch).parts.items():
            if name in chances and not name.endswith("_accuracy"):
                assert float(value) == pytest.approx(chances[name], abs=1e-5), name
                met.add(name)
    assert met == {name for name in chances if not name.endswith("_accuracy")}


def test_accuracies_by_hand() -> None:
    assert ConsSent(task="N", k=4).chances()["N_accuracy"] == 0.25
    assert ConsSent(task="I", consistent=0.3).chances()["I_accuracy"] == 0.7
    assert SimCSE(batch_size=8).chances()["contrastive_accuracy"] == 0.125


@pytest.mark.parametrize(("size", "window"), [(6, 1), (9, 2)])
def test_neighbours_that_are_guessed(size: int, window: int) -> None:
    expected = QuickThoughts(batch_size=size, window=window).chances()["neighbour_accuracy"]
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randn(4000, 2, size, 16, generator=generator)
    found = torch.stack([choose_neighbours(one, other, window)[1] for one, other in drawn]).mean()
    assert float(found) == pytest.approx(expected, abs=0.015)
