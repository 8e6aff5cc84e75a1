from __future__ import annotations

import pytest
import torch
from torch import Tensor

from encoders.pooling import POOLINGS, pool

LENGTHS = [3, 1, 5]


def _example(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    states = torch.randn(3, 5, 4, dtype=dtype, generator=torch.Generator().manual_seed(1))
    return states, torch.arange(5) < torch.tensor(LENGTHS)[:, None]


def _naive(states: Tensor, how: str) -> Tensor:
    rows = []
    for row, length in zip(states, LENGTHS, strict=True):
        real = [row[position] for position in range(length)]
        rows.append(
            {
                "mean": sum(real[1:], real[0]) / length,
                "cls": real[0],
                "max": torch.stack(real).max(dim=0).values,
                "last": real[-1],
            }[how]
        )
    return torch.stack(rows)


@pytest.mark.parametrize("how", POOLINGS)
def test_equals_a_loop_over_real_tokens(how: str) -> None:
    states, mask = _example()
    torch.testing.assert_close(pool(states, mask, how), _naive(states, how))


@pytest.mark.parametrize("how", POOLINGS)
def test_padding_has_no_influence_and_no_gradient(how: str) -> None:
    states, mask = _example()
    changed = torch.where(mask.unsqueeze(-1), states, 1e6).requires_grad_()
    vectors = pool(changed, mask, how)
    assert torch.equal(vectors, pool(states, mask, how))
    vectors.sum().backward()
    assert changed.grad is not None and not changed.grad[~mask].any()


def test_solved_by_hand() -> None:
    states = torch.tensor([[[1.0, 8.0], [3.0, -2.0], [100.0, 100.0]]])
    mask = torch.tensor([[True, True, False]])
    expected = {"mean": [2.0, 3.0], "cls": [1.0, 8.0], "max": [3.0, 8.0], "last": [3.0, -2.0]}
    for how, vector in expected.items():
        assert pool(states, mask, how).tolist() == [vector]


def test_mean_of_half_precision_is_summed_in_float32() -> None:
    states, mask = torch.full((1, 4096, 1), 1.01, dtype=torch.bfloat16), torch.ones(1, 4096, dtype=torch.bool)
    mean = pool(states, mask, "mean")
    assert mean.dtype == torch.float32
    torch.testing.assert_close(mean.item(), states[0, 0, 0].item())


@pytest.mark.parametrize("how", ["mean", "cls", "last"])
def test_gradient(how: str) -> None:
    states, mask = _example()
    assert torch.autograd.gradcheck(lambda value: pool(value, mask, how), states.requires_grad_())


def test_the_gradient_of_a_maximum_goes_to_one_real_token() -> None:
    states = torch.tensor([[[2.0, 1.0], [2.0, 5.0], [9.0, 9.0]], [[4.0, 4.0]] * 3], requires_grad=True)
    mask = torch.tensor([[True, True, False], [True, True, True]])
    pool(states, mask, "max").backward(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    assert states.grad is not None
    assert states.grad.tolist() == [[[1, 0], [0, 2], [0, 0]], [[3, 4], [0, 0], [0, 0]]]


def test_unknown_pooling_is_refused() -> None:
    with pytest.raises(ValueError, match=r"pooling must be one of mean, cls, max, last. Got median instead."):
        pool(*_example(), "median")
