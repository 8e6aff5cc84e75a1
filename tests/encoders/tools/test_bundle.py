"""Bundling the encoder of a run: half precision, card, recipe, log, refusals."""

from __future__ import annotations

import csv
import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import encoders
from data.errors import UserError
from encoders import starts
from encoders.tools import bundle
from encoders.transformer import Transformer
from tests.command_runner import snapshot
from tests.experiments import tiny

SENTENCES = ["one two", "three"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundle")
    return tiny.run(folder, f"run_dir={folder / 'run'}", "budget.steps=4")


def test_a_bundled_encoder_opens_by_name_in_half_precision(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = bundle.bundle(run, "small", into=tmp_path)
    monkeypatch.setattr(starts, "CHECKPOINTS", tmp_path)
    before, after = (encoders.load(name).encode(SENTENCES) for name in (run / "encoder", "small"))
    np.testing.assert_allclose(after, before, atol=5e-3)
    half_size = (folder / "model.safetensors").stat().st_size
    assert half_size < 0.6 * (run / "encoder" / "model.safetensors").stat().st_size
    opened = encoders.load(folder)
    assert isinstance(opened, Transformer) and opened.has_mlm_head
    assert opened.model.config.hidden_dropout_prob == 0.1
    added = {"recipe.yaml", "training.csv", "training.png"}
    assert {path.name for path in folder.iterdir()} == {path.name for path in (run / "encoder").iterdir()} | added


def test_the_card_describes_the_encoder_without_naming_folders(run: Path, tmp_path: Path) -> None:
    texts: dict[str, Any] = {"licence": "None at all.", "note": "The rate was raised by hand."}
    card = (bundle.bundle(run, "small", into=tmp_path, **texts) / "README.md").read_text()
    assert all(card.count(text) == 1 for text in texts.values())
    assert card.count("## Held-out loss") == card.count("## Cloze") == card.count("](training.png)") == 1
    assert all(sentence.replace("[MASK]", "___") in card for sentence in bundle.CLOZE)
    assert (
        re.search(r"random roberta, 1 layers x 16, .*, then declutr on [\d,]+ tokens", card)
        and "corpus.jsonl" in card
    )
    assert card.count(bundle.HALF) == 1 and all(card.count(line) == 1 for line in bundle.AS_FLOAT32.values())
    assert str(run.parent) not in card and str(tmp_path) not in card
    assert card.count("giorgi-etal-2021-declutr") == 1
    scores = re.findall(r"\| dev_contrastive \| [\d.]+ \| [\d.]+ \|", card)
    assert len(scores) == 1 and scores[0] in (run / "encoder" / "README.md").read_text()


def test_the_card_names_every_corpus_of_a_mixture(run: Path, tmp_path: Path) -> None:
    mixed = shutil.copytree(run, tmp_path / "run")
    config = yaml.safe_load((mixed / "config.yaml").read_text())
    config["corpus"] = {"corpora": {"docs": {"kind": "pydocs"}, "books": {"path": ["/far/away/books/*.gz"]}}}
    (mixed / "config.yaml").write_text(yaml.safe_dump(config))
    folder = bundle.bundle(mixed, "small", into=tmp_path)
    assert "- **Corpus:** books/*.gz, pydocs." in (folder / "README.md").read_text()
    assert "/far" not in (folder / "recipe.yaml").read_text()


def test_recipe_and_log_are_bundled(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "LOGGED", 2)
    folder = bundle.bundle(run, "small", into=tmp_path)
    recipe = (folder / "recipe.yaml").read_text()
    assert str(run.parent) not in recipe and str(tmp_path) not in recipe
    assert yaml.safe_load(recipe)["corpus"]["path"] == f"{run.parent.name}/corpus.jsonl"
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    rows = list(csv.DictReader((folder / "training.csv").read_text().splitlines()))
    means = [(row["step"], float(row["loss"])) for row in rows if row["loss"]]
    losses = [line["loss"] for line in lines if "loss" in line]
    assert means == [
        ("2", pytest.approx(sum(losses[:2]) / 2, abs=1e-4)),
        ("4", pytest.approx(sum(losses[2:]) / 2, abs=1e-4)),
    ]
    assert (
        sum(bool(row["dev_contrastive"]) for row in rows) == sum("dev_contrastive" in line for line in lines) > 1
    )


def test_folders_are_removed_from_the_recipe() -> None:
    config = {
        "evaluation": {"data": "/home/a/data/senteval", "tasks": None},
        "corpus": {"path": ["../x/books/*.gz", "news.txt"], "dataset": "wmt/wmt14", "fraction": 0.5},
        "names": {"origin": "continued from /home/a/runs/one/encoder; before that: roberta-mini, bundled"},
        "run_dir": "/home/a/runs/two",
    }
    assert yaml.safe_load(bundle._recipe(config)) == {
        "evaluation": {"data": "data/senteval", "tasks": None},
        "corpus": {"path": ["books/*.gz", "news.txt"], "dataset": "wmt/wmt14", "fraction": 0.5},
        "names": {"origin": "continued from one/encoder; before that: roberta-mini, bundled"},
    }


def test_too_large_or_unfinished_is_refused(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError):
        bundle.bundle(tmp_path, "x", into=tmp_path)
    monkeypatch.setattr(bundle, "MOST_BYTES", 1000)
    with pytest.raises(UserError):
        bundle.bundle(run, "x", into=tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["../x", "/tmp/x", "a/b", "", ".hidden", "a\nb", ".."])
def test_a_checkpoints_name_must_not_be_a_path(name: str, tmp_path: Path) -> None:
    (tmp_path / "run" / "encoder").mkdir(parents=True)
    before = snapshot(tmp_path)
    with pytest.raises(UserError):
        bundle.bundle(tmp_path / "run", name, into=tmp_path / "checkpoints")
    assert snapshot(tmp_path) == before


def test_a_bundled_checkpoint_is_replaced_only_by_force(tmp_path: Path) -> None:
    (tmp_path / "small").mkdir()
    with pytest.raises(UserError):
        bundle.bundle(tmp_path, "small", into=tmp_path)
