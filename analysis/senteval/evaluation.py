"""Runs SentEval: embeds each distinct sentence once, evaluates task after task, writes each result at once."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout

from analysis.senteval import task_evaluation
from analysis.senteval.features import Embedder, Vectors, embed
from analysis.senteval.protocols import Protocol
from analysis.senteval.records import incomparable
from analysis.senteval.results import FILE, Results, read_results, write_results
from analysis.senteval.tasks import Task, available, roots
from data.errors import UserError, about
from data.files import atomic_write, refuse_links_out


class Watch:
    """Callbacks of a running evaluation; a display overrides those that it shows."""

    def embedding(self, share: float) -> None:
        """A share (0 to 1) of the sentences has been embedded."""

    def begin(self, results: Results, task: str, waiting: Sequence[str]) -> None:
        """The evaluation of ``task`` begins; ``waiting`` come after it."""

    def progress(self, share: float, whole: float) -> None:
        """A share (0 to 1) of the task is done, and of all tasks together."""

    def end(self, results: Results, task: str) -> None:
        """The task is done and its result written."""


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
        device: where classifiers are trained.
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
    model = model | {"fingerprint": _digest(*keys.values())}
    results = _begun(out, model, protocol, {name: str(path) for name, path in places.items()}, missing)

    digests = {task.name: digest_files(task, places[task.group]) for task in wanted}
    left = [task for task in wanted if not _done(results, task.name, digests[task.name])]
    loaded: dict[str, task_evaluation.Dataset] = {}
    for task in left:
        loaded[task.name] = task.load(places[task.group])
    vectors = _embedded(encoders, keys, loaded, protocol, cache, watch)

    work = {task.name: task_evaluation.work(task, loaded[task.name], protocol) for task in left}
    whole, done = sum(work.values()), 0.0
    for place, task in enumerate(left):

        def progress(share: float, name: str = task.name, done: float = done) -> None:
            watch.progress(share, (done + share * work[name]) / whole)

        watch.begin(results, task.name, [later.name for later in left[place + 1 :]])
        started = time.perf_counter()
        with about(f"{task.name} ({places[task.group] / task.files[0]})"):
            record, predictions = _best(task, loaded.pop(task.name), vectors, protocol, device, progress)
        record |= {
            "kind": task.kind,
            "protocol": protocol.name,
            "seconds": round(time.perf_counter() - started, 2),
            "files": digests[task.name],
        }
        reason = incomparable(task.name, record)
        record |= {"comparable": reason is None, "reason": reason}
        results.tasks[task.name] = record  # type: ignore[assignment]
        if out is not None:
            _keep_predictions(out, task.name, predictions)
            write_results(out / FILE, results)
        done += work[task.name]
        watch.end(results, task.name)
    return results if out is None else read_results(out)


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
            raise UserError(f"{out / FILE} holds results of another {what}: out=<folder> names another place.")
    # Tasks that were evaluated when their files were elsewhere stay.
    results.missing = {name: path for name, path in missing.items() if name not in results.tasks}
    results.model, results.data = model, places
    return results


def _done(results: Results, task: str, digest: str) -> bool:
    return task in results.tasks and results.tasks[task].get("files") == digest


def _embedded(
    encoders: Mapping[str | None, Embedder],
    keys: Mapping[str | None, str],
    loaded: Mapping[str, task_evaluation.Dataset],
    protocol: Protocol,
    cache: Path | None,
    watch: Watch,
) -> dict[str | None, task_evaluation.Rows]:
    """Returns the sentences' vectors by pooling."""
    sentences = dict.fromkeys(
        task_evaluation.normal(sentence, protocol)
        for dataset in loaded.values()
        for sentence in task_evaluation.sentences(dataset)
    )
    found = {}
    for place, (pooling, encoder) in enumerate(encoders.items()):

        def progress(share: float, place: int = place) -> None:
            watch.embedding((place + share) / len(encoders))

        vectors: Vectors = embed(encoder, list(sentences), cache=cache, key=keys[pooling], progress=progress)
        found[pooling] = task_evaluation.Rows(vectors, protocol)
    return found


def _best(
    task: Task,
    dataset: task_evaluation.Dataset,
    vectors: Mapping[str | None, task_evaluation.Rows],
    protocol: Protocol,
    device: str,
    progress: Callable[[float], None],
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Evaluates ``task`` with the pooling that is best on dev."""
    best: tuple[dict[str, Any], dict[str, np.ndarray]] | None = None
    for place, (pooling, rows) in enumerate(vectors.items()):

        def part(share: float, place: int = place) -> None:
            progress((place + share) / len(vectors))

        record, predictions = task_evaluation.evaluate_task(
            task, dataset, rows, protocol, device=device, progress=part
        )
        if pooling is not None:
            record["pooling"] = pooling
        # Without dev the last pooling is taken, as the protocol says; an undefined score (NaN) is the lowest.
        if best is None or record["dev"] is None or _dev(record) > _dev(best[0]):
            best = record, predictions
    assert best is not None
    return best


def _dev(record: Mapping[str, Any]) -> float:
    return -math.inf if math.isnan(record["dev"]) else record["dev"]


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


@contextmanager
def held(out: Path) -> Iterator[None]:
    """Locks ``out`` against other processes; removes it if it stays empty.

    Raises:
        UserError: if it is in use, cannot be written or has a link that leaves it.
    """
    made = [folder for folder in (out, *out.parents) if not folder.exists()]
    try:
        out.mkdir(parents=True, exist_ok=True)
        refuse_links_out(out)
        lock = FileLock(out / ".evaluation.lock")
        lock.acquire(timeout=0)
    except Timeout:
        raise UserError(f"{out} is in use by another evaluation.") from None
    except OSError as error:
        raise UserError(f"{out} cannot be written ({error.strerror}): out=<folder> names another.") from None
    try:
        yield
    finally:
        lock.release()
        (out / ".evaluation.lock").unlink(missing_ok=True)
        with suppress(OSError):  # until one is not empty
            for folder in made:
                folder.rmdir()
