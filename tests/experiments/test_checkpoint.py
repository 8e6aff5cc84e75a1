"""Checkpoints: all state is restored; unfinished ones are ignored and damaged ones refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from data.errors import UserError
from experiments import checkpoint
from experiments.checkpoint import State
from experiments.optimizer import AdamW


class Tied(nn.Module):
    """An embedding and an output layer that share their weights, as an MLM head does."""

    def __init__(self, width: int = 3) -> None:
        super().__init__()
        self.words = nn.Embedding(5, width)
        self.out = nn.Linear(width, 5)
        self.out.weight = self.words.weight

    def forward(self) -> torch.Tensor:
        return self.out(self.words.weight).square().sum()


class Words(nn.Linear):
    """A head with a number of its vocabulary."""

    vocabulary = 7

    def get_extra_state(self) -> torch.Tensor:
        return torch.tensor(self.vocabulary)

    def set_extra_state(self, state: torch.Tensor) -> None:
        assert state == self.vocabulary


class Heads(nn.Module):
    """Two heads and a memory bank, such as objectives have."""

    queue: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.head, self.words = nn.Linear(3, 2), Words(3, 2)
        self.register_buffer("queue", torch.zeros(4, 2))


Parts = tuple[Tied, Heads, torch.optim.Optimizer]


def make(width: int = 3) -> Parts:
    encoder, objective = Tied(width), Heads()
    return encoder, objective, AdamW(lr=0.1).build(nn.ModuleList([encoder, objective]))


def take_step(encoder: Tied, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    encoder().backward()
    optimizer.step()


def write(root: Path, step: int, best: int = 1) -> tuple[Parts, Path]:
    """Writes a checkpoint of parts after two updates; returns them and its folder."""
    encoder, objective, optimizer = make()
    for _ in range(2):
        take_step(encoder, optimizer)
    objective.queue.fill_(1.5)
    state = State(step=step, tokens=9, best={"step": best, "value": 1.0})
    return (encoder, objective, optimizer), checkpoint.save(root, state, encoder, objective, optimizer)


def test_all_state_is_restored(tmp_path: Path) -> None:
    (encoder, objective, optimizer), folder = write(tmp_path, 7)
    fresh_encoder, fresh_objective, fresh_optimizer = make()
    assert checkpoint.list_checkpoints(tmp_path) == [folder] and folder.name == "step-00000007"
    state = checkpoint.load(folder, fresh_encoder, fresh_objective, fresh_optimizer)
    assert (state.step, state.tokens, state.best) == (7, 9, {"step": 1, "value": 1.0})
    assert fresh_encoder.out.weight is fresh_encoder.words.weight
    for old, new in ((encoder, fresh_encoder), (objective, fresh_objective)):
        assert all(torch.equal(new.state_dict()[name], value) for name, value in old.state_dict().items())
    take_step(encoder, optimizer)
    take_step(fresh_encoder, fresh_optimizer)
    assert torch.equal(fresh_encoder.words.weight, encoder.words.weight)


def test_an_unfinished_checkpoint_is_ignored_and_removed(tmp_path: Path) -> None:
    (tmp_path / ".step-00000003.part").mkdir()
    assert checkpoint.list_checkpoints(tmp_path) == []
    _, folder = write(tmp_path, 4)
    assert [*tmp_path.iterdir()] == [folder]


def test_parameters_of_the_same_vocabulary_are_loaded_and_queues_are_not(tmp_path: Path) -> None:
    (_, objective, _), folder = write(tmp_path, 1)
    head, words, fresh = ["head.weight", "head.bias"], ["words.weight", "words.bias"], Heads()
    path = folder / checkpoint.OBJECTIVE
    assert checkpoint.load_matching(path, fresh) == head + words
    assert torch.equal(fresh.head.weight, objective.head.weight) and not fresh.queue.any()
    other = Heads()
    other.words.vocabulary = 8
    assert checkpoint.load_matching(path, other) == head
    assert not torch.equal(other.words.weight, objective.words.weight)


def test_the_newest_checkpoints_and_the_best_are_kept(tmp_path: Path) -> None:
    folders = [write(tmp_path, step)[1] for step in (1, 2, 3, 4)]
    assert checkpoint.list_checkpoints(tmp_path) == [folders[0], *folders[2:]]
    checkpoint.finish(tmp_path)
    files = {checkpoint.MODEL, checkpoint.OBJECTIVE, checkpoint.STATE}
    assert {path.name for path in folders[-1].iterdir()} == files


@pytest.mark.parametrize("name", [checkpoint.STATE, checkpoint.MODEL, checkpoint.OBJECTIVE, checkpoint.OPTIMIZER])
def test_a_damaged_checkpoint_is_named(tmp_path: Path, name: str) -> None:
    parts, folder = write(tmp_path, 5)
    (folder / name).write_bytes((folder / name).read_bytes()[:20])
    with pytest.raises(UserError) as error:
        checkpoint.load(folder, *parts)
    assert error.value.key.startswith(str(folder))


def test_a_checkpoint_of_another_model_is_refused(tmp_path: Path) -> None:
    _, folder = write(tmp_path, 1)
    with pytest.raises(UserError) as error:
        checkpoint.load(folder, *make(width=4))
    assert error.value.key == str(folder)
