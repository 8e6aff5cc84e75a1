"""Budgets: the length that counts, and the steps, tokens, epochs and FLOPs that follow from it."""

from __future__ import annotations

from typing import Any

import pytest

from data.errors import UserError
from experiments.budget import Budget

SIZES: dict[str, Any] = {"min_span": 4, "max_span": 8, "documents": 2, "sentences": 4}
COSTS: dict[str, Any] = {"step_flops": lambda: 10.0, "step_tokens": 7.0, "steps_per_epoch": 50.0}


@pytest.mark.parametrize(
    ("lengths", "steps"),
    [
        ({"flops": 1000.0}, 100),
        ({"flops": 1000.0, "epochs": 3.0}, 150),
        ({"flops": 1000.0, "epochs": 3.0, "tokens": 15.0}, 3),
        ({"flops": 1000.0, "epochs": 3.0, "tokens": 15.0, "steps": 5}, 5),
        ({"flops": 1.0}, 1),
    ],
)
def test_the_first_length_that_is_set_counts(lengths: dict[str, Any], steps: int) -> None:
    plan = Budget(**SIZES, **lengths).plan(**COSTS)
    assert (plan.steps, plan.tokens, plan.epochs) == (steps, 7.0 * steps, steps / 50)


def test_a_budget_without_a_length_is_refused() -> None:
    with pytest.raises(UserError) as error:
        Budget(**SIZES)
    assert error.value.key == "budget"
