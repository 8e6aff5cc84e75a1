"""The 28 tasks of SentEval: kind, files, reader and published sizes.

Names, files and folders are those of ``senteval/engine.py`` of facebookresearch/SentEval (5d6dc117).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from analysis.senteval import loaders
from analysis.senteval.captions import captions
from data.errors import UserError

Paths = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Task:
    """A task of SentEval.

    Attributes:
        name: name of the task in the toolkit.
        kind: "nested" (nested k-fold; part {"all"}), "kfold" ({"train", "test"}), "split", "snli", "relatedness",
            "retrieval" ({"train", "dev", "test"}) or "similarity" (its subsets by name).
        parts: paths relative to the group's root, by part; "all" stands for all parts.
        read: reads the examples by part from the paths by part.
        sizes: numbers of training and test examples in SentEval's own files, as its loaders count them (nested
            k-fold: all examples are both; ImageCaptionRetrieval: captions, five per image). Scores on other
            sizes are not comparable with published ones.
        group: "downstream" or "probing"; the files of each group have their own root folder.
    """

    name: str
    kind: str
    parts: Paths
    read: Callable[[loaders.Files], Mapping[str, Any]]
    sizes: tuple[int, int]
    group: str = "downstream"

    @property
    def files(self) -> tuple[str, ...]:
        """All paths relative to the group's root."""
        return tuple(chain(*self.parts.values()))

    def load(self, root: Path) -> Mapping[str, Any]:
        """Reads the examples from the files under the group's ``root``.

        Returns:
            ``loaders.Examples`` by part.

        Raises:
            UserError: with file and line, for files that cannot be used.
        """
        return self.read({part: [root / file for file in files] for part, files in self.parts.items()})


def roots(data: Path, probing: Path | None = None) -> dict[str, Path]:
    """Returns each group's root folder in SentEval's folder ``data``; ``probing`` may be elsewhere."""
    return {"downstream": data / "downstream", "probing": probing or data / "probing"}


def absent(task: Task, root: Path) -> Path | None:
    """Returns the first file of the task that is missing under its group's ``root``; None if all exist."""
    return next((root / file for file in task.files if not (root / file).is_file()), None)


def digest(task: Task, root: Path) -> str:
    """Returns the SHA-256 of the SHA-256 digests of a task's files under its group's ``root``."""
    digests = (hashlib.sha256((root / file).read_bytes()).digest() for file in task.files)
    return hashlib.sha256(b"".join(digests)).hexdigest()


def available(
    names: Iterable[str] | None, data: Path, probing: Path | None = None
) -> tuple[list[Task], dict[str, Path]]:
    """Returns the named tasks (None: all) whose files exist and, for each of the others, its first missing file.

    Raises:
        UserError: for an unknown name, or if no task's files exist.
    """
    folders, tasks = roots(data, probing), find(names)
    missing = {task.name: path for task in tasks if (path := absent(task, folders[task.group]))}
    if len(missing) == len(tasks):
        hint = "`make senteval-data` fetches them; the folder must have downstream/ and probing/."
        raise UserError(f"no task has all files (missing: {missing[tasks[0].name]})", key="data", hint=hint)
    return [task for task in tasks if task.name not in missing], missing


def find(names: Iterable[str] | None) -> list[Task]:
    """Returns the named tasks, each once, in the order given; None: all.

    Raises:
        UserError: for an unknown name.
    """
    chosen = dict.fromkeys(names or TASKS)
    for name in chosen:
        if name not in TASKS:
            raise UserError(f"there is no task {name!r}", key="tasks", hint=f"The tasks are: {', '.join(TASKS)}.")
    return [TASKS[name] for name in chosen]


def files(*patterns: str, **names: str) -> Paths:
    """Returns paths by part: the patterns, each with the part's name in it (default: train, dev and test)."""
    names = names or {part: part for part in ("train", "dev", "test")}
    return {part: tuple(pattern.format(name) for pattern in patterns) for part, name in names.items()}


def _binary(name: str, positive: str, negative: str, size: int) -> Task:
    paths = f"{name}/{positive}", f"{name}/{negative}"
    return Task(name, "nested", {"all": paths}, loaders.binary, (size, size))


def _sts(name: str, size: int, *subsets: str) -> Task:
    folder = f"STS/{name}-en-test/STS"
    parts = files(folder + ".input.{}.txt", folder + ".gs.{}.txt", **dict(zip(subsets, subsets, strict=True)))
    return Task(name, "similarity", parts, loaders.sts, (0, size))


_SICK = files("SICK/SICK_{}.txt", train="train", dev="trial", test="test_annotated")

_PROBING = {
    "Length": "sentence_length",
    "WordContent": "word_content",
    "Depth": "tree_depth",
    "TopConstituents": "top_constituents",
    "BigramShift": "bigram_shift",
    "Tense": "past_present",
    "SubjNumber": "subj_number",
    "ObjNumber": "obj_number",
    "OddManOut": "odd_man_out",
    "CoordinationInversion": "coordination_inversion",
}

# Sizes: the toolkit's README (rounded), the task classes, run on the whole files, and Karpathy's split of COCO
# (113,287 / 5,000 / 5,000 images).
TASKS = {
    task.name: task
    for task in (
        _binary("MR", "rt-polarity.pos", "rt-polarity.neg", 10662),
        _binary("CR", "custrev.pos", "custrev.neg", 3775),
        _binary("SUBJ", "subj.objective", "subj.subjective", 10000),  # the toolkit's class 1 is objective
        _binary("MPQA", "mpqa.pos", "mpqa.neg", 10606),
        Task("SST2", "split", files("SST/binary/sentiment-{}"), loaders.sst2, (67349, 1821)),
        Task("SST5", "split", files("SST/fine/sentiment-{}"), loaders.sst5, (8544, 2210)),
        Task(
            "TREC", "kfold", files("TREC/{}.label", train="train_5500", test="TREC_10"), loaders.trec, (5452, 500)
        ),
        Task(
            "MRPC", "kfold", files("MRPC/msr_paraphrase_{}.txt", train="train", test="test"),
            loaders.mrpc, (4076, 1725),
        ),
        Task("SNLI", "snli", files("SNLI/s1.{}", "SNLI/s2.{}", "SNLI/labels.{}"), loaders.snli, (549367, 9824)),
        Task("SICKEntailment", "split", _SICK, loaders.sick_entailment, (4500, 4927)),
        Task("SICKRelatedness", "relatedness", _SICK, loaders.sick_relatedness, (4500, 4927)),
        Task(
            "STSBenchmark", "relatedness", files("STS/STSBenchmark/sts-{}.csv"),
            loaders.sts_benchmark, (5749, 1379),
        ),
        _sts("STS12", 3108, "MSRpar", "MSRvid", "SMTeuroparl", "surprise.OnWN", "surprise.SMTnews"),
        _sts("STS13", 1500, "FNWN", "headlines", "OnWN"),  # SMT's licence keeps it out of the toolkit
        _sts("STS14", 3750, "deft-forum", "deft-news", "headlines", "images", "OnWN", "tweet-news"),
        _sts("STS15", 3000, "answers-forums", "answers-students", "belief", "headlines", "images"),
        _sts("STS16", 1186, "answer-answer", "headlines", "plagiarism", "postediting", "question-question"),
        Task(
            "ImageCaptionRetrieval", "retrieval",
            files("COCO/{}.pkl", train="train", dev="valid", test="test"), captions, (566435, 25000),
        ),
        *(
            Task(name, "split", {"all": (f"{file}.txt",)}, loaders.probing, (100_000, 10_000), "probing")
            for name, file in _PROBING.items()
        ),
    )
}  # fmt: skip
