"""Settings of the evaluations: their YAML files, and mistakes that are reported before a model is opened."""

from __future__ import annotations

import importlib
import re
from dataclasses import MISSING, fields
from typing import get_args, get_type_hints

import pytest
from omegaconf import OmegaConf

from analysis.reporting.printed import paper_rows
from analysis.settings import (
    EVALUATIONS,
    CheckedSettings,
    EvaluationSettings,
    ModelOptions,
    Paper,
    Pooling,
    WordVectorSettings,
)
from encoders import BUNDLED
from encoders.kernels import Precision
from encoders.pooling import POOLER, POOLINGS
from encoders.word_weights import Weighting
from experiments.overrides import compose, file_of, ours
from tests.analysis.evaluation_helpers import refusal

ALL: dict[str, type[CheckedSettings]] = {"evaluate": EvaluationSettings, **EVALUATIONS}


@pytest.mark.parametrize("name", ALL)
def test_the_yaml_of_an_evaluation_has_the_same_keys_and_defaults(name: str) -> None:
    config = OmegaConf.to_container(ours(compose([], name)))
    assert isinstance(config, dict)
    required = {key for key, value in config.items() if value == "???"}
    assert {*config} == {field.name for field in fields(ALL[name])}
    assert required == {
        field.name for field in fields(ALL[name]) if field.default is MISSING and field.default_factory is MISSING
    }
    defaults = {field.name: field.default for field in fields(ALL[name]) if field.default is not MISSING}
    factory_defaults = {
        field.name: field.default_factory()
        for field in fields(ALL[name])
        if field.default_factory is not MISSING and field.name != "encoder"
    }
    assert {key: config[key] for key in defaults | factory_defaults} == defaults | factory_defaults


@pytest.mark.parametrize("name", EVALUATIONS)
def test_the_help_of_evaluate_lists_it(name: str) -> None:
    first_line = file_of(name).read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")
    listed = re.findall(rf"^#   {name} +(.*)$", file_of("evaluate").read_text(encoding="utf-8"), re.MULTILINE)
    assert listed == [first_line]
    if name != "mteb":  # needs an optional package
        assert callable(importlib.import_module(EVALUATIONS[name].module).run)


def test_names_of_settings_match_the_modules_that_define_them() -> None:
    assert get_args(Pooling) == (*POOLINGS, POOLER) and all(paper_rows(paper, "test") for paper in get_args(Paper))
    options, words = get_type_hints(ModelOptions), get_type_hints(WordVectorSettings)
    assert options["precision"] == Precision and words["weighting"] == Weighting


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        ("models=[]", "models must have at least 1 values. Got [] instead."),
        ("models=['']", "models must not be empty."),
        ("models=bag_of_words", "models=bag_of_words needs encoder.vectors=<file of word vectors>."),
        ("models=[random_vector]", "models=random_vector: there is no such folder. Did you mean random_vectors?"),
        ("models=[/nowhere,random_vectors]", "/nowhere: there is no such folder."),
        ("models=[setup.cfg]", "models=setup.cfg is a file: word vectors go by models=bag_of_words "),
        ("models=[tests]", "models=tests is no model's folder: it has none of encoder, "),
        ("models=random_vectors pooling=max", "pooling=max: random_vectors has no other pooling than its own."),
        ("models=random_vectors layers=1", "layers=1: random_vectors has no layers."),
        ("models=random_vectors precision=bf16", "precision=bf16: random_vectors is computed in fp32 only."),
        (f"models={BUNDLED} precision=tf32 device=cpu", "precision=tf32 needs a CUDA GPU: use fp32 or bf16."),
        (f"models={BUNDLED} encoder.weighting=sif", "encoder.weighting=sif needs encoder.counts="),
        (f"models={BUNDLED} encoder.vectors=no.txt", "encoder.vectors=no.txt: there is no such file."),
        (f"models={BUNDLED} device=cdua", "device must be 'auto', 'cpu', 'cuda' or 'mps'. Got 'cdua' instead."),
        (f"models={BUNDLED} format=latex", "format must be 'text', 'md' or 'csv'. Got 'latex' instead."),
        (f"models={BUNDLED} words=tabel", "words must be 'table' or 'sentence'. Got 'tabel' instead."),
    ],
)
def test_mistakes_are_reported_before_a_model_is_opened(
    overrides: str, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(file_of("evaluate").parents[3])
    assert refusal("wordsim", "data=tests", *overrides.split()).startswith(line)
