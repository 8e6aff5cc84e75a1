"""The 28 tasks of SentEval: what each is, which files it reads, how they become examples.

Names, files and folders are those of ``senteval/engine.py`` of facebookresearch/SentEval (5d6dc117).
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path

from analysis.senteval.files import loaders
from analysis.senteval.files.captions import FILES, captions
from analysis.senteval.files.examples import Captions, Examples
from data.errors import UserError

STS_SUBSETS = {
    "STS12": ("MSRpar", "MSRvid", "SMTeuroparl", "surprise.OnWN", "surprise.SMTnews"),
    "STS13": ("FNWN", "headlines", "OnWN"),  # without SMT, whose licence keeps it out of the toolkit
    "STS14": ("deft-forum", "deft-news", "headlines", "images", "OnWN", "tweet-news"),
    "STS15": ("answers-forums", "answers-students", "belief", "headlines", "images"),
    "STS16": ("answer-answer", "headlines", "plagiarism", "postediting", "question-question"),
}


OTHER_NAMES = {  # that papers use, in lower case
    "stsb": "STSBenchmark", "sts-b": "STSBenchmark", "sick-e": "SICKEntailment", "sicke": "SICKEntailment",
    "sick-r": "SICKRelatedness", "sickr": "SICKRelatedness", "coco": "ImageCaptionRetrieval", "sst": "SST2",
    "sentlen": "Length", "wc": "WordContent", "treedepth": "Depth", "topconst": "TopConstituents",
    "bshift": "BigramShift", "subjnum": "SubjNumber", "objnum": "ObjNumber", "somo": "OddManOut",
    "coordinv": "CoordinationInversion",
}  # fmt: skip


@dataclass(frozen=True)
class Task:
    """One task.

    Attributes:
        name: the toolkit's.
        group: "downstream" or "probing"; each group's files have a root folder of their own, ``downstream`` and
            ``probing`` in the toolkit's data folder.
        kind: "nested" (k-fold in k-fold: {"all"}), "kfold" ({"train", "test"}), "split", "snli", "relatedness",
            "retrieval" ({"train", "dev", "test"}) or "similarity" (its subsets by name).
        classes: their number; 0 where there are none, and for probing tasks, whose training part tells them.
        features: "sentence" (u), "pair" (|u - v|; u * v) or "" where the kind has its own.
        files: relative to the group's root.
        load: makes examples of the files under the group's root. Raises UserError, naming file and line.
    """

    name: str
    group: str
    kind: str
    classes: int
    features: str
    files: tuple[str, ...]
    load: Callable[[Path], dict[str, Examples] | dict[str, Captions]]


def roots(data: Path, probing: Path | None = None) -> dict[str, Path]:
    """Each group's root folder in SentEval's folder ``data``; ``probing`` may be elsewhere."""
    return {"downstream": data / "downstream", "probing": probing or data / "probing"}


def absent(task: Task, root: Path) -> Path | None:
    """The first of the task's files that is not under its group's ``root``; None if all are there."""
    return next((root / file for file in task.files if not (root / file).is_file()), None)


def available(
    names: Iterable[str] | None,
    data: Path,
    probing: Path | None = None,
    *,
    keys: tuple[str, ...] = ("data", "probing"),
) -> tuple[list[Task], dict[str, Path]]:
    """The tasks of these names (None: all) whose files are there; of each other one the first file that is not.

    Args:
        names: SentEval's.
        data, probing: folders, as ``roots`` takes them.
        keys: by which the user names the folders, for what an error advises; maybe the first one alone.

    Raises:
        UserError: for an unknown name; if no task's files are there.
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
    kinds = ("folder with downstream/ and probing/", "folder of the probing files")
    hint = ", ".join(f"{key}=<{kind}>" for key, kind in zip(keys, kinds, strict=False))
    if meant is not None and not (data / "downstream").is_dir():
        hint = f"did you mean {keys[0]}={meant}?"
    first, path = next(iter(missing.items()))
    more = f" (nor those of {len(missing) - 1} other tasks)" if len(missing) > 1 else ""
    raise UserError(f"The files of {first}{more} are not there: there is no {path}; {hint}")


def find(names: Iterable[str] | None) -> list[Task]:
    """The tasks of these names, each once, in the order given; None: all.

    Raises:
        UserError: for an unknown name, with the nearest one.
    """
    names = list(TASKS if names is None else names)
    if not names:
        raise UserError("tasks is empty: name some, as in tasks=[MR,CR], or leave it out for all.")
    found = {}
    for name in names:
        if name not in TASKS:
            spelled = {known.lower(): known for known in TASKS} | OTHER_NAMES
            near = difflib.get_close_matches(name.lower(), list(spelled), n=1, cutoff=0.5)
            hint = f"did you mean {spelled[near[0]]}?" if near else f"the tasks are: {', '.join(TASKS)}."
            raise UserError(f"tasks: there is no task {name!r}; {hint}")
        found[name] = TASKS[name]
    return list(found.values())


def _task(
    name: str, kind: str, classes: int, features: str, folder: str, files: Iterable[str], load: Callable[..., dict]
) -> Task:
    paths = tuple(f"{folder}/{file}" for file in files)
    return Task(name, "downstream", kind, classes, features, paths, lambda root: load(root / folder))


def _binary(name: str, positive: str, negative: str) -> Task:
    load = partial(loaders.binary, positive=positive, negative=negative)
    return _task(name, "nested", 2, "sentence", name, (positive, negative), load)


def _sts(name: str) -> Task:
    subsets = STS_SUBSETS[name]
    files = [f"STS.{part}.{subset}.txt" for subset in subsets for part in ("input", "gs")]
    return _task(name, "similarity", 0, "", f"STS/{name}-en-test", files, partial(loaders.sts, subsets=subsets))


def _probing(name: str, file: str) -> Task:
    return Task(name, "probing", "split", 0, "sentence", (file,), partial(loaders.probing, name=file))


_SST, _SICK, _STSB = loaders.SST_FILES.values(), loaders.SICK_FILES.values(), loaders.STSB_FILES.values()

TASKS = {
    task.name: task
    for task in (
        _binary("MR", "rt-polarity.pos", "rt-polarity.neg"),
        _binary("CR", "custrev.pos", "custrev.neg"),
        _binary("SUBJ", "subj.objective", "subj.subjective"),  # the toolkit's class 1 is objective
        _binary("MPQA", "mpqa.pos", "mpqa.neg"),
        _task("SST2", "split", 2, "sentence", "SST/binary", _SST, loaders.sst2),
        _task("SST5", "split", 5, "sentence", "SST/fine", _SST, loaders.sst5),
        _task("TREC", "kfold", 6, "sentence", "TREC", loaders.TREC_FILES.values(), loaders.trec),
        _task("MRPC", "kfold", 2, "pair", "MRPC", loaders.MRPC_FILES.values(), loaders.mrpc),
        _task("SNLI", "snli", 3, "", "SNLI", chain(*loaders.SNLI_FILES.values()), loaders.snli),
        _task("SICKEntailment", "split", 3, "pair", "SICK", _SICK, partial(loaders.sick, entailment=True)),
        _task("SICKRelatedness", "relatedness", 0, "pair", "SICK", _SICK, partial(loaders.sick, entailment=False)),
        _task("STSBenchmark", "relatedness", 0, "pair", "STS/STSBenchmark", _STSB, loaders.sts_benchmark),
        *map(_sts, STS_SUBSETS),
        _task("ImageCaptionRetrieval", "retrieval", 0, "", "COCO", FILES.values(), captions),
        _probing("Length", "sentence_length.txt"),
        _probing("WordContent", "word_content.txt"),
        _probing("Depth", "tree_depth.txt"),
        _probing("TopConstituents", "top_constituents.txt"),
        _probing("BigramShift", "bigram_shift.txt"),
        _probing("Tense", "past_present.txt"),
        _probing("SubjNumber", "subj_number.txt"),
        _probing("ObjNumber", "obj_number.txt"),
        _probing("OddManOut", "odd_man_out.txt"),
        _probing("CoordinationInversion", "coordination_inversion.txt"),
    )
}
