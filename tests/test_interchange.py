"""Every objective trains every encoder: a few steps, a bit-identical resumption, an export that opens.

Both lists are read from the configurations, so a new YAML is tested without a change here.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
import yaml

import encoders
from data.errors import UnfitError
from data.sources.samples import Samples
from encoders.bag_of_words import BagOfWords
from experiments import building, experiment
from experiments.config import CONFIGS
from tests.experiments import tiny

SMALL = {  # values of all keys of encoders and objectives that set a size
    "hidden": 6,
    "word_size": 8,
    "vocab_size": 320,
    "min_count": 1,
    "classifier_width": 8,
    "synthetic_pairs": 120,
}
SHAPE = "num_hidden_layers: 1, hidden_size: 8, num_attention_heads: 2, intermediate_size: 16"
FAMILY = {"albert": ", embedding_size: 8", "distilbert": ""}
SENTENCES = ["bad bif mod", "ked", "a word that nobody knows"]


def keys(group: str, name: str) -> dict[str, Any]:
    """Returns the keys of a component, those of its base YAMLs included."""
    found: dict[str, Any] = yaml.safe_load((CONFIGS / group / f"{name}.yaml").read_text())
    for base in found.pop("defaults", []):
        if isinstance(base, str) and base != "_self_":
            found = keys(group, base) | found
    return found


def names(group: str) -> list[str]:
    return sorted(path.stem for path in (CONFIGS / group).glob("*.yaml"))


OBJECTIVES = [
    (name, task)
    for name in names("objective")
    for task in (("D", "P", "I", "R", "C", "N") if keys("objective", name).get("task") else (None,))
]
# Variants of an objective that a key chooses, and weightings of a bag of words.
VARIANTS = {
    "nsp alone": ("nsp", ("objective.mlm_weight=0",)),
    "sop alone": ("sop", ("objective.mlm_weight=0",)),
    "sentence_bert": ("nli", ("objective.features=sentence_bert",)),
}
WEIGHTINGS = ("tfidf", "sif")
# One configuration of each class; the tests of the others (more transformers) are marked slow.
CLASSES = {str(keys("encoder", name)["_target_"]): name for name in sorted(names("encoder"), reverse=True)}
CLASSES["encoders.transformer.Transformer"] = "bundled"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with a corpus, word vectors, and two encoders to concatenate."""
    folder = tmp_path_factory.mktemp("interchange")
    rng = random.Random(0)
    words = [f"{a}{b}" for a in ("ba", "ke", "li", "mo", "nu", "ra") for b in "dfgklmnrst"]
    with (folder / "corpus.jsonl").open("w") as file:
        for _ in range(50):
            sentences = [" ".join(rng.sample(words, rng.randint(6, 14))).capitalize() + "." for _ in range(12)]
            file.write(json.dumps({"text": " ".join(sentences)}) + "\n")
    with (folder / "vectors.txt").open("w") as file:
        synthetic = Samples(kind="fr", pairs=200).texts()  # GenSen's training data if none are given
        for word in [*words, *sorted({word for text in synthetic for word in text.split()})]:
            file.write(f"{word} {' '.join(f'{rng.gauss(0, 1):.3f}' for _ in range(8))}\n")
    for part in ("one", "two"):
        BagOfWords(vectors=str(folder / "vectors.txt")).save(folder / part)
    return folder


def encoder_overrides(name: str, folder: Path) -> list[str]:
    options = keys("encoder", name)
    target = str(options["_target_"])
    if target.endswith("Transformer"):
        shape = options.get("shape") or {"model_type": "roberta"}
        family = shape["model_type"]
        return [
            f"encoder={name}",
            "weights=random",
            "encoder.vocab_size=320",
            "encoder.name=tiny",
            f"encoder.shape={{model_type: {family}, {SHAPE}{FAMILY.get(family, '')}}}",
        ]
    result = [f"encoder={name}", *(f"encoder.{key}={value}" for key, value in SMALL.items() if key in options)]
    if target.endswith("BagOfWords"):
        result.append(f"encoder.vectors={folder / 'vectors.txt'}")
    if target.endswith("Concatenated"):
        result.append(f"encoder.paths=[{folder / 'one'},{folder / 'two'}]")
    return result


def dropout_overrides(name: str) -> list[str]:
    """Returns overrides that turn dropout on; recurrent encoders have it between two layers."""
    options = keys("encoder", name)
    return [f"encoder.{key}={value}" for key, value in (("dropout", 0.1), ("layers", 2)) if key in options]


def overrides(objective: str, task: str | None, encoder: str, folder: Path) -> list[str]:
    sizes = [f"objective.{key}={value}" for key, value in SMALL.items() if key in keys("objective", objective)]
    return [
        f"objective={objective}",
        *([f"objective.task={task}", "objective.k=3"] if task else []),
        *sizes,
        *encoder_overrides(encoder, folder),
        *(dropout_overrides(encoder) if objective == "simcse" else []),
        "corpus=text",
        f"corpus.path={folder / 'corpus.jsonl'}",
        "corpus.dev_fraction=0.2",
        "evaluation=none",
        "budget.steps=4",
        "budget.min_span=4",
        "budget.max_span=8",
        "budget.documents=4",
        "budget.sentences=8",
        "budget.min_tokens=null",
        "checkpoint.every=2",
        "dev_every=2",
        "dev_batches=1",
        "device=cpu",
        "threads=1",
        f"cache={folder / 'cache'}",
    ]


def is_impossible(objective: str, task: str | None, encoder: str, extra: Sequence[str] = ()) -> bool:
    """Returns True for pairs that must be refused; all others must work."""
    options = keys("encoder", encoder)
    masks = bool(keys("objective", objective).get("mlm_weight", 0)) and "objective.mlm_weight=0" not in extra
    bags = str(options["_target_"]).endswith(("BagOfWords", "Concatenated"))  # two bags of words are concatenated
    if bags and (masks or task == "P" or objective in ("conssent_mt", "sop")):  # no mask token, no word order
        return True
    if objective == "language_model":  # impossible where states depend on later words
        return str(options["_target_"]).endswith(("Transformer", "BiLSTMMax", "GRU"))
    return objective == "simcse" and "dropout" not in options


def try_pair(
    objective: str, task: str | None, encoder: str, folder: Path, out: Path, extra: Sequence[str] = ()
) -> None:
    """Trains the pair, resumes it and opens its export; for an impossible pair, checks the refusal."""
    config = tiny.check([*overrides(objective, task, encoder, folder), *extra, f"run_dir={out}"])
    if is_impossible(objective, task, encoder, extra):
        error = AssertionError("text was read before the refusal")
        with pytest.raises(UnfitError) as refused, patch.object(building, "prepare", side_effect=error):
            tiny.train(config)
        assert "\n" not in str(refused.value) and not out.exists()
        return
    run = tiny.train(config)
    metrics = (run / "metrics.jsonl").read_bytes()
    losses = [line["loss"] for line in map(json.loads, metrics.splitlines()) if "loss" in line]
    assert len(losses) == 4 and np.isfinite(losses).all()

    shutil.rmtree(run / "checkpoints" / "step-00000004")
    vectors = encoders.load(run / "encoder").encode(SENTENCES)
    shutil.rmtree(run / "encoder")
    tiny.train(tiny.check([f"resume={run}", f"cache={folder / 'cache'}"]))
    assert (run / "metrics.jsonl").read_bytes() == metrics
    assert np.isfinite(vectors).all() and vectors.dtype == np.float32
    assert (encoders.load(run / "encoder").encode(SENTENCES) == vectors).all()
    if "synthetic_pairs" in keys("objective", objective):  # every description of the encoder must say so
        for path in ("config.yaml", "quick.json", "encoder/README.md", "encoder/encoder.json"):
            assert "synthetic" in (run / path).read_text(encoding="utf-8").replace("synthetic_pairs", ""), path


@pytest.fixture(autouse=True)
def without_side_effects(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draws no pictures, lets finished runs be resumed, and keeps the process' number of threads."""
    monkeypatch.setattr(experiment.checkpoint, "finish", lambda root: None)
    monkeypatch.setattr(experiment.run_figure, "draw", lambda folder: [folder / "none.png"])
    monkeypatch.setattr(torch, "set_num_threads", lambda count: None)


@pytest.mark.parametrize("encoder", sorted(CLASSES.values()))
@pytest.mark.parametrize(("objective", "task"), OBJECTIVES)
def test_every_objective_trains_every_encoder(
    objective: str, task: str | None, encoder: str, folder: Path, tmp_path: Path
) -> None:
    try_pair(objective, task, encoder, folder, tmp_path / "run")


@pytest.mark.parametrize("encoder", [*CLASSES.values()])
@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_of_an_objective_trains(variant: str, encoder: str, folder: Path, tmp_path: Path) -> None:
    objective, extra = VARIANTS[variant]
    try_pair(objective, None, encoder, folder, tmp_path / "run", extra)


@pytest.mark.parametrize("weighting", WEIGHTINGS)
@pytest.mark.parametrize("objective", ["nli", "quick_thoughts"])
def test_every_objective_trains_with_weighted_words(
    objective: str, weighting: str, folder: Path, tmp_path: Path
) -> None:
    weights = [f"encoder.weighting={weighting}", f"encoder.counts={folder / 'corpus.jsonl'}"]
    try_pair(objective, None, CLASSES["encoders.bag_of_words.BagOfWords"], folder, tmp_path / "run", weights)


@pytest.mark.slow
@pytest.mark.parametrize("encoder", sorted(set(names("encoder")) - set(CLASSES.values())))
@pytest.mark.parametrize(("objective", "task"), OBJECTIVES)
def test_every_objective_trains_every_other_configuration(
    objective: str, task: str | None, encoder: str, folder: Path, tmp_path: Path
) -> None:
    try_pair(objective, task, encoder, folder, tmp_path / "run")
