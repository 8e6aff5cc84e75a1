"""``evaluate``: SentEval for any sentence encoder. Loads tasks, embeds their sentences, evaluates task by task."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import torch
from joblib import Parallel, delayed

from analysis.senteval import scores
from analysis.senteval.captions import Captions
from analysis.senteval.classifiers.pairs import Pairs, relatedness, snli
from analysis.senteval.classifiers.retrieval import Captioned, retrieval
from analysis.senteval.classifiers.selection import kfold, nested, split, tuned
from analysis.senteval.loaders import Examples
from analysis.senteval.protocols import PROTOCOLS, Protocol
from analysis.senteval.records import FILE, Record, Results, read_results, write_results
from analysis.senteval.tasks import Task, available, digest, roots
from analysis.senteval.vectors import BATCH, CheckedEncoder, Vectors, embed_tasks
from data.display import bar
from data.errors import UserError, reading, rename_keys
from data.files import atomic_write, lock_folder

Fields = dict[str, Any]  # of a record
Predictions = dict[str, np.ndarray]  # for each test example: "gold", "predicted", and "fold" or "subset"
# By part, rows of the sentences in a matrix of vectors (no second ones for single sentences), and the targets. Of
# captions ``first`` are five an image, and ``labels`` the images' features.
Parts = Mapping[str, Pairs]


def evaluate(
    encode: Any,
    *,
    data: Path | str,
    tasks: Sequence[str] | str | None = None,
    protocol: str = "default",
    out: Path | str | None = None,
    probing: Path | str | None = None,
    name: str | None = None,
    batch_size: int = BATCH,
    device: str = "cpu",
    processes: int = 1,
    progress: bool = True,
) -> Results:
    """Evaluates a sentence encoder on SentEval, to the protocol of the published toolkit.

        from sentence_transformers import SentenceTransformer
        from analysis import senteval

        model = SentenceTransformer("all-MiniLM-L6-v2")
        print(senteval.evaluate(model, name="MiniLM", data="senteval", tasks=["STSBenchmark", "MR", "TREC"]))

    Args:
        encode: function that maps a list of n sentences to n vectors (array, tensor or list of shape (n, D)), or
            an object with such a method ``encode``. It only gets sentences of the tasks.
        data: SentEval's folder, with ``downstream`` and ``probing`` (``make senteval-data`` fetches it).
        tasks: names of tasks; None: all whose files are there.
        protocol: a name of ``protocols.PROTOCOLS`` that does not choose among poolings.
        out: folder of senteval.json, predictions and vectors, from which a call with the same ``name`` resumes;
            None: nothing is written.
        probing: folder of the probing files, if it is not ``data/probing``.
        name: of the encoder, which identifies it in ``out``; None: the name of its function or class.
        batch_size: most sentences of a call of ``encode``, unless it is a method with its own ``batch_size``.
        device: where large classifiers are trained; small ones are trained on the CPU.
        processes: how many tasks are evaluated side by side.
        progress: whether to show a bar, and a line for each task, on the error stream.

    Raises:
        UserError: for an unknown task or protocol, files or vectors that cannot be used, vectors that differ from
            call to call, or if ``out`` holds results of another name or protocol.
    """
    usable = [key for key, rules in PROTOCOLS.items() if not rules.poolings]
    if protocol not in usable:
        raise UserError(f"must be one of {', '.join(usable)}", key=f"protocol={protocol}")
    if isinstance(encode, str) or not callable(getattr(encode, "encode", encode)):
        raise UserError("must be a function or have a method encode", key="encode")
    with reading("device of torch", device):
        torch.empty(0, device=device)
    name = str(name or getattr(encode, "__name__", type(encode).__name__))
    folder = Path(out).expanduser() if out else None
    with lock_folder(folder, "evaluation") if folder else nullcontext():
        return run_tasks(
            lambda _: encode,
            {"name": name},
            PROTOCOLS[protocol],
            fingerprint=lambda _: quote(name, safe=""),
            data=Path(data).expanduser(),
            out=folder,
            probing=Path(probing).expanduser() if probing else None,
            tasks=[tasks] if isinstance(tasks, str) else tasks,
            cache=folder and folder / "vectors",
            batch_size=batch_size,
            device=device,
            processes=processes,
            progress=progress,
        )


def run_tasks(
    open_encoder: Callable[[str | None], Any],
    model: Mapping[str, Any],
    protocol: Protocol,
    *,
    fingerprint: Callable[[Any], str],
    data: Path,
    out: Path | None,
    probing: Path | None = None,
    tasks: Sequence[str] | None = None,
    cache: Path | None = None,
    batch_size: int = BATCH,
    device: str = "cpu",
    processes: int = 1,
    progress: bool = True,
) -> Results:
    """Evaluates an encoder on SentEval's tasks; after each, writes ``out/senteval.json``.

    Tasks that have a result there, of the same model, protocol and files, are not evaluated again. The predictions
    of each task go to ``out/predictions/<task>.npz``.

    Args:
        open_encoder: returns the encoder with a pooling; None: its own.
        model: facts for the result; ``name`` is shown in tables.
        protocol: of the evaluation; of several poolings the one that is best on dev counts for each task.
        fingerprint: returns a text that differs between encoders with different vectors.
        out: folder of the results; None: nothing is written.
        cache: folder of stores of vectors (see ``vectors``), by fingerprint; None: they are kept in memory.
        data, probing, tasks, batch_size, device, processes, progress: as in ``evaluate``.

    Raises:
        UserError: as ``evaluate`` does.
    """
    folders, poolings = roots(data, probing), protocol.poolings or (None,)
    chosen, missing = available(tasks, data, probing)
    encoders = [open_encoder(pooling) for pooling in poolings]
    prints = [fingerprint(encoder) for encoder in encoders]
    facts = {**model, "fingerprint": "+".join(prints)}
    places = {group: str(folder) for group, folder in folders.items()}
    results = Results(protocol=protocol.name, model=facts, data=places, folder=out)
    if out and (out / FILE).exists():
        earlier = read_results(out)
        if (earlier.model.get("fingerprint"), earlier.protocol) != (facts["fingerprint"], protocol.name):
            raise UserError("has results of another model or protocol", key=str(out), hint="Choose another out=.")
        results.tasks = earlier.tasks
    results.missing = {task: str(path) for task, path in missing.items() if task not in results.tasks}
    digests = {task.name: digest(task, folders[task.group]) for task in chosen}
    known = {name: record.files for name, record in results.tasks.items()}
    left = [task for task in chosen if known.get(task.name) != digests[task.name]]

    examples = {task.name: _load(task, folders[task.group], protocol) for task in left}
    texts = {
        name: [*chain.from_iterable(part.first + part.second for part in parts.values())]
        for name, parts in examples.items()
    }
    vectors: list[dict[str, Vectors]] = []
    show_bar = bar if progress else lambda title: nullcontext()
    for encoder, key in zip(encoders, prints, strict=True) if left else ():
        with show_bar("embedding") as show:
            checked = CheckedEncoder(encoder, batch_size)
            vectors.append(embed_tasks(checked, texts, store=cache and cache / key, progress=show))

    def job(task: Task) -> Any:
        sides = []
        for side in (each[task.name] for each in vectors):
            rows = {
                name: Pairs(side.index(part.first), side.index(part.second), part.targets)
                for name, part in examples[task.name].items()
            }
            sides.append((side.matrix, rows))
        return delayed(_evaluate)(task, folders[task.group] / task.files[0], sides, protocol, device)

    with show_bar("evaluating") as show:
        outcomes = Parallel(processes, return_as="generator_unordered")(map(job, left))
        for count, (name, fields, predictions) in enumerate(outcomes, 1):
            distinct = {*texts[name]}
            seconds = sum(each[name].seconds[sentence] for each in vectors for sentence in distinct)
            fields |= {"sentences": len(distinct), "embed_seconds": round(seconds, 3), "files": digests[name]}
            results.tasks |= {name: Record(**fields)}
            if out and predictions:
                (out / "predictions").mkdir(parents=True, exist_ok=True)
                with atomic_write(out / "predictions" / f"{name}.npz", "wb") as file:
                    np.savez(file, allow_pickle=False, **predictions)
            if out:
                write_results(out / FILE, results)
            if show:
                show(count / len(left))
                values = [f"{part} {fields[part]:.2f}" for part in ("dev", "test") if fields[part] is not None]
                print(f"{name:<22}", *values, f"in {seconds:.1f} + {fields['seconds']:.1f} s", file=sys.stderr)
    return results


def _load(task: Task, root: Path, protocol: Protocol) -> dict[str, Examples]:
    """Loads a task with preprocessed sentences; captions are in one row, and images are their targets."""
    parts = {}
    for name, part in task.load(root).items():
        if isinstance(part, Captions):
            part = Examples([*chain.from_iterable(part.captions)], [], part.images)
        first, second = ([*map(protocol.preprocess, column)] for column in part[:2])
        parts[name] = Examples(first, second, part.targets)
    return parts


def _evaluate(
    task: Task, source: Path, sides: Sequence[tuple[np.ndarray, Parts]], protocol: Protocol, device: str
) -> tuple[str, Fields, Predictions]:
    """Evaluates a task on the vectors of each pooling; returns its name and the results of the best on dev."""
    start, outcomes = time.perf_counter(), []
    with rename_keys(**{"": f"{task.name} ({source})"}):
        for matrix, parts in sides:
            outcomes.append(_score(task, np.asarray(matrix), parts, protocol, device))
    # Without a dev set the last pooling is taken, as the protocol says; an undefined score (NaN) is the lowest.
    devs = [fields["dev"] for fields, _ in outcomes]
    best = len(devs) - 1 if None in devs else int(np.argmax(np.nan_to_num(devs, nan=-np.inf)))
    fields, predictions = outcomes[best]
    if protocol.poolings:
        fields["pooling"] = protocol.poolings[best]
    sizes = {name: len(part.first) for name, part in sides[0][1].items()}
    train = sizes.get("train", sizes.get("all", 0))
    counts = {
        "n_train": train,
        "n_dev": sizes.get("dev", train),
        "n_test": sizes.get("test", sum(sizes.values())),
        "seconds": round(time.perf_counter() - start, 2),
    }
    return task.name, {"kind": task.kind, "protocol": protocol.name, **fields, **counts}, predictions


def _score(
    task: Task, matrix: np.ndarray, parts: Parts, protocol: Protocol, device: str
) -> tuple[Fields, Predictions]:
    """Trains and tests what a task's kind asks for on vectors ``matrix``, float32 of shape (N, D)."""

    def features(name: str) -> np.ndarray:
        """Returns vectors u of shape (n, D), or [|u - v|; u * v] of shape (n, 2 D) for pairs."""
        first, second = matrix[parts[name].first], matrix[parts[name].second]
        return np.hstack([np.abs(first - second), first * second]) if len(second) else first

    def cosines(name: str) -> np.ndarray:
        return scores.cosines(matrix[parts[name].first], matrix[parts[name].second])

    fields: Fields
    gold = {name: part.labels for name, part in parts.items()}
    match task.kind:
        case "similarity":
            subsets = {name: (cosines(name), targets) for name, targets in gold.items()}
            predicted, targets = map(np.concatenate, zip(*subsets.values(), strict=True))
            return {"dev": None, **scores.similarity(subsets, cosine=protocol.cosine), "l2": None}, {
                "gold": targets,
                "predicted": predicted.astype(np.float32),
                "subset": np.repeat(np.arange(len(gold)), [*map(len, gold.values())]),
            }
        case "relatedness":
            if protocol.cosine:
                pearson, dev = scores.correlation(cosines("dev"), gold["dev"])  # Spearman as Gao et al. (2021)
                predicted = cosines("test")
            else:
                learned, tuning = ((features(name), gold[name]) for name in ("train", "dev"))
                dev, predicted = relatedness(learned, tuning, features("test"))
                pearson = dev
            fields = scores.relatedness(gold["test"], predicted, trained=not protocol.cosine)
            fields |= {"dev": 100 * dev, "dev_pearson": 100 * pearson, "l2": None}
            # Kept in double precision: in single precision some scores would be tied.
            return fields, {"gold": gold["test"], "predicted": predicted}
        case "retrieval":
            captioned = [
                Captioned(images, matrix, parts[name].first.reshape(len(images), -1))
                for name, images in gold.items()
            ]
            dev, ranks, splits = retrieval(*captioned, device=device)
            sides = dict(zip(("caption", "image"), ranks, strict=True))
            recalls = {
                f"{side}_r{k}": rank[place] for side, rank in sides.items() for place, k in enumerate((1, 5, 10))
            }
            return {
                "dev": dev / 6,
                "test": sum(recalls.values()) / 6,
                "l2": None,
                "recalls": recalls,
                "median_rank": {side: rank[3] for side, rank in sides.items()},
                "splits": splits,
            }, {}
    train, test = (gold[name if name in gold else "all"] for name in ("train", "test"))
    if np.ptp(train) == 0:
        raise UserError("all training examples are of one class")
    if task.name == "WordContent":  # the toolkit uses no hidden layer here
        protocol = replace(protocol, classifier=replace(protocol.classifier, hidden=0), probing_hidden=())
    if task.kind == "snli":
        outcome = snli(matrix, parts["train"], parts["dev"], parts["test"], protocol.classifier, device=device)
    else:
        classes = 1 + max(int(labels.max()) for labels in gold.values())
        data: list[Any] = [(features(name), labels) for name, labels in gold.items()]
        arguments = data[0] if task.kind == "nested" else [*data[:-1], data[-1][0]]
        choose: Any = {"nested": nested, "kfold": kfold}.get(task.kind, split)
        if task.group == "probing" and protocol.probing_hidden:
            choose = tuned
        outcome = choose(*arguments, classes, protocol, device=device)
    fields = {"dev": outcome.dev, "l2": outcome.l2}
    fields |= scores.classification(task.name, test, outcome.probabilities, outcome.folds)
    if outcome.hidden is not None:
        fields |= {"hidden": outcome.hidden, "dropout": outcome.dropout}
    predictions = {"gold": test, "predicted": outcome.probabilities}
    return fields, predictions if outcome.folds is None else {"fold": outcome.folds, **predictions}
