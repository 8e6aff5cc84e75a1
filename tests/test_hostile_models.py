"""Damaged and hostile encoders' folders: each is refused in one line, and no other file is opened."""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path
from typing import Any

import pytest
import torch

import encoders
from data.errors import UserError
from tests.command_runner import run_command, snapshot
from tests.encoders.folder_damage import (
    DEEP,
    Damage,
    change,
    config,
    cut,
    fill,
    index,
    layer,
    link,
    marker,
    put,
    save_all,
    table,
    weights,
    without,
)  # fmt: skip
from tests.encoders.models import texts


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with the folders of one encoder of each kind."""
    root = tmp_path_factory.mktemp("whole")
    save_all(root)
    return root


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("the network is used")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)


WORD = "roberta.embeddings.word_embeddings.weight"
BIAS = "roberta.embeddings.LayerNorm.bias"
CASES: list[tuple[str, Damage, str]] = [  # (an intact folder, the damage to it, part of the message)
    # config.json
    ("transformer", put("config.json", "[]"), "config.json: must be a mapping"),
    ("transformer", put("config.json", ""), "config.json is not JSON"),
    ("transformer", put("config.json", b"\xff\xfe\x00"), "config.json is not UTF-8"),
    ("transformer", put("config.json", '{"a":' + DEEP), "nested"),
    ("transformer", put("config.json", "null"), "config.json: must be a mapping"),
    ("transformer", put("config.json", '{"a": ' + "9" * 5000 + "}"), "config.json is not JSON"),
    ("transformer", config(model_type=None), "model_type must be a family"),
    ("transformer", config(model_type="robberta"), "model_type must be a family"),
    ("transformer", config(model_type=["roberta"]), "model_type must be a family"),
    ("transformer", config(model_type="t5"), "decoder"),
    ("transformer", config(model_type="clip"), ""),
    ("transformer", config(model_type="bert"), "lacks"),
    ("transformer", config(hidden_size="many"), "hidden_size"),
    ("transformer", config(hidden_size=-32), ""),
    ("transformer", config(hidden_size=0), ""),
    ("transformer", config(hidden_size=10**9), "above those of its weights"),
    ("transformer", config(hidden_size=64), "has the shape"),
    ("transformer", config(hidden_size=33), "multiple of the number of attention"),
    ("transformer", config(hidden_size=float("nan")), "hidden_size"),
    ("transformer", config(num_attention_heads=0), ""),
    ("transformer", config(num_attention_heads=5), "attention"),
    ("transformer", config(num_hidden_layers=-1), "num_hidden_layers must be from 0 to"),
    ("transformer", config(num_hidden_layers=10**9), "num_hidden_layers must be from 0 to"),
    ("transformer", config(num_hidden_layers=19_999), "above those of its weights"),
    ("transformer", config(num_hidden_layers=1), "no place for"),
    ("transformer", config(num_hidden_layers=3), "lacks"),
    ("transformer", config(num_labels=10**9), "num_labels must be from 0 to"),
    ("transformer", config(vocab_size=10**9), "above those of its weights"),
    ("transformer", config(vocab_size=10), "has the shape"),
    ("transformer", config(intermediate_size=10**6), "above those of its weights"),
    ("transformer", config(pad_token_id=10**6), "adding_idx"),
    ("transformer", config(max_position_embeddings=0), ""),
    ("transformer", config(max_position_embeddings=10**12), "above those of its weights"),
    ("transformer", config(type_vocab_size=0), "has the shape"),
    ("transformer", config(layer_norm_eps="x"), "layer_norm_eps"),
    ("transformer", config(layer_norm_eps=float("nan")), "its vectors are not finite"),
    ("transformer", config(hidden_act="os.system"), "os.system"),
    ("transformer", config(to_dict="x"), "to_dict is no setting"),
    ("transformer", config(__class__="x"), "__class__ is no setting"),
    ("transformer", config(quantization_config={"quant_method": "gptq"}), "quantised"),
    ("albert", config(num_hidden_groups=10**4), "above those of its weights"),
    ("albert", config(inner_group_num=10**9), "above those of its weights"),
    # weights
    ("transformer", cut(), "cannot be opened as an encoder"),
    ("transformer", put("model.safetensors", ""), "cannot be opened as an encoder"),
    ("transformer", put("model.safetensors", b"\xff" * 64), "cannot be opened as an encoder"),
    ("transformer", without("model.safetensors"), "has no weights"),
    ("transformer", cut("mlm_head.safetensors"), "cannot be opened as an encoder"),
    (
        "transformer",
        weights(lambda each: each.update({BIAS: torch.ones(32)}), "mlm_head.safetensors"),
        "several weights",
    ),
    ("transformer", weights(dict.clear), "lacks"),
    ("transformer", weights(layer(2)), "no place for"),
    ("transformer", weights(lambda each: each.update({WORD: each[WORD].long()})), "floating-point"),
    ("transformer", weights(lambda each: each.update({BIAS: each[BIAS].long()})), "floating-point"),
    (
        "transformer",
        weights(lambda each: each.update({BIAS: each[BIAS].to(torch.float8_e4m3fn)})),
        "floating-point",
    ),
    ("transformer", weights(lambda each: each.update({BIAS[:-4] + "beta": each[BIAS] + 1})), "several weights"),
    ("transformer", weights(lambda each: each.update({BIAS[8:]: each[BIAS] + 1})), "several weights"),
    ("transformer", weights(lambda each: each.update({WORD: each[WORD][:, :16].clone()})), "has the shape"),
    ("transformer", weights(fill("roberta.encoder.layer.0.output.dense.weight", float("nan"))), "finite"),
    (
        "transformer",
        index(a="pytorch_model.bin"),
        "must name safetensors files beside it. Got 'pytorch_model.bin'",
    ),
    ("transformer", index(a="../other.safetensors"), "must name safetensors files beside it"),
    ("transformer", index(a="/tmp/other.safetensors"), "must name safetensors files beside it"),
    ("transformer", index(a="absent.safetensors"), "has no absent.safetensors"),
    ("transformer", index(), "must name safetensors files beside it"),
    ("transformer", index(a="empty_model.safetensors"), "cannot be opened"),
    ("transformer", link("model.safetensors", "../../whole.safetensors"), "is a link out of its folder"),
    ("transformer", link("tokenizer.json", "/etc/hostname"), "is a link out of its folder"),
    ("transformer", link("loop", "."), "is a link out of its folder"),
    ("transformer", lambda folder: os.mkfifo(folder / "pipe"), "is neither a file nor a folder"),
    # tokenizer
    ("transformer", without("tokenizer.json", "tokenizer_config.json"), ""),
    ("transformer", put("tokenizer.json", ""), ""),
    ("transformer", put("tokenizer.json", "{}"), ""),
    ("transformer", put("tokenizer.json", "[1]"), ""),
    ("transformer", put("tokenizer.json", DEEP), ""),
    ("transformer", table({"type": "BPE", "vocab": {"a": 10**6}, "merges": []}), ""),
    ("transformer", table({"type": "BPE", "vocab": {"a": -1}, "merges": []}), ""),
    ("transformer", table({"type": "Precompiled", "precompiled_charsmap": "AAAA"}, "normalizer"), ""),
    ("transformer", put("tokenizer_config.json", "[]"), "tokenizer_config.json: must be a mapping"),
    ("transformer", put("tokenizer_config.json", DEEP), "nested"),
    (
        "transformer",
        change("tokenizer_config.json", fast_tokenizer_files=["../a/tokenizer.1.json"]),
        "names files",
    ),
    ("transformer", change("tokenizer_config.json", gguf_file="/etc/hostname"), "names files"),
    ("transformer", change("tokenizer_config.json", model_max_length="x"), ""),
    ("transformer", change("tokenizer_config.json", model_max_length=-5), "no room for a word"),
    # sentence-transformers' files
    ("transformer", put("modules.json", "{}"), "modules.json: must be a list"),
    ("transformer", put("modules.json", "[1]"), "modules.json: 0 "),
    ("transformer", put("modules.json", "[]"), "must have one Transformer and one Pooling"),
    ("transformer", put("modules.json", '[{"type": "mine.Transformer", "path": ""}]'), "modules.json: 0.type"),
    ("transformer", put("sentence_bert_config.json", '{"tokenizer_args": {"a": 1}}'), "tokenizer_args"),
    ("transformer", put("config_sentence_transformers.json", '{"truncate_dim": 4}'), "truncate_dim"),
    ("transformer", put("config_sentence_transformers.json", '{"default_prompt_name": "a"}'), "puts a prompt"),
    ("transformer", config(tokenizer_class="RobertaModel"), "tokenizer_class must name a tokenizer"),
    ("transformer", config(tokenizer_class="AutoTokenizer"), "tokenizer_class must name a tokenizer"),
    ("transformer", config(tokenizer_class="RagTokenizer"), "tokenizer_class must name a tokenizer"),
    (
        "transformer",
        put("modules.json", '[{"type": "sentence_transformers.models.Transformer"}]'),
        "modules.json: 0.path is missing",
    ),
    (
        "transformer",
        put("modules.json", '[{"type": "sentence_transformers.models.Transformer", "path": "../whole"}]'),
        "parts of its own folder",
    ),
    (
        "transformer",
        put("modules.json", '[{"type": "sentence_transformers.models.Transformer", "path": "/tmp"}]'),
        "parts of its own folder",
    ),
    (
        "transformer",
        put(
            "modules.json",
            '[{"type": "sentence_transformers.models.Transformer", "path": "absent"},'
            ' {"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"}]',
        ),
        "absent cannot be opened",
    ),
    ("transformer", without("1_Pooling/config.json"), "config.json"),
    ("transformer", put("1_Pooling/config.json", "[]"), "1_Pooling/config.json: must be a mapping"),
    ("transformer", put("1_Pooling/config.json", '{"pooling_mode": []}'), "pools by"),
    ("transformer", put("1_Pooling/config.json", '{"pooling_mode": 3}'), "pooling_mode"),
    ("transformer", change("sentence_bert_config.json", max_seq_length=-5), "max_seq_length"),
    ("transformer", change("sentence_bert_config.json", max_seq_length=2), "no room for a word"),
    ("transformer", change("sentence_bert_config.json", max_seq_length="x"), "max_seq_length"),
    ("transformer", put("config_sentence_transformers.json", '{"prompts": 3}'), "prompts"),
    ("dense", change("2_Dense/config.json", in_features=9), "has the shape"),
    ("dense", change("2_Dense/config.json", out_features=10**9), "above those of its weights"),
    ("dense", change("2_Dense/config.json", out_features=-1), "out_features must be"),
    ("dense", change("2_Dense/config.json", in_features=None), "in_features is missing"),
    ("dense", change("2_Dense/config.json", activation_function=3), "activation_function must be"),
    ("dense", cut("2_Dense/model.safetensors"), "2_Dense/model.safetensors cannot be opened"),
    (
        "dense",
        weights(lambda each: each.pop("linear.bias"), "2_Dense/model.safetensors"),
        "lacks the weight 'bias'",
    ),
    ("dense", without("2_Dense/model.safetensors"), "2_Dense has no model.safetensors"),
    # encoder.json
    ("transformer", put("encoder.json", "[]"), "encoder.json: must be a mapping"),
    ("transformer", put("encoder.json", "{}"), "encoder.json: weights is missing"),
    ("transformer", marker(weights="x"), "encoder.json: weights must be 'pretrained', 'bundled' or 'random'"),
    ("transformer", marker(origin=["x"]), "encoder.json: origin must be"),
    ("transformer", marker(**{"class": None}), "encoder.json: class must be a string"),
    ("transformer", marker(**{"class": 3}), "encoder.json: class must be a string"),
    ("transformer", marker(**{"class": "os.system"}), "was written by os.system, which is no encoder"),
    ("transformer", marker(**{"class": "encoders.base.Encoder"}), "is no encoder of this suite"),
    ("transformer", marker(**{"class": "encoders.base.inference"}), "is no encoder of this suite"),
    ("transformer", marker(**{"class": "encoders.tools.bundle.bundle"}), "is no encoder of this suite"),
    ("transformer", marker(**{"class": "encoders.recurrent.WordHead"}), "is no encoder of this suite"),
    (
        "transformer",
        marker(**{"class": "encoders.random_vectors.RandomVectors"}),
        "is no encoder of this suite",
    ),
    ("transformer", marker(**{"class": "encoders.absent.Transformer"}), "is no encoder of this suite"),
    ("transformer", marker(**{"class": "\x1b[31mred\n"}), "is no encoder of this suite"),
    ("transformer", marker(**{"class": "encoders.lstm.LSTM"}), "encoder.json: shape is missing"),
    # recurrent encoders
    ("lstm", marker(shape=[]), "encoder.json: shape must be a mapping"),
    ("lstm", marker(shape={"hidden": 4, "layers": 1, "word_size": 3}), "shape.bidirectional is missing"),
    ("lstm", marker(shape=dict(hidden="4", layers=1, word_size=3, bidirectional=False)), "shape.hidden must be"),
    ("lstm", marker(shape=dict(hidden=10**9, layers=1, word_size=3, bidirectional=False)), "above those of its"),
    ("lstm", marker(shape=dict(hidden=4, layers=10**9, word_size=3, bidirectional=False)), "shape.layers must be"),
    ("lstm", marker(shape=dict(hidden=4, layers=9999, word_size=3, bidirectional=False)), "above those of its"),
    ("lstm", marker(shape=dict(hidden=5, layers=1, word_size=3, bidirectional=False)), "has the shape"),
    ("lstm", marker(shape=dict(hidden=4, layers=1, word_size=3, bidirectional=True)), "lacks the weight"),
    ("bilstm", marker(shape=dict(hidden=4, layers=1, word_size=3, bidirectional=True)), "of more layers"),
    ("lstm", marker(pooling="median"), "pooling of a LSTM must be one of"),
    ("gru", marker(pooling=3), "pooling of a GRU must be one of"),
    ("gru", marker(**{"class": "encoders.lstm.LSTM"}), "1_LSTM has no model.safetensors"),
    ("lstm", cut(), "model.safetensors cannot be opened"),
    ("lstm", weights(lambda each: each.pop("emb_layer.weight")), "must hold word vectors"),
    ("lstm", weights(lambda each: each.update(x=each.pop("emb_layer.weight"))), "must hold word vectors"),
    ("lstm", cut("mlm_head.safetensors"), "mlm_head.safetensors cannot be opened"),
    ("lstm", weights(lambda each: each.pop("norm.bias"), "mlm_head.safetensors"), "lacks the weight 'norm.bias'"),
    ("lstm", weights(fill("encoder.weight_hh_l0", float("inf")), "1_LSTM/model.safetensors"), "finite numbers"),
    ("bilstm", without("tokenizer.json"), "cannot be opened as a tokenizer"),
    ("bilstm", put("tokenizer.json", "{"), "cannot be opened as a tokenizer"),
    ("gru", change("tokenizer_config.json", bos_token=None), "cannot be opened as an encoder"),
    # bags of words and concatenated encoders
    ("words", put("tokenizer.json", "[]"), "cannot be opened as a bag of words"),
    ("words", cut(), "model.safetensors cannot be opened"),
    ("words", weights(fill("embedding.weight", float("nan"))), "finite numbers"),
    ("words", weights(lambda each: each.update({"embedding.weight": torch.zeros(3, 2)})), "2 words and 3 vectors"),
    ("words", table({"type": "BPE", "vocab": {" the": 0, " cat": 9}, "merges": []}), "ids must be below 2"),
    ("concatenated", marker(members=None), "members must be encoder_1"),
    ("concatenated", marker(members=["../whole"]), "members must be encoder_1"),
    ("concatenated", marker(members=["encoder_1"] * 1000), "members must be encoder_1"),
    ("concatenated", marker(members=["encoder_1"]), "members must be encoder_1"),
    ("concatenated", marker(members=["encoder_1", "encoder_2", "encoder_3"]), "encoder_3"),
    ("concatenated", link("encoder_2", "."), "is a link out of its folder"),
    ("concatenated", without("encoder_2/model.safetensors"), "encoder_2 has no model.safetensors"),
]


@pytest.mark.parametrize(
    ("kind", "damage", "part"),
    CASES,
    ids=[f"{number}-{kind}-{part}" for number, (kind, _, part) in enumerate(CASES)],
)
def test_a_damaged_folder_is_refused(
    kind: str, damage: Damage, part: str, intact: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "encoder"
    shutil.copytree(intact / kind, folder)
    damage(folder)
    before = snapshot(tmp_path)
    with pytest.raises(UserError) as error:
        encoders.load(folder)
    line = str(error.value)
    assert str(folder) in line and part in line and len(line) < 1000 and line.isprintable()
    assert snapshot(tmp_path) == before  # no code of the folder has run, and nothing was written
    assert capfd.readouterr().err == ""


COMMANDS: list[tuple[str, Damage, str]] = [
    ("transformer", put("config.json", "[]"), "config.json: must be a mapping"),
    ("transformer", config(hidden_size=10**9), "above those of its weights"),
    ("transformer", config(num_hidden_layers=1), "no place for"),
    ("transformer", index(a="pytorch_model.bin"), "must name safetensors files"),
    ("transformer", put("tokenizer.json", "{}"), "cannot be opened"),
    ("transformer", marker(origin=3), "origin must be"),
]


@pytest.mark.parametrize("command", ["run", "evaluate"])
@pytest.mark.parametrize(("kind", "damage", "part"), COMMANDS, ids=[part for *_, part in COMMANDS])
def test_the_commands_refuse_a_damaged_folder_in_one_line(
    command: str, kind: str, damage: Damage, part: str, intact: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "encoder"
    shutil.copytree(intact / kind, folder)
    damage(folder)
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("\n\n".join(texts()))
    (tmp_path / "downstream" / "CR").mkdir(parents=True)
    for label in ("pos", "neg"):
        (tmp_path / "downstream" / "CR" / f"custrev.{label}").write_text("a cat\nthe dog\n" * 20)
    arguments = {
        "run": [
            f"encoder.path={folder}",
            "corpus=text",
            f"corpus.path={corpus}",
            f"run_dir={tmp_path / 'run'}",
            "device=cpu",
        ],
        "evaluate": [f"model={folder}", f"data={tmp_path}", "tasks=[CR]", "device=cpu"],
    }[command]
    before = snapshot(tmp_path)
    found = run_command(f"experiments.{command}", *arguments, folder=tmp_path)
    assert found.refused(str(folder), part), found
    assert snapshot(tmp_path) == before
