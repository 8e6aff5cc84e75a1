"""Folders give the same vectors here as in sentence-transformers and transformers; saving is all or nothing."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import AutoModel, AutoModelForMaskedLM

import encoders
from data.errors import UserError
from data.files import write_json
from encoders.transformer import Transformer
from tests.encoders.models import FAMILIES, SENTENCES, minilm, tiny
from tests.real_data import suite_data

sentence_transformers = pytest.importorskip("sentence_transformers")
ODD_SENTENCES = [
    ".",
    "",
    "clichM-is",
    "na\xefve caf\xe9 \xf0 \x93quoted\x94",
    "東京 Ünïcode \U0001f600 \u200b\ufeff zero",
    " leading and trailing ",
    "tab\tand\nnewline",
    "[MASK] [SEP] <mask> </s> [UNK]",
    "NOT LOWER CASE At All",
    *("word " * count + "end" for count in (253, 254, 255)),
    "unbelievably " * 400,
    "x" * 3000,
    "-LRB- a -RRB- `` b '' n't 1,234.5 %",
]


def encode_elsewhere(folder: Path, sentences: list[str] = SENTENCES) -> np.ndarray:
    return sentence_transformers.SentenceTransformer(str(folder), device="cpu").encode(sentences)


def test_odd_and_real_sentences_get_the_same_vectors() -> None:
    lines = (suite_data("senteval/downstream") / "SUBJ" / "subj.objective").read_text("latin-1").splitlines()
    sentences = [*ODD_SENTENCES, *lines[:200], " ".join(lines[:25])]
    expected = encode_elsewhere(minilm(), sentences)
    np.testing.assert_allclose(encoders.load(minilm()).encode(sentences), expected, atol=1e-5)


def write_folder(tmp_path: Path, *more: Any, pooling: str = "mean", **options: Any) -> Path:
    """Returns a folder that sentence-transformers saves, of a small BERT, ``pooling`` and the modules ``more``."""
    from sentence_transformers.models import Pooling
    from sentence_transformers.models import Transformer as Theirs

    encoder = tiny("bert")
    AutoModel.from_config(encoder.model.config).save_pretrained(tmp_path / "plain")
    encoder.tokenizer.save_pretrained(tmp_path / "plain")
    modules = [Theirs(str(tmp_path / "plain"), **options), Pooling(32, pooling_mode=pooling), *more]
    sentence_transformers.SentenceTransformer(modules=modules, device="cpu").save(str(tmp_path / "theirs"))
    return tmp_path / "theirs"


def equal_to_theirs(folder: Path, tmp_path: Path) -> Transformer:
    """Asserts that ``folder`` and a copy saved by this suite give the vectors of sentence-transformers."""
    expected = encode_elsewhere(folder)
    ours = encoders.load(folder)
    assert isinstance(ours, Transformer) and ours.dimension == expected.shape[1]
    np.testing.assert_allclose(ours.encode(SENTENCES), expected, atol=1e-5)
    ours.save(tmp_path / "ours")
    np.testing.assert_array_equal(encoders.load(tmp_path / "ours").encode(SENTENCES), ours.encode(SENTENCES))
    np.testing.assert_allclose(encode_elsewhere(tmp_path / "ours"), expected, atol=1e-5)
    return ours


@pytest.mark.parametrize("pooling", ["cls", "max", "lasttoken"])
def test_every_pooling_gives_the_same_vectors(pooling: str, tmp_path: Path) -> None:
    equal_to_theirs(write_folder(tmp_path, pooling=pooling), tmp_path)


@pytest.mark.parametrize("side", ["left", "right"])
def test_the_length_limit_is_applied_on_the_tokenizers_side(side: str, tmp_path: Path) -> None:
    folder = write_folder(tmp_path, max_seq_length=9)
    path = folder / "tokenizer_config.json"
    write_json(path, json.loads(path.read_text()) | {"truncation_side": side})
    (folder / "config_sentence_transformers.json").unlink()
    assert equal_to_theirs(folder, tmp_path).format.max_length == 9


def test_further_modules_are_those_of_sentence_transformers(tmp_path: Path) -> None:
    from sentence_transformers.models import Dense, LayerNorm, Normalize

    maps = Dense(32, 12, activation_function=nn.GELU()), Dense(12, 20, bias=False), LayerNorm(20)
    ours = equal_to_theirs(write_folder(tmp_path, *maps, Normalize()), tmp_path)
    assert (ours.dimension, ours.state_dimension, len(ours.others), ours.normalize) == (20, 32, 3, True)
    assert {name.split(".")[1] for name, _ in ours.others.named_parameters()} == {"linear", "norm"}


def test_settings_that_would_give_other_vectors_are_refused(tmp_path: Path) -> None:
    folder = write_folder(tmp_path)
    modules = json.loads((folder / "modules.json").read_text())
    foreign = {"idx": 2, "name": "2", "path": "2_Own", "type": "os.path.Own"}
    prompt = {"prompts": {"query": "query: "}, "default_prompt_name": "query"}
    changes: list[tuple[str, Any]] = [
        ("config_sentence_transformers.json", prompt),
        ("sentence_bert_config.json", {"do_lower_case": True}),
        ("modules.json", modules[::-1]),
        ("modules.json", [*modules, foreign]),
        *(("1_Pooling/config.json", {"pooling_mode": mode}) for mode in ("weightedmean", ["mean", "max"])),
    ]
    for file, change in changes:
        before = (folder / file).read_text()
        write_json(folder / file, change)
        with pytest.raises(UserError):
            encoders.load(folder)
        (folder / file).write_text(before)
    write_json(folder / "config_sentence_transformers.json", prompt | {"default_prompt_name": None})
    equal_to_theirs(folder, tmp_path)  # a prompt that is not used by itself does not matter


@pytest.mark.parametrize("family", ["roberta", "bert", "albert"])
def test_an_export_opens_in_transformers_without_a_report(
    family: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = tiny(family)
    encoder.save(tmp_path / "encoder")
    logger = logging.getLogger("transformers")  # which does not propagate to the root logger
    monkeypatch.setattr(logger, "level", logging.WARNING)
    logger.addHandler(caplog.handler)
    try:
        opened = sentence_transformers.SentenceTransformer(str(tmp_path / "encoder"), device="cpu")
    finally:
        logger.removeHandler(caplog.handler)
    assert "LOAD REPORT" not in caplog.text  # heads transformers' table of missing and unexpected weights
    assert opened.max_seq_length == encoder.format.max_length


@pytest.mark.parametrize("family", FAMILIES)
def test_the_head_is_kept_in_a_file_of_its_own(family: str, tmp_path: Path) -> None:
    encoder = tiny(family)
    encoder.save(tmp_path / "encoder")
    reloaded = encoders.load(tmp_path / "encoder")
    states = torch.randn(5, 32)
    torch.testing.assert_close(reloaded.token_logits(states), encoder.token_logits(states), rtol=0, atol=0)
    body, head = (load_file(tmp_path / "encoder" / name) for name in ("model.safetensors", "mlm_head.safetensors"))
    assert not {*head} & {*body} and sum(weight.numel() for weight in head.values()) < 32 * 64 + 1000
    complete = AutoModelForMaskedLM.from_pretrained(tmp_path / "encoder", variant="mlm").state_dict()
    assert all(torch.equal(complete[name], weight) for name, weight in encoder.model.state_dict().items())


@pytest.mark.slow
def test_damaged_folders_are_refused(tmp_path: Path) -> None:
    encoder = tiny()
    encoder.save(tmp_path)
    path = tmp_path / "model.safetensors"
    tensors = load_file(path)
    encoder.tokenizer.add_tokens(["<one>", "<more>"])
    encoder.tokenizer.save_pretrained(tmp_path)
    with pytest.raises(UserError):  # a tokenizer larger than the model
        encoders.load(tmp_path)
    del tensors["encoder.layer.1.output.dense.weight"]
    save_file(tensors, path, metadata={"format": "pt"})
    with pytest.raises(UserError):
        encoders.load(tmp_path)


def test_saving_replaces_only_an_encoders_folder(tmp_path: Path) -> None:
    encoder = tiny()
    encoder.save(tmp_path / "encoder")
    encoder.save(tmp_path / "encoder", card="# A card\n")
    assert (tmp_path / "encoder" / "README.md").read_text() == "# A card\n"
    assert [path.name for path in tmp_path.iterdir()] == ["encoder"]
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "thesis.tex").write_text("years of work")
    with pytest.raises(UserError):
        encoder.save(tmp_path / "thesis")
    assert [path.name for path in (tmp_path / "thesis").iterdir()] == ["thesis.tex"]
