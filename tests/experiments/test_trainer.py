"""The trainer before its first step; test_experiment and test_plateau have complete trainings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn

from experiments.optimizer import SGD
from experiments.processes import Processes
from experiments.schedules import Constant
from experiments.settings import Settings
from experiments.trainer import Trainer
from objectives.conssent import ConsSent
from tests.tiny_encoder import TinyEncoder


def test_processes_start_with_the_same_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # With copies in the state dicts, only tensors that are broadcast themselves receive the values.
    def copy_state(module: nn.Module, state: dict[str, Any], prefix: str, metadata: Any) -> None:
        for name, value in state.items():
            state[name] = value.clone()

    def broadcast(processes: Processes, tensors: Sequence[Tensor]) -> None:
        for tensor in tensors:
            tensor.fill_(7)  # the values of the first process

    monkeypatch.setattr(Processes, "broadcast", broadcast)
    encoder, objective = TinyEncoder(), ConsSent(classifier_width=4)
    objective.build(encoder)
    objective.register_buffer("queue", torch.zeros(3))
    for module in (encoder, objective):
        module.register_state_dict_post_hook(copy_state)
    accelerator = SimpleNamespace(device="cpu", num_processes=1, prepare_optimizer=lambda optimizer: optimizer)
    Trainer(
        accelerator=cast(Any, accelerator),
        settings=Settings(),
        encoder=encoder,
        objective=objective,
        optimizer_settings=SGD(lr=1.0),
        schedule=Constant(),
        train=cast(Any, SimpleNamespace(batches_per_epoch=3)),
        dev=[],
        steps=3,
        folder=tmp_path,
        display=cast(Any, None),
        start="untrained",
    )
    tensors = [*encoder.parameters(), *objective.parameters(), *objective.buffers()]
    assert len(tensors) == 3 + 6 + 1
    assert all((tensor == 7).all() for tensor in tensors)
