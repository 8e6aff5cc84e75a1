"""All encoders pass the common checks; names and folders that ``encoders.load`` refuses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import encoders
from data.errors import UserError
from encoders.base import Encoder
from encoders.bilstm_max import BiLSTMMax
from encoders.concatenated import Concatenated
from encoders.gru import GRU
from encoders.lstm import LSTM
from tests.checks.encoder import check_encoder
from tests.encoders import bilstms, models
from tests.encoders.models import FAMILIES

KINDS: dict[str, Callable[[], Encoder]] = {
    **{family: lambda family=family: models.tiny(family) for family in (*FAMILIES, "electra", "mpnet")},  # type: ignore[misc]
    "modernbert": lambda: encoders.load("declutr-mini"),
    "normalised maximum": lambda: models.tiny(pooling="max", normalize=True),
    **{kind.__name__: lambda kind=kind: bilstms.tiny(kind) for kind in (BiLSTMMax, LSTM, GRU)},  # type: ignore[misc]
    "concatenated": lambda: Concatenated([bilstms.tiny(), bilstms.tiny()]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_an_encoder_passes_all_checks(kind: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    check_encoder(KINDS[kind](), tmp_path)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("nothing/at/all", {}),
        (None, {}),
        ("declutr-mini", {"pooling": "avg"}),
        ("declutr-mini", {"device": "gpu"}),
        ("declutr-mini", {"layers": 5}),
    ],
    ids=str,
)
def test_what_cannot_be_opened_is_an_error_of_the_user(name: str, options: dict[str, str]) -> None:
    with pytest.raises(UserError):
        encoders.load(name, **options)  # type: ignore[arg-type]
