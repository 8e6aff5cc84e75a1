"""``evaluate``: SentEval for any sentence encoder, from Python."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from rich.console import Console

from analysis.senteval.display import progress_on
from analysis.senteval.evaluation import held, run_tasks
from analysis.senteval.protocols import PROTOCOLS
from analysis.senteval.results import Results
from data.errors import UserError

PROBES = ("A man is playing a guitar.", "Nobody left.", "Is it raining?", ".")  # tell encoders apart


class Encodes(Protocol):
    """Has the vectors of sentences computed, as an encoder of this suite or of sentence-transformers."""

    def encode(self, sentences: list[str], /) -> Any:
        """Returns an array of shape (n, D)."""


class _Function:
    """Checks and converts the vectors that a user's function returns.

    Attributes:
        dimension: D, as the first call tells.
        probes: vectors of ``PROBES``.
    """

    def __init__(self, encode: Callable[[list[str]], Any]) -> None:
        self._encode = encode
        self.dimension = 0
        self.probes = self.encode(PROBES)
        self.dimension = self.probes.shape[1]

    def encode(self, sentences: Sequence[str]) -> np.ndarray:
        found = self._encode(list(sentences))
        if hasattr(found, "detach"):  # a tensor, wherever it is
            found = found.detach().float().cpu()
        vectors = np.asarray(found)
        if vectors.ndim != 2 or len(vectors) != len(sentences) or vectors.dtype.kind not in "fiu":
            raise UserError(
                f"encode must return numbers of shape ({len(sentences)}, D) for {len(sentences)} sentences. "
                f"Got {vectors.dtype} of shape {vectors.shape} instead."
            )
        if self.dimension and vectors.shape[1] != self.dimension:
            raise UserError(f"encode returned vectors of {self.dimension} numbers, then of {vectors.shape[1]}.")
        return vectors.astype(np.float32, copy=False)

    def fingerprint(self) -> str:
        """Returns a digest of some sentences' vectors, to three digits, which outlast a change of machine."""
        scale = np.abs(self.probes).max() or 1.0
        return hashlib.sha256(np.round(self.probes / scale, 3).tobytes()).hexdigest()


def evaluate(
    encode: Callable[[list[str]], Any] | Encodes,
    *,
    data: Path | str,
    tasks: Sequence[str] | None = None,
    protocol: str = "default",
    out: Path | str | None = None,
    probing: Path | str | None = None,
    name: str | None = None,
    device: str = "cpu",
    progress: bool = True,
) -> Results:
    """Evaluates a sentence encoder on SentEval, to the protocol of the published toolkit.

        from sentence_transformers import SentenceTransformer
        from analysis import senteval

        model = SentenceTransformer("all-MiniLM-L6-v2")
        print(senteval.evaluate(model, data="senteval", tasks=["STSBenchmark", "MR", "TREC"]))

    Args:
        encode: a function that makes an array or tensor of shape (n, D) of n sentences, or an object with such a
            method ``encode``.
        data: SentEval's folder, with ``downstream`` and ``probing`` (``make senteval-data`` fetches it).
        tasks: names of tasks; None: all whose files are there.
        protocol: a name of ``protocols.PROTOCOLS`` that does not choose among poolings.
        out: folder for senteval.json and predictions, from which an interrupted evaluation goes on; None: nothing
            is written.
        probing: folder of the probing files, if it is not ``data/probing``.
        name: of the encoder, shown in tables; None: the name of its class or function.
        device: where classifiers are trained.
        progress: whether progress is shown.

    Raises:
        UserError: for an unknown task or protocol, files that cannot be used, vectors of a wrong shape or not
            finite, or if ``out`` holds results of something else.
    """
    if protocol not in PROTOCOLS:
        raise UserError(f"protocol={protocol}: no such protocol. There are {', '.join(PROTOCOLS)}.")
    if PROTOCOLS[protocol].poolings:
        raise UserError(
            f"protocol={protocol} chooses among poolings: evaluate.py has it, for models of the suite."
        )
    function = getattr(encode, "encode", encode)
    if isinstance(encode, str) or not callable(function):
        raise UserError(f"encode must be a function or have a method encode. Got {type(encode).__name__} instead.")
    if not Path(data).is_dir():
        raise UserError(f"data={data}: there is no such folder.")
    name = name or getattr(encode, "__name__", None) or type(encode).__name__
    with ExitStack() as stack:
        if out is not None:
            stack.enter_context(held(Path(out)))
        watch = stack.enter_context(progress_on(Console(stderr=True))) if progress else None
        return run_tasks(
            lambda _: _Function(function),
            {"name": name, "path": None},
            PROTOCOLS[protocol],
            fingerprint=_Function.fingerprint,
            data=Path(data),
            out=None if out is None else Path(out),
            probing=None if probing is None else Path(probing),
            tasks=tasks,
            device=device,
            watch=watch,
        )
