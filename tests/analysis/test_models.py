"""Models opened by name and options, their names in tables, and their cached vectors."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from analysis.models import Model, Named, device, open_models
from analysis.settings import ModelOptions, ModelsSettings, WordVectorSettings
from data.errors import UserError
from encoders import BUNDLED
from encoders.bag_of_words import BagOfWords
from encoders.random_vectors import RandomVectors
from tests.encoders.models import tiny


def test_a_lower_precision_is_named_and_set() -> None:
    reduced = Named(BUNDLED, ModelOptions(precision="bf16"))
    assert reduced.name == f"{BUNDLED}, bf16" and reduced.open().precision == "bf16"  # type: ignore[union-attr]


def test_only_the_first_layers_of_a_transformer_are_opened(tmp_path: Path) -> None:
    shortened = Named(BUNDLED, ModelOptions(layers=0, pooling="max"))
    assert shortened.name == f"{BUNDLED}, layers 0, max"
    assert shortened.open().model.config.num_hidden_layers == 0  # type: ignore[union-attr]


def test_a_weighted_bag_of_words_is_opened_and_named(tmp_path: Path) -> None:
    vectors, counts = tmp_path / "glove.txt.gz.txt", tmp_path / "news.txt"
    vectors.write_text("the 1 2\ncat 3 4\n")
    counts.write_text("the cat\nthe\n")
    words = WordVectorSettings(vectors=str(vectors), counts=str(counts))
    plain = Named("bag_of_words", ModelOptions(encoder=words))
    assert plain.name == "bag_of_words, glove"
    np.testing.assert_array_equal(plain.open().encode(["the cat"]), [[2, 3]])
    words = replace(words, lowercase=True, weighting="tfidf")
    weighted = Named("bag_of_words", ModelOptions(encoder=words))
    assert weighted.name == "bag_of_words, glove, lower-cased, tfidf of news"
    expected = BagOfWords(vectors=str(vectors), lowercase=True, weighting="tfidf", counts=str(counts))
    found = weighted.open().encode(["The cat"])
    np.testing.assert_array_equal(found, expected.encode(["the cat"]))
    assert not np.allclose(found, [[2, 3]])


def opened(*models: object, **options: object) -> list[Model]:
    return list(open_models(ModelsSettings(models=[*map(str, models)], cache=None, **options)))  # type: ignore[arg-type]


def test_models_are_opened_and_named(tmp_path: Path) -> None:
    run = tmp_path / "runs" / "declutr-1"
    tiny().save(run / "encoder")
    (run / "config.yaml").write_text("")
    for model in opened(run, run / "encoder"):
        assert model.name == "declutr-1" and not model.encoder.training  # type: ignore[union-attr]
    (run / "config.yaml").unlink()
    [without_config] = opened(run / "encoder")
    assert without_config.name == "declutr-1/encoder"
    assert without_config.facts()["fingerprint"] == model.facts()["fingerprint"]


def test_options_apply_only_to_models_that_have_them(tmp_path: Path) -> None:
    tiny().save(tmp_path / "encoder")
    pooled, random = opened(tmp_path / "encoder", "random_vectors", pooling="max", precision="bf16", layers=1)
    assert pooled.name == f"{tmp_path.name}/encoder, layers 1, bf16, max" and random.name == "random_vectors"


def test_vectors_are_cached(tmp_path: Path) -> None:
    class Counting(RandomVectors):
        encoded = 0

        def encode(self, sentences, **options):  # type: ignore[no-untyped-def]
            self.encoded += len(sentences)
            return super().encode(sentences, **options)

    encoder = Counting(dimension=3)
    model = Model("m", encoder, tmp_path)
    first = model.rows(["a", "b", "a"])
    np.testing.assert_array_equal(model.rows(["b", "a", "b"]), first[[1, 0, 1]])
    assert encoder.encoded == 2


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_missing_gpu_is_refused() -> None:
    with pytest.raises(UserError, match="device=cuda: this machine has no CUDA GPU; device=auto"):
        device("cuda")
    assert device("auto") == "cpu"
