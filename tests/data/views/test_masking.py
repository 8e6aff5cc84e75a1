"""Masking: frequencies, special tokens, integer types."""

from __future__ import annotations

import numpy as np
import pytest

from data.batch import IGNORE
from data.randomness import generator
from data.views.masking import mask_tokens
from tests.tiny_encoder import FORMAT


def test_masked_random_and_kept_tokens_have_berts_frequencies() -> None:
    content = generator(0).integers(5, 30, size=400_000)
    masked, labels = mask_tokens(content, FORMAT, 0.15, generator(1))
    selected = labels != IGNORE
    assert selected.mean() == pytest.approx(0.15, abs=0.003)
    assert (labels[selected] == content[selected]).all() and (masked[~selected] == content[~selected]).all()
    original, replaced = content[selected], masked[selected]
    assert (replaced == FORMAT.mask_id).mean() == pytest.approx(0.8 + 0.1 / 30, abs=0.006)
    # a random token equals the original in 1 of 30 cases
    assert (replaced == original).mean() == pytest.approx(0.1 + 0.1 / 30, abs=0.006)
    others = replaced[(replaced != FORMAT.mask_id) & (replaced != original)]
    assert set(others) == set(range(30)) - {FORMAT.mask_id}


def test_special_tokens_in_the_text_are_never_selected() -> None:
    content = np.tile([0, 2, 3, 4, 7], 1000)
    masked, labels = mask_tokens(content, FORMAT, 0.9, generator(2))
    special = content < 5
    assert (labels[special] == IGNORE).all() and (masked[special] == content[special]).all()
    assert (labels[~special] == 7).mean() > 0.8
