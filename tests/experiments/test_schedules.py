"""Schedules against values worked out by hand."""

from __future__ import annotations

import pytest

from experiments.schedules import Annealed, Constant, Linear, SlantedTriangular, WarmupStableDecay


def test_slanted_triangular_by_hand() -> None:
    """With 20 steps and cut 0.1 the peak is at step 2, and 18 steps lead down. Ratio 32 makes the minimum 1/32."""
    schedule = SlantedTriangular(cut=0.1, ratio=32)
    shares = [schedule.factor(step, 20, 16) for step in range(20)]
    assert shares[0] == pytest.approx(1 / 32)
    assert shares[1] == pytest.approx((1 + 0.5 * 31) / 32)
    assert shares[2] == pytest.approx(1)
    assert shares[11] == pytest.approx((1 + 0.5 * 31) / 32)
    assert shares[19] == pytest.approx((1 + 31 / 18) / 32)


def test_slanted_triangular_equals_howard_and_ruders_equation() -> None:
    total, cut_frac, ratio = 200, 0.1, 32
    cut = int(total * cut_frac)
    for step in range(total):
        p = step / cut if step < cut else 1 - (step - cut) / (cut * (1 / cut_frac - 1))
        share = SlantedTriangular(cut=cut_frac, ratio=ratio).factor(step, total, 16)
        assert share == pytest.approx((1 + p * (ratio - 1)) / ratio)


@pytest.mark.parametrize("total", [1, 2, 3, 9, 19, 101])
def test_slanted_triangular_stays_positive_in_short_runs(total: int) -> None:
    for step in range(total):
        assert 1 / 32 <= SlantedTriangular(cut=0.1, ratio=32).factor(step, total, 16) <= 1


def test_instances_schedule_only_rises_in_one_epoch_at_batch_16() -> None:
    schedule = SlantedTriangular(total="instances")
    shares = [schedule.factor(step, 100, 16) for step in range(100)]
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx((1 + 99 / 160 * 31) / 32)


def test_linear_by_hand() -> None:
    shares = [Linear(warm_up=0.2).factor(step, 10, 16) for step in range(10)]
    assert shares == pytest.approx([1 / 3, 2 / 3, 1, 7 / 8, 6 / 8, 5 / 8, 4 / 8, 3 / 8, 2 / 8, 1 / 8])
    assert Linear(warm_up=0).factor(0, 4, 16) == 1


def test_warm_up_plateau_decay_by_hand() -> None:
    schedule = WarmupStableDecay(warm_up=3, decay=0.4)
    shares = [schedule.factor(step, 10, 16) for step in range(10)]
    assert shares == pytest.approx([1 / 4, 2 / 4, 3 / 4, 1, 1, 1, 1, 3 / 4, 2 / 4, 1 / 4])


def test_plateau_does_not_depend_on_the_length_of_the_run() -> None:
    schedule = WarmupStableDecay(warm_up=3, decay=0.2)
    short, long = ([schedule.factor(step, steps, 16) for step in range(80)] for steps in (100, 1000))
    assert short == long


@pytest.mark.parametrize("decay", [0, 1])
def test_decay_may_cover_no_step_or_all_steps(decay: float) -> None:
    shares = [WarmupStableDecay(warm_up=0, decay=decay).factor(step, 4, 16) for step in range(4)]
    assert shares == pytest.approx([1, 3 / 4, 2 / 4, 1 / 4] if decay else [1, 1, 1, 1])


def test_constant_stays_constant() -> None:
    assert Constant().factor(7, 10, 16) == 1


def test_annealed_by_hand() -> None:
    """In the third epoch, after one drop, the factor is 0.99 ** 2 * 0.2 at every step."""
    schedule = Annealed()
    assert schedule.uses_dev_metric and schedule.stop == 1e-5
    assert schedule.factor(0, 10, 64) == 1
    assert schedule.factor(5, 10, 64, epoch=2, drops=1) == pytest.approx(0.9801 * 0.2)
