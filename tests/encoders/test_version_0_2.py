"""Encoders that version 0.2 exported open with equal vectors."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import encoders

FOLDER = Path(__file__).resolve().parents[1] / "fixtures" / "version_0_2"


@pytest.mark.parametrize("name", ["transformer", "bilstm_max", "gru", "lstm", "concatenated"])
def test_an_export_opens_with_equal_vectors(name: str) -> None:
    vectors = encoders.load(FOLDER / name).encode(json.loads((FOLDER / "sentences.json").read_text()))
    np.testing.assert_allclose(vectors, np.load(FOLDER / "vectors.npz")[name], rtol=1e-4, atol=1e-6)
