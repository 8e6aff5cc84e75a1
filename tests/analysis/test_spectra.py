"""Spectra of several models: files, and scores equal to those at the end of a run."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from analysis import quick
from analysis.spectra import draw_spectra
from encoders.random_vectors import RandomVectors
from tests.analysis.test_quick import documents


def test_spectra_are_drawn_and_scores_are_those_of_a_run(tmp_path: Path) -> None:
    texts, data = documents(30), tmp_path / "documents.txt"
    data.write_text("\n".join(texts))
    table = draw_spectra(models=["random_vectors"], data=str(data), out=str(tmp_path / "new" / "spectra"))
    scores = quick.evaluate(RandomVectors(), texts, seed=0)
    assert table["random_vectors"].to_dict() == pytest.approx(
        {key: scores[key] for key in quick.LABELS if not key.startswith("probe")}, abs=1e-6
    )
    assert {path.name for path in (tmp_path / "new").iterdir()} == {f"spectra.{e}" for e in ("csv", "pdf", "png")}
    spectrum = pd.read_csv(tmp_path / "new" / "spectra.csv")
    assert spectrum["principal component"].iloc[0] == 1 and spectrum["random_vectors"].is_monotonic_decreasing
    assert spectrum["random_vectors"].sum() == pytest.approx(1)
