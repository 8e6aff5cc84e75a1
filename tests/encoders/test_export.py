from __future__ import annotations

import itertools
import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoModelForMaskedLM, AutoTokenizer

import encoders
from data.errors import UserError
from encoders.export import model_card
from encoders.fingerprint import fingerprint
from encoders.gru import GRU
from encoders.layout import atomic_folder, read_layout
from encoders.pooling import pool
from encoders.transformer import Transformer
from tests.encoders.models import FAMILIES, SENTENCES, minilm, tiny


def _by_transformers(folder: Path, how: str) -> np.ndarray:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder).eval()
    batch = tokenizer(SENTENCES, padding=True, truncation=True, return_tensors="pt")
    with torch.no_grad():
        states = model(**batch).last_hidden_state
    return pool(states, batch["attention_mask"].bool(), how).numpy()


@pytest.mark.parametrize(
    ("family", "pooling"),
    [*itertools.product(("roberta", "bert", "albert"), ("mean", "cls", "max")), ("bert", "last")],
)
def test_export_opens_everywhere(
    family: str, pooling: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sentence_transformers = pytest.importorskip("sentence_transformers")
    encoder = tiny(family, pooling=pooling)
    vectors = encoder.encode(SENTENCES)
    folder = tmp_path / "runs" / "encoder"
    encoder.save(folder)
    with caplog.at_level(logging.WARNING):
        opened = sentence_transformers.SentenceTransformer(str(folder), device="cpu")
    assert "MISSING" not in caplog.text
    assert opened.max_seq_length == encoder.format.max_length
    np.testing.assert_allclose(opened.encode(SENTENCES), vectors, atol=1e-5)
    np.testing.assert_allclose(_by_transformers(folder, pooling), vectors, atol=1e-5)
    again = encoders.load(folder)
    np.testing.assert_allclose(again.encode(SENTENCES), vectors, atol=1e-6)
    assert (again.weights, again.format) == ("random", encoder.format)
    assert again.origin == f"continued from {folder}; before that: {encoder.origin}"
    assert encoder.untrained and not again.untrained


def test_head_is_exported(tmp_path: Path) -> None:
    encoder = tiny("bert")
    encoder.save(tmp_path / "encoder")
    headed = AutoModelForMaskedLM.from_pretrained(tmp_path / "encoder")
    states = torch.randn(5, 32)
    torch.testing.assert_close(headed.cls(states), encoder.token_logits(states))


def test_minilm_survives_saving(tmp_path: Path) -> None:
    sentence_transformers = pytest.importorskip("sentence_transformers")
    encoder = encoders.load(minilm())
    vectors = encoder.encode(SENTENCES)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    encoder.save(tmp_path / "copy")
    opened = sentence_transformers.SentenceTransformer(str(tmp_path / "copy"), device="cpu")
    assert opened.max_seq_length == 256
    np.testing.assert_allclose(opened.encode(SENTENCES), vectors, atol=1e-5)
    np.testing.assert_allclose(encoders.load(tmp_path / "copy").encode(SENTENCES), vectors, atol=1e-6)


def test_pooling_can_be_overridden(tmp_path: Path) -> None:
    encoder = tiny(pooling="mean")
    encoder.save(tmp_path / "encoder")
    largest = encoders.load(tmp_path / "encoder", pooling="max").encode(SENTENCES)
    assert not np.allclose(largest, encoder.encode(SENTENCES))
    encoder.pooling = "max"
    np.testing.assert_allclose(largest, encoder.encode(SENTENCES), atol=1e-6)


def test_half_precision(tmp_path: Path) -> None:
    encoder = tiny()
    encoder.save(tmp_path / "half", dtype=torch.float16)
    encoder.save(tmp_path / "full")
    sizes = [(tmp_path / name / "model.safetensors").stat().st_size for name in ("half", "full")]
    assert sizes[0] < 0.6 * sizes[1]
    assert next(encoder.parameters()).dtype == torch.float32
    again = encoders.load(tmp_path / "half")
    assert next(again.parameters()).dtype == torch.float32
    np.testing.assert_allclose(again.encode(SENTENCES), encoder.encode(SENTENCES), atol=5e-3)


def test_lower_casing_of_a_folder_is_honoured_and_kept(tmp_path: Path) -> None:
    tiny().save(tmp_path / "a")
    settings = tmp_path / "a" / "sentence_bert_config.json"
    settings.write_text(json.dumps(json.loads(settings.read_text()) | {"do_lower_case": True}))
    encoder = encoders.load(tmp_path / "a")
    assert np.array_equal(encoder.encode(["THE CAT"]), encoder.encode(["the cat"]))
    encoder.save(tmp_path / "b")
    assert read_layout(tmp_path / "b").lowercase
    assert np.array_equal(encoders.load(tmp_path / "b").encode(["THE CAT"]), encoder.encode(["the cat"]))


def test_a_saved_encoder_replaces_an_encoder_alone(tmp_path: Path) -> None:
    encoder = tiny()
    encoder.save(tmp_path / "encoder")
    encoder.save(tmp_path / "encoder", card="# A card\n")
    assert (tmp_path / "encoder" / "README.md").read_text() == "# A card\n"
    assert [path.name for path in tmp_path.iterdir()] == ["encoder"]
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "thesis.tex").write_text("years of work")
    with pytest.raises(UserError, match="is there already and is not an encoder's folder"):
        encoder.save(tmp_path / "thesis")
    assert [path.name for path in (tmp_path / "thesis").iterdir()] == ["thesis.tex"]


def test_a_failed_save_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = tiny()
    monkeypatch.setattr(
        "encoders.transformer.write_layout", lambda *_: (_ for _ in ()).throw(OSError("disk full"))
    )
    with pytest.raises(OSError, match="disk full"):
        encoder.save(tmp_path / "encoder")
    assert not list(tmp_path.iterdir())


def test_an_atomic_folder_keeps_the_old_one_until_the_end(tmp_path: Path) -> None:
    tiny().save(tmp_path / "encoder")
    with pytest.raises(RuntimeError), atomic_folder(tmp_path / "encoder") as unfinished:
        (unfinished / "config.json").write_text("{}")
        raise RuntimeError
    assert encoders.load(tmp_path / "encoder").encode(["a"]).shape == (1, 32)
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize(
    ("pooling", "expected"),
    [
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, "cls"),
        ({"pooling_mode": "lasttoken"}, "last"),
        ({"pooling_mode": ["max"]}, "max"),
        ({"word_embedding_dimension": 32}, "mean"),
        ({"pooling_mode": ["cls", "mean"]}, "pools by cls, mean; one of cls, max, mean, last is opened here"),
        ({"pooling_mode_weightedmean_tokens": True}, "pools by pooling_mode_weightedmean_tokens"),
    ],
)
def test_poolings_of_sentence_transformers(pooling: dict[str, Any], expected: str, tmp_path: Path) -> None:
    tiny().save(tmp_path / "encoder")
    (tmp_path / "encoder" / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    if expected in ("mean", "cls", "max", "last"):
        assert read_layout(tmp_path / "encoder").pooling == expected
    else:
        with pytest.raises(UserError, match=expected):
            read_layout(tmp_path / "encoder")


def test_other_modules_are_refused(tmp_path: Path) -> None:
    tiny(normalize=True).save(tmp_path / "encoder")
    path = tmp_path / "encoder" / "modules.json"
    modules = json.loads(path.read_text())
    other = {"idx": 3, "name": "3", "path": "3_LayerNorm", "type": "sentence_transformers.models.LayerNorm"}
    path.write_text(json.dumps([*modules, other]))
    with pytest.raises(
        UserError, match="a module LayerNorm; only Transformer, Pooling, Dense, Normalize are opened"
    ):
        encoders.load(tmp_path / "encoder")
    path.write_text(json.dumps([modules[0], modules[2], modules[1]]))
    with pytest.raises(UserError, match="in the order Transformer, Normalize, Pooling; Transformer, Pooling, "):
        encoders.load(tmp_path / "encoder")


def test_the_card_says_what_it_started_from_and_how_to_use_it() -> None:
    encoder = tiny(pooling="cls")
    card = model_card(
        title="declutr",
        encoder=encoder,
        corpus={"name": "pydocs", "documents": 12},
        settings={"objective": {"temperature": 0.05}, "seed": 1},
        scores={"start": {"recall@1": 0.125}, "trained": {"recall@1": 0.5, "probe": {"length": 31.25}}},
        licence="apache-2.0",
        citation="@inproceedings{giorgi2021}",
    )
    assert card.startswith("---\nlibrary_name: sentence-transformers\n")
    for part in (
        "license: apache-2.0",
        "**Weights: random.** They were once drawn at random, and no published model is behind them: "
        "random roberta, 2 layers x 32",
        f"vectors of 32, cls pooling; input of at most {encoder.format.max_length} tokens, the rest is cut.",
        "| name | pydocs |",
        "| objective.temperature | 0.05 |",
        "| recall@1 | 0.125 | 0.5 |",
        "| probe.length | — | 31.25 |",
        "encoders.load(",
        "SentenceTransformer(",
        "vectors = states[:, 0]",
        "@inproceedings{giorgi2021}",
    ):
        assert part in card


def test_the_card_of_an_encoder_without_a_limit() -> None:
    encoder = GRU(hidden=4, word_size=3, min_count=1, texts=lambda: ["a word"])
    assert "vectors of 8, last pooling; input of any length.\n" in model_card(title="gru", encoder=encoder)


def test_a_card_names_all_that_the_weights_went_through(tmp_path: Path) -> None:
    tiny().save(tmp_path / "one")
    encoders.load(tmp_path / "one").save(tmp_path / "two")
    card = model_card(title="declutr", encoder=encoders.load(tmp_path / "two"))
    chain = (
        f"continued from {tmp_path / 'two'}; before that: continued from {tmp_path / 'one'}; before that: random"
    )
    assert chain in card and "untrained" not in card and "started from" not in card


def test_a_folders_scaling_can_be_switched_off(tmp_path: Path) -> None:
    tiny(normalize=True).save(tmp_path / "encoder")
    for wanted, scaled in ((None, True), (True, True), (False, False)):
        encoder = Transformer(path=str(tmp_path / "encoder"), normalize=wanted)
        assert np.allclose(np.linalg.norm(encoder.encode(SENTENCES), axis=1), 1) == scaled
        encoder.save(tmp_path / "copy")
        assert Transformer.load(tmp_path / "copy").normalize == scaled


@pytest.mark.parametrize("pooling", ["mean", "cls", "max", "last"])
def test_the_cards_snippet_runs(pooling: str, tmp_path: Path) -> None:
    encoder = tiny(pooling=pooling, normalize=True)
    encoder.save(tmp_path / "encoder")
    card = (tmp_path / "encoder" / "README.md").read_text()
    for snippet in card.split("```python\n")[1:]:
        scope: dict[str, Any] = {}
        exec(snippet.split("```")[0].replace("<folder>", str(tmp_path / "encoder")), scope)
        np.testing.assert_allclose(np.asarray(scope["vectors"]), encoder.encode(["A sentence."]), atol=1e-5)


def test_loading_by_class_stays_in_this_package(tmp_path: Path) -> None:
    tiny().save(tmp_path / "encoder")
    marker = tmp_path / "encoder" / "encoder.json"
    marker.write_text(json.dumps(json.loads(marker.read_text()) | {"class": "os.path.join"}))
    with pytest.raises(UserError, match=r"written by os\.path\.join, which is no encoder of this suite"):
        encoders.load(tmp_path / "encoder")


def test_load_is_the_counterpart_of_save(tmp_path: Path) -> None:
    encoder = tiny()
    encoder.save(tmp_path / "encoder")
    assert np.array_equal(Transformer.load(tmp_path / "encoder").encode(SENTENCES), encoder.encode(SENTENCES))


def test_a_licence_in_words_is_other_to_the_hub() -> None:
    card = model_card(title="declutr", encoder=tiny(), licence="of the packages: PSF, BSD")
    assert "license: other\n" in card and "of the packages: PSF, BSD" in card


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("layers", [0, 1, 2])
def test_the_first_layers_alone(family: str, layers: int, tmp_path: Path) -> None:
    tiny(family).save(tmp_path / "whole")
    whole, cut = Transformer.load(tmp_path / "whole"), encoders.load(tmp_path / "whole", layers=layers)
    tokens = whole.tokenizer(SENTENCES[:1], return_tensors="pt")
    with torch.no_grad():
        states = whole.model.base_model(**tokens, output_hidden_states=True).hidden_states[layers]
    np.testing.assert_allclose(cut.encode(SENTENCES[:1])[0], states[0].mean(dim=0), atol=1e-6)
    cut.save(tmp_path / "cut")
    np.testing.assert_allclose(encoders.load(tmp_path / "cut").encode(SENTENCES), cut.encode(SENTENCES), atol=1e-6)
    assert (layers == 2) == (fingerprint(cut) == fingerprint(whole))


def test_layers_that_are_not_there(tmp_path: Path) -> None:
    tiny().save(tmp_path / "whole")
    with pytest.raises(UserError, match=r"layers must be from 0, the embeddings alone, to 2\. Got 3 instead\."):
        encoders.load(tmp_path / "whole", layers=3)
