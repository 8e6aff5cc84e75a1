"""Sentences of a task as row numbers of the vectors' matrix."""

from __future__ import annotations

import gc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from analysis.senteval.files.captions import Captions
from analysis.senteval.files.loaders import Examples
from analysis.senteval.protocols import PROTOCOLS
from analysis.senteval.task_evaluation import indexed, load
from analysis.senteval.tasks import TASKS
from data.errors import UserError

DEFAULT = PROTOCOLS["default"]


def test_sentences_become_rows() -> None:
    def index(sentences: list[str]) -> np.ndarray:
        return np.array([["a", "b", "."].index(sentence) for sentence in sentences], np.int64)

    pairs, single = Examples(["A", "."], ["b", "A"], np.array([0, 1])), Examples(["B"], [], np.array([1]))
    found = indexed({"train": pairs, "test": single}, PROTOCOLS["gensen"], index)
    assert [part.first.tolist() for part in found.values()] == [[0, 2], [1]]
    assert [part.second.tolist() for part in found.values()] == [[1, 0], []]
    assert found["train"].targets is pairs.targets
    images = np.ones((2, 3), np.float32)
    [captions] = indexed({"train": Captions(images, [["a", "b", "a", ".", "b"]] * 2)}, DEFAULT, index).values()
    assert captions.first.tolist() == [[0, 1, 0, 2, 1]] * 2 and captions.targets is images


@pytest.mark.parametrize("enabled", [True, False])
def test_loading_leaves_the_collection_of_garbage_as_it_was(enabled: bool) -> None:
    def fail(root: Path) -> dict[str, Examples]:
        assert not gc.isenabled()
        raise UserError("wrong files")

    try:
        if not enabled:
            gc.disable()
        with pytest.raises(UserError):
            load(replace(TASKS["MR"], load=fail), Path())
        assert gc.isenabled() == enabled
    finally:
        gc.enable()
