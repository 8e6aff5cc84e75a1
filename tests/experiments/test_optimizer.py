"""Optimisers against naive loops."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest
import torch
from torch import Tensor, nn

from encoders.base import Encoder
from experiments.optimizer import SGD, Adam, AdamW, Muon, Optimizer

RATES = [0.1, 0.2, 0.3, 0.2, 0.1, 0.05, 0.01]
START, *GRADIENTS = torch.randn(8, 3, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def check_updates(settings: Optimizer, expected: Tensor, skipped: tuple[int, ...] = ()) -> None:
    """Compares the parameter after all updates but the ``skipped`` ones, as fp16's loss scaler skips some."""
    parameter = nn.Parameter(START.clone())
    optimizer = settings.build(nn.ParameterList([parameter]))
    for step, (gradient, lr) in enumerate(zip(GRADIENTS, RATES, strict=True)):
        parameter.grad = gradient.clone()
        settings.prepare(optimizer, lr)
        if step not in skipped:
            optimizer.step()
    torch.testing.assert_close(parameter.detach(), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("skipped", [(), (0, 3)])
@pytest.mark.parametrize("correct_bias", [True, False])
def test_adamw_equals_a_naive_loop(correct_bias: bool, skipped: tuple[int, ...]) -> None:
    b1, b2, eps, decay = 0.8, 0.95, 1e-3, 0.1
    p, m, v = START.clone(), torch.zeros_like(START), torch.zeros_like(START)
    taken = [step for step in range(len(RATES)) if step not in skipped]
    for t, step in enumerate(taken, start=1):
        g, lr = GRADIENTS[step], RATES[step]
        m = b1 * m + (1 - b1) * g
        v = b2 * v + (1 - b2) * g**2
        c1, c2 = (1 - b1**t, 1 - b2**t) if correct_bias else (1, 1)
        p = p - lr * decay * p
        p = p - lr * (m / c1) / ((v / c2).sqrt() + eps)
    settings = AdamW(lr=1.0, weight_decay=decay, betas=(b1, b2), eps=eps, correct_bias=correct_bias)
    check_updates(settings, p, skipped)


def test_adam_adds_decay_to_the_gradient() -> None:
    p, m, v = START.clone(), torch.zeros_like(START), torch.zeros_like(START)
    for t, (g, lr) in enumerate(zip(GRADIENTS, RATES, strict=True), start=1):
        g = g + 0.1 * p
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        p = p - lr * (m / (1 - 0.9**t)) / ((v / (1 - 0.999**t)).sqrt() + 1e-8)
    check_updates(Adam(lr=1.0, weight_decay=0.1), p)


def test_sgd_with_momentum() -> None:
    p, velocity = START.clone(), torch.zeros_like(START)
    for g, lr in zip(GRADIENTS, RATES, strict=True):
        velocity = 0.9 * velocity + g
        p = p - lr * velocity
    check_updates(SGD(lr=1.0, momentum=0.9), p)


def test_biases_and_normalisation_do_not_decay() -> None:
    model = nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 3), nn.LayerNorm(3))
    model[1].weight.requires_grad_(False)
    decays = {
        id(parameter): group["weight_decay"]
        for group in AdamW(lr=1e-3, weight_decay=0.1).build(model).param_groups
        for parameter in group["params"]
    }
    named = {name: decays.get(id(parameter)) for name, parameter in model.named_parameters()}
    assert named == {"0.weight": 0.1, "1.weight": None, "1.bias": 0.0, "2.weight": 0.0, "2.bias": 0.0}


@pytest.mark.parametrize(
    ("settings", "weights", "rate"),
    [
        (AdamW(), "pretrained", (5e-5, "optimizer.lr_trained")),
        (AdamW(lr_bundled=3e-4), "bundled", (3e-4, "optimizer.lr_bundled")),
        (AdamW(), "random", (5e-4, "optimizer.lr_untrained")),
        (AdamW(lr=1.0), "random", (1.0, "optimizer.lr")),
        (SGD(lr=0.1), "bundled", (0.1, "optimizer.lr")),
    ],
)
def test_the_default_rate_follows_the_initial_weights(
    settings: Optimizer, weights: str, rate: tuple[float, str]
) -> None:
    encoder = SimpleNamespace(weights=weights, untrained=weights == "random")
    assert settings.rate(cast(Encoder, encoder)) == rate


def test_muon_equals_its_definition_on_matrices_and_adamw_elsewhere() -> None:
    rng = torch.Generator().manual_seed(1)
    matrix, table, bias = (nn.Parameter(torch.randn(shape, generator=rng)) for shape in ((6, 4), (9, 4), (5,)))
    model = nn.ModuleList([nn.ParameterList([matrix, bias]), words := nn.Embedding(9, 4)])
    words.weight = table
    initial = [parameter.detach().clone() for parameter in (matrix, table, bias)]
    gradients = [[torch.randn(each.shape, generator=rng) for each in initial] for _ in range(3)]
    lr, decay, momentum = 0.01, 0.1, 0.9
    settings = Muon(lr=lr, weight_decay=decay, momentum=momentum)
    optimizer = settings.build(model)
    reference = [nn.Parameter(each.clone()) for each in initial[1:]]
    adamw = AdamW(lr=lr, weight_decay=decay).build(nn.ParameterList(reference))
    for each in (optimizer, adamw):
        settings.prepare(each, lr)
    expected, buffer = initial[0].double(), torch.zeros(6, 4, dtype=torch.float64)
    for step in gradients:
        for parameter, gradient in zip((matrix, table, bias, *reference), (*step, *step[1:]), strict=True):
            parameter.grad = gradient.clone()
        optimizer.step()
        adamw.step()
        buffer += (1 - momentum) * (step[0].double() - buffer)  # as in torch: an average, not a sum
        update = (1 - momentum) * step[0].double() + momentum * buffer  # Nesterov
        u, _, vh = torch.linalg.svd(update, full_matrices=False)
        expected = expected * (1 - lr * decay) - lr * 0.2 * 6**0.5 * u @ vh
    # Newton-Schulz leaves singular values of 0.7 to 1.2 where the definition has 1.
    moved, wanted = matrix.detach().double() - initial[0], expected - initial[0]
    assert (moved - wanted).norm() < 0.35 * wanted.norm()
    assert torch.cosine_similarity(moved.ravel(), wanted.ravel(), dim=0) > 0.97
    torch.testing.assert_close([table.detach(), bias.detach()], [each.detach() for each in reference])
