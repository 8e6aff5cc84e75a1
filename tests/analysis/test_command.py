"""Code shared by the evaluations: opening models, caching vectors, writing results."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from analysis.command import Model, open_models, write
from analysis.settings import ModelsSettings, WordVectorSettings
from data.errors import UserError
from encoders.random_vectors import RandomVectors
from tests.encoders.models import tiny


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


def test_word_weights_apply_to_bags_of_words(tmp_path: Path) -> None:
    texts, vectors = tmp_path / "texts.txt", tmp_path / "vectors.txt"
    texts.write_text("the cat\nthe dog\nthe the dog\n")
    vectors.write_text("the 1 2\ncat 3 4\ndog -1 1\n")
    [plain] = opened("bag_of_words", encoder=WordVectorSettings(vectors=str(vectors)))
    words = WordVectorSettings(vectors=str(vectors), weighting="tfidf", counts=str(texts))
    [weighted] = opened("bag_of_words", encoder=words)
    assert weighted.name == "bag_of_words, vectors, tfidf of texts"
    assert not np.allclose(weighted.rows(["the cat"]), plain.rows(["the cat"]))


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


def test_results_are_written_atomically(tmp_path: Path) -> None:
    out = tmp_path / "new" / "x.json"
    write(str(out), {"a": 1})
    assert json.loads(out.read_text()) == {"a": 1} and [path.name for path in out.parent.iterdir()] == ["x.json"]
    write(None, {"a": 1})
    with pytest.raises(UserError, match="cannot be written"):
        write(str(out / "below"), {})
