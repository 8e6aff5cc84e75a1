"""Folders give the same vectors here as in sentence-transformers."""

from __future__ import annotations

import itertools
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

import encoders
from data.errors import UserError
from encoders.dense import ACTIVATIONS
from encoders.layout import read_layout
from encoders.pooling import pool
from encoders.transformer import Transformer
from tests.encoders.models import SENTENCES, minilm, tiny
from tests.real_data import suite_data

sentence_transformers = pytest.importorskip("sentence_transformers")
ODD_SENTENCES = [
    ".",
    "",
    "?",
    "clichM-is",
    "na\xefve caf\xe9 \xf0 \x93quoted\x94",
    "東京 Ünïcode \U0001f600 \u200b\ufeff zero",
    " leading and trailing ",
    "tab\tand\nnewline",
    "[MASK] [SEP] <mask> </s> [UNK]",
    "NOT LOWER CASE At All",
    "word " * 253 + "end",
    "word " * 254 + "end",
    "word " * 255 + "end",
    "unbelievably " * 400,
    "x" * 3000,
    "-LRB- a -RRB- `` b '' n't 1,234.5 %",
]


def senteval_sentences() -> Iterator[str]:
    """Sentences of several SentEval tasks in the toolkit's form: tokens joined by spaces, or "." if empty."""
    folder = suite_data("senteval/downstream")
    for name in (
        "CR/custrev.pos", "MR/rt-polarity.neg", "SUBJ/subj.objective", "MPQA/mpqa.neg", "TREC/train_5500.label",
        "MRPC/msr_paraphrase_test.txt", "SICK/SICK_train.txt", "STS/STS15-en-test/STS.input.answers-forums.txt",
        "SST/fine/sentiment-test",
    ):  # fmt: skip
        for line in (folder / name).read_text("latin-1").splitlines()[:230]:
            yield " ".join(line.split()) or "."


def assert_same_vectors(sentences: list[str]) -> None:
    theirs = sentence_transformers.SentenceTransformer(str(minilm()), device="cpu")
    ours = encoders.load(minilm()).encode(sentences)
    assert ours.shape == (len(sentences), 384)
    np.testing.assert_allclose(ours, theirs.encode(sentences, batch_size=32), atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(ours, axis=1), 1, atol=1e-5)


def test_odd_sentences_get_the_same_vectors() -> None:
    assert_same_vectors(ODD_SENTENCES + SENTENCES)


@pytest.mark.slow
def test_two_thousand_sentences_of_senteval_get_the_same_vectors() -> None:
    sentences = [*senteval_sentences(), *ODD_SENTENCES]
    long_sentences = [" ".join(sentences[i : i + 25]) for i in range(0, 100, 25)]
    assert len(sentences) + len(long_sentences) >= 2000
    assert_same_vectors([*sentences, *long_sentences])


def folder_of(tmp_path: Path, *more: Any, pooling: str = "mean", **options: Any) -> Path:
    """A folder that sentence-transformers saves, of a small BERT, ``pooling`` and the modules ``more``."""
    from sentence_transformers.models import Pooling
    from sentence_transformers.models import Transformer as Theirs

    plain = tmp_path / "plain"
    if not plain.exists():
        encoder = tiny("bert")
        AutoModel.from_config(encoder.model.config).save_pretrained(plain)
        encoder.tokenizer.save_pretrained(plain)
    model = sentence_transformers.SentenceTransformer(
        modules=[Theirs(str(plain), **options), Pooling(32, pooling_mode=pooling), *more], device="cpu"
    )
    model.save(str(tmp_path / "theirs"))
    return tmp_path / "theirs"


def equal_to_theirs(folder: Path, tmp_path: Path) -> Transformer:
    """Asserts that ``folder`` and a copy saved by this suite give the vectors of sentence-transformers."""
    expected = sentence_transformers.SentenceTransformer(str(folder), device="cpu").encode(SENTENCES)
    ours = encoders.load(folder)
    assert isinstance(ours, Transformer) and ours.dimension == expected.shape[1]
    np.testing.assert_allclose(ours.encode(SENTENCES), expected, atol=1e-5)
    ours.save(tmp_path / "ours")
    np.testing.assert_array_equal(encoders.load(tmp_path / "ours").encode(SENTENCES), ours.encode(SENTENCES))
    again = sentence_transformers.SentenceTransformer(str(tmp_path / "ours"), device="cpu").encode(SENTENCES)
    np.testing.assert_allclose(again, expected, atol=1e-5)
    return ours


def dense(inputs: int, outputs: int, activation: str = "Tanh", **options: Any) -> Any:
    from sentence_transformers.models import Dense

    return Dense(inputs, outputs, activation_function=ACTIVATIONS[activation](), **options)


@pytest.mark.parametrize("pooling", ["mean", "cls", "max", "lasttoken"])
def test_every_pooling_gives_the_same_vectors(pooling: str, tmp_path: Path) -> None:
    equal_to_theirs(folder_of(tmp_path, pooling=pooling), tmp_path)


def test_length_limit_and_lower_casing_are_applied(tmp_path: Path) -> None:
    ours = equal_to_theirs(folder_of(tmp_path, max_seq_length=9, do_lower_case=True), tmp_path)
    assert ours.format.max_length == 9
    np.testing.assert_array_equal(ours.encode(["A Dog."]), ours.encode(["a dog."]))


@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
def test_a_plain_folder_uses_the_given_pooling(pooling: str, tmp_path: Path) -> None:
    theirs = folder_of(tmp_path, pooling=pooling)
    expected = sentence_transformers.SentenceTransformer(str(theirs), device="cpu").encode(SENTENCES)
    np.testing.assert_allclose(
        encoders.load(tmp_path / "plain", pooling=pooling).encode(SENTENCES), expected, atol=1e-5
    )


def assert_refused(folder: Path, file: str, change: dict[str, Any]) -> None:
    path = folder / file
    before = path.read_text()
    path.write_text(json.dumps(json.loads(before) | change))
    with pytest.raises(UserError) as error:
        encoders.load(folder)
    assert "\n" not in str(error.value)
    path.write_text(before)


def test_settings_that_would_give_other_vectors_are_refused(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, dense(32, 8))
    for pooling in ("mean_sqrt_len_tokens", "weightedmean", ["mean", "max"]):
        assert_refused(folder, "1_Pooling/config.json", {"pooling_mode": pooling})
    prompt = {"prompts": {"query": "query: "}, "default_prompt_name": "query"}
    assert_refused(folder, "config_sentence_transformers.json", prompt)
    for change in (
        {"activation_function": "evil.module.Tanh"},
        {"activation_function": "torch.nn.modules.activation.Softmax"},
        {"use_residual": True},
        {"module_input_name": "token_embeddings"},
        {"out_features": 9},
    ):
        assert_refused(folder, "2_Dense/config.json", change)
    (folder / "2_Dense" / "model.safetensors").rename(folder / "2_Dense" / "pytorch_model.bin")
    assert_refused(folder, "2_Dense/config.json", {})


def test_prompts_that_are_not_used_by_themselves_do_not_matter(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    path = folder / "config_sentence_transformers.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"prompts": {"query": "query: ", "none": ""}}))
    equal_to_theirs(folder, tmp_path)
    path.write_text(json.dumps(json.loads(path.read_text()) | {"default_prompt_name": "none"}))
    equal_to_theirs(folder, tmp_path)


def _by_transformers(folder: Path, pooling: str) -> np.ndarray:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder).eval()
    batch = tokenizer(SENTENCES, padding=True, truncation=True, return_tensors="pt")
    with torch.no_grad():
        states = model(**batch).last_hidden_state
    return pool(states, batch["attention_mask"].bool(), pooling).numpy()


@pytest.mark.parametrize(
    ("family", "pooling"),
    [*itertools.product(("roberta", "bert", "albert"), ("mean", "cls", "max")), ("bert", "last")],
)
def test_an_export_opens_here_and_in_sentence_transformers(
    family: str, pooling: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sentence_transformers = pytest.importorskip("sentence_transformers")
    encoder = tiny(family, pooling=pooling)
    vectors = encoder.encode(SENTENCES)
    folder = tmp_path / "runs" / "encoder"
    encoder.save(folder)
    logger = logging.getLogger("transformers")  # which does not propagate to the root logger
    logger.addHandler(caplog.handler)
    try:
        opened = sentence_transformers.SentenceTransformer(str(folder), device="cpu")
    finally:
        logger.removeHandler(caplog.handler)
    assert "LOAD REPORT" not in caplog.text  # heads transformers' table of missing and unexpected weights
    assert opened.max_seq_length == encoder.format.max_length
    np.testing.assert_allclose(opened.encode(SENTENCES), vectors, atol=1e-5)
    np.testing.assert_allclose(_by_transformers(folder, pooling), vectors, atol=1e-5)
    again = encoders.load(folder)
    np.testing.assert_allclose(again.encode(SENTENCES), vectors, atol=1e-6)
    assert (again.weights, again.format) == ("random", encoder.format)
    assert again.origin == f"continued from {folder}; before that: {encoder.origin}"
    assert encoder.untrained and not again.untrained


def test_saving_minilm_keeps_its_vectors(tmp_path: Path) -> None:
    sentence_transformers = pytest.importorskip("sentence_transformers")
    encoder = encoders.load(minilm())
    vectors = encoder.encode(SENTENCES)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    encoder.save(tmp_path / "copy")
    opened = sentence_transformers.SentenceTransformer(str(tmp_path / "copy"), device="cpu")
    assert opened.max_seq_length == 256
    np.testing.assert_allclose(opened.encode(SENTENCES), vectors, atol=1e-5)
    np.testing.assert_allclose(encoders.load(tmp_path / "copy").encode(SENTENCES), vectors, atol=1e-6)


def test_lower_casing_of_a_folder_is_applied_and_saved(tmp_path: Path) -> None:
    tiny().save(tmp_path / "a")
    settings = tmp_path / "a" / "sentence_bert_config.json"
    settings.write_text(json.dumps(json.loads(settings.read_text()) | {"do_lower_case": True}))
    encoder = encoders.load(tmp_path / "a")
    assert np.array_equal(encoder.encode(["THE CAT"]), encoder.encode(["the cat"]))
    encoder.save(tmp_path / "b")
    assert read_layout(tmp_path / "b").lowercase
    assert np.array_equal(encoders.load(tmp_path / "b").encode(["THE CAT"]), encoder.encode(["the cat"]))


def test_other_modules_are_refused(tmp_path: Path) -> None:
    tiny(normalize=True).save(tmp_path / "encoder")
    path = tmp_path / "encoder" / "modules.json"
    modules = json.loads(path.read_text())
    layer_norm = {"idx": 3, "name": "3", "path": "3_LayerNorm", "type": "sentence_transformers.models.LayerNorm"}
    path.write_text(json.dumps([*modules, layer_norm]))
    with pytest.raises(UserError):
        encoders.load(tmp_path / "encoder")
    path.write_text(json.dumps([modules[0], modules[2], modules[1]]))
    with pytest.raises(UserError):
        encoders.load(tmp_path / "encoder")


def test_a_folders_scaling_can_be_switched_off(tmp_path: Path) -> None:
    tiny(normalize=True).save(tmp_path / "encoder")
    for normalize, scaled in ((None, True), (True, True), (False, False)):
        encoder = Transformer(path=str(tmp_path / "encoder"), normalize=normalize)
        assert np.allclose(np.linalg.norm(encoder.encode(SENTENCES), axis=1), 1) == scaled
        encoder.save(tmp_path / "copy")
        assert Transformer.load(tmp_path / "copy").normalize == scaled
