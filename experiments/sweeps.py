"""Sweeps by any of Hydra's launchers, which return how each job ended."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hydra import version
from hydra._internal.hydra import Hydra
from hydra._internal.utils import create_config_search_path
from hydra.core.global_hydra import GlobalHydra


class Failure(NamedTuple):
    """Failure of a job: its process, and the line that it printed there."""

    process: int
    line: str


class Swept(NamedTuple):
    """A job of a sweep: its overrides, and its failure or what it returned."""

    overrides: list[str]
    failure: Failure | None
    value: Any = None


def run_sweep(folder: Path, name: str, job: Callable[..., Any], overrides: list[str]) -> list[Swept]:
    """Runs ``job`` for every value that ``overrides`` sweep over, by their hydra/launcher.

    ``hydra.main`` does the same but drops the return values, and a job in another process has no other way.

    Args:
        folder: of the configurations.
        name: of the command's YAML in it.
    """
    version.setbase("1.3")
    search_path = create_config_search_path(str(folder))
    runner = Hydra.create_main_hydra2(task_name=name, config_search_path=search_path)
    try:
        multirun = [*overrides, "hydra.mode=MULTIRUN"]  # as hydra.main does, so that jobs know
        batches = runner.multirun(config_name=name, task_function=job, overrides=multirun)
    finally:
        GlobalHydra.instance().clear()
    return [_swept(list(one.overrides or []), one.return_value) for batch in batches for one in batch]


def _swept(overrides: list[str], value: Any) -> Swept:
    return Swept(overrides, value, None) if isinstance(value, Failure) else Swept(overrides, None, value)


def told_elsewhere(done: Sequence[Swept]) -> list[str]:
    """Returns a line for each failure in another process, with the overrides that only that job had."""
    shared = set.intersection(*(set(one.overrides) for one in done)) if done else set()
    lines = []
    for one in done:
        if one.failure is not None and one.failure.process != os.getpid():
            own = " ".join(text for text in one.overrides if text not in shared)
            lines.append(f"{own}: {one.failure.line}")
    return lines
