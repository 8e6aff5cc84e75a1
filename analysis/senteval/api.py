"""``evaluate``: SentEval for any sentence encoder, from Python."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console

from analysis.senteval.display import progress_on
from analysis.senteval.evaluation import held, run_tasks
from analysis.senteval.features import Encodes
from analysis.senteval.protocols import PROTOCOLS
from analysis.senteval.results import FILE, Results, read_results
from analysis.senteval.tasks import available
from data.errors import UserError
from data.randomness import PROBE_VECTORS, generator

_SHORT = "A man is playing a guitar."
_LONG = "In 1897, Zoë's 2nd expedition left Tromsø: eleven men, 40 dogs, and provisions for three winters."
PROBES = (_SHORT, "Nobody left!", " ".join([_LONG] * 4), " ".join([_LONG] * 14))  # that tell encoders apart
PROJECTIONS = 8  # numbers that are kept of each probe's vector
TOLERANCE = 0.02  # of such a number, whose standard deviation is 1: more than machines and precisions differ by


class _Function:
    """Checks and converts the vectors that a user's function returns.

    Attributes:
        dimension: D, taken from the first call.
        probes: vectors of ``PROBES``, of shape (P, D).
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
        try:
            vectors = np.asarray(found)
        except ValueError:  # rows of different lengths
            vectors = np.empty(0, object)
        if (
            vectors.ndim != 2
            or len(vectors) != len(sentences)
            or vectors.dtype.kind not in "fiu"
            or not vectors.size
        ):
            raise UserError(
                f"encode must return numbers of shape ({len(sentences)}, D) for {len(sentences)} sentences. "
                f"Got {vectors.dtype} of shape {vectors.shape} instead."
            )
        if self.dimension and vectors.shape[1] != self.dimension:
            raise UserError(f"encode returned vectors of {self.dimension} numbers, then of {vectors.shape[1]}.")
        return vectors.astype(np.float32, copy=False)

    def signature(self) -> np.ndarray:
        """Returns random projections of the normalised probes' vectors, of shape (P * PROJECTIONS,)."""
        directions = generator(PROBE_VECTORS).normal(size=(self.dimension, PROJECTIONS))
        lengths = np.linalg.norm(self.probes, axis=1, keepdims=True)
        return (self.probes / np.where(lengths > 0, lengths, 1) @ directions).ravel()


def _same(model: Mapping[str, Any], name: str, signature: np.ndarray) -> bool:
    """Returns whether results of ``model`` are of an encoder with this name and, up to rounding, these vectors."""
    kept = np.asarray(model.get("signature", []), dtype=np.float64)
    return (
        model.get("name") == name
        and kept.shape == signature.shape
        and bool(np.abs(kept - signature).max() <= TOLERANCE)
    )


def evaluate(
    encode: Callable[[list[str]], Any] | Encodes,
    *,
    data: Path | str,
    tasks: Sequence[str] | str | None = None,
    protocol: str = "default",
    out: Path | str | None = None,
    probing: Path | str | None = None,
    name: str | None = None,
    device: str = "cpu",
    processes: int | None = None,
    progress: bool = True,
) -> Results:
    """Evaluates a sentence encoder on SentEval, to the protocol of the published toolkit.

        from sentence_transformers import SentenceTransformer
        from analysis import senteval

        model = SentenceTransformer("all-MiniLM-L6-v2")
        print(senteval.evaluate(model, data="senteval", tasks=["STSBenchmark", "MR", "TREC"]))

    Args:
        encode: a function that maps a list of n sentences to an array or tensor of shape (n, D), or an object with
            such a method ``encode``.
        data: SentEval's folder, with ``downstream`` and ``probing`` (``make senteval-data`` fetches it).
        tasks: names of tasks; None: all whose files are there.
        protocol: a name of ``protocols.PROTOCOLS`` that does not choose among poolings.
        out: folder for senteval.json and predictions, from which the same call resumes; None: nothing is
            written.
        probing: folder of the probing files, if it is not ``data/probing``.
        name: of the encoder, shown in tables; None: the name of its class or function.
        device: where classifiers are trained; on a GPU small ones are trained on the CPU.
        processes: how many tasks are evaluated side by side; None: 1 on a CPU, on a GPU half as many as there are
            cores, at most 8.
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
    encoding = getattr(encode, "encode", encode)
    if isinstance(encode, str) or not callable(encoding):
        raise UserError(
            f"encode must be a function or have a method encode. Got {type(encode).__name__} instead: "
            "encoders.load opens a model."
        )
    if not Path(data).is_dir():
        raise UserError(f"data={data}: there is no such folder.")
    tasks = [tasks] if isinstance(tasks, str) else tasks
    places = Path(data), None if probing is None else Path(probing)
    available(tasks, *places)
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError):
        raise UserError(f"device={device}: there is none here; device='cpu' always works.") from None
    if processes is not None and processes < 1:
        raise UserError(f"processes must be at least 1. Got {processes} instead.")
    name = name or getattr(encode, "__name__", None) or type(encode).__name__
    with ExitStack() as stack:
        if out is not None:
            stack.enter_context(held(Path(out)))
        function = _Function(encoding)
        signature = function.signature()
        mark = hashlib.sha256(signature.tobytes() + name.encode()).hexdigest()
        if out is not None and (Path(out) / FILE).exists():
            model = read_results(out).model
            if _same(model, name, signature):
                mark, signature = model["fingerprint"], np.asarray(model["signature"])
        watch = stack.enter_context(progress_on(Console(stderr=True))) if progress else None
        return run_tasks(
            lambda _: function,
            {"name": name, "path": None, "signature": [round(float(each), 4) for each in signature]},
            PROTOCOLS[protocol],
            fingerprint=lambda _: mark,
            data=places[0],
            out=None if out is None else Path(out),
            probing=places[1],
            tasks=tasks,
            device=device,
            processes=processes,
            watch=watch,
        )
