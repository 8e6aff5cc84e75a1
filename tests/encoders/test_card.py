"""Model cards: facts, licence, sections, code that runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from huggingface_hub import ModelCard

import encoders
from encoders.card import model_card, section, with_section
from encoders.gru import GRU
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
        licence="apache-2.0",
        citation=Declutr.citation,
    )
    assert card.startswith("---\nlibrary_name: sentence-transformers\n")
    for part in (
        "license: apache-2.0",
        "- **Objective:** declutr ([DeCLUTR: Deep Contrastive Learning for Unsupervised Textual Representations]"
        "(#citation), 2021).",
        f"- **Encoder:** Transformer of {sum(w.numel() for w in encoder.parameters()):,} parameters; "
        f"vectors of 32, cls pooling; input of at most {encoder.format.max_length} tokens, the rest is cut.",
        "- **Weights:** random: random roberta, 2 layers x 32",
        "They were once drawn at random, and no published model is behind them",
        "- **Corpus:** pydocs, 12 packages.",
        "- **Tokens seen:** 1,234,567.",
        "- **Scores:** recall@1: 0.125 → 0.5; probe.length: — → 31.25 (start → trained).",
        "| name | pydocs |",
        "| objective.temperature | 0.05 |",
        "| recall@1 | 0.125 | 0.5 |",
        "| probe.length | — | 31.25 |",
        "encoders.load(",
        "SentenceTransformer(",
        "vectors = states[:, 0]",
        Declutr.citation.strip(),
    ):
        assert part in card
    data = ModelCard(card).data
    assert (data.get("license"), data.get("library_name")) == ("apache-2.0", "sentence-transformers")
    assert {"transformers", "weights-random"} <= {*data.get("tags")}
    folded = card[card.index("<details>") : card.index("</details>")]
    assert "| seed | 1 |" in folded and card.count("<details>") == 1


def test_the_card_of_an_encoder_without_a_length_limit() -> None:
    tokenizer = GRU.train_tokenizer(["a word"], min_count=1)
    encoder = GRU(hidden=4, word_size=3, tokenizer=tokenizer)
    assert "vectors of 8, last pooling; input of any length.\n" in model_card(title="gru", encoder=encoder)


def test_a_card_names_the_whole_training_history(tmp_path: Path) -> None:
    tiny().save(tmp_path / "one")
    encoders.load(tmp_path / "one").save(tmp_path / "two")
    card = model_card(title="declutr", encoder=encoders.load(tmp_path / "two"))
    chain = (
        f"continued from {tmp_path / 'two'}; before that: continued from {tmp_path / 'one'}; before that: random"
    )
    assert chain in card and "untrained" not in card and "started from" not in card


@pytest.mark.parametrize("pooling", ["mean", "cls", "max", "last"])
def test_the_cards_snippet_runs(pooling: str, tmp_path: Path) -> None:
    encoder = tiny(pooling=pooling, normalize=True)
    card = model_card(title="tiny", encoder=encoder)
    encoder.save(tmp_path / "encoder", card)
    for snippet in card.split("```python\n")[1:]:
        scope: dict[str, Any] = {}
        exec(snippet.split("```")[0].replace("<folder>", str(tmp_path / "encoder")), scope)
        np.testing.assert_allclose(np.asarray(scope["vectors"]), encoder.encode(["A sentence."]), atol=1e-5)


def test_without_a_licence_the_card_names_what_its_publisher_decides() -> None:
    encoder = tiny()
    corpus = {"en": {"name": "books", "licence": "CC BY 4.0"}, "fr": {"name": "wmt", "licence": None}}
    card = model_card(title="declutr", encoder=encoder, corpus=corpus)
    text = section(card, "Licence")
    assert ModelCard(card).data.get("license") is None
    for part in (
        "Write `license:`",
        "that of the corpus (books, CC BY 4.0; wmt)",
        f"start weights (random: {encoder.origin})",
    ):
        assert part in text
    assert "(the text that it was trained on)" in section(model_card(title="a", encoder=encoder), "Licence")


def test_a_section_is_replaced_and_the_rest_is_kept() -> None:
    card = "---\na: b\n---\n\n# A\n\n## Use\n\nHow.\n\n## Licence\n\nmit\n"
    longer = with_section(card, "New", "One.")
    assert longer == card.replace("## Use", "## New\n\nOne.\n\n## Use")
    assert with_section(longer, "New", "Two.") == longer.replace("One.", "Two.")
    assert with_section(card, "Licence", "bsd") == card.replace("mit", "bsd")
    assert with_section("# A", "New", "One.") == "# A\n\n## New\n\nOne.\n"
    assert section(longer, "New") == "One." and section(longer, "None") == ""


def test_a_licence_in_words_is_other_to_the_hub() -> None:
    card = model_card(title="declutr", encoder=tiny(), licence="of the packages: PSF, BSD")
    assert "license: other\n" in card and "of the packages: PSF, BSD" in card
