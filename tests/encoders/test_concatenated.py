"""Concatenated encoders: vectors side by side, training, folders, refusals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import encoders
from data.batch import Tokens
from data.errors import UserError
from encoders.concatenated import Concatenated
from encoders.gru import GRU
from tests.checks.encoder import check_folder
from tests.encoders.bilstms import ROWS, SENTENCES, tiny


def pair() -> Concatenated:
    """Returns two encoders of one vocabulary and different widths, concatenated."""
    return Concatenated([tiny(), tiny(hidden=3, layers=2)])


def test_states_and_vectors_stand_side_by_side() -> None:
    encoder = pair()
    tokens = Tokens.pad(ROWS, encoder.format.pad_id)
    encoding, *parts = (model(tokens) for model in (encoder, *encoder.members))
    assert (encoder.dimension, encoder.state_dimension) == (14, 14)
    assert torch.equal(encoding.states, torch.cat([part.states for part in parts], dim=2))
    assert torch.equal(encoding.sentence, torch.cat([part.sentence for part in parts], dim=1))
    vectors = encoder.encode(SENTENCES)
    np.testing.assert_array_equal(vectors, np.hstack([member.encode(SENTENCES) for member in encoder.members]))


def test_each_member_of_a_folder_opens_by_itself(tmp_path: Path) -> None:
    encoder = Concatenated([pair(), tiny()])
    check_folder(encoder, tmp_path / "nested")
    vectors = encoders.load(tmp_path / "nested" / "encoder_1").encode(SENTENCES)
    np.testing.assert_array_equal(vectors, encoder.encode(SENTENCES)[:, :14])


def test_encoders_of_different_tokenizers_can_only_encode(tmp_path: Path) -> None:
    tiny().save(tmp_path / "bilstm")
    encoder = Concatenated(paths=["declutr-mini", str(tmp_path / "bilstm")])
    check_folder(encoder, tmp_path / "both")
    assert encoder.weights == "random"  # the BiLSTM's
    for other in (encoder, Concatenated([tiny(), tiny(max_length=4)])):
        with pytest.raises(UserError):
            other(Tokens.pad(ROWS, 1))


def test_members_are_pooled_together() -> None:
    encoder, expected = (
        Concatenated([tiny(GRU, summary=how), tiny(GRU, layers=2, summary=how)]) for how in ("last", "max")
    )
    encoder.pool_by("max")
    np.testing.assert_array_equal(encoder.encode(SENTENCES), expected.encode(SENTENCES))
