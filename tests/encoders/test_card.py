"""The code on model cards runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from encoders.card import model_card
from tests.encoders.models import tiny


@pytest.mark.parametrize("pooling", ["mean", "cls", "max", "last"])
def test_the_cards_snippet_runs(pooling: str, tmp_path: Path) -> None:
    encoder = tiny(pooling=pooling, normalize=True)
    card = model_card(title="tiny", encoder=encoder)
    encoder.save(tmp_path / "encoder", card)
    for snippet in card.split("```python\n")[1:]:
        scope: dict[str, Any] = {}
        exec(snippet.split("```")[0].replace("<folder>", str(tmp_path / "encoder")), scope)
        np.testing.assert_allclose(np.asarray(scope["vectors"]), encoder.encode(["A sentence."]), atol=1e-5)
