"""Evaluations of a run: on held-out text, and on SentEval."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from analysis import quick
from analysis.senteval.protocols import ProtocolName
from analysis.senteval.tasks import available
from data.errors import rename_keys
from data.ranges import Existing


class Quick:
    """Evaluates a run on held-out text only; called as ``quick.evaluate`` is."""

    __call__ = staticmethod(quick.evaluate)


@dataclass(kw_only=True)
class SentEval(Quick):
    """Evaluates a run on held-out text as ``quick.evaluate`` does; its export is also evaluated on SentEval.

    Args:
        data: SentEval's folder, with ``downstream`` and ``probing``.
        tasks: names of tasks; None: all tasks with files.
        protocol: a name of ``protocols.PROTOCOLS``.

    Raises:
        UserError: before training, if there is no such task, or no file of any task.
    """

    data: Existing
    tasks: tuple[str, ...] | None = None
    protocol: ProtocolName = "default"

    def __post_init__(self) -> None:
        with rename_keys(data="evaluation.data", tasks="evaluation.tasks"):
            available(self.tasks, Path(self.data).expanduser())
