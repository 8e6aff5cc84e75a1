"""Losses and vectors on a simulated GPU: no tensor stays on the CPU, and no step waits for the device."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np
import pytest
import torch

from data.batch import Tokens
from encoders import inference, packed
from encoders.transformer import Transformer
from tests.checks.pairs import OBJECTIVES, is_impossible, open_parts
from tests.encoders.models import FAMILIES, shape, tiny, tokens_of
from tests.simulated_device import DEVICE, SimulatedDevice, refuse_waits
from tests.test_interchange import SENTENCES

PAIRS = [
    (objective, encoder)
    for objective in OBJECTIVES
    for encoder in (("lstm",) if objective == "language_model" else ("gru", "bundled"))
    if not is_impossible(objective, encoder)
]


class CallingThread(contextlib.nullcontext[None]):
    """A pool of threads that runs all in the calling thread."""

    map = staticmethod(map)


@pytest.fixture(autouse=True)
def simpler_modes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replaces autocast and inference mode, which the simulated device does not support."""
    monkeypatch.setattr(torch, "inference_mode", torch.no_grad)
    monkeypatch.setattr(packed, "COUNTED", "")  # the simulated device is called meta, too
    monkeypatch.setattr(inference, "ThreadPoolExecutor", lambda *_: CallingThread())  # a mode is of a thread
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: contextlib.nullcontext())
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda *_: False)
    monkeypatch.setattr(torch, "get_autocast_dtype", lambda *_: torch.float32)


def test_the_simulated_device_refuses_what_a_gpu_refuses_and_waits_where_that_is_refused() -> None:
    with SimulatedDevice():
        vector, mask = torch.ones(2).to(DEVICE), torch.tensor([True, False]).to(DEVICE)
        assert vector[mask].item() == 1 and (vector * torch.zeros(2, device=DEVICE)).device == DEVICE
        with pytest.raises(RuntimeError, match="add of tensors on two devices"):
            vector + torch.ones(2)
        with refuse_waits():
            vector[torch.tensor([0]).to(DEVICE)] + vector.sum()
            for wait in (vector.sum().item, vector.tolist, vector.nonzero, lambda: vector[mask], vector.cpu):
                with pytest.raises(RuntimeError, match="waits for the device"):
                    wait()


@pytest.mark.parametrize("family", FAMILIES)
def test_no_transformer_waits_for_the_device(family: str) -> None:
    encoder = tiny(family).train()
    with SimulatedDevice():
        encoder.to(DEVICE)
        for lengths in ((5, 9, 3), (6, 6)):
            rows = [encoder.format.wrap(np.arange(5, 5 + length)) for length in lengths]
            with refuse_waits():
                encoder(Tokens.pad(rows, encoder.format.pad_id).to(DEVICE))


def test_a_causal_model_sees_no_later_word_on_the_device() -> None:
    encoder = tiny("bert", shape=shape("bert", is_decoder=True, use_cache=False)).eval()
    tokens = tokens_of(encoder)
    expected = encoder(tokens).sentence.detach()
    with SimulatedDevice(), torch.no_grad():
        result = encoder.to(DEVICE)(tokens.to(DEVICE)).sentence
        torch.testing.assert_close(result.cpu(), expected)


@pytest.mark.parametrize(("objective", "encoder"), PAIRS)
def test_no_tensor_stays_on_the_host_and_no_step_waits(objective: str, encoder: str, small_files: Path) -> None:
    parts = open_parts(small_files, objective, encoder)
    expected = parts.encoder.encode(SENTENCES)
    batches = [parts.batches("train", 1).batch(step) for step in range(3)]
    dev = parts.batches("dev", 1).fixed_batches(1)
    with SimulatedDevice():
        parts.encoder.to(DEVICE).train()
        parts.objective.to(DEVICE).train()
        with refuse_waits():
            for batch in batches:
                assert parts.objective.loss(parts.encoder, batch.to(DEVICE)).total.device == DEVICE
        parts.objective.dev_metrics(parts.encoder, [batch.to(DEVICE) for batch in dev])
        np.testing.assert_allclose(parts.encoder.encode(SENTENCES), expected, atol=1e-6)
        if isinstance(parts.encoder, Transformer):
            parts.encoder.packing.forced = True
            assert parts.objective.loss(parts.encoder, batches[0].to(DEVICE)).total.device == DEVICE
