"""Folders give the same vectors here as in sentence-transformers and transformers; saving is all or nothing."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import AutoModel, AutoModelForMaskedLM, AutoTokenizer

import encoders
from data.errors import UserError
from data.files import write_json
from encoders.pooling import pool
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


def senteval_sentences() -> Iterator[str]:
    """Sentences of several SentEval tasks in the toolkit's form: tokens joined by spaces, or "." if empty."""
    folder = suite_data("senteval/downstream")
    for name in ("CR/custrev.pos", "SUBJ/subj.objective", "TREC/train_5500.label", "SICK/SICK_train.txt"):
        for line in (folder / name).read_text("latin-1").splitlines()[:500]:
            yield " ".join(line.split()) or "."


def encode_elsewhere(folder: Path, sentences: list[str] = SENTENCES) -> np.ndarray:
    return sentence_transformers.SentenceTransformer(str(folder), device="cpu").encode(sentences)


def test_odd_sentences_get_the_same_vectors() -> None:
    expected = encode_elsewhere(minilm(), ODD_SENTENCES)
    np.testing.assert_allclose(encoders.load(minilm()).encode(ODD_SENTENCES), expected, atol=1e-5)


@pytest.mark.slow
def test_two_thousand_sentences_of_senteval_get_the_same_vectors() -> None:
    sentences = [*senteval_sentences()]
    sentences += [" ".join(sentences[i : i + 25]) for i in range(0, 100, 25)]
    expected = encode_elsewhere(minilm(), sentences)
    np.testing.assert_allclose(encoders.load(minilm()).encode(sentences), expected, atol=1e-5)


def folder_of(tmp_path: Path, *more: Any, pooling: str = "mean", **options: Any) -> Path:
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
    equal_to_theirs(folder_of(tmp_path, pooling=pooling), tmp_path)


def test_length_limit_and_lower_casing_are_applied(tmp_path: Path) -> None:
    ours = equal_to_theirs(folder_of(tmp_path, max_seq_length=9, do_lower_case=True), tmp_path)
    assert ours.format.max_length == 9
    np.testing.assert_array_equal(ours.encode(["A Dog."]), ours.encode(["a dog."]))


def test_further_modules_are_those_of_sentence_transformers(tmp_path: Path) -> None:
    from sentence_transformers.models import Dense, LayerNorm, Normalize

    maps = Dense(32, 12, activation_function=nn.GELU()), Dense(12, 20, bias=False), LayerNorm(20)
    ours = equal_to_theirs(folder_of(tmp_path, *maps, Normalize()), tmp_path)
    assert (ours.dimension, ours.state_dimension, len(ours.others), ours.normalize) == (20, 32, 3, True)
    assert {name.split(".")[1] for name, _ in ours.others.named_parameters()} == {"linear", "norm"}


def test_settings_that_would_give_other_vectors_are_refused(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    modules = json.loads((folder / "modules.json").read_text())
    foreign = {"idx": 2, "name": "2", "path": "2_Own", "type": "os.path.Own"}
    prompt = {"prompts": {"query": "query: "}, "default_prompt_name": "query"}
    changes: list[tuple[str, Any]] = [
        ("config_sentence_transformers.json", prompt),
        ("modules.json", modules[::-1]),
        ("modules.json", [*modules, foreign]),
        *(("1_Pooling/config.json", {"pooling_mode": mode}) for mode in ("weightedmean", ["mean", "max"])),
    ]
    for file, change in changes:
        before = (folder / file).read_text()
        write_json(folder / file, change)
        with pytest.raises(UserError) as error:
            encoders.load(folder)
        assert "\n" not in str(error.value)
        (folder / file).write_text(before)
    path = folder / "config_sentence_transformers.json"
    write_json(path, json.loads(path.read_text()) | {"prompts": {"query": "query: "}, "default_prompt_name": None})
    equal_to_theirs(folder, tmp_path)  # a prompt that is not used by itself does not matter


@pytest.mark.parametrize(("family", "pooling"), [("roberta", "mean"), ("bert", "last"), ("albert", "max")])
def test_an_export_opens_in_transformers_without_a_report(
    family: str, pooling: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    encoder = tiny(family, pooling=pooling)
    encoder.save(tmp_path / "encoder")
    logger = logging.getLogger("transformers")  # which does not propagate to the root logger
    logger.addHandler(caplog.handler)
    try:
        opened = sentence_transformers.SentenceTransformer(str(tmp_path / "encoder"), device="cpu")
    finally:
        logger.removeHandler(caplog.handler)
    assert "LOAD REPORT" not in caplog.text  # heads transformers' table of missing and unexpected weights
    assert opened.max_seq_length == encoder.format.max_length
    batch = AutoTokenizer.from_pretrained(tmp_path / "encoder")(
        SENTENCES, padding=True, truncation=True, return_tensors="pt"
    )
    with torch.no_grad():
        states = AutoModel.from_pretrained(tmp_path / "encoder").eval()(**batch).last_hidden_state
    vectors = pool(states, batch["attention_mask"].bool(), pooling).numpy()
    np.testing.assert_allclose(encoder.encode(SENTENCES), vectors, atol=1e-5)


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


def test_weights_in_several_files_or_half_precision_are_opened_as_float32(tmp_path: Path) -> None:
    encoder = tiny()
    expected = encoder.encode(SENTENCES)
    encoder.half().save(tmp_path / "half")
    path = tmp_path / "half" / "model.safetensors"
    tensors = load_file(path)
    path.unlink()
    names = {name: f"model-{number % 2}.safetensors" for number, name in enumerate(tensors)}
    for file in {*names.values()}:
        shard = {name: tensor for name, tensor in tensors.items() if names[name] == file}
        save_file(shard, path.with_name(file), metadata={"format": "pt"})
    write_json(path.with_name("model.safetensors.index.json"), {"metadata": {}, "weight_map": names})
    path.with_name("model.safetensors.index.mlm.json").unlink()
    reloaded = encoders.load(tmp_path / "half")
    assert next(reloaded.parameters()).dtype == torch.float32
    np.testing.assert_allclose(reloaded.encode(SENTENCES), expected, atol=5e-3)


def test_damaged_folders_are_refused(tmp_path: Path) -> None:
    encoder = tiny()
    encoder.save(tmp_path / "m")
    path = tmp_path / "m" / "model.safetensors"
    content, tensors = path.read_bytes(), load_file(path)
    del tensors["roberta.encoder.layer.1.output.dense.weight"]
    save_file(tensors, path, metadata={"format": "pt"})
    with pytest.raises(UserError):  # lacks weights
        encoders.load(tmp_path / "m")
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(UserError):
        encoders.load(tmp_path / "m")
    path.write_bytes(content)
    encoder.tokenizer.add_tokens(["<one>", "<more>"])
    encoder.tokenizer.save_pretrained(tmp_path / "m")
    with pytest.raises(UserError):  # a tokenizer larger than the model
        encoders.load(tmp_path / "m")


def test_weights_that_are_not_finite_are_not_saved(tmp_path: Path) -> None:
    encoder = tiny()
    with torch.no_grad():
        next(encoder.parameters())[0] = float("inf")
    with pytest.raises(UserError):
        encoder.save(tmp_path / "encoder")
    assert not [*tmp_path.iterdir()]


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


def test_a_folders_scaling_can_be_switched_off(tmp_path: Path) -> None:
    tiny(normalize=True).save(tmp_path / "encoder")
    for normalize, scaled in ((None, True), (True, True), (False, False)):
        encoder = Transformer(path=str(tmp_path / "encoder"), normalize=normalize)
        assert np.allclose(np.linalg.norm(encoder.encode(SENTENCES), axis=1), 1) == scaled
