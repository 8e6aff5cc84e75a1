"""Fingerprints of encoders: what changes them, and what does not."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import AutoModel

import encoders
from encoders.bag_of_words import BagOfWords
from encoders.fingerprint import fingerprint
from encoders.random_vectors import RandomVectors
from encoders.transformer import Transformer
from tests.encoders.models import FAMILIES, SENTENCES, minilm, tiny


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "encoder"
    tiny().save(path)
    return path


@pytest.mark.parametrize("family", FAMILIES)
def test_using_saving_and_opening_keep_the_fingerprint(family: str, tmp_path: Path) -> None:
    encoder = tiny(family)
    before = fingerprint(encoder)
    assert len(before) == 64 and int(before, 16)
    encoder.encode(SENTENCES)
    encoder.train()
    assert fingerprint(encoder) == before
    encoder.save(tmp_path / "encoder")
    assert fingerprint(encoders.load(tmp_path / "encoder")) == before


def test_the_fingerprint_is_the_same_in_another_process_and_folder(folder: Path, tmp_path: Path) -> None:
    program = (
        "import sys, encoders; from encoders.fingerprint import fingerprint; "
        "print(fingerprint(encoders.load(sys.argv[1])))"
    )
    moved = tmp_path / "copy"
    encoders.load(folder).save(moved)
    printed = subprocess.run(
        [sys.executable, "-c", program, moved], capture_output=True, text=True, check=True
    ).stdout
    assert printed.strip() == fingerprint(encoders.load(folder))


def test_every_setting_that_changes_vectors_changes_the_fingerprint(folder: Path) -> None:
    fingerprints = [fingerprint(encoders.load(folder)), fingerprint(encoders.load(folder, pooling="max"))]
    fingerprints.append(fingerprint(Transformer(path=str(folder), max_length=32)))
    fingerprints.append(fingerprint(Transformer(path=str(folder), normalize=True)))
    encoder = encoders.load(folder)
    with torch.no_grad():
        next(encoder.parameters()).view(-1)[7] += 1e-6
    fingerprints.append(fingerprint(encoder))
    encoder = encoders.load(folder)
    encoder.model.config.hidden_act = "relu"  # type: ignore[union-attr]
    fingerprints.append(fingerprint(encoder))
    encoder = encoders.load(folder)
    encoder.tokenizer.truncation_side = "left"
    fingerprints.append(fingerprint(encoder))
    settings = folder / "sentence_bert_config.json"
    before = settings.read_text()
    settings.write_text(json.dumps(json.loads(before) | {"do_lower_case": True}))
    fingerprints.append(fingerprint(encoders.load(folder)))
    settings.write_text(before)
    assert len(set(fingerprints)) == len(fingerprints)
    assert fingerprint(encoders.load(folder)) == fingerprints[0]


def test_the_fingerprint_of_a_bag_of_words_depends_on_vectors_and_case(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("the 1 2\ncat 3 4\n")
    (tmp_path / "b.txt").write_text("the 1 2\ndog 3 4\n")
    bags = [BagOfWords(vectors=str(tmp_path / name)) for name in ("a.txt", "b.txt")]
    bags.append(BagOfWords(vectors=str(tmp_path / "a.txt"), lowercase=True))
    fingerprints = [fingerprint(bag) for bag in bags]
    assert len(set(fingerprints)) == 3
    bags[0].encode(["the"])
    bags[0].save(tmp_path / "bag")
    assert fingerprint(encoders.load(tmp_path / "bag")) == fingerprints[0]


def test_the_fingerprint_of_random_vectors_depends_on_size_and_seed() -> None:
    fingerprints = [fingerprint(RandomVectors(dimension=d, seed=s)) for d, s in ((384, 0), (384, 1), (300, 0))]
    assert len(set(fingerprints)) == 3 and fingerprint(RandomVectors()) == fingerprints[0]


def test_a_folder_of_sentence_transformers_is_not_the_plain_model(tmp_path: Path) -> None:
    encoder = encoders.load(minilm())
    AutoModel.from_pretrained(minilm()).save_pretrained(tmp_path / "plain")
    encoder.tokenizer.save_pretrained(tmp_path / "plain")
    assert fingerprint(encoders.load(tmp_path / "plain")) != fingerprint(encoder)
