"""SentEval for training: STS-B's dev set during training, all tasks at the end."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from analysis import quick
from analysis.senteval.features import Encodes
from analysis.senteval.files.loaders import Examples
from analysis.senteval.protocols import PROTOCOLS
from analysis.senteval.scores import correlation, cosines
from analysis.senteval.tasks import TASKS, absent, available
from data.errors import UserError

STSB = "STSBenchmark"


class Quick:
    """Evaluates a run on held-out text only."""

    def __call__(self, encoder: Encodes, texts: list[str], *, seed: int) -> dict[str, float | None]:
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
        UserError: before training, if there is no such folder, task or protocol, or no file of any task.
    """

    def __init__(
        self,
        *,
        data: str,
        probing: str | None = None,
        tasks: tuple[str, ...] | None = None,
        protocol: str = "default",
        every: int | None = None,
    ) -> None:
        if protocol not in PROTOCOLS:
            raise UserError(
                f"evaluation.protocol={protocol}: no such protocol. Available: {', '.join(PROTOCOLS)}."
            )
        self.data = Path(data).expanduser()
        if not self.data.is_dir():
            raise UserError(f"evaluation.data={data}: there is no such folder.")
        if every is not None and every < 1:
            raise UserError(f"evaluation.every must be at least 1. Got {every} instead.")
        self.probing = Path(probing).expanduser() if probing else None
        available(tasks, self.data, self.probing, keys=("evaluation.data", "evaluation.probing"))
        self.tasks = tasks
        self.protocol = PROTOCOLS[protocol]
        self.every = every
        if every is not None:
            root = self.data / "downstream"
            if missing := absent(TASKS[STSB], root):
                raise UserError(f"evaluation.every evaluates on STS-B's dev set, and {missing} is not there.")
            self._dev = cast(Examples, TASKS[STSB].load(root)["dev"])

    def dev_scores(self, encoder: Encodes) -> dict[str, float]:
        """Computes Spearman x 100 of plain cosine on STS-B's dev set (Gao et al. 2021)."""
        first, second = encoder.encode(self._dev.first), encoder.encode(self._dev.second)
        return {"stsb_dev_cosine": 100 * correlation(cosines(first, second), self._dev.targets).spearman}
