"""Evaluations of a run: on held-out text, and on SentEval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from analysis import quick
from analysis.senteval.protocols import ProtocolName
from analysis.senteval.tasks import available
from data.errors import rename_keys
from data.ranges import Existing
from data.sources.base import Source
from encoders.base import Encoder
from encoders.postprocess import Kind, postprocess, training_sentences


@dataclass(kw_only=True)
class Quick:
    """Evaluates a run on held-out text only.

    Args:
        postprocess: linear map of the vectors, fitted on sentences of the run's corpus.
    """

    postprocess: Kind = "none"

    def __call__(self, encoder: Encoder, texts: Sequence[str], source: Source, seed: int) -> quick.Scores:
        """Evaluates as ``quick.evaluate`` does; the map is fitted on ``source``."""
        if self.postprocess != "none":
            encoder = postprocess(encoder, training_sentences(source), self.postprocess, where=source.name)
        return quick.evaluate(encoder, texts, seed=seed)


@dataclass(kw_only=True)
class SentEval(Quick):
    """Evaluates a run on held-out text as ``quick.evaluate`` does; its export is also evaluated on SentEval.

    Args:
        postprocess: linear map of the vectors, for both.
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
            available(self.tasks, Path(self.data))
