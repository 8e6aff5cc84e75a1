"""Maps of sentences: agreement of neighbours against a plain loop, files."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis.models import Model
from analysis.projection_map import (
    compute_agreement,
    evaluate_map,
    place_sentences,
)
from encoders.random_vectors import RandomVectors


def test_agreement_equals_a_loop() -> None:
    rng = np.random.default_rng(0)
    points, labels = rng.normal(size=(60, 3)), [str(label) for label in rng.integers(3, size=60)]
    hits = 0
    for i in range(60):
        order = [j for j in np.argsort(((points - points[i]) ** 2).sum(axis=1)) if j != i][:10]
        hits += Counter(labels[j] for j in order).most_common(1)[0][0] == labels[i]
    assert compute_agreement(points, labels) == pytest.approx(100 * hits / 60)


def test_a_map_keeps_clusters_together() -> None:
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(3, 80)) * 5
    kinds = np.repeat(np.arange(3), 30)
    vectors = centres[kinds] + rng.normal(size=(90, 80))
    labels = [str(kind) for kind in kinds]
    points, scores = place_sentences(vectors, labels, seed=1)
    assert points.shape == (90, 2) and scores == pytest.approx({"vectors": 100, "map": 100, "guess": 100 / 3})
    np.testing.assert_array_equal(points, place_sentences(vectors, labels, seed=1)[0])
    assert np.isfinite(place_sentences(np.zeros_like(vectors), labels)[0]).all()


def test_a_map_is_drawn(tmp_path: Path) -> None:
    lines = [f"{'odd' if number % 2 else 'even'}\tsentence {number}\n" for number in range(40)]
    (tmp_path / "made.tsv").write_text("".join([*lines, lines[0]]))  # the first line occurs twice
    model = Model("a/b, c", RandomVectors(dimension=8))
    scores = evaluate_map(model, data=str(tmp_path / "made.tsv"), folder=str(tmp_path / "maps"), sample=30)
    names = sorted(path.name for path in (tmp_path / "maps").iterdir())
    assert names == [f"made-a_b_c.{kind}" for kind in ("csv", "pdf", "png")]
    points = pd.read_csv(tmp_path / "maps" / names[0])
    assert len(points) == 30 and np.isfinite(points[["x", "y"]]).all(axis=None)
    assert {*points["label"]} == {"odd", "even"} and 50 <= scores["guess"] < 70
