"""Checkpoints: all state is restored; unfinished ones are ignored and damaged ones refused."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from data.errors import UserError
from experiments import checkpoint
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


class Queue(nn.Module):
    """A head and a memory bank, such as objectives have."""

    queue: torch.Tensor
    pointer: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(3, 2)
        self.register_buffer("queue", torch.zeros(4, 2))
        self.register_buffer("pointer", torch.tensor(0))


def make(width: int = 3) -> tuple[Tied, Queue, torch.optim.Optimizer]:
    encoder, objective = Tied(width), Queue()
    return encoder, objective, AdamW(lr=0.1).build([*encoder.parameters(), *objective.parameters()])


def write(root: Path, step: int, steps_taken: int | None = None) -> tuple[Tied, Queue, torch.optim.Optimizer]:
    encoder, objective, optimizer = make()
    for _ in range(min(step, 2) if steps_taken is None else steps_taken):
        optimizer.zero_grad()
        encoder().backward()
        optimizer.step()
    objective.queue.fill_(1.5)
    objective.pointer.fill_(3)
    checkpoint.save(
        root, step, encoder=encoder, objective=objective, optimizer=optimizer, state={"tokens": 9, "best": None}
    )
    return encoder, objective, optimizer


def test_all_state_is_restored(tmp_path: Path) -> None:
    encoder, objective, optimizer = write(tmp_path, 7)
    fresh_encoder, fresh_objective, fresh_optimizer = make()
    (folder,) = checkpoint.list_checkpoints(tmp_path)
    state = checkpoint.load(folder, encoder=fresh_encoder, objective=fresh_objective, optimizer=fresh_optimizer)
    assert (state["step"], state["tokens"], folder.name) == (7, 9, "step-00000007")
    assert fresh_encoder.out.weight is fresh_encoder.words.weight
    for old, new in ((encoder, fresh_encoder), (objective, fresh_objective)):
        for name, value in old.state_dict().items():
            torch.testing.assert_close(new.state_dict()[name], value, rtol=0, atol=0)
    for model, its_optimizer in ((encoder, optimizer), (fresh_encoder, fresh_optimizer)):
        its_optimizer.zero_grad()
        model().backward()
        its_optimizer.step()
    torch.testing.assert_close(fresh_encoder.words.weight, encoder.words.weight, rtol=0, atol=0)


def test_a_run_whose_updates_were_all_skipped_is_restored(tmp_path: Path) -> None:
    """The loss scaler of fp16 takes their count back to 0."""
    encoder, objective, optimizer = write(tmp_path / "other", 1)
    for state in optimizer.state.values():
        state["step"].zero_()
    parts: dict[str, Any] = {"encoder": encoder, "objective": objective, "optimizer": optimizer}
    checkpoint.save(tmp_path, 1, state={"tokens": 9, "best": None}, **parts)
    encoder, objective, optimizer = make()
    checkpoint.load(tmp_path / "step-00000001", encoder=encoder, objective=objective, optimizer=optimizer)
    assert {int(state["step"]) for state in optimizer.state.values()} == {0}


def test_an_unfinished_checkpoint_is_ignored_and_removed(tmp_path: Path) -> None:
    (tmp_path / ".step-00000003.part").mkdir()
    assert checkpoint.list_checkpoints(tmp_path) == []
    write(tmp_path, 4)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-00000004"]


def have_optimizer_state(root: Path) -> list[bool]:
    """Verifies each checkpoint and returns whether it has optimizer state."""
    return [checkpoint.OPTIMIZER in checkpoint.verify(path)["files"] for path in checkpoint.list_checkpoints(root)]


def test_the_newest_checkpoints_and_the_best_weights_are_kept(tmp_path: Path) -> None:
    for step in (1, 2, 3, 4):
        write(tmp_path, step, steps_taken=0)
    checkpoint.prune(tmp_path, keep_last=2, best=1)
    assert [path.name for path in checkpoint.list_checkpoints(tmp_path)] == [
        f"step-0000000{step}" for step in (1, 3, 4)
    ]
    assert have_optimizer_state(tmp_path) == [False, True, True] and not checkpoint.is_finished(tmp_path)
    encoder, objective, optimizer = make()
    best = checkpoint.list_checkpoints(tmp_path)[0]
    state = checkpoint.load(best, encoder=encoder, objective=objective, optimizer=optimizer)
    assert state["step"] == 1 and not optimizer.state and (objective.queue == 1.5).all()


def test_a_finished_run_keeps_weights_only(tmp_path: Path) -> None:
    assert not checkpoint.is_finished(tmp_path)
    write(tmp_path, 1)
    write(tmp_path, 2)
    assert not checkpoint.is_finished(tmp_path)
    checkpoint.finish(tmp_path)
    assert checkpoint.is_finished(tmp_path)
    assert {path.name for path in (tmp_path / "step-00000002").iterdir()} == {
        checkpoint.MODEL, checkpoint.OBJECTIVE, checkpoint.STATE
    }  # fmt: skip


def test_matching_parameters_are_loaded_and_queues_are_not(tmp_path: Path) -> None:
    _, objective, _ = write(tmp_path, 1)
    fresh = Queue()
    path = checkpoint.list_checkpoints(tmp_path)[0] / checkpoint.OBJECTIVE
    assert checkpoint.load_matching(path, fresh) == ["head.weight", "head.bias"]
    torch.testing.assert_close(fresh.head.weight, objective.head.weight, rtol=0, atol=0)
    assert int(fresh.pointer) == 0


class Words(nn.Module):
    """A head with a number of its vocabulary."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.out, self.vocabulary = nn.Linear(3, 2), vocabulary

    def get_extra_state(self) -> torch.Tensor:
        return torch.tensor(self.vocabulary)


class WithVocabulary(nn.Module):
    """Two heads, of which ``words`` depends on a vocabulary."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.other = nn.Linear(3, 2)
        self.words = Words(vocabulary)


def test_weights_for_another_vocabulary_are_not_loaded(tmp_path: Path) -> None:
    encoder, _, optimizer = make()
    old = WithVocabulary(7)
    saved = checkpoint.save(
        tmp_path, 1, encoder=encoder, objective=old, optimizer=optimizer, state={"tokens": 0, "best": None}
    )
    path = saved / checkpoint.OBJECTIVE
    assert checkpoint.load_matching(path, WithVocabulary(8)) == ["other.weight", "other.bias"]
    assert len(checkpoint.load_matching(path, fresh := WithVocabulary(7))) == 4
    assert torch.equal(fresh.state_dict()["words.out.weight"], old.state_dict()["words.out.weight"])


def test_a_full_disk_is_one_line_and_leaves_nothing(tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with pytest.raises((UserError, OSError)):
            write(tmp_path, 1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", [checkpoint.STATE, checkpoint.MODEL, checkpoint.OBJECTIVE, checkpoint.OPTIMIZER])
def test_a_damaged_checkpoint_is_named(tmp_path: Path, name: str) -> None:
    encoder, objective, optimizer = write(tmp_path, 5)
    [folder] = checkpoint.list_checkpoints(tmp_path)
    content = (folder / name).read_bytes()
    for damaged in (content[: len(content) // 2], b"[]", b"", None):
        (folder / name).unlink() if damaged is None else (folder / name).write_bytes(damaged)
        with pytest.raises(UserError) as error:
            checkpoint.load(folder, encoder=encoder, objective=objective, optimizer=optimizer)
        assert error.value.key.startswith(str(folder)) and "\n" not in str(error.value)


def test_a_checkpoint_of_another_model_is_refused(tmp_path: Path) -> None:
    write(tmp_path, 1)
    [folder] = checkpoint.list_checkpoints(tmp_path)
    encoder, objective, optimizer = make(width=4)
    with pytest.raises(UserError) as error:
        checkpoint.load(folder, encoder=encoder, objective=objective, optimizer=optimizer)
    assert error.value.key == str(folder / checkpoint.MODEL)
    encoder, objective, optimizer = make()
    momentum = torch.optim.SGD(encoder.parameters(), lr=0.1, momentum=0.9)
    with pytest.raises(UserError) as error:
        checkpoint.load(folder, encoder=encoder, objective=objective, optimizer=momentum)
    assert error.value.key == str(folder / checkpoint.OPTIMIZER)
