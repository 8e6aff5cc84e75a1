"""Settings whose defaults follow the device."""

from __future__ import annotations

import pytest

from data import environment
from experiments.settings import Settings


@pytest.mark.parametrize(("cores", "workers"), [(1, 1), (2, 2), (16, 4)])
def test_workers_and_logging_interval_follow_the_device(
    cores: int, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "cores", lambda: cores)
    assert Settings().workers_for("cpu") == 0 and Settings().workers_for("cuda") == workers
    assert Settings().log_every_for("cpu") == 10 and Settings().log_every_for("cuda") == 50


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_given_numbers_are_kept_on_every_device(device: str) -> None:
    settings = Settings(workers=0, log_every=3)
    assert (settings.workers_for(device), settings.log_every_for(device)) == (0, 3)
