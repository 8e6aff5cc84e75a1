"""SentEval for training: STS-B's dev set during training, all tasks at the end."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis import quick
from analysis.senteval.protocols import ProtocolName
from analysis.senteval.scores import correlation, cosines
from analysis.senteval.tasks import TASKS, available
from data.errors import rename_keys
from data.ranges import Existing, Size


class Quick:
    """Evaluates a run on held-out text only; called as ``quick.evaluate`` is."""

    __call__ = staticmethod(quick.evaluate)


@dataclass(kw_only=True)
class SentEval(Quick):
    """Evaluates a run on held-out text as ``quick.evaluate`` does, and during training on STS-B's dev set.

    ``experiments.evaluation.evaluate_run`` evaluates the tasks at the end.

    Args:
        data: SentEval's folder, with ``downstream`` and ``probing``.
        tasks: names of tasks; None: all tasks with files.
        protocol: a name of ``protocols.PROTOCOLS``.
        every: steps between two evaluations on STS-B's dev set; None: no such evaluation.

    Raises:
        UserError: before training, if there is no such task, or no file of any task.
    """

    data: Existing
    tasks: tuple[str, ...] | None = None
    protocol: ProtocolName = "default"
    every: Size | None = None

    def __post_init__(self) -> None:
        folder = Path(self.data).expanduser()
        with rename_keys(data="evaluation.data", tasks="evaluation.tasks"):
            available(self.tasks, folder)
        self._pairs: Any = TASKS["STSBenchmark"].load(folder / "downstream")["dev"] if self.every else None

    def dev_scores(self, encoder: Any) -> dict[str, float]:
        """Computes Spearman x 100 of plain cosine on STS-B's dev set (Gao et al. 2021)."""
        first, second, targets = self._pairs
        similarities = cosines(encoder.encode(first), encoder.encode(second))
        return {"stsb_dev_cosine": 100 * correlation(similarities, targets).spearman}
