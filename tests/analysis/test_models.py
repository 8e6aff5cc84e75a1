"""Models opened by name and options, their names in tables, and embedded files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from analysis.model_names import model_name
from analysis.models import Model, export_encoder, open_encoder, open_models
from data.errors import UserError
from data.files import write_json
from encoders import BUNDLED
from encoders.concatenated import Concatenated
from encoders.postprocess import fit
from tests.encoders.models import texts, tiny


def test_options_of_a_transformer_are_named_and_set() -> None:
    options: dict[str, Any] = {"precision": "bf16", "layers": 0, "pooling": "max"}
    assert model_name(BUNDLED, **options) == f"{BUNDLED}, layers 0, precision bf16, pooling max"
    encoder: Any = open_encoder(BUNDLED, **options)
    assert encoder.precision == "bf16" and encoder.model.config.num_hidden_layers == 0
    assert model_name(BUNDLED, precision="fp32", device="cpu") == BUNDLED


def list_models(*models: object, **options: Any) -> list[Model]:
    return [*open_models([*map(str, models)], **options)]


def test_models_are_opened_and_named(tmp_path: Path) -> None:
    run = tmp_path / "runs" / "declutr-1"
    tiny().save(run / "encoder")
    (run / "config.yaml").write_text("")
    for model in list_models(run, run / "encoder"):
        assert model.name == "declutr-1" and not model.encoder.training  # type: ignore[union-attr]
    (run / "config.yaml").unlink()
    [without_config] = list_models(run / "encoder")
    assert without_config.name == str(run / "encoder")
    assert without_config.encoder.fingerprint() == model.encoder.fingerprint()
    [random] = list_models("random_vectors", pooling="max", precision="bf16", layers=1)
    assert random.name == "random_vectors" and random.encoder.weights == "random"


def test_two_models_are_opened_side_by_side(tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 2)):
        torch.manual_seed(seed)
        tiny().save(tmp_path / name)
    joined = f"{tmp_path / 'a'}+{tmp_path / 'b'}"
    [a, b, both] = list_models(tmp_path / "a", tmp_path / "b", joined)
    assert both.name == f"{a.name}+{b.name}" and isinstance(both.encoder, Concatenated)
    np.testing.assert_array_equal(both.rows(["a b"]), np.hstack([a.rows(["a b"]), b.rows(["a b"])]))
    assert open_encoder(joined, precision="bf16").fingerprint() != both.encoder.fingerprint()
    tiny().save(tmp_path / "a+b")
    assert not isinstance(open_encoder(str(tmp_path / "a+b")), Concatenated)


def test_a_map_is_fitted_on_a_named_text_or_on_the_corpus_of_a_run(tmp_path: Path) -> None:
    run, text = tmp_path / "run", tmp_path / "text.txt"
    tiny().save(run / "encoder")
    text.write_text("\n".join(["", *texts()]))
    corpus = {"_target_": "data.sources.text.Text", "path": str(text), "dev_fraction": 0.0}
    write_json(run / "config.yaml", {"corpus": corpus})
    options: dict[str, Any] = {"postprocess": "whiten", "fit": {"text": str(text), "sentences": 100}}
    [raw, named] = [*list_models(run / "encoder"), *list_models(run, **options)]
    assert named.name == "run, postprocess whiten, text text.txt, sentences 100"
    mean, matrix = fit(raw.rows(texts()[:100]), "whiten")
    np.testing.assert_allclose(named.rows(texts()), (raw.rows(texts()) - mean) @ matrix, atol=1e-3)
    [own] = list_models(run, postprocess="center")
    assert own.name == "run, postprocess center"
    both: Any = open_encoder(f"{run}+{run}", postprocess="center")
    np.testing.assert_array_equal(both.encode("a"), np.tile(own.encoder.encode("a"), 2))
    export_encoder(model=str(run), out=str(tmp_path / "out"), **options)
    np.testing.assert_array_equal(open_encoder(str(tmp_path / "out")).encode("a"), named.encoder.encode("a"))
    with pytest.raises(UserError) as error:
        open_encoder("declutr-mini", postprocess="whiten")
    assert error.value.key == "fit.text"
    write_json(run / "config.yaml", {"corpus": {"_target_": "os.system", "command": "true"}})
    with pytest.raises(UserError):
        open_encoder(str(run), postprocess="center")
