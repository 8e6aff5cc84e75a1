"""Model cards: facts, licence, sections, code that runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from huggingface_hub import ModelCard

from encoders.card import model_card, with_section
from objectives.declutr import Declutr
from tests.encoders.models import tiny


def test_the_card_names_the_starting_weights_and_how_to_use_the_encoder() -> None:
    encoder = tiny(pooling="cls")
    card = model_card(
        title="declutr",
        encoder=encoder,
        objective="declutr",
        corpus={"name": "pydocs", "where": "12 packages", "documents": 12},
        tokens=1234567,
        settings={"objective": {"temperature": 0.05}, "seed": 1},
        scores={
            "start": {"recall@5": None, "recall@1": 0.125},
            "trained": {"recall@5": None, "recall@1": 0.5, "probe": {"length": 31.25}},
        },
        citation=Declutr.citation,
    )
    for part in (
        "- **Objective:** declutr ([citation](#citation)).",
        f"- **Encoder:** Transformer of {sum(w.numel() for w in encoder.parameters()):,} parameters; "
        f"vectors of 32, cls pooling; input of at most {encoder.format.max_length} tokens, the rest is cut.",
        "- **Weights:** random: random roberta, 2 layers x 32",
        "no published model is behind the weights",
        "- **Tokens seen:** 1,234,567.",
        "| objective.temperature | 0.05 |",
        "| recall@1 | 0.125 | 0.5 |",
        "| probe.length | — | 31.25 |",
        Declutr.citation.strip(),
    ):
        assert part in card
    data = ModelCard(card).data
    assert data.get("license") is None and data.get("library_name") == "sentence-transformers"


@pytest.mark.parametrize("pooling", ["mean", "cls", "max", "last"])
def test_the_cards_snippet_runs(pooling: str, tmp_path: Path) -> None:
    encoder = tiny(pooling=pooling, normalize=True)
    card = model_card(title="tiny", encoder=encoder)
    encoder.save(tmp_path / "encoder", card)
    for snippet in card.split("```python\n")[1:]:
        scope: dict[str, Any] = {}
        exec(snippet.split("```")[0].replace("<folder>", str(tmp_path / "encoder")), scope)
        np.testing.assert_allclose(np.asarray(scope["vectors"]), encoder.encode(["A sentence."]), atol=1e-5)


def test_a_section_is_replaced_and_the_rest_is_kept() -> None:
    card = "---\na: b\n---\n\n# A\n\n## Use\n\nHow.\n\n## Licence\n\nmit\n"
    longer = with_section(card, "New", "One.")
    assert longer == card.replace("## Use", "## New\n\nOne.\n\n## Use")
    assert with_section(longer, "New", "Two.") == longer.replace("One.", "Two.")
    assert with_section(card, "Licence", "bsd") == card.replace("mit", "bsd") + "\n"
