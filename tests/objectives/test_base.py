"""Base class of the objectives: chance levels, default cost, corpus statistics, refused encoders."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from data.batch import Batch, Tokens
from data.errors import UnfitError
from data.token_format import TokenFormat
from encoders.base import Encoder
from experiments import building, processes
from experiments.progress import Display
from experiments.settings import Settings
from objectives.base import CorpusStatistics, Loss, Multitask, Objective, Requirements, evaluating
from objectives.conssent import ConsSent
from objectives.quick_thoughts import QuickThoughts, choose_neighbours
from objectives.simcse import SimCSE
from tests.experiments import tiny
from tests.test_interchange import OBJECTIVES, folder, is_impossible, overrides
from tests.tiny_encoder import FORMAT, TinyEncoder, documents

__all__ = ["folder"]
WITH_CHANCE_LEVELS = {"conssent", "conssent_mt", "nsp", "sop", "simcse", "quick_thoughts"}


@pytest.mark.parametrize(
    ("objective", "task"),
    [case for case in OBJECTIVES if case[0] in WITH_CHANCE_LEVELS and not is_impossible(*case, "gru")],
)
def test_chance_levels_are_the_losses_of_a_zero_encoder(objective: str, task: str | None, folder: Path) -> None:
    config = tiny.check(overrides(objective, task, "gru", folder))
    settings = Settings.of(config)
    display = Display(shown=False)
    components, accelerator = building.build_components(config), processes.start_processes(settings)
    parts = building.build_parts(config, components, settings, accelerator, display, None)
    with torch.no_grad():
        for parameter in (*parts.encoder.parameters(), *parts.objective.parameters()):
            parameter.zero_()
    parts.encoder.eval()
    parts.objective.eval()
    levels = parts.objective.chance_levels()
    assert levels and levels.keys() <= set(parts.objective.part_names)
    assert all(0 < value < 1 for name, value in levels.items() if name.endswith("_accuracy"))
    checked = set()
    for step in range(4 * len(parts.objective.tasks)):
        batch = parts.batches("train", 1).batch(step)
        for name, value in parts.objective.loss(parts.encoder, batch).parts.items():
            if name in levels and not name.endswith("_accuracy"):
                assert float(value) == pytest.approx(levels[name], abs=1e-5), name
                checked.add(name)
    assert checked == {name for name in levels if not name.endswith("_accuracy")}


def test_chance_accuracies_by_hand() -> None:
    assert ConsSent(task="N", k=4).chance_levels()["N_accuracy"] == 0.25
    assert ConsSent(task="I", consistent=0.3).chance_levels()["I_accuracy"] == 0.7
    assert SimCSE(batch_size=8).chance_levels()["contrastive_accuracy"] == 0.125


@pytest.mark.parametrize(("size", "window"), [(6, 1), (9, 2)])
def test_chance_of_finding_a_neighbour(size: int, window: int) -> None:
    expected = QuickThoughts(batch_size=size, window=window).chance_levels()["neighbour_accuracy"]
    generator = torch.Generator().manual_seed(0)
    vectors = torch.randn(4000, 2, size, 16, generator=generator)
    accuracy = torch.stack([choose_neighbours(f, g, window)[1] for f, g in vectors]).mean()
    assert float(accuracy) == pytest.approx(expected, abs=0.015)


class Smallest(Objective):
    """Objective with only the six required members; its loss pulls sentence vectors to zero."""

    part_names = ("norm",)
    requirements = Requirements(unit="sentence", min_tokens=2)

    def __init__(self, *, batch_size: int = 8) -> None:
        super().__init__()
        self.batch_size = batch_size

    def sample(self, unit: np.ndarray, format: TokenFormat, rng: np.random.Generator) -> np.ndarray:
        return format.wrap(unit)

    def collate(self, examples: list[np.ndarray], format: TokenFormat) -> Batch:
        return Batch({"sentence": Tokens.pad(examples, format.pad_id)}, size=len(examples))

    def loss(self, encoder: Encoder, batch: Batch) -> Loss:
        total = encoder.vectors(batch.tokens["sentence"]).square().mean()
        return Loss(total, {"norm": total.detach()})


def test_the_default_cost_follows_the_tokens_of_a_batch() -> None:
    objective, encoder = Smallest(batch_size=400), TinyEncoder()
    units = [unit[: 4 + i % 5] for i, unit in enumerate(documents(400, 9))]
    objective.fit_to_corpus(units, np.arange(400))
    batch = objective.collate([objective.sample(unit, FORMAT, np.random.default_rng()) for unit in units], FORMAT)
    assert objective.step_flops(encoder) == pytest.approx(3 * encoder.forward_flops(batch.n_tokens, 0), rel=0.02)
    objective.fit_to_corpus(units, np.array([0]))
    assert objective.step_flops(encoder) == 3 * 400 * encoder.forward_flops(6, 6)


def test_the_default_cost_needs_text_of_the_corpus() -> None:
    with pytest.raises(ValueError):
        Smallest().step_flops(TinyEncoder())


def test_the_default_cost_of_several_tasks_is_their_mean() -> None:
    tasks, encoder = {"small": Smallest(batch_size=4), "large": Smallest(batch_size=12)}, TinyEncoder()

    class Both(Multitask[Smallest]):
        batch_size = 8
        requirements = Smallest.requirements

    both = Both(tasks)
    both.fit_to_corpus(documents(20, 9), np.arange(20))
    assert [both.task_at(step, 0) for step in range(3)] == ["small", "large", "small"]
    costs = [task.step_flops(encoder) for task in tasks.values()]
    assert both.step_flops(encoder) == pytest.approx(sum(costs) / 2) and costs[1] == 3 * costs[0] > 0


def test_defaults_of_an_objective_with_only_the_required_methods() -> None:
    objective, encoder = Smallest(), TinyEncoder()
    objective.check_encoder(encoder)
    objective.build(encoder)
    objective.after_step()
    assert [*objective.parameters()] == [] and objective.tasks == {"": objective}
    assert objective.task_at(3, seed=1) == "" and objective.own_data() == {}
    assert [*objective.texts()] == [] and objective.texts_key() == ""
    assert objective.chance_levels() == objective.facts() == {} and objective.example_predictions(encoder) == ""


def test_corpus_is_counted_only_when_asked_and_once() -> None:
    class Units(list[np.ndarray]):
        reads = 0

        def __getitem__(self, i: int) -> np.ndarray:  # type: ignore[override]
            self.reads += 1
            return super().__getitem__(i)

    units = Units([np.array([1, 1, 3]), np.array([9]), np.array([3])])
    statistics = CorpusStatistics(units, np.array([0, 2]))
    assert units.reads == 0
    assert statistics.token_counts.tolist() == [0, 2, 0, 2] and statistics.mean_length == 2.0
    assert units.reads == 2


def test_an_encoder_that_ignores_word_order_is_refused() -> None:
    encoder = TinyEncoder()
    encoder.reads_order = False
    with pytest.raises(UnfitError):
        ConsSent(task="P").check_encoder(encoder)
    Smallest().check_encoder(encoder)


def test_evaluating_restores_training_mode() -> None:
    on, off = nn.Dropout(0.5), nn.Dropout(0.5).eval()
    with pytest.raises(KeyError), evaluating(on, off):
        assert not (on.training or off.training or torch.is_grad_enabled())
        raise KeyError
    assert on.training and not off.training and torch.is_grad_enabled()


def test_a_class_with_another_loss_inherits_no_formula_and_no_chance_level() -> None:
    class ArcSim(SimCSE):
        """SimCSE with an angular margin."""

        def loss(self, encoder: Encoder, batch: Batch) -> Loss:
            return super().loss(encoder, batch)

    class Longer(SimCSE):
        """SimCSE of longer sentences."""

    class Own(ArcSim):
        formula = "x"

    assert (ArcSim.formula, ArcSim(batch_size=4).chance_levels()) == ("", {})
    assert (Longer.formula, Longer().chance_levels()) == (SimCSE.formula, SimCSE().chance_levels())
    assert Own.formula == "x" and Own().part_names == SimCSE.part_names
