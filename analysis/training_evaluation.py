"""SentEval for training: STS-B's dev set during training, all tasks at the end."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from analysis import quick
from analysis.senteval.protocols import ProtocolName
from analysis.senteval.scores import correlation, cosines
from analysis.senteval.tasks import TASKS, available
from data.errors import rename_keys
from data.ranges import Existing, Size


class Quick:
    """Evaluates a run on held-out text only."""

    def __call__(self, encoder: Any, texts: Sequence[str], *, seed: int) -> dict[str, float | None]:
        """Evaluates by ``quick.evaluate``."""
        return quick.evaluate(encoder, texts, seed=seed)


class SentEval(Quick):
    """Evaluates a run on held-out text as ``quick.evaluate`` does, and during training on STS-B's dev set.

    ``experiments.evaluation.evaluate_run`` evaluates the tasks at the end.

    Args:
        data: SentEval's folder, with ``downstream`` and ``probing``.
        probing: folder of the probing files, if it is not ``data/probing``.
        tasks: names of tasks; None: all tasks with files.
        protocol: a name of ``protocols.PROTOCOLS``.
        every: steps between two evaluations on STS-B's dev set; None: no such evaluation.

    Raises:
        UserError: before training, if there is no such task, or no file of any task.
    """

    def __init__(
        self,
        *,
        data: Existing,
        probing: Existing | None = None,
        tasks: tuple[str, ...] | None = None,
        protocol: ProtocolName = "default",
        every: Size | None = None,
    ) -> None:
        self.data, self.probing, self.tasks, self.protocol, self.every = data, probing, tasks, protocol, every
        folder = Path(data).expanduser()
        with rename_keys(data="evaluation.data", tasks="evaluation.tasks"):
            available(tasks, folder, Path(probing).expanduser() if probing else None)
        self._pairs: Any = TASKS["STSBenchmark"].load(folder / "downstream")["dev"] if every else None

    def dev_scores(self, encoder: Any) -> dict[str, float]:
        """Computes Spearman x 100 of plain cosine on STS-B's dev set (Gao et al. 2021)."""
        first, second, targets = self._pairs
        similarities = cosines(encoder.encode(first), encoder.encode(second))
        return {"stsb_dev_cosine": 100 * correlation(similarities, targets).spearman}
