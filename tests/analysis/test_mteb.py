"""MTEB on local tasks with the package mteb: scores compared with scipy's, stored results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr

if find_spec("mteb") is None:
    pytest.skip("mteb is not installed: pip install -e '.[mteb]'", allow_module_level=True)

import datasets
import mteb
from huggingface_hub import constants
from mteb.abstasks import AbsTaskSTS
from mteb.get_tasks import _TASKS_REGISTRY

from analysis.models import Model, open_models
from analysis.mteb import evaluate_mteb
from analysis.reports import make_command
from encoders import BUNDLED
from tests.analysis.evaluation_helpers import NOUNS, vector_file

RNG = np.random.default_rng(0)
PAIRS = [
    (f"the {first} is here", f"the {second} is here", RNG.random()) for first, second in combinations(NOUNS, 2)
]
METRIC = "cosine_spearman"


class Local(AbsTaskSTS):
    """Task of STS with ``PAIRS`` as its test split."""

    metadata = mteb.TaskMetadata(
        name="Local",
        description="pairs of this test",
        type="STS",
        main_score=METRIC,
        eval_splits=["test"],
        eval_langs=["eng-Latn"],
        dataset={"path": "local", "revision": "1"},
    )

    def load_data(self, num_proc: int | None = None, **options: Any) -> None:
        columns = zip(("sentence1", "sentence2", "score"), zip(*PAIRS, strict=True), strict=True)
        self.dataset = datasets.DatasetDict(test=datasets.Dataset.from_dict(dict(columns)))
        self.data_loaded = True


@pytest.fixture(autouse=True)
def local(monkeypatch: pytest.MonkeyPatch) -> None:
    """Registers ``Local`` with mteb; no other task has data."""
    monkeypatch.setitem(_TASKS_REGISTRY, "Local", Local)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)


def spearman(encode: Callable[[Sequence[str]], np.ndarray]) -> float:
    """Returns Spearman's rho of cosines and gold scores, in percent."""
    first, second, gold = zip(*PAIRS, strict=True)
    u, v = (encode([*texts]).astype(np.float64) for texts in (first, second))
    cosines = (u * v).sum(axis=1) / np.linalg.norm(u, axis=1) / np.linalg.norm(v, axis=1)
    return 100 * float(spearmanr(cosines, gold).statistic)


def test_scores_of_three_kinds_of_models_equal_scipys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = vector_file(tmp_path / "words.txt", {word: RNG.normal(size=6).tolist() for word in [*NOUNS, "the"]})
    options: dict[str, Any] = {"models": [BUNDLED, "bag_of_words", "random_vectors"], "cache": None}
    options |= {"encoder": {"vectors": str(words)}}
    models = [*open_models(**options)]
    report = partial(make_command(evaluate_mteb), **options, tasks=["Local"], folder=str(tmp_path / "out"))
    table = report()
    assert [*table.columns] == [model.name for model in models]
    expected = [spearman(model.encoder.encode) for model in models]
    assert table.loc["Local"].tolist() == table.loc["mean"].tolist() == pytest.approx(expected, abs=0.01)
    monkeypatch.setattr(Model, "rows", None)  # stored results are used again, so nothing is encoded
    pd.testing.assert_frame_equal(table, report())
