"""Counted operations against formulas."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch

from data.loader import Loader
from encoders.base import Encoder
from encoders.gru import GRU
from encoders.lstm import LSTM
from objectives.flops import measure_flops
from objectives.language_model import LanguageModel
from objectives.simcse import SimCSE
from tests.encoders import bilstms, models


def count(objective: Any, encoder: Encoder, units: list[np.ndarray]) -> float:
    objective.build(encoder)
    loader = Loader(units, range(len(units)), objective, encoder.format, batch_size=len(units), seed=1)
    before = copy.deepcopy(encoder.state_dict())
    operations = measure_flops(objective, encoder, loader)
    assert all(torch.equal(value, before[name]) for name, value in encoder.state_dict().items())
    return operations


def test_a_transformer_takes_six_operations_a_weight_and_token() -> None:
    encoder = models.tiny(max_length=24)
    units = [np.arange(5, 5 + 6 + i % 13) for i in range(32)]
    lengths = np.array([len(unit) + 2 for unit in units] * 2)  # each is read twice
    modules = encoder.backbone.encoder.modules()
    weights = sum(part.weight.numel() for part in modules if isinstance(part, torch.nn.Linear))
    expected = 6 * weights * lengths.sum() + 12 * 2 * 32 * (lengths**2).sum()  # attention in two layers of 32
    assert count(SimCSE(batch_size=32), encoder, units) == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize("family", ["roberta", "deberta-v2"])
def test_no_value_is_needed(family: str) -> None:
    units = [np.arange(5, 11 + i) for i in range(32)]
    encoders = (models.tiny(family, attention=kind) for kind in ("eager", "sdpa"))
    first, second = (count(SimCSE(batch_size=32), encoder, units) for encoder in encoders)
    assert first == second


@pytest.mark.parametrize(("kind", "gates"), [(LSTM, 4), (GRU, 3)])
def test_a_recurrent_encoder_by_hand(kind: Any, gates: int) -> None:
    encoder = bilstms.tiny(kind, hidden=32, word_size=16, **({"bidirectional": False} if kind is GRU else {}))
    objective = LanguageModel(batch_size=4)
    units = [np.array([5, 6, 7, 8][: i + 1]) for i in range(4)]
    operations = count(objective, encoder, units)
    special = len(encoder.format.prefix) + len(encoder.format.suffix)
    read = sum(len(unit) + special for unit in units)
    predicted = read - 4 * len(encoder.format.suffix)
    expected = 6 * read * gates * 32 * (16 + 32) + 6 * predicted * objective.output.weight.numel()
    assert operations == pytest.approx(expected, rel=0.02)
