"""Models opened by name and options, their names in tables, their vectors, and embedded files."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from analysis.model_names import model_name
from analysis.models import Model, embed_sentences, open_encoder, open_models
from data.errors import UserError
from encoders import BUNDLED
from encoders.bag_of_words import BagOfWords
from encoders.concatenated import Concatenated
from encoders.fingerprint import fingerprint
from encoders.random_vectors import RandomVectors
from tests.encoders.models import tiny


def test_options_of_a_transformer_are_named_and_set() -> None:
    options: dict[str, Any] = {"precision": "bf16", "layers": 0, "pooling": "max"}
    assert model_name(BUNDLED, **options) == f"{BUNDLED}, layers 0, precision bf16, pooling max"
    encoder: Any = open_encoder(BUNDLED, **options)
    assert encoder.precision == "bf16" and encoder.model.config.num_hidden_layers == 0
    assert model_name(BUNDLED, precision="fp32", device="cpu") == BUNDLED


def test_a_weighted_bag_of_words_is_opened_and_named(tmp_path: Path) -> None:
    vectors, counts = tmp_path / "glove.txt", tmp_path / "news.txt"
    vectors.write_text("the 1 2\ncat 3 4\n")
    counts.write_text("the cat\nthe\n")
    words: dict[str, Any] = {
        "vectors": str(vectors),
        "lowercase": True,
        "weighting": "sif",
        "counts": str(counts),
    }
    name = "bag_of_words, vectors glove.txt, lowercase True, weighting sif, counts news.txt"
    assert model_name("bag_of_words", encoder=words, pooling="max") == name
    np.testing.assert_array_equal(
        open_encoder("bag_of_words", encoder=words).encode(["The cat"]), BagOfWords(**words).encode(["the cat"])
    )


def list_models(*models: object, **options: Any) -> list[Model]:
    return list(open_models([*map(str, models)], **options))


def test_models_are_opened_and_named(tmp_path: Path) -> None:
    run = tmp_path / "runs" / "declutr-1"
    tiny().save(run / "encoder")
    (run / "config.yaml").write_text("")
    for model in list_models(run, run / "encoder"):
        assert model.name == "declutr-1" and not model.encoder.training  # type: ignore[union-attr]
    (run / "config.yaml").unlink()
    [without_config] = list_models(run / "encoder")
    assert without_config.name == str(run / "encoder")
    assert without_config.facts() == model.facts() | {"name": without_config.name}
    [random] = list_models("random_vectors", pooling="max", precision="bf16", layers=1)
    assert random.name == "random_vectors" and random.facts()["weights"] == "random"


def test_two_models_are_opened_side_by_side(tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 2)):
        torch.manual_seed(seed)
        tiny().save(tmp_path / name)
    [a, b, both] = list_models(tmp_path / "a", tmp_path / "b", f"{tmp_path / 'a'}+{tmp_path / 'b'}")
    assert both.name == f"{a.name}+{b.name}" and isinstance(both.encoder, Concatenated)
    np.testing.assert_array_equal(both.rows(["a b"]), np.hstack([a.rows(["a b"]), b.rows(["a b"])]))
    lower = open_encoder(f"{tmp_path / 'a'}+{tmp_path / 'b'}", precision="bf16")
    assert fingerprint(lower) != both.fingerprint  # a cache keeps the vectors apart
    tiny().save(tmp_path / "a+b")
    [plain] = list_models(tmp_path / "a+b")
    assert not isinstance(plain.encoder, Concatenated)
    with pytest.raises(UserError):
        open_encoder(f"{tmp_path / 'a'}+random_vectors")


def test_equal_sentences_are_embedded_once() -> None:
    class Counting(RandomVectors):
        encoded = 0

        def encode(self, sentences, **options):  # type: ignore[no-untyped-def]
            self.encoded += len(sentences)
            return super().encode(sentences, **options)

    encoder = Counting(dimension=3)
    sentences = ["a", "b", "a"]
    np.testing.assert_array_equal(
        Model("m", encoder).rows(sentences), RandomVectors(dimension=3).encode(sentences)
    )
    assert encoder.encoded == 2


def test_the_lines_of_a_file_are_embedded(tmp_path: Path) -> None:
    path, out = tmp_path / "a.txt.gz", tmp_path / "new" / "a.npy"
    path.write_bytes(gzip.compress(b"the cat\n\nthe dog"))
    embed_sentences(model="random_vectors", sentences=str(path), out=str(out))
    np.testing.assert_array_equal(np.load(out), RandomVectors().encode(["the cat", "", "the dog"]))
