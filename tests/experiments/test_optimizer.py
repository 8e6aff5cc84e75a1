"""Optimisers against naive loops."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from experiments.optimizer import SGD, Adam, AdamW, Muon, Optimizer, Start, start_of, tables_of
from tests.tiny_encoder import TinyEncoder


def trained(
    settings: Optimizer, start: Tensor, gradients: list[Tensor], rates: list[float], skipped: tuple[int, ...] = ()
) -> Tensor:
    """Returns the parameter after all updates but the ``skipped`` ones, as fp16's loss scaler skips some."""
    parameter = nn.Parameter(start.clone())
    optimizer = settings.build([parameter])
    for step, (gradient, lr) in enumerate(zip(gradients, rates, strict=True)):
        parameter.grad = gradient.clone()
        settings.prepare(optimizer, lr)
        if step not in skipped:
            optimizer.step()
    return parameter.detach()


@pytest.fixture
def start_gradients_rates() -> tuple[Tensor, list[Tensor], list[float]]:
    rng = torch.Generator().manual_seed(0)
    gradients = [torch.randn(3, 4, generator=rng, dtype=torch.float64) for _ in range(7)]
    return torch.randn(3, 4, generator=rng, dtype=torch.float64), gradients, [0.1, 0.2, 0.3, 0.2, 0.1, 0.05, 0.01]


@pytest.mark.parametrize("skipped", [(), (0, 3)], ids=["all steps", "skipped steps"])
@pytest.mark.parametrize("correct_bias", [True, False], ids=["corrected bias", "uncorrected bias"])
def test_adamw_equals_a_naive_loop(
    start_gradients_rates: tuple[Tensor, list[Tensor], list[float]], correct_bias: bool, skipped: tuple[int, ...]
) -> None:
    start, gradients, rates = start_gradients_rates
    b1, b2, eps, decay = 0.8, 0.95, 1e-3, 0.1
    p, m, v = start.clone(), torch.zeros_like(start), torch.zeros_like(start)
    taken = [step for step in range(len(rates)) if step not in skipped]
    for t, step in enumerate(taken, start=1):
        g, lr = gradients[step], rates[step]
        m = b1 * m + (1 - b1) * g
        v = b2 * v + (1 - b2) * g**2
        c1, c2 = (1 - b1**t, 1 - b2**t) if correct_bias else (1, 1)
        p = p - lr * decay * p
        p = p - lr * (m / c1) / ((v / c2).sqrt() + eps)
    settings = AdamW(lr=1.0, weight_decay=decay, betas=(b1, b2), eps=eps, correct_bias=correct_bias)
    found = trained(settings, start, gradients, rates, skipped)
    torch.testing.assert_close(found, p, rtol=1e-12, atol=1e-12)


def test_a_known_number_of_updates_is_not_read_from_the_device(
    start_gradients_rates: tuple[Tensor, list[Tensor], list[float]],
) -> None:
    start, gradients, rates = start_gradients_rates
    settings = AdamW(lr=1.0, weight_decay=0.1, correct_bias=False)
    parameter = nn.Parameter(start.clone())
    optimizer = settings.build([parameter])
    for step, (gradient, lr) in enumerate(zip(gradients, rates, strict=True)):
        parameter.grad = gradient.clone()
        with NoReads():
            settings.prepare(optimizer, lr, step)
        optimizer.step()
    assert torch.equal(parameter.detach(), trained(settings, start, gradients, rates))


class NoReads(TorchDispatchMode):
    """Refuses to read a tensor's value on the host, which would wait for a GPU."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        assert "_local_scalar_dense" not in func.name()
        return func(*args, **(kwargs or {}))


def test_adam_adds_decay_to_the_gradient(start_gradients_rates: tuple[Tensor, list[Tensor], list[float]]) -> None:
    start, gradients, rates = start_gradients_rates
    p, m, v = start.clone(), torch.zeros_like(start), torch.zeros_like(start)
    for t, (g, lr) in enumerate(zip(gradients, rates, strict=True), start=1):
        g = g + 0.1 * p
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        p = p - lr * (m / (1 - 0.9**t)) / ((v / (1 - 0.999**t)).sqrt() + 1e-8)
    found = trained(Adam(lr=1.0, weight_decay=0.1), start, gradients, rates)
    torch.testing.assert_close(found, p, rtol=1e-12, atol=1e-12)


def test_sgd_with_momentum(start_gradients_rates: tuple[Tensor, list[Tensor], list[float]]) -> None:
    start, gradients, rates = start_gradients_rates
    p, velocity = start.clone(), torch.zeros_like(start)
    for g, lr in zip(gradients, rates, strict=True):
        velocity = 0.9 * velocity + g
        p = p - lr * velocity
    found = trained(SGD(lr=1.0, momentum=0.9), start, gradients, rates)
    torch.testing.assert_close(found, p, rtol=1e-12, atol=1e-12)


def test_biases_and_normalisation_do_not_decay() -> None:
    model = nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 3), nn.LayerNorm(3))
    model[1].weight.requires_grad_(False)
    decays = {
        id(parameter): group["weight_decay"]
        for group in AdamW(lr=1e-3, weight_decay=0.1).build(model.parameters()).param_groups
        for parameter in group["params"]
    }
    named = {name: decays.get(id(parameter)) for name, parameter in model.named_parameters()}
    assert named == {"0.weight": 0.1, "1.weight": None, "1.bias": 0.0, "2.weight": 0.0, "2.bias": 0.0}


@pytest.mark.parametrize(
    ("settings", "start", "rate"),
    [
        pytest.param(AdamW(), "trained", (5e-5, "optimizer.lr_trained"), id="trained weights"),
        pytest.param(AdamW(lr_bundled=3e-4), "bundled", (3e-4, "optimizer.lr_bundled"), id="bundled weights"),
        pytest.param(AdamW(), "untrained", (5e-4, "optimizer.lr_untrained"), id="untrained weights"),
        pytest.param(AdamW(lr=1.0), "untrained", (1.0, "optimizer.lr"), id="AdamW with lr"),
        pytest.param(SGD(lr=0.1), "bundled", (0.1, "optimizer.lr"), id="SGD with lr"),
    ],
)
def test_the_default_rate_follows_the_initial_weights(
    settings: Optimizer, start: Start, rate: tuple[float, str]
) -> None:
    assert settings.rate(start) == rate


@pytest.mark.parametrize(
    ("weights", "untrained", "start"),
    [
        ("random", True, "untrained"),
        ("random", False, "bundled"),
        ("bundled", False, "bundled"),
        ("pretrained", False, "trained"),
    ],
)
def test_the_kind_of_initial_weights_is_recognised(weights: str, untrained: bool, start: Start) -> None:
    encoder = TinyEncoder()
    encoder.weights, encoder.untrained = weights, untrained
    assert start_of(encoder) == start


def test_muon_equals_its_definition_on_matrices_and_adamw_elsewhere() -> None:
    rng = torch.Generator().manual_seed(1)
    matrix, table, bias = (nn.Parameter(torch.randn(shape, generator=rng)) for shape in ((6, 4), (9, 4), (5,)))
    initial = [parameter.detach().clone() for parameter in (matrix, table, bias)]
    gradients = [[torch.randn(each.shape, generator=rng) for each in initial] for _ in range(3)]
    lr, decay, momentum = 0.01, 0.1, 0.9
    settings = Muon(lr=lr, weight_decay=decay, momentum=momentum)
    optimizer = settings.build([matrix, table, bias], [table])
    reference = [nn.Parameter(each.clone()) for each in initial[1:]]
    adamw = AdamW(lr=lr, weight_decay=decay).build(reference)
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


def test_muon_resumes_to_the_same_bits() -> None:
    def train(stop: int | None) -> Tensor:
        rng = torch.Generator().manual_seed(2)
        parameters = [nn.Parameter(torch.randn(shape, generator=rng)) for shape in ((6, 4), (9, 4), (5,))]
        settings = Muon(lr=0.01)
        optimizer = settings.build(parameters, parameters[1:2])
        for step in range(6):
            if step == stop:
                state = optimizer.state_dict()
                optimizer = settings.build(parameters, parameters[1:2])
                optimizer.load_state_dict(state)
            for parameter in parameters:
                parameter.grad = torch.randn(parameter.shape, generator=rng)
            settings.prepare(optimizer, 0.01 / (step + 1))
            optimizer.step()
        return torch.cat([parameter.detach().ravel() for parameter in parameters])

    assert torch.equal(train(None), train(3))


def test_only_embeddings_are_tables() -> None:
    module = nn.ModuleDict({"words": nn.Embedding(7, 3), "map": nn.Linear(3, 2)})
    assert [table.shape for table in tables_of([module, nn.Linear(2, 2)])] == [(7, 3)]
