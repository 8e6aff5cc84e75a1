"""The 28 tasks of SentEval, one record each: kind, files, loader, published sizes and names.

Names, files and folders are those of ``senteval/engine.py`` of facebookresearch/SentEval (5d6dc117).
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from analysis.senteval.files import loaders
from analysis.senteval.files.captions import FILES, Captions, captions
from data.errors import UserError

STS_SUBSETS = {
    "STS12": ("MSRpar", "MSRvid", "SMTeuroparl", "surprise.OnWN", "surprise.SMTnews"),
    "STS13": ("FNWN", "headlines", "OnWN"),  # without SMT, whose licence keeps it out of the toolkit
    "STS14": ("deft-forum", "deft-news", "headlines", "images", "OnWN", "tweet-news"),
    "STS15": ("answers-forums", "answers-students", "belief", "headlines", "images"),
    "STS16": ("answer-answer", "headlines", "plagiarism", "postediting", "question-question"),
}


@dataclass(frozen=True, kw_only=True)
class Task:
    """A task of SentEval.

    Attributes:
        name: name of the task in the toolkit.
        group: "downstream" or "probing". Each group's files have their own root folder: ``downstream`` and
            ``probing`` in the toolkit's data folder.
        kind: "nested" (nested k-fold; parts {"all"}), "kfold" ({"train", "test"}), "split", "snli",
            "relatedness", "retrieval" ({"train", "dev", "test"}) or "similarity" (its subsets by name).
        classes: number of classes; 0 if there are none, and for probing tasks, which count those of the training
            part.
        features: "sentence" (u), "pair" (|u - v|; u * v) or "" if the kind has its own.
        files: paths relative to the group's root.
        load: reads the examples from the files under the group's root. Raises UserError with file and line.
        sizes: numbers of training and test examples in SentEval's own files, as its loaders count them (nested
            k-fold: all examples are both; ImageCaptionRetrieval: captions, five per image). Scores on other
            sizes are not comparable with published ones.
        short: name in tables; "" stands for ``name``.
        aliases: other names in papers, in lower case; suggested for an unknown name.
    """

    name: str
    group: str = "downstream"
    kind: str
    classes: int = 0
    features: str = ""
    files: tuple[str, ...]
    load: Callable[[Path], dict[str, loaders.Examples] | dict[str, Captions]]
    sizes: tuple[int, int]
    short: str = ""
    aliases: tuple[str, ...] = ()


def roots(data: Path, probing: Path | None = None) -> dict[str, Path]:
    """Returns each group's root folder in SentEval's folder ``data``; ``probing`` may be elsewhere."""
    return {"downstream": data / "downstream", "probing": probing or data / "probing"}


def absent(task: Task, root: Path) -> Path | None:
    """Returns the first file of the task that is missing under its group's ``root``; None if all exist."""
    for path in (root / file for file in task.files):
        if not path.is_file():
            return path
    return None


def available(
    names: Iterable[str] | None,
    data: Path,
    probing: Path | None = None,
    *,
    keys: tuple[str, ...] = ("data", "probing"),
) -> tuple[list[Task], dict[str, Path]]:
    """Returns the named tasks (None: all) whose files exist and, for each of the others, its first missing file.

    Args:
        names: names of tasks.
        data, probing: folders, as in ``roots``.
        keys: settings that name the folders, for error messages; the second may be omitted.

    Raises:
        UserError: for an unknown name, or if no task's files exist.
    """
    there, missing = [], {}
    places = roots(data, probing)
    for task in find(names):
        path = absent(task, places[task.group])
        if path is None:
            there.append(task)
        else:
            missing[task.name] = path
    if there:
        return there, missing
    near = (data.parent, data.parent.parent, data / "senteval", *sorted(data.glob("*/senteval")))
    meant = next((folder for folder in near if (folder / "downstream").is_dir()), None)
    hint = (
        f"`make senteval-data` fetches them, or {keys[0]}=<folder> names another folder with downstream/ and "
        "probing/." + "".join(f" The probing files may be elsewhere: {key}=<folder>." for key in keys[1:])
    )
    if meant is not None and not (data / "downstream").is_dir():
        hint = f"Did you mean {keys[0]}={meant}?"
    lacks = "has the files of no task" if names is None else f"lacks files of {', '.join(missing)}"
    first = next(iter(missing.values()))
    raise UserError(f"{data} {lacks} (the first one missing is {first})", key=keys[0], hint=hint)


def find(names: Iterable[str] | None) -> list[Task]:
    """Returns the named tasks, each once, in the order given; None: all.

    Raises:
        UserError: for an unknown name; the message suggests the nearest one.
    """
    names = list(TASKS if names is None else names)
    if not names:
        raise UserError("names no task", key="tasks")
    found = {}
    for name in names:
        if name not in TASKS:
            spelled = {alias: task.name for task in TASKS.values() for alias in (task.name.lower(), *task.aliases)}
            near = difflib.get_close_matches(str(name).lower(), list(spelled), n=1, cutoff=0.6)
            hint = f"Did you mean {spelled[near[0]]}?" if near else f"The tasks are: {', '.join(TASKS)}."
            raise UserError(f"there is no task {name!r}", key="tasks", hint=hint)
        found[name] = TASKS[name]
    return list(found.values())


def _task(name: str, kind: str, folder: str, files: Iterable[str], load: Callable[..., dict], **more: Any) -> Task:
    paths = tuple(f"{folder}/{file}" for file in files)
    return Task(name=name, kind=kind, files=paths, load=lambda root: load(root / folder), **more)


def _binary(name: str, positive: str, negative: str, size: int) -> Task:
    load = partial(loaders.binary, positive=positive, negative=negative)
    more = {"classes": 2, "features": "sentence", "sizes": (size, size)}
    return _task(name, "nested", name, (positive, negative), load, **more)


def _sts(name: str, size: int) -> Task:
    subsets = STS_SUBSETS[name]
    files = [f"STS.{part}.{subset}.txt" for subset in subsets for part in ("input", "gs")]
    load = partial(loaders.sts, subsets=subsets)
    return _task(name, "similarity", f"STS/{name}-en-test", files, load, sizes=(0, size))


def _probing(name: str, file: str, short: str) -> Task:
    return Task(
        name=name,
        group="probing",
        kind="split",
        features="sentence",
        files=(file,),
        load=partial(loaders.probing, name=file),
        sizes=(100_000, 10_000),
        short=short,
        aliases=(short.lower(),),
    )


_SST, _SICK, _STSB = loaders.SST_FILES.values(), loaders.SICK_FILES.values(), loaders.STSB_FILES.values()
_SENTENCE, _PAIR = {"features": "sentence"}, {"features": "pair"}

# Sizes: the toolkit's README (rounded), the task classes, run on the whole files, and Karpathy's split of COCO
# (113,287 / 5,000 / 5,000 images).
TASKS = {
    task.name: task
    for task in (
        _binary("MR", "rt-polarity.pos", "rt-polarity.neg", 10662),
        _binary("CR", "custrev.pos", "custrev.neg", 3775),
        _binary("SUBJ", "subj.objective", "subj.subjective", 10000),  # the toolkit's class 1 is objective
        _binary("MPQA", "mpqa.pos", "mpqa.neg", 10606),
        _task(
            "SST2", "split", "SST/binary", _SST, loaders.sst2,
            classes=2, sizes=(67349, 1821), aliases=("sst",), **_SENTENCE,
        ),
        _task("SST5", "split", "SST/fine", _SST, loaders.sst5, classes=5, sizes=(8544, 2210), **_SENTENCE),
        _task(
            "TREC", "kfold", "TREC", loaders.TREC_FILES.values(), loaders.trec,
            classes=6, sizes=(5452, 500), **_SENTENCE,
        ),
        _task(
            "MRPC", "kfold", "MRPC", loaders.MRPC_FILES.values(), loaders.mrpc,
            classes=2, sizes=(4076, 1725), **_PAIR,
        ),
        _task(
            "SNLI", "snli", "SNLI", chain(*loaders.SNLI_FILES.values()), loaders.snli,
            classes=3, sizes=(549367, 9824),
        ),
        _task(
            "SICKEntailment", "split", "SICK", _SICK, partial(loaders.sick, entailment=True),
            classes=3, sizes=(4500, 4927), short="SICK-E", aliases=("sick-e", "sicke"), **_PAIR,
        ),
        _task(
            "SICKRelatedness", "relatedness", "SICK", _SICK, partial(loaders.sick, entailment=False),
            sizes=(4500, 4927), short="SICK-R", aliases=("sick-r", "sickr"), **_PAIR,
        ),
        _task(
            "STSBenchmark", "relatedness", "STS/STSBenchmark", _STSB, loaders.sts_benchmark,
            sizes=(5749, 1379), short="STS-B", aliases=("sts-b", "stsb"), **_PAIR,
        ),
        _sts("STS12", 3108),
        _sts("STS13", 1500),
        _sts("STS14", 3750),
        _sts("STS15", 3000),
        _sts("STS16", 1186),
        _task(
            "ImageCaptionRetrieval", "retrieval", "COCO", FILES.values(), captions,
            sizes=(566435, 25000), short="COCO", aliases=("coco",),
        ),
        _probing("Length", "sentence_length.txt", "SentLen"),
        _probing("WordContent", "word_content.txt", "WC"),
        _probing("Depth", "tree_depth.txt", "TreeDepth"),
        _probing("TopConstituents", "top_constituents.txt", "TopConst"),
        _probing("BigramShift", "bigram_shift.txt", "BShift"),
        _probing("Tense", "past_present.txt", "Tense"),
        _probing("SubjNumber", "subj_number.txt", "SubjNum"),
        _probing("ObjNumber", "obj_number.txt", "ObjNum"),
        _probing("OddManOut", "odd_man_out.txt", "SOMO"),
        _probing("CoordinationInversion", "coordination_inversion.txt", "CoordInv"),
    )
}  # fmt: skip
