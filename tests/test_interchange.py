"""Objectives train encoders: a few steps, a bit-identical resumption, an export that opens.

All pairs of the YAMLs are tested, so that a new YAML needs no change here. Without the slow tests, only a
selection is trained in which every objective and every encoder occurs at least twice.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
import torch

import encoders
from data.errors import UnfitError
from experiments import building, checkpoint, report
from tests.checks.pairs import ENCODERS, OBJECTIVES, is_impossible, list_overrides, read_keys
from tests.experiments import tiny

SENTENCES = ["bad bif mod", "ked", "a word that nobody knows"]
PAIRS = [(objective, encoder) for objective in OBJECTIVES for encoder in ENCODERS]


def select_pairs() -> set[tuple[str, str]]:
    """Returns pairs to train and, for each objective that refuses an encoder, one such pair."""
    variants = Counter(objective.split()[0] for objective in OBJECTIVES)
    possible = {row: [column for column in ENCODERS if not is_impossible(row, column)] for row in OBJECTIVES}
    pairs, uses = set(), Counter[str]()
    for objective in sorted(OBJECTIVES, key=lambda row: len(possible[row])):
        for _ in range(2 if variants[objective.split()[0]] == 1 else 1):
            free = [encoder for encoder in possible[objective] if (objective, encoder) not in pairs]
            encoder = min(reversed(free), key=uses.__getitem__)
            uses[encoder] += 1
            pairs.add((objective, encoder))
    refused = {objective: encoder for objective, encoder in PAIRS if is_impossible(objective, encoder)}
    return pairs | set(refused.items())


SELECTED = select_pairs()


@pytest.fixture(autouse=True)
def without_side_effects(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draws no pictures, lets finished runs be resumed, and keeps the process' number of threads."""
    monkeypatch.setattr(checkpoint, "finish", lambda root: None)
    monkeypatch.setattr(report.run_figure, "draw", lambda folder: [folder / "none.png"])
    monkeypatch.setattr(torch, "set_num_threads", lambda count: None)


@pytest.mark.parametrize(
    ("objective", "encoder"),
    [pytest.param(*pair, marks=() if pair in SELECTED else pytest.mark.slow) for pair in PAIRS],
)
def test_an_objective_trains_an_encoder(objective: str, encoder: str, small_files: Path, tmp_path: Path) -> None:
    """Trains the pair, resumes it and opens its export; for an impossible pair, checks the refusal."""
    run = tmp_path / "run"
    config = tiny.check([*list_overrides(objective, encoder, small_files), f"run_dir={run}"])
    if is_impossible(objective, encoder):
        error = AssertionError("text was read before the refusal")
        with pytest.raises(UnfitError), patch.object(building, "prepare", side_effect=error):
            tiny.train(config)
        assert not run.exists()
        return
    tiny.train(config)
    metrics = (run / "metrics.jsonl").read_bytes()
    losses = [line["loss"] for line in map(json.loads, metrics.splitlines()) if "loss" in line]
    assert len(losses) == 4 and np.isfinite(losses).all()

    shutil.rmtree(run / "checkpoints" / "step-00000004")
    vectors = encoders.load(run / "encoder").encode(SENTENCES)
    shutil.rmtree(run / "encoder")
    tiny.train(tiny.check([f"resume={run}", f"cache={small_files / 'cache'}"]))
    assert (run / "metrics.jsonl").read_bytes() == metrics
    assert np.isfinite(vectors).all() and vectors.dtype == np.float32
    assert (encoders.load(run / "encoder").encode(SENTENCES) == vectors).all()
    if "synthetic_pairs" in read_keys("objective", objective.split()[0]):  # all descriptions say so
        for path in ("config.yaml", "quick.json", "encoder/README.md", "encoder/encoder.json"):
            assert "synthetic" in (run / path).read_text(encoding="utf-8").replace("synthetic_pairs", ""), path
