"""``evaluate``: SentEval for any sentence encoder.

Each distinct sentence is embedded once; the result of a task is written as soon as it is there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from rich.console import Console

from analysis.senteval import task_evaluation
from analysis.senteval.display import Watch, progress_on
from analysis.senteval.features import Embedder, Encodes, Vectors, embed
from analysis.senteval.processes import evaluate_jobs, number_of_processes
from analysis.senteval.protocols import PROTOCOLS, Protocol
from analysis.senteval.results import FILE, Results, completed, read_results, write_results
from analysis.senteval.tasks import TASKS, Task, available, roots
from data.errors import UserError
from data.files import atomic_write, lock_folder
from data.randomness import PROBE_VECTORS, generator

_SHORT = "A man is playing a guitar."
_LONG = "In 1897, Zoë's 2nd expedition left Tromsø: eleven men, 40 dogs, and provisions for three winters."
# Texts whose vectors identify an encoder.
PROBES = (_SHORT, "Nobody left!", " ".join([_LONG] * 4), " ".join([_LONG] * 14))
PROJECTIONS = 8  # numbers that are kept of each probe's vector, besides its length
TOLERANCE = 0.02  # of such a number (standard deviation 1) or log length: more than machines differ by


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
        print(senteval.evaluate(model, name="MiniLM", data="senteval", tasks=["STSBenchmark", "MR", "TREC"]))

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
        device: where classifiers are trained; small ones, and SNLI's without a hidden layer, always on the CPU.
        processes: how many tasks are evaluated side by side; None: 1 on a CPU, on a GPU half as many as there are
            cores, at most 8.
        progress: whether progress is shown.

    Raises:
        UserError: for an unknown task or protocol, files that cannot be used, vectors of a wrong shape or not
            finite, or if ``out`` holds results of something else.
    """
    if protocol not in PROTOCOLS:
        raise UserError(f"no such protocol; there are {', '.join(PROTOCOLS)}", key=f"protocol={protocol}")
    if PROTOCOLS[protocol].poolings:
        raise UserError("chooses among poolings, which only evaluate.py does", key=f"protocol={protocol}")
    encoding = getattr(encode, "encode", encode)
    if isinstance(encode, str) or not callable(encoding):
        raise UserError("must be a function or have a method encode", key="encode")
    if not Path(data).is_dir():
        raise UserError("no such folder", key=f"data={data}")
    tasks = [tasks] if isinstance(tasks, str) else tasks
    places = Path(data), None if probing is None else Path(probing)
    available(tasks, *places)
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError):
        raise UserError("torch finds no such device", key=f"device={device}") from None
    name = str(name or getattr(encode, "__name__", None) or type(encode).__name__)
    with ExitStack() as stack:
        if out is not None:
            stack.enter_context(lock_folder(Path(out), "evaluation"))
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


def run_tasks(
    open_encoder: Callable[[str | None], Embedder],
    model: dict[str, Any],
    protocol: Protocol,
    *,
    fingerprint: Callable[[Any], str],
    data: Path,
    out: Path | None,
    probing: Path | None = None,
    tasks: Sequence[str] | None = None,
    cache: Path | None = None,
    device: str = "cpu",
    processes: int | None = None,
    watch: Watch | None = None,
) -> Results:
    """Evaluates an encoder on SentEval's tasks; after each, writes ``out/senteval.json``.

    Tasks that have a result there, of the same model, protocol and data, are not evaluated again. The predictions
    of each task go to ``out/predictions/<task>.npz``.

    Args:
        open_encoder: returns the encoder with a pooling; None: its own.
        model: facts for the result; ``name`` is shown in tables.
        protocol: of the evaluation.
        fingerprint: returns a text that differs between encoders with different vectors.
        data: SentEval's folder, with ``downstream`` and ``probing``.
        out: folder of the results; None: nothing is written.
        probing: folder of the probing files, if it is not ``data/probing``.
        tasks: names of tasks; None: all whose files are there.
        cache: folder that keeps the sentences' vectors; None: they are kept in memory.
        device: where classifiers are trained; small ones, and SNLI's without a hidden layer, always on the CPU.
        processes: how many tasks are evaluated side by side; None: 1 on a CPU, on a GPU half as many as there are
            cores, at most 8.
        watch: gets the progress.

    Raises:
        UserError: for files that cannot be used, or if ``out`` holds results of something else.
    """
    watch = watch or Watch()
    places = roots(data, probing)
    wanted, lacking = available(tasks, data, probing)
    missing = {task: str(path) for task, path in lacking.items()}
    encoders = {pooling: open_encoder(pooling) for pooling in protocol.poolings or (None,)}
    keys = {pooling: fingerprint(encoder) for pooling, encoder in encoders.items()}
    weights = getattr(next(iter(encoders.values())), "weights", None)
    model = model | ({"weights": weights} if weights else {}) | {"fingerprint": _digest(*keys.values())}
    results = _begun(out, model, protocol, {name: str(path) for name, path in places.items()}, missing)

    digests = {task.name: digest_files(task, places[task.group]) for task in wanted}
    left = [task for task in wanted if not _done(results, task.name, digests[task.name])]
    count = number_of_processes(processes, len(left), device)
    # Other processes need the vectors in files.
    with TemporaryDirectory() if cache is None and count > 1 else nullcontext(cache) as folder:
        cache = None if folder is None else Path(folder)
        jobs, matrices = _prepared(left, places, encoders, keys, protocol, cache, device, watch)
        if count > 1:  # the longest first: none is left for the end
            jobs.sort(key=lambda job: -job.work)
        work, shares = {job.name: job.work for job in jobs}, dict[str, float]()

        def progress(name: str, share: float) -> None:
            new = name not in shares
            shares[name] = share
            if new:
                running = [one for one, done in shares.items() if done < 1]
                watch.begin(results, running, [one for one in work if one not in shares])
            watch.progress(sum(work[one] * shares[one] for one in shares) / sum(work.values()))

        def finish(name: str, outcomes: task_evaluation.Outcomes) -> None:
            record, predictions = outcomes
            results.tasks[name] = completed(name, record | {"files": digests[name]})
            if out is not None:
                _keep_predictions(out, name, predictions)
                write_results(out / FILE, results)
            shares[name] = 1.0
            watch.end(results, name)

        evaluate_jobs(jobs, matrices, count, progress=progress, finish=finish)
    if out is not None:
        return read_results(out)
    results.tasks = {name: results.tasks[name] for name in TASKS if name in results.tasks}
    return results


def _begun(
    out: Path | None, model: dict[str, Any], protocol: Protocol, places: dict[str, str], missing: dict[str, str]
) -> Results:
    """Returns the results so far in ``out``.

    Raises:
        UserError: if they are another model's or protocol's.
    """
    if out is None or not (out / FILE).exists():
        return Results(protocol=protocol.name, model=model, data=places, missing=missing)
    results = read_results(out)
    for what, there, now in (
        ("model", results.model.get("fingerprint"), model["fingerprint"]),
        ("protocol", results.protocol, protocol.name),
    ):
        if there != now:
            raise UserError(f"has results of another {what}", key=str(out), hint="Name another folder by out=.")
    # Tasks that were evaluated when their files were elsewhere stay.
    results.missing = {name: path for name, path in missing.items() if name not in results.tasks}
    results.model, results.data = model, places
    return results


def _done(results: Results, task: str, digest: str) -> bool:
    return task in results.tasks and results.tasks[task].get("files") == digest


def _prepared(
    tasks: Sequence[Task],
    places: Mapping[str, Path],
    encoders: Mapping[str | None, Embedder],
    keys: Mapping[str | None, str],
    protocol: Protocol,
    cache: Path | None,
    device: str,
    watch: Watch,
) -> tuple[list[task_evaluation.Job], dict[str | None, np.ndarray]]:
    """Loads the tasks and embeds their sentences; returns a job for each, and the vectors by pooling."""
    loaded = {task.name: task_evaluation.load(task, places[task.group]) for task in tasks}
    sentences = dict.fromkeys(
        protocol.preprocess(sentence)
        for dataset in loaded.values()
        for sentence in task_evaluation.sentences(dataset)
    )
    found: dict[str | None, Vectors] = {}
    for place, (pooling, encoder) in enumerate(encoders.items()):

        def progress(share: float, place: int = place) -> None:
            watch.embedding((place + share) / len(encoders))

        found[pooling] = embed(encoder, list(sentences), cache=cache, key=keys[pooling], progress=progress)

    def job(task: Task) -> task_evaluation.Job:
        dataset, source = loaded[task.name], str(places[task.group] / task.files[0])
        parts = {
            pooling: task_evaluation.indexed(dataset, protocol, vectors.index)
            for pooling, vectors in found.items()
        }
        return task_evaluation.Job(
            task.name, source, parts, protocol, device, task_evaluation.work(task, dataset, protocol)
        )

    return [job(task) for task in tasks], {pooling: vectors.matrix for pooling, vectors in found.items()}


def _keep_predictions(out: Path, task: str, arrays: Mapping[str, np.ndarray]) -> None:
    if not arrays:
        return
    path = out / "predictions" / f"{task}.npz"
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path, "wb") as file:
        np.savez(file, allow_pickle=False, **arrays)


def _digest(*parts: str) -> str:
    return parts[0] if len(parts) == 1 else hashlib.sha256("\n".join(parts).encode()).hexdigest()


def digest_files(task: Task, place: Path) -> str:
    """SHA-256 of a task's files under its group's root ``place``."""
    found = hashlib.sha256()
    for name in task.files:
        with (place / name).open("rb") as file:
            found.update(hashlib.file_digest(file, "sha256").digest())
    return found.hexdigest()


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
        if isinstance(found, list | tuple) and all(isinstance(row, torch.Tensor) for row in found):
            found = [row.detach().float().cpu().numpy() for row in found]
        if hasattr(found, "detach"):  # a tensor, wherever it is
            found = found.detach().float().cpu()
        try:
            vectors = np.asarray(found)
        except ValueError:
            raise UserError("returned vectors of several lengths", key="encode") from None
        kind = vectors.dtype if isinstance(found, np.ndarray) else type(found).__name__
        if (
            vectors.ndim != 2
            or len(vectors) != len(sentences)
            or vectors.dtype.kind not in "fiu"
            or not vectors.size
        ):
            shape = getattr(found, "shape", vectors.shape)
            raise UserError(f"returned {kind} of shape {shape} for {len(sentences)} sentences", key="encode")
        if self.dimension and vectors.shape[1] != self.dimension:
            raise UserError(f"returned {self.dimension}, then {vectors.shape[1]} numbers a vector", key="encode")
        return vectors.astype(np.float32, copy=False)

    def signature(self) -> np.ndarray:
        """Returns random projections of the P normalised probes' vectors and the logarithms of their lengths.

        Its shape is (P * (PROJECTIONS + 1),).
        """
        directions = generator(PROBE_VECTORS).normal(size=(self.dimension, PROJECTIONS))
        probes = self.probes.astype(np.float64)
        lengths = np.linalg.norm(probes, axis=1, keepdims=True)
        lengths[lengths == 0] = 1
        return np.hstack([probes / lengths @ directions, np.log(lengths)]).ravel()


def _same(model: Mapping[str, Any], name: str, signature: np.ndarray) -> bool:
    """Returns whether results of ``model`` are of an encoder with this name and, up to rounding, these vectors."""
    try:
        kept = np.asarray(model.get("signature", []), dtype=np.float64)
    except (TypeError, ValueError):
        return False
    return (
        model.get("name") == name
        and isinstance(model.get("fingerprint"), str)
        and kept.shape == signature.shape
        and bool(np.abs(kept - signature).max() <= TOLERANCE)
    )
