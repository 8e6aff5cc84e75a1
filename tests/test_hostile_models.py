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
    root = tmp_path_factory.mktemp("encoders")
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
LONGER = {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 1000}
CASES: list[tuple[str, str, Damage, str]] = [  # (name, intact folder, damage to it, part of the message)
    # config.json
    ("config.json a list", "transformer", put("config.json", "[]"), "config.json: must be a mapping"),
    ("config.json empty", "transformer", put("config.json", ""), "config.json is not JSON"),
    ("config.json not UTF-8", "transformer", put("config.json", b"\xff\xfe\x00"), "config.json is not UTF-8"),
    ("config.json nested", "transformer", put("config.json", '{"a":' + DEEP), "nested"),
    ("config.json null", "transformer", put("config.json", "null"), "config.json: must be a mapping"),
    ("config.json with many digits", "transformer", put("config.json", '{"a": ' + "9" * 5000 + "}"),
     "config.json is not JSON"),
    ("no model_type", "transformer", config(model_type=None), "model_type must be a family"),
    ("model_type unknown", "transformer", config(model_type="robberta"), "model_type must be a family"),
    ("model_type a list", "transformer", config(model_type=["roberta"]), "model_type must be a family"),
    ("T5", "transformer", config(model_type="t5"), "decoder"),
    ("CLIP", "transformer", config(model_type="clip"), "model_type must be a family of transformers' text models"),
    ("a backbone on the hub", "transformer",
     config(model_type="detr", backbone="org/name", use_timm_backbone=False), "must be a family"),
    ("model_type of another family", "transformer", config(model_type="bert"), "lacks"),
    ("hidden_size text", "transformer", config(hidden_size="many"), "hidden_size"),
    ("hidden_size negative", "transformer", config(hidden_size=-32), ""),
    ("hidden_size 0", "transformer", config(hidden_size=0), ""),
    ("hidden_size huge", "transformer", config(hidden_size=10**9), "above those of its weights"),
    ("hidden_size 64", "transformer", config(hidden_size=64), "has the shape"),
    ("hidden_size 33", "transformer", config(hidden_size=33), "multiple of the number of attention"),
    ("hidden_size NaN", "transformer", config(hidden_size=float("nan")), "hidden_size"),
    ("no attention heads", "transformer", config(num_attention_heads=0), ""),
    ("5 attention heads", "transformer", config(num_attention_heads=5), "attention"),
    ("-1 layers", "transformer", config(num_hidden_layers=-1), "num_hidden_layers must be from 0 to"),
    ("10**9 layers", "transformer", config(num_hidden_layers=10**9), "num_hidden_layers must be from 0 to"),
    ("19,999 layers", "transformer", config(num_hidden_layers=19_999), "above those of its weights"),
    ("1 layer", "transformer", config(num_hidden_layers=1), "no place for"),
    ("3 layers", "transformer", config(num_hidden_layers=3), "lacks"),
    ("10**9 labels", "transformer", config(num_labels=10**9), "num_labels must be from 0 to"),
    ("vocab_size huge", "transformer", config(vocab_size=10**9), "above those of its weights"),
    ("vocab_size 10", "transformer", config(vocab_size=10), "has the shape"),
    ("intermediate_size huge", "transformer", config(intermediate_size=10**6), "above those of its weights"),
    ("pad_token_id huge", "transformer", config(pad_token_id=10**6), "adding_idx"),
    ("no positions", "transformer", config(max_position_embeddings=0), ""),
    ("10**12 positions", "transformer", config(max_position_embeddings=10**12), "above those of its weights"),
    ("10**6 sinusoidal positions", "transformer",
     config(model_type="distilbert", sinusoidal_pos_embds=True, max_position_embeddings=10**6, dim=64), "lacks"),
    ("no token types", "transformer", config(type_vocab_size=0), "has the shape"),
    ("layer_norm_eps text", "transformer", config(layer_norm_eps="x"), "layer_norm_eps"),
    ("layer_norm_eps NaN", "transformer", config(layer_norm_eps=float("nan")), "its vectors are not finite"),
    ("hidden_act os.system", "transformer", config(hidden_act="os.system"), "os.system"),
    ("to_dict", "transformer", config(to_dict="x"), "to_dict is no setting"),
    ("__class__", "transformer", config(__class__="x"), "__class__ is no setting"),
    ("quantised", "transformer", config(quantization_config={"quant_method": "gptq"}), "quantised"),
    ("10**4 hidden groups", "albert", config(num_hidden_groups=10**4), "above those of its weights"),
    ("10**9 inner groups", "albert", config(inner_group_num=10**9), "above those of its weights"),
    # weights
    ("weights truncated", "transformer", cut(), "cannot be opened as an encoder"),
    ("weights empty", "transformer", put("model.safetensors", ""), "cannot be opened as an encoder"),
    ("weights no safetensors", "transformer", put("model.safetensors", b"\xff" * 64),
     "cannot be opened as an encoder"),
    ("no weights", "transformer", without("model.safetensors"), "has no weights"),
    ("MLM head truncated", "transformer", cut("mlm_head.safetensors"), "cannot be opened as an encoder"),
    ("weight in two files", "transformer",
     weights(lambda each: each.update({BIAS: torch.ones(32)}), "mlm_head.safetensors"), "several weights"),
    ("weights without tensors", "transformer", weights(dict.clear), "lacks"),
    ("weight of a third layer", "transformer", weights(layer(2)), "no place for"),
    ("embeddings of integers", "transformer", weights(lambda each: each.update({WORD: each[WORD].long()})),
     "floating-point"),
    ("bias of integers", "transformer", weights(lambda each: each.update({BIAS: each[BIAS].long()})),
     "floating-point"),
    ("bias of float8", "transformer",
     weights(lambda each: each.update({BIAS: each[BIAS].to(torch.float8_e4m3fn)})), "floating-point"),
    ("weight with an old and a new name", "transformer",
     weights(lambda each: each.update({BIAS[:-4] + "beta": each[BIAS] + 1})), "several weights"),
    ("weight with and without a prefix", "transformer",
     weights(lambda each: each.update({BIAS[8:]: each[BIAS] + 1})), "several weights"),
    ("embeddings too narrow", "transformer", weights(lambda each: each.update({WORD: each[WORD][:, :16].clone()})),
     "has the shape"),
    ("weight NaN", "transformer", weights(fill("roberta.encoder.layer.0.output.dense.weight", float("nan"))),
     "finite"),
    ("index names a pickle", "transformer", index(a="pytorch_model.bin"),
     "must name safetensors files beside it. Got 'pytorch_model.bin'"),
    ("index names another folder", "transformer", index(a="../other.safetensors"),
     "must name safetensors files beside it"),
    ("index names an absolute path", "transformer", index(a="/tmp/other.safetensors"),
     "must name safetensors files beside it"),
    ("index names an absent file", "transformer", index(a="absent.safetensors"), "has no absent.safetensors"),
    ("index empty", "transformer", index(), "must name safetensors files beside it"),
    ("index names an empty file", "transformer", index(a="empty_model.safetensors"), "cannot be opened"),
    ("weights linked", "transformer", link("model.safetensors", "../../whole.safetensors"),
     "is a link out of its folder"),
    ("tokenizer linked", "transformer", link("tokenizer.json", "/etc/hostname"), "is a link out of its folder"),
    ("link to the folder", "transformer", link("loop", "."), "is a link out of its folder"),
    ("pipe", "transformer", lambda folder: os.mkfifo(folder / "pipe"), "is neither a file nor a folder"),
    # tokenizer
    ("no tokenizer", "transformer", without("tokenizer.json", "tokenizer_config.json"), ""),
    ("tokenizer.json empty", "transformer", put("tokenizer.json", ""), ""),
    ("tokenizer.json an empty object", "transformer", put("tokenizer.json", "{}"), ""),
    ("tokenizer.json a list", "transformer", put("tokenizer.json", "[1]"), ""),
    ("a letter that becomes 10^15", "transformer", table({"type": "Sequence", "normalizers": [LONGER] * 5},
     "normalizer"), "replaces a character by more than 1000 others"),
    ("a letter that becomes 10^15 words", "words", table({"type": "Sequence", "normalizers": [LONGER] * 5},
     "normalizer"), "replaces a character by more than 1000 others"),
    ("tokenizer.json nested", "transformer", put("tokenizer.json", DEEP), ""),
    ("token id huge", "transformer", table({"type": "BPE", "vocab": {"a": 10**6}, "merges": []}), ""),
    ("token id negative", "transformer", table({"type": "BPE", "vocab": {"a": -1}, "merges": []}), ""),
    ("normalizer damaged", "transformer",
     table({"type": "Precompiled", "precompiled_charsmap": "AAAA"}, "normalizer"), ""),
    ("tokenizer_config.json a list", "transformer", put("tokenizer_config.json", "[]"),
     "tokenizer_config.json: must be a mapping"),
    ("tokenizer_config.json nested", "transformer", put("tokenizer_config.json", DEEP), "nested"),
    ("fast_tokenizer_files", "transformer",
     change("tokenizer_config.json", fast_tokenizer_files=["../a/tokenizer.1.json"]), "names files"),
    ("gguf_file", "transformer", change("tokenizer_config.json", gguf_file="/etc/hostname"), "names files"),
    ("model_max_length text", "transformer", change("tokenizer_config.json", model_max_length="x"), ""),
    ("model_max_length negative", "transformer", change("tokenizer_config.json", model_max_length=-5),
     "no room for a word"),
    # sentence-transformers' files
    ("modules.json an object", "transformer", put("modules.json", "{}"), "modules.json: must be a list"),
    ("modules.json with a number", "transformer", put("modules.json", "[1]"), "modules.json: 0 "),
    ("modules.json empty", "transformer", put("modules.json", "[]"), "must have one Transformer and one Pooling"),
    ("module of another package", "transformer", put("modules.json", '[{"type": "mine.Transformer", "path": ""}]'),
     "modules.json: 0.type"),
    ("tokenizer_args", "transformer", put("sentence_bert_config.json", '{"tokenizer_args": {"a": 1}}'),
     "tokenizer_args"),
    ("truncate_dim", "transformer", put("config_sentence_transformers.json", '{"truncate_dim": 4}'),
     "truncate_dim"),
    ("default_prompt_name", "transformer",
     put("config_sentence_transformers.json", '{"default_prompt_name": "a"}'), "puts a prompt"),
    ("tokenizer_class a model", "transformer", config(tokenizer_class="RobertaModel"),
     "tokenizer_class must name a tokenizer"),
    ("tokenizer_class AutoTokenizer", "transformer", config(tokenizer_class="AutoTokenizer"),
     "tokenizer_class must name a tokenizer"),
    ("tokenizer_class RagTokenizer", "transformer", config(tokenizer_class="RagTokenizer"),
     "tokenizer_class must name a tokenizer"),
    ("module without a path", "transformer",
     put("modules.json", '[{"type": "sentence_transformers.models.Transformer"}]'),
     "modules.json: 0.path is missing"),
    ("module in another folder", "transformer",
     put("modules.json", '[{"type": "sentence_transformers.models.Transformer", "path": "../whole"}]'),
     "parts of its own folder"),
    ("module with an absolute path", "transformer",
     put("modules.json", '[{"type": "sentence_transformers.models.Transformer", "path": "/tmp"}]'),
     "parts of its own folder"),
    ("module absent", "transformer",
     put(
         "modules.json",
         '[{"type": "sentence_transformers.models.Transformer", "path": "absent"},'
         ' {"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"}]',
     ),
     "absent cannot be opened"),
    ("no pooling", "transformer", without("1_Pooling/config.json"), "config.json"),
    ("pooling a list", "transformer", put("1_Pooling/config.json", "[]"),
     "1_Pooling/config.json: must be a mapping"),
    ("pooling_mode a list", "transformer", put("1_Pooling/config.json", '{"pooling_mode": []}'), "pools by"),
    ("pooling_mode a number", "transformer", put("1_Pooling/config.json", '{"pooling_mode": 3}'), "pooling_mode"),
    ("max_seq_length negative", "transformer", change("sentence_bert_config.json", max_seq_length=-5),
     "max_seq_length"),
    ("max_seq_length 2", "transformer", change("sentence_bert_config.json", max_seq_length=2),
     "no room for a word"),
    ("max_seq_length text", "transformer", change("sentence_bert_config.json", max_seq_length="x"),
     "max_seq_length"),
    ("prompts a number", "transformer", put("config_sentence_transformers.json", '{"prompts": 3}'), "prompts"),
    ("in_features 9", "dense", change("2_Dense/config.json", in_features=9), "has the shape"),
    ("out_features huge", "dense", change("2_Dense/config.json", out_features=10**9),
     "above those of its weights"),
    ("out_features negative", "dense", change("2_Dense/config.json", out_features=-1), "out_features must be"),
    ("no in_features", "dense", change("2_Dense/config.json", in_features=None), "in_features is missing"),
    ("activation_function a number", "dense", change("2_Dense/config.json", activation_function=3),
     "activation_function must be"),
    ("weights truncated", "dense", cut("2_Dense/model.safetensors"), "2_Dense/model.safetensors cannot be opened"),
    ("no bias", "dense", weights(lambda each: each.pop("linear.bias"), "2_Dense/model.safetensors"),
     "lacks the weight 'bias'"),
    ("no weights", "dense", without("2_Dense/model.safetensors"), "2_Dense has no model.safetensors"),
    # encoder.json
    ("encoder.json a list", "transformer", put("encoder.json", "[]"), "encoder.json: must be a mapping"),
    ("encoder.json without keys", "transformer", put("encoder.json", "{}"), "encoder.json: weights is missing"),
    ("weights unknown", "transformer", marker(weights="x"),
     "encoder.json: weights must be 'pretrained', 'bundled' or 'random'"),
    ("origin a list", "transformer", marker(origin=["x"]), "encoder.json: origin must be"),
    ("no class", "transformer", marker(**{"class": None}), "encoder.json: class must be a string"),
    ("class a number", "transformer", marker(**{"class": 3}), "encoder.json: class must be a string"),
    ("class os.system", "transformer", marker(**{"class": "os.system"}),
     "was written by os.system, which is no encoder"),
    ("class Encoder", "transformer", marker(**{"class": "encoders.base.Encoder"}), "is no encoder of this suite"),
    ("class inference", "transformer", marker(**{"class": "encoders.base.inference"}),
     "is no encoder of this suite"),
    ("class bundle", "transformer", marker(**{"class": "encoders.tools.bundle.bundle"}),
     "is no encoder of this suite"),
    ("class WordHead", "transformer", marker(**{"class": "encoders.recurrent.WordHead"}),
     "is no encoder of this suite"),
    ("class RandomVectors", "transformer", marker(**{"class": "encoders.random_vectors.RandomVectors"}),
     "is no encoder of this suite"),
    ("class in an absent module", "transformer", marker(**{"class": "encoders.absent.Transformer"}),
     "is no encoder of this suite"),
    ("class with control characters", "transformer", marker(**{"class": "\x1b[31mred\n"}),
     "is no encoder of this suite"),
    ("class LSTM", "transformer", marker(**{"class": "encoders.lstm.LSTM"}), "encoder.json: shape is missing"),
    # recurrent encoders
    ("shape a list", "lstm", marker(shape=[]), "encoder.json: shape must be a mapping"),
    ("shape incomplete", "lstm", marker(shape={"hidden": 4, "layers": 1, "word_size": 3}),
     "shape.bidirectional is missing"),
    ("hidden text", "lstm", marker(shape=dict(hidden="4", layers=1, word_size=3, bidirectional=False)),
     "shape.hidden must be"),
    ("hidden huge", "lstm", marker(shape=dict(hidden=10**9, layers=1, word_size=3, bidirectional=False)),
     "above those of its"),
    ("10**9 layers", "lstm", marker(shape=dict(hidden=4, layers=10**9, word_size=3, bidirectional=False)),
     "shape.layers must be"),
    ("9999 layers", "lstm", marker(shape=dict(hidden=4, layers=9999, word_size=3, bidirectional=False)),
     "above those of its"),
    ("hidden 5", "lstm", marker(shape=dict(hidden=5, layers=1, word_size=3, bidirectional=False)),
     "has the shape"),
    ("bidirectional", "lstm", marker(shape=dict(hidden=4, layers=1, word_size=3, bidirectional=True)),
     "lacks the weight"),
    ("1 layer", "bilstm", marker(shape=dict(hidden=4, layers=1, word_size=3, bidirectional=True)),
     "of more layers"),
    ("pooling unknown", "lstm", marker(pooling="median"), "pooling of a LSTM must be one of"),
    ("pooling a number", "gru", marker(pooling=3), "pooling of a GRU must be one of"),
    ("class LSTM", "gru", marker(**{"class": "encoders.lstm.LSTM"}), "1_LSTM has no model.safetensors"),
    ("weights truncated", "lstm", cut(), "model.safetensors cannot be opened"),
    ("no word vectors", "lstm", weights(lambda each: each.pop("emb_layer.weight")), "must hold word vectors"),
    ("word vectors renamed", "lstm", weights(lambda each: each.update(x=each.pop("emb_layer.weight"))),
     "must hold word vectors"),
    ("MLM head truncated", "lstm", cut("mlm_head.safetensors"), "mlm_head.safetensors cannot be opened"),
    ("MLM head without a bias", "lstm", weights(lambda each: each.pop("norm.bias"), "mlm_head.safetensors"),
     "lacks the weight 'norm.bias'"),
    ("weight infinite", "lstm", weights(fill("encoder.weight_hh_l0", float("inf")), "1_LSTM/model.safetensors"),
     "finite numbers"),
    ("no tokenizer", "bilstm", without("tokenizer.json"), "cannot be opened as a tokenizer"),
    ("tokenizer.json truncated", "bilstm", put("tokenizer.json", "{"), "cannot be opened as a tokenizer"),
    ("no bos_token", "gru", change("tokenizer_config.json", bos_token=None), "cannot be opened as an encoder"),
    # bags of words and concatenated encoders
    ("tokenizer.json a list", "words", put("tokenizer.json", "[]"), "cannot be opened as a bag of words"),
    ("weights truncated", "words", cut(), "model.safetensors cannot be opened"),
    ("word vector NaN", "words", weights(fill("embedding.weight", float("nan"))), "finite numbers"),
    ("3 vectors of 2 words", "words", weights(lambda each: each.update({"embedding.weight": torch.zeros(3, 2)})),
     "2 words and 3 vectors"),
    ("token id too large", "words", table({"type": "BPE", "vocab": {" the": 0, " cat": 9}, "merges": []}),
     "ids must be below 2"),
    ("no members", "concatenated", marker(members=None), "members must be encoder_1"),
    ("member in another folder", "concatenated", marker(members=["../whole"]), "members must be encoder_1"),
    ("member repeated", "concatenated", marker(members=["encoder_1"] * 1000), "members must be encoder_1"),
    ("one member", "concatenated", marker(members=["encoder_1"]), "members must be encoder_1"),
    ("three members", "concatenated", marker(members=["encoder_1", "encoder_2", "encoder_3"]), "encoder_3"),
    ("member linked", "concatenated", link("encoder_2", "."), "is a link out of its folder"),
    ("member without weights", "concatenated", without("encoder_2/model.safetensors"),
     "encoder_2 has no model.safetensors"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "damage", "part"), [pytest.param(*case, id=f"{case[0]}: {name}") for name, *case in CASES]
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
