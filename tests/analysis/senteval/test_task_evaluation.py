"""Places where linear classifiers are trained, and sentences as rows of vectors."""

from __future__ import annotations

import numpy as np

from analysis.senteval.files.reading import Captions, Examples
from analysis.senteval.protocols import PROTOCOLS
from analysis.senteval.task_evaluation import indexed, linear_device

DEFAULT = PROTOCOLS["default"]


def test_small_problems_stay_on_the_cpu_beside_a_gpu() -> None:
    on_gpu = {"nested": 2 * 768, "kfold": 6 * 768, "split": 1000 * 768}  # CR, TREC, WordContent
    assert {linear_device("cuda", kind, DEFAULT, weights) for kind, weights in on_gpu.items()} == {"cuda"}
    on_cpu = {"SST2": 2 * 768, "Length": 6 * 768, "SICKEntailment": 3 * 2 * 768}
    assert {linear_device("cuda", "split", DEFAULT, weights) for weights in on_cpu.values()} == {"cpu"}
    assert linear_device("cpu", "nested", DEFAULT, 2 * 4096) == "cpu"


def test_sentences_become_rows() -> None:
    def index(found: list[str]) -> np.ndarray:
        return np.array([["a", "b", "."].index(sentence) for sentence in found], np.int64)

    pairs, single = Examples(["A", "."], ["b", "A"], np.array([0, 1])), Examples(["B"], [], np.array([1]))
    found = indexed({"train": pairs, "test": single}, PROTOCOLS["gensen"], index)
    assert [part.first.tolist() for part in found.values()] == [[0, 2], [1]]
    assert [part.second.tolist() for part in found.values()] == [[1, 0], []]
    assert found["train"].targets is pairs.targets
    images = np.ones((2, 3), np.float32)
    [captions] = indexed({"train": Captions(images, [["a", "b", "a", ".", "b"]] * 2)}, DEFAULT, index).values()
    assert captions.first.tolist() == [[0, 1, 0, 2, 1]] * 2 and captions.targets is images
