"""The table of tasks: names, files, missing files, and the published counts of the real files."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from analysis.senteval.tasks import TASKS, absent, available, digest
from tests.real_data import suite_data

PROBING = [*TASKS][18:28]
# Examples of each part.
COUNTS = {
    "MR": [10662],
    "CR": [3775],
    "SUBJ": [10000],
    "MPQA": [10606],
    "SST2": [67349, 872, 1821],
    "SST5": [8544, 1101, 2210],
    "TREC": [5452, 500],
    "MRPC": [4076, 1725],
    "SICKEntailment": [4500, 500, 4927],
    "SICKRelatedness": [4500, 500, 4927],
    "STSBenchmark": [5749, 1500, 1379],
    "STS12": [750, 750, 459, 750, 399],  # MSRpar, MSRvid, SMTeuroparl, surprise.OnWN, surprise.SMTnews
    "STS13": [189, 750, 561],  # FNWN, headlines, OnWN
    "STS14": [450, 300, 750, 750, 750, 750],  # deft-forum, deft-news, headlines, images, OnWN, tweet-news
    "STS15": [375, 750, 375, 750, 750],  # answers-forums, answers-students, belief, headlines, images
    "STS16": [254, 249, 230, 244, 209],  # answer-answer, headlines, plagiarism, postediting, question-question
}
CLASSES = {"SST5": 5, "TREC": 6, "SICKEntailment": 3}


def test_all_28_tasks_have_their_files() -> None:
    assert {*COUNTS, *PROBING, "SNLI", "ImageCaptionRetrieval"} == {*[*TASKS][:28]}
    assert all((task.group == "probing") == (name in PROBING) for name, task in [*TASKS.items()][:28])
    assert len({file for task in [*TASKS.values()][:28] for file in task.files}) == 94


def test_tasks_with_all_files_are_available(tmp_path: Path) -> None:
    task = TASKS["STS13"]
    root = tmp_path / "downstream"
    for done, file in enumerate(task.files):
        assert absent(task, root) == root / file and file.startswith("STS/STS13-en-test/STS.")
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_bytes(b"%d" % done)
    assert absent(task, root) is None
    assert available(["MR", "STS13"], tmp_path) == ([task], {"MR": root / "MR/rt-polarity.pos"})
    digests = [hashlib.sha256(b"%d" % number).digest() for number in range(6)]
    assert digest(task, root) == hashlib.sha256(b"".join(digests)).hexdigest()


@pytest.mark.parametrize("name", COUNTS)
def test_real_files_have_the_published_counts(name: str) -> None:
    root = suite_data("senteval/downstream")
    task = TASKS[name]
    assert absent(task, root) is None
    parts = task.load(root)
    assert [*parts] == [*task.parts] and [len(part.targets) for part in parts.values()] == COUNTS[name]
    paired = name == "MRPC" or name.startswith(("SICK", "STS"))
    for examples in parts.values():
        assert len(examples.first) == len(examples.targets)
        assert len(examples.second) == (len(examples.first) if paired else 0)
        assert all(text and text == " ".join(text.split()) for text in (*examples.first, *examples.second))
        scored = task.kind in ("similarity", "relatedness")
        assert examples.targets.dtype == (np.float64 if scored else np.int64)
        assert scored or {*examples.targets.tolist()} == {*range(CLASSES.get(name, 2))}


def test_classes_equal_the_toolkits() -> None:
    """The classes have known sizes, so swapped labels are detected."""
    root = suite_data("senteval/downstream")
    sizes_of_class_1 = {"MR": 5331, "CR": 2407, "SUBJ": 5000, "MPQA": 3312}
    for name, size in sizes_of_class_1.items():
        assert TASKS[name].load(root)["all"].targets.sum() == size
    assert [examples.targets.sum() for examples in TASKS["MRPC"].load(root).values()] == [2753, 1147]
    assert np.bincount(TASKS["TREC"].load(root)["test"].targets).tolist() == [9, 138, 94, 65, 81, 113]


def test_snli_has_the_published_counts() -> None:
    parts = TASKS["SNLI"].load(suite_data("senteval/downstream"))
    assert [len(parts[part].first) for part in ("dev", "test")] == [9842, 9824]
    assert np.bincount(parts["test"].targets).tolist() == [3368, 3219, 3237]


@pytest.mark.parametrize("name", PROBING)
def test_probing_files_have_the_sizes_and_classes_of_the_rebuilt_data(name: str) -> None:
    parts = TASKS[name].load(suite_data("senteval/probing_rebuilt"))
    sizes = [1382, 230, 230] if name == "CoordinationInversion" else [2400, 400, 400]
    classes = {"Length": 6, "WordContent": 50, "Depth": 7, "TopConstituents": 20}.get(name, 2)
    assert [*parts] == ["train", "dev", "test"]
    assert [len(examples.first) for examples in parts.values()] == sizes
    for examples in parts.values():
        assert {*examples.targets.tolist()} == {*range(classes)}
