"""Sweeps by any of Hydra's launchers: how each job ended comes back to the command, wherever the job ran."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from hydra import version
from hydra._internal.hydra import Hydra
from hydra._internal.utils import create_config_search_path
from hydra.core.global_hydra import GlobalHydra


class Failure(NamedTuple):
    """What a job returns that failed: its process, and the line that it told there."""

    process: int
    line: str


class Swept(NamedTuple):
    """A job of a sweep: what the command line said for it, and its failure."""

    overrides: list[str]
    failure: Failure | None


def run_sweep(folder: Path, name: str, job: Callable[..., Failure | None], overrides: list[str]) -> list[Swept]:
    """Runs ``job`` for every value that ``overrides`` sweep over, by their hydra/launcher.

    ``hydra.main`` does the same and drops what jobs return; a job in another process cannot tell otherwise.

    Args:
        folder: of the configurations.
        name: of the command's YAML in it.
    """
    version.setbase("1.3")
    search_path = create_config_search_path(str(folder))
    runner = Hydra.create_main_hydra2(task_name=name, config_search_path=search_path)
    try:
        told = [*overrides, "hydra.mode=MULTIRUN"]  # as hydra.main does, so that jobs know
        batches = runner.multirun(config_name=name, task_function=job, overrides=told)
    finally:
        GlobalHydra.instance().clear()
    return [Swept(list(one.overrides or []), one.return_value) for batch in batches for one in batch]


def told_elsewhere(done: Sequence[Swept]) -> list[str]:
    """A line for each failure that another process has told, with what was asked of that job alone."""
    shared = set.intersection(*(set(one.overrides) for one in done)) if done else set()
    lines = []
    for one in done:
        if one.failure is not None and one.failure.process != os.getpid():
            own = " ".join(text for text in one.overrides if text not in shared)
            lines.append(f"{own}: {one.failure.line}")
    return lines
