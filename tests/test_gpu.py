"""A GPU compared with a CPU: losses, gradients, vectors, runs. Skipped without a GPU.

    TESTED_DEVICE=cpu python -m pytest tests/test_gpu.py

compares a CPU with itself, which checks the code of these tests on a machine without a GPU.

Tolerances: in float32 the devices sum in different orders. A GPU's loss may differ from that in float64 by 1e-5 of
its value or ten times a CPU's error, and its gradient by 1e-5 of its norm or five times a CPU's error (recurrent
layers included, as TF32 is off). In bf16, with 8 significant bits, a loss may differ by 5 %.
"""

from __future__ import annotations

import copy
import os
import shutil
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np
import pytest
import torch
from torch import nn

from analysis.senteval.classifiers import retrieval
from analysis.senteval.classifiers.selection import stratified
from analysis.senteval.classifiers.training import Fits, fit_many
from analysis.senteval.protocols import ClassifierSettings
from data.batch import Batch
from encoders.base import Encoder
from encoders.kernels import Precision, float32_products
from experiments import checkpoint
from objectives.base import Objective
from objectives.declutr import Declutr
from tests.analysis.senteval.classifiers.test_retrieval import captioned
from tests.checks.pairs import OBJECTIVES, is_impossible, open_parts
from tests.encoders.models import tiny as tiny_transformer
from tests.experiments import tiny
from tests.objectives.gradients import sample_batch
from tests.test_interchange import SENTENCES
from tests.tiny_encoder import documents

DEVICE = os.environ.get("TESTED_DEVICE", "cuda")
if DEVICE == "cuda" and not torch.cuda.is_available():
    pytest.skip("there is no GPU", allow_module_level=True)

PAIRS = [
    (objective, encoder)
    for objective in OBJECTIVES
    for encoder in (("lstm",) if objective == "language_model" else ("bundled", "bilstm_max", "gru"))
    if not is_impossible(objective, encoder)
]


def low_precision(encoder: Encoder) -> torch.dtype:
    """Returns bf16, or float32 where torch has no bf16 kernel: for an LSTM on most CPUs."""
    lstm = any(isinstance(part, nn.LSTM) for part in encoder.modules())
    return torch.float32 if DEVICE == "cpu" and lstm else torch.bfloat16


class Built(NamedTuple):
    """An encoder and an objective on one device, and batches on the CPU."""

    encoder: Encoder
    objective: Objective
    batches: list[Batch]


def build(objective: str, encoder: str, folder: Path) -> Built:
    parts = open_parts(folder, objective, encoder)
    batches = [parts.batches("train", 1).batch(step) for step in range(3)]
    return Built(parts.encoder.train(), parts.objective.train(), batches)


def without_dropout(*modules: nn.Module) -> None:
    """Sets every dropout to 0, as two devices draw different masks."""
    tied = [body for module in modules for body in getattr(getattr(module, "decoder", None), "_body", ())]
    for module in (*modules, *tied):
        for part in module.modules():
            if isinstance(part, nn.Dropout):
                part.p = 0.0


def step(
    parts: Built, batch: Batch, device: str, dtype: torch.dtype = torch.float32
) -> tuple[float, torch.Tensor]:
    """Returns the loss of ``batch`` on ``device``, where ``parts`` are, and the gradient as one vector."""
    modules = nn.ModuleList([parts.encoder, parts.objective])
    modules.zero_grad()
    with float32_products("fp32"):
        with torch.autocast(device, dtype, enabled=dtype != torch.float32):
            loss = parts.objective.loss(parts.encoder, batch.to(device)).total
        loss.backward()
    gradients = [
        torch.zeros_like(weight) if weight.grad is None else weight.grad for weight in modules.parameters()
    ]
    return float(loss.detach()), torch.cat([gradient.flatten().float().cpu() for gradient in gradients])


def copied_to(device: str, parts: Built) -> Built:
    encoder, objective = copy.deepcopy((parts.encoder, parts.objective))
    return Built(encoder.to(device), objective.to(device), parts.batches)


def error(result: torch.Tensor, expected: torch.Tensor) -> float:
    """Returns the norm of the difference, relative to the norm of ``expected``."""
    return float((result - expected).norm() / expected.norm())


@pytest.mark.parametrize(("objective", "encoder"), PAIRS)
def test_a_step_equals_that_of_a_cpu(objective: str, encoder: str, small_files: Path) -> None:
    on_cpu = build(objective, encoder, small_files)
    without_dropout(on_cpu.encoder, on_cpu.objective)
    step(on_cpu, on_cpu.batches[0], "cpu")
    on_device = copied_to(DEVICE, on_cpu)
    exact = copied_to("cpu", on_cpu)
    exact.encoder.double()
    exact.objective.double()
    for batch in on_cpu.batches[1:]:
        expected, expected_gradient = step(exact, batch, "cpu")
        loss, gradient = step(on_cpu, batch, "cpu")
        result, found_gradient = step(on_device, batch, DEVICE)
        assert result == pytest.approx(expected, rel=1e-5, abs=10 * abs(loss - expected))
        assert error(found_gradient, expected_gradient) < max(1e-5, 5 * error(gradient, expected_gradient))
        low, low_gradient = step(on_device, batch, DEVICE, low_precision(on_device.encoder))
        assert low == pytest.approx(loss, rel=0.05, abs=0.05) and bool(low_gradient.isfinite().all())
    np.testing.assert_allclose(on_device.encoder.encode(SENTENCES), on_cpu.encoder.encode(SENTENCES), atol=1e-4)


@pytest.mark.parametrize("precision", get_args(Precision))
def test_vectors_equal_those_of_a_cpu(precision: Any) -> None:
    encoder = tiny_transformer()
    expected = encoder.encode(SENTENCES * 20, batch_tokens=64)
    encoder.to(DEVICE)
    if precision == "tf32" and DEVICE == "cpu":
        pytest.skip("a CPU has no such precision")
    encoder.precision = precision
    result = encoder.encode(SENTENCES * 20, batch_tokens=64)
    bound = {"fp32": 1e-5, "tf32": 5e-3, "bf16": 0.03}[precision]
    assert error(torch.from_numpy(result), torch.from_numpy(expected)) < bound


CLASSIFIERS = {
    "linear": ClassifierSettings(),
    "dropout": ClassifierSettings(hidden=20, layers=2, dropout=0.3),
    "rmsprop": ClassifierSettings(hidden=20, optimizer="rmsprop"),
}


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classifiers_equal_those_of_a_cpu(name: str) -> None:
    random = np.random.default_rng(0)
    labels = random.integers(3, size=700)
    features = random.normal(size=(700, 12)).astype(np.float32)
    features[:, 0] += labels
    fits = [Fits(*rows, [1e-4, 1e-1]) for rows in stratified(labels, 3)]
    on_cpu, on_device = (
        fit_many(features, labels, fits, 3, CLASSIFIERS[name], device=device) for device in ("cpu", DEVICE)
    )
    for fits_on_cpu, fits_on_device in zip(on_cpu, on_device, strict=True):
        for expected, fitted in zip(fits_on_cpu, fits_on_device, strict=True):
            assert fitted.dev_accuracy == pytest.approx(expected.dev_accuracy, abs=0.02)


def test_retrieval_equals_that_of_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retrieval, "MAX_EPOCH", 3)
    parts = captioned(100, 100, 100, noise=0.05)
    (expected, sides), (total, sides_on_device) = (
        retrieval.retrieval(*parts, device=device) for device in ("cpu", DEVICE)
    )
    assert expected > 200 and total == pytest.approx(expected, abs=3)
    assert sides_on_device[0][2] == pytest.approx(sides[0][2], abs=2)


def test_packed_rows_equal_padded_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """In bf16, with flash attention: the default on a GPU, forced on a CPU."""
    encoder, objective = tiny_transformer(dropout=0.0).train(), Declutr(batch_size=6, min_length=4, max_length=24)
    objective.build(encoder)
    contents = [document % (encoder.format.vocab_size - 5) + 5 for document in documents(6, 200)]
    batch = sample_batch(objective, contents, encoder.format)
    parts = copied_to(DEVICE, Built(encoder, objective.train(), [batch]))
    parts.encoder.packing.forced = DEVICE == "cpu"  # type: ignore[union-attr]
    result, found_gradient = step(parts, batch, DEVICE, torch.bfloat16)
    monkeypatch.setattr(type(parts.encoder), "packs", lambda encoder, tokens: False)
    loss, gradient = step(parts, batch, DEVICE, torch.bfloat16)
    assert result == pytest.approx(loss, rel=0.02) and error(found_gradient, gradient) < 0.05
    assert (result, error(found_gradient, gradient)) != (loss, 0.0)  # packed and padded steps round differently


def test_a_run_resumes_from_its_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "finish", lambda root: None)  # lets a finished run be resumed
    complete = tiny.run(
        tmp_path, f"device={DEVICE}", "checkpoint.every=4", "objective.memory_bank=8", "log_every=1"
    )
    newest = complete / "checkpoints" / "step-00000008"
    shutil.copytree(complete, run := tmp_path / "resumed")
    shutil.rmtree(run / "checkpoints" / newest.name)
    tiny.train(tiny.check([f"resume={run}", f"device={DEVICE}", f"cache={tmp_path / 'cache'}"]))
    for result, expected in zip(tiny.metrics(run), tiny.metrics(complete), strict=True):
        assert result == pytest.approx(expected, rel=1e-2, abs=1e-4)
