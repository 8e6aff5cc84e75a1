"""``evaluate``: SentEval for any sentence encoder. Loads tasks, embeds their sentences, evaluates task by task."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
from joblib import Parallel, delayed

from analysis.senteval import scores
from analysis.senteval.classifiers.pairs import PairRows, relatedness, snli
from analysis.senteval.classifiers.retrieval import retrieval
from analysis.senteval.classifiers.selection import kfold, nested, split
from analysis.senteval.classifiers.training import shared_permutations
from analysis.senteval.protocols import PROTOCOLS, Protocol
from analysis.senteval.records import FILE, Record, Results, read_results
from analysis.senteval.tasks import Task, available, digest, roots
from analysis.senteval.vectors import BATCH, CheckedEncoder, Vectors, embed_tasks
from data.display import bar
from data.errors import UserError, rename_keys
from data.files import atomic_write, lock_folder, write_json

Fields = dict[str, Any]  # of a record
TestPredictions = dict[str, np.ndarray]  # for each test example: "gold", "predicted", and "fold" or "subset"
# By part, rows of the sentences in a matrix of vectors (no second ones for single sentences), and the targets. Of
# captions ``first`` are five an image, and ``labels`` the images' features.
RowsByPart = Mapping[str, PairRows]


def evaluate(
    encode: Any,
    *,
    data: Path | str,
    tasks: Sequence[str] | None = None,
    protocol: Protocol | str = "default",
    out: Path | str | None = None,
    probing: Path | str | None = None,
    name: str | None = None,
    model: Mapping[str, Any] | None = None,
    cache: Path | str | None = "vectors",
    batch_size: int = BATCH,
    device: str = "cpu",
    processes: int = 1,
) -> Results:
    """Evaluates a sentence encoder on SentEval, to the protocol of the published toolkit.

        from sentence_transformers import SentenceTransformer
        from analysis import senteval

        model = SentenceTransformer("all-MiniLM-L6-v2")
        print(senteval.evaluate(model, name="MiniLM", data="senteval", tasks=["STSBenchmark", "MR", "TREC"]))

    After each task ``out/senteval.json`` is written, and its predictions in ``out/predictions/<task>.npz``. Tasks
    that have a result there, of the same encoder, protocol and files, are not evaluated again.

    Args:
        encode: function that maps a list of n sentences to n vectors (array, tensor or list of shape (n, D)), or
            an object with such a method ``encode``. It only gets sentences of the tasks. For a protocol that
            chooses among poolings: such an encoder for each pooling, by name. Of an encoder of this suite with a
            map behind it (``encoders.postprocess``), the attribute ``raw``, an encoder, gives the vectors, and
            ``transform`` maps those of a task.
        data: SentEval's folder, with ``downstream`` and ``probing`` (``make senteval-data`` fetches it).
        tasks: names of tasks; None or empty: all whose files are there.
        protocol: a protocol, or its name in ``protocols.PROTOCOLS``.
        out: folder of senteval.json, predictions and vectors; None: nothing is written.
        probing: folder of the probing files, if it is not ``data/probing``.
        name: of the encoder; None: the name of its function or class. It identifies an encoder that is not one of
            this suite in ``out``, so that a changed function needs another name.
        model: further facts of the encoder, for the result.
        cache: folder of the vectors, relative to ``out``; None: they are kept in memory. Those of ``raw``
            are not mapped.
        batch_size: most sentences of a call of ``encode``.
        device: where large classifiers are trained; small ones are trained on the CPU.
        processes: how many tasks are evaluated side by side.

    Raises:
        UserError: for an unknown task or protocol, files or vectors that cannot be used, vectors that differ from
            call to call, or if ``out`` holds results of another encoder or protocol.
    """
    if isinstance(protocol, str):
        if protocol not in PROTOCOLS:
            raise UserError(f"must be one of {', '.join(PROTOCOLS)}", key=f"protocol={protocol}")
        protocol = PROTOCOLS[protocol]
    by_pooling = encode if isinstance(encode, Mapping) else {None: encode}
    poolings = protocol.poolings or (None,)
    if {*by_pooling} != {*poolings}:
        raise UserError("needs an encoder for each of its poolings", key=f"protocol={protocol.name}")
    encoders = [by_pooling[pooling] for pooling in poolings]
    if isinstance(encode, str):
        raise UserError("must be a function or have a method encode", key="encode")
    name = str(name or getattr(encode, "__name__", type(encode).__name__))

    def identify(encoder: Any) -> str:
        return str(encoder.fingerprint()) if hasattr(encoder, "fingerprint") else quote(name, safe="")

    fingerprint = "+".join(map(identify, encoders))
    data, folder = Path(data).expanduser(), Path(out).expanduser() if out else None
    probing = Path(probing).expanduser() if probing else None
    folders = roots(data, probing)
    chosen, missing = available(tasks, data, probing)

    with lock_folder(folder, "evaluation") if folder else nullcontext():
        results = Results(
            protocol=protocol.name,
            model={"name": name, **(model or {}), "fingerprint": fingerprint},
            data={group: str(root) for group, root in folders.items()},
            folder=folder,
        )
        if folder and (folder / FILE).exists():
            earlier = read_results(folder)
            if (earlier.model.get("fingerprint"), earlier.protocol) != (fingerprint, protocol.name):
                raise UserError("has results of another model or protocol", key=str(folder))
            results.tasks = earlier.tasks
        results.missing = {task: str(path) for task, path in missing.items() if task not in results.tasks}
        digests = {task.name: digest(task, folders[task.group]) for task in chosen}
        finished = {task for task, record in results.tasks.items() if record.files == digests.get(task)}
        pending = [task for task in chosen if task.name not in finished]

        examples = {task.name: task.load(folders[task.group]) for task in pending}
        convert = str.lower if protocol.lowercase else str
        texts = {
            task: [*map(convert, chain.from_iterable(part.first + part.second for part in parts.values()))]
            for task, parts in examples.items()
        }
        vectors: list[dict[str, Vectors]] = []
        for encoder in encoders if pending else ():
            encoder = getattr(encoder, "raw", encoder)
            with bar("embedding") as show:
                store = folder / cache / identify(encoder) if folder and cache else None
                vectors.append(embed_tasks(CheckedEncoder(encoder, batch_size), texts, store=store, progress=show))

        def job(task: Task) -> Any:
            sides = []
            for encoder, each in zip(encoders, vectors, strict=True):
                side = each[task.name]
                if hasattr(encoder, "raw"):
                    distinct = [*dict.fromkeys(texts[task.name])]
                    places = {sentence: row for row, sentence in enumerate(distinct)}
                    side = replace(side, matrix=encoder.transform(side.rows(distinct)), places=places)
                rows = {
                    name: PairRows(
                        side.index(map(convert, part.first)), side.index(map(convert, part.second)), part.targets
                    )
                    for name, part in examples[task.name].items()
                }
                sides.append((side.matrix, rows))
            return delayed(_evaluate)(task, folders[task.group] / task.files[0], sides, protocol, device)

        with bar("evaluating") as show:
            outcomes = Parallel(processes, return_as="generator_unordered")(map(job, pending))
            for count, (task, fields, predictions) in enumerate(outcomes, 1):
                distinct = {*texts[task]}
                seconds = sum(each[task].seconds[sentence] for each in vectors for sentence in distinct)
                fields |= {"sentences": len(distinct), "embed_seconds": round(seconds, 3), "files": digests[task]}
                results.tasks |= {task: Record(**fields)}
                if folder and predictions:
                    with atomic_write(folder / "predictions" / f"{task}.npz", "wb") as file:
                        np.savez(file, allow_pickle=False, **predictions)
                if folder:
                    write_json(folder / FILE, results.to_dict())
                show(count / len(pending))
                times = f"{seconds:.1f} + {fields['seconds']:.1f} s"
                print(f"{task:<22} {fields['test']:.2f} in {times}", file=sys.stderr)
    return results


def _evaluate(
    task: Task, source: Path, sides: Sequence[tuple[np.ndarray, RowsByPart]], protocol: Protocol, device: str
) -> tuple[str, Fields, TestPredictions]:
    """Evaluates a task on the vectors of each pooling; returns its name and the results of the best on dev."""
    start = time.perf_counter()
    with rename_keys(**{"": f"{task.name} ({source})"}):
        outcomes = [_score(task, np.asarray(matrix), parts, protocol, device) for matrix, parts in sides]
    shared_permutations.cache_clear()  # tens of megabytes for a large task
    # Without a dev set the last pooling is taken, as the protocol says; an undefined score (NaN) is the lowest.
    devs: list[Any] = [fields.get("dev") for fields, _ in outcomes]
    best = len(devs) - 1 if None in devs else int(np.argmax(np.nan_to_num(devs, nan=-np.inf)))
    fields, predictions = outcomes[best]
    if protocol.poolings:
        fields["pooling"] = protocol.poolings[best]
    sizes = {name: len(part.first) for name, part in sides[0][1].items()}
    train = sizes.get("train", sizes.get("all", 0))
    facts = {
        "kind": task.kind,
        "protocol": protocol.name,
        "dev": None,
        "l2": None,
        "n_train": train,
        "n_dev": sizes.get("dev", train),
        "n_test": sizes.get("test", sum(sizes.values())),
        "seconds": round(time.perf_counter() - start, 2),
    }
    return task.name, facts | fields, predictions


def _score(
    task: Task, matrix: np.ndarray, parts: RowsByPart, protocol: Protocol, device: str
) -> tuple[Fields, TestPredictions]:
    """Trains and tests what a task's kind asks for on vectors ``matrix``, float32 of shape (N, D)."""

    def features(name: str) -> np.ndarray:
        """Returns vectors u of shape (n, D), or [|u - v|; u * v] of shape (n, 2 D) for pairs."""
        first, second = matrix[parts[name].first], matrix[parts[name].second]
        return np.hstack([np.abs(first - second), first * second]) if len(second) else first

    def cosines(name: str) -> np.ndarray:
        return scores.cosines(matrix[parts[name].first], matrix[parts[name].second])

    gold = {name: part.labels for name, part in parts.items()}
    *_, test = gold.values()
    match task.kind:
        case "similarity":
            subsets = {name: (cosines(name), targets) for name, targets in gold.items()}
            predicted, targets = map(np.concatenate, zip(*subsets.values(), strict=True))
            subset = np.repeat(np.arange(len(gold)), [*map(len, gold.values())])
            predictions = {"gold": targets, "predicted": predicted.astype(np.float32), "subset": subset}
            return scores.similarity(subsets, cosine=protocol.cosine), predictions
        case "relatedness":
            if protocol.cosine:
                pearson, dev = scores.correlation(cosines("dev"), gold["dev"])  # Spearman as Gao et al. (2021)
                predicted = cosines("test")
            else:
                learned, tuning = ((features(name), gold[name]) for name in ("train", "dev"))
                dev, predicted = relatedness(learned, tuning, features("test"))
                pearson = dev
            fields = scores.relatedness(test, predicted, trained=not protocol.cosine)
            # Kept in double precision: in single precision some scores would be tied.
            return {**fields, "dev": 100 * dev, "dev_pearson": 100 * pearson}, {
                "gold": test,
                "predicted": predicted,
            }
        case "retrieval":
            dev, results = retrieval(matrix, parts["train"], parts["dev"], parts["test"], device=device)
            names = [f"{side}_r{k}" for side in ("caption", "image") for k in (1, 5, 10)]
            recalls = dict(zip(names, results[:, :3].flat, strict=True))
            medians = dict(zip(("caption", "image"), results[:, 3], strict=True))
            return {
                "dev": dev / 6,
                "test": sum(recalls.values()) / 6,
                "recalls": recalls,
                "median_rank": medians,
            }, {}
    if task.group != "probing" or task.name == "WordContent":  # the toolkit uses no hidden layer here
        protocol = replace(protocol, probing=())
    if task.kind == "snli":
        outcome = snli(matrix, parts["train"], parts["dev"], parts["test"], protocol.classifier, device=device)
    else:
        classes = 1 + max(int(labels.max()) for labels in gold.values())
        *others, (last, labels) = ((features(name), labels) for name, labels in gold.items())
        arguments = (*others, last) if others else (last, labels)
        choose: Any = {"nested": nested, "kfold": kfold, "split": split}[task.kind]
        outcome = choose(*arguments, classes, protocol, device=device)
    fields = outcome._asdict()  # dev, l2, hidden and dropout
    probabilities, folds = fields.pop("probabilities"), fields.pop("folds")
    fields |= scores.classification(task.name, test, probabilities, folds)
    predictions = {"gold": test, "predicted": probabilities}
    return fields, predictions if folds is None else {"fold": folds, **predictions}
