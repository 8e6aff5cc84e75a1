"""Schedules against values worked out by hand."""

from __future__ import annotations

import pytest

from experiments.schedules import Annealed, Linear, SlantedTriangular, WarmupStableDecay


def test_slanted_triangular_by_hand() -> None:
    """With 20 steps and cut 0.1 the peak is at step 2, and 18 steps lead down. Ratio 32 makes the minimum 1/32."""
    schedule = SlantedTriangular(cut=0.1, ratio=32)
    shares = [schedule.factor(step, 20) for step in (0, 1, 2, 11, 19)]
    assert shares == pytest.approx([1 / 32, 16.5 / 32, 1, 16.5 / 32, (1 + 31 / 18) / 32])


def test_slanted_triangular_equals_howard_and_ruders_equation() -> None:
    total, cut_frac, ratio = 200, 0.1, 32
    cut = int(total * cut_frac)
    for step in range(total):
        p = step / cut if step < cut else 1 - (step - cut) / (cut * (1 / cut_frac - 1))
        share = SlantedTriangular(cut=cut_frac, ratio=ratio).factor(step, total)
        assert share == pytest.approx((1 + p * (ratio - 1)) / ratio)


def test_linear_by_hand() -> None:
    shares = [Linear(warm_up=0.2).factor(step, 10) for step in range(10)]
    assert shares == pytest.approx([1 / 3, 2 / 3, 1, 7 / 8, 6 / 8, 5 / 8, 4 / 8, 3 / 8, 2 / 8, 1 / 8])
    assert Linear(warm_up=0).factor(0, 4) == 1


def test_warm_up_plateau_decay_by_hand() -> None:
    schedule = WarmupStableDecay(warm_up=3, decay=0.4)
    shares = [schedule.factor(step, 10) for step in range(10)]
    assert shares == pytest.approx([1 / 4, 2 / 4, 3 / 4, 1, 1, 1, 1, 3 / 4, 2 / 4, 1 / 4])


def test_annealed_by_hand() -> None:
    """In the third epoch, after one drop, the factor is 0.99 ** 2 * 0.2 at every step."""
    schedule = Annealed()
    assert schedule.uses_dev_metric and schedule.stop == 1e-5
    assert schedule.factor(0, 10) == 1
    assert schedule.factor(5, 10, epoch=2, drops=1) == pytest.approx(0.9801 * 0.2)
