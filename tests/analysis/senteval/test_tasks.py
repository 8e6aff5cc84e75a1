"""The table of tasks: names, files, missing files, and the published counts of the real files."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import numpy as np
import pytest

from analysis.senteval.files.loaders import Examples
from analysis.senteval.records import PROBING
from analysis.senteval.tasks import TASKS, absent, find
from tests.analysis.senteval.example_results import DOWNSTREAM, SENTEVAL
from tests.real_data import suite_data

SINGLE = {
    "MR": {"all": 10662},
    "CR": {"all": 3775},
    "SUBJ": {"all": 10000},
    "MPQA": {"all": 10606},
    "SST2": {"train": 67349, "dev": 872, "test": 1821},
    "SST5": {"train": 8544, "dev": 1101, "test": 2210},
    "TREC": {"train": 5452, "test": 500},
}
PAIRS = {
    "MRPC": {"train": 4076, "test": 1725},
    "SICKEntailment": {"train": 4500, "dev": 500, "test": 4927},
    "SICKRelatedness": {"train": 4500, "dev": 500, "test": 4927},
    "STSBenchmark": {"train": 5749, "dev": 1500, "test": 1379},
    "STS12": {"MSRpar": 750, "MSRvid": 750, "SMTeuroparl": 459, "surprise.OnWN": 750, "surprise.SMTnews": 399},
    "STS13": {"FNWN": 189, "headlines": 750, "OnWN": 561},
    "STS14": {
        "deft-forum": 450, "deft-news": 300, "headlines": 750, "images": 750, "OnWN": 750, "tweet-news": 750,
    },
    "STS15": {"answers-forums": 375, "answers-students": 750, "belief": 375, "headlines": 750, "images": 750},
    "STS16": {
        "answer-answer": 254, "headlines": 249, "plagiarism": 230, "postediting": 244, "question-question": 209,
    },
}  # fmt: skip


def load(name: str, root: Path) -> dict[str, Examples]:
    return cast("dict[str, Examples]", TASKS[name].load(root))


def test_all_28_tasks_in_order() -> None:
    assert tuple(TASKS)[:28] == SENTEVAL
    for name, task in TASKS.items():
        assert task.name == name
        assert name not in SENTEVAL or task.group == ("downstream" if name in DOWNSTREAM else "probing")


def test_each_kind_of_task_has_the_fields_it_needs() -> None:
    for task in TASKS.values():
        assert (task.features == "") == (task.kind in ("snli", "similarity", "retrieval")), task
        trained_classes = task.kind in ("nested", "kfold", "snli") or (task.kind, task.group) == (
            "split",
            "downstream",
        )
        assert bool(task.classes) == trained_classes, task


def test_tasks_are_found_by_name_without_repeats() -> None:
    assert [task.name for task in find(["TREC", "MR", "TREC"])] == ["TREC", "MR"]
    assert find(None) == list(TASKS.values())


def test_the_first_missing_file_is_named(tmp_path: Path) -> None:
    [task] = find(["STS13"])
    assert absent(task, tmp_path) == tmp_path / "STS/STS13-en-test/STS.input.FNWN.txt"
    (tmp_path / "STS/STS13-en-test").mkdir(parents=True)
    for file in task.files[:-1]:
        (tmp_path / file).touch()
    assert absent(task, tmp_path) == tmp_path / "STS/STS13-en-test/STS.gs.OnWN.txt"
    (tmp_path / task.files[-1]).touch()
    assert absent(task, tmp_path) is None


@pytest.mark.parametrize("name", [*SINGLE, *PAIRS])
def test_real_files_have_the_published_counts(name: str) -> None:
    root = suite_data("senteval/downstream")
    task = TASKS[name]
    assert absent(task, root) is None
    loaded = load(name, root)
    assert {part: len(examples.targets) for part, examples in loaded.items()} == (SINGLE | PAIRS)[name]
    for examples in loaded.values():
        assert len(examples.first) == len(examples.targets)
        assert len(examples.second) == (len(examples.first) if name in PAIRS else 0)
        assert all(text and text == " ".join(text.split()) for text in (*examples.first, *examples.second))
        if task.classes:
            assert examples.targets.dtype == np.int64
            assert set(examples.targets.tolist()) == set(range(task.classes))
        else:
            assert examples.targets.dtype == np.float64


def test_classes_equal_the_toolkits() -> None:
    """The classes have known sizes, so swapped labels are detected."""
    root = suite_data("senteval/downstream")
    sizes_of_class_1 = {"MR": 5331, "CR": 2407, "SUBJ": 5000, "MPQA": 3312}
    assert {name: int(load(name, root)["all"].targets.sum()) for name in sizes_of_class_1} == sizes_of_class_1
    mrpc = load("MRPC", root)
    assert [int(mrpc[split].targets.sum()) for split in ("train", "test")] == [2753, 1147]
    assert np.bincount(load("TREC", root)["test"].targets).tolist() == [9, 138, 94, 65, 81, 113]


def test_snli_has_the_published_counts() -> None:
    loaded = load("SNLI", suite_data("senteval/downstream"))
    assert {split: len(examples.first) for split, examples in loaded.items()} | {"train": 0} == {
        "train": 0,
        "dev": 9842,
        "test": 9824,
    }
    assert np.bincount(loaded["test"].targets).tolist() == [3368, 3219, 3237]


@pytest.mark.parametrize("name", PROBING)
def test_probing_files_have_the_sizes_and_classes_of_the_rebuilt_data(name: str) -> None:
    loaded = load(name, suite_data("senteval/probing_rebuilt"))
    sizes = (1382, 230, 230) if name == "CoordinationInversion" else (2400, 400, 400)
    classes = {"Length": 6, "WordContent": 50, "Depth": 7, "TopConstituents": 20}.get(name, 2)
    assert tuple(len(loaded[split].first) for split in ("train", "dev", "test")) == sizes
    for examples in loaded.values():
        assert set(examples.targets.tolist()) == set(range(classes))
