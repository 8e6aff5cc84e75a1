"""Models of transformers: heads, layers, masks, dropout, precision of saved weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForMaskedLM

import encoders
from data.errors import UserError
from data.files import write_json
from encoders import models, varlen
from encoders.fingerprint import fingerprint
from encoders.transformer import Transformer
from tests.encoders.models import FAMILIES, SENTENCES, shape, tiny, tokens_of


@pytest.mark.parametrize("family", FAMILIES)
def test_the_head_is_kept_in_a_file_of_its_own(family: str, tmp_path: Path) -> None:
    encoder = tiny(family)
    encoder.save(tmp_path / "encoder")
    reloaded = encoders.load(tmp_path / "encoder")
    states = torch.randn(5, 32)
    torch.testing.assert_close(reloaded.token_logits(states), encoder.token_logits(states), rtol=0, atol=0)
    body = load_file(tmp_path / "encoder" / "model.safetensors")
    head = load_file(tmp_path / "encoder" / "mlm_head.safetensors")
    assert not {*head} & {*body} and sum(weight.numel() for weight in head.values()) < 32 * 64 + 1000
    complete = AutoModelForMaskedLM.from_pretrained(tmp_path / "encoder", variant="mlm").state_dict()
    assert all(torch.equal(complete[name], weight) for name, weight in encoder.model.state_dict().items())


def test_a_head_beside_the_other_weights_is_read_too(tmp_path: Path) -> None:
    """Other libraries and version 0.1 write head and body to one file."""
    encoder = tiny("bert")
    encoder.save(tmp_path / "encoder")
    encoder.model.save_pretrained(tmp_path / "encoder")
    (tmp_path / "encoder" / "mlm_head.safetensors").unlink()
    states = torch.randn(5, 32)
    reloaded = encoders.load(tmp_path / "encoder")
    torch.testing.assert_close(reloaded.token_logits(states), encoder.token_logits(states))


def test_weights_saved_in_half_precision_load_as_float32(tmp_path: Path) -> None:
    encoder = tiny()
    expected = encoder.encode(SENTENCES)
    encoder.save(tmp_path / "full")
    encoder.half().save(tmp_path / "half")
    sizes = [(tmp_path / name / "model.safetensors").stat().st_size for name in ("half", "full")]
    assert sizes[0] < 0.6 * sizes[1]
    reloaded = encoders.load(tmp_path / "half")
    assert next(reloaded.parameters()).dtype == torch.float32
    np.testing.assert_allclose(reloaded.encode(SENTENCES), expected, atol=5e-3)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("layers", [0, 1, 2])
def test_only_the_first_layers_can_be_loaded(family: str, layers: int, tmp_path: Path) -> None:
    tiny(family).save(tmp_path / "full")
    full, cut = Transformer.load(tmp_path / "full"), encoders.load(tmp_path / "full", layers=layers)
    tokens = full.tokenizer(SENTENCES[:1], return_tensors="pt")
    with torch.no_grad():
        states = full.model.base_model(**tokens, output_hidden_states=True).hidden_states[layers]
    np.testing.assert_allclose(cut.encode(SENTENCES[:1])[0], states[0].mean(dim=0), atol=1e-6)
    cut.save(tmp_path / "cut")
    np.testing.assert_allclose(encoders.load(tmp_path / "cut").encode(SENTENCES), cut.encode(SENTENCES), atol=1e-6)
    assert (layers == 2) == (fingerprint(cut) == fingerprint(full))


def test_the_first_layers_of_a_model_with_layer_types_can_be_saved(tmp_path: Path) -> None:
    cut = encoders.load("declutr-mini", layers=2)
    cut.save(tmp_path / "cut")
    np.testing.assert_array_equal(encoders.load(tmp_path / "cut").encode(SENTENCES), cut.encode(SENTENCES))
    with pytest.raises(UserError):
        encoders.load("declutr-mini", layers=0).save(tmp_path / "none")


def test_more_layers_than_the_model_has_are_refused(tmp_path: Path) -> None:
    tiny().save(tmp_path / "full")
    with pytest.raises(UserError):
        encoders.load(tmp_path / "full", layers=3)


@pytest.mark.parametrize(
    ("family", "settings", "equal"),
    [
        *((family, {}, True) for family in sorted(varlen.FAMILIES - {"modernbert"})),
        ("modernbert", {"layer_types": "full_attention"}, True),
        ("modernbert", {"local_attention": 4}, False),
    ],
    ids=str,
)
def test_the_full_attention_mask_gives_the_same_states(family: str, settings: dict[str, Any], equal: bool) -> None:
    encoder = tiny(family, shape=shape(family, **settings), attention="sdpa")
    tokens = tokens_of(encoder, (5, 20, 3))
    mask = models.full_mask(tokens.mask)
    states = encoder.backbone(input_ids=tokens.ids, attention_mask=mask).last_hidden_state
    same = torch.allclose(states[tokens.mask], encoder(tokens).states[tokens.mask], atol=1e-5)
    assert same == equal


@pytest.mark.parametrize("family", ["roberta", "bert", "distilbert"])
def test_dropout_is_set_in_every_layer(family: str) -> None:
    encoder = tiny(family, dropout=0.25)
    rates = [module.p for module in encoder.modules() if isinstance(module, torch.nn.Dropout)]
    assert rates and set(rates) == {0.25}


def test_weights_in_several_files_are_loaded(tmp_path: Path) -> None:
    original = tiny()
    original.save(tmp_path / "encoder")
    tensors = load_file(tmp_path / "encoder" / "model.safetensors")
    (tmp_path / "encoder" / "model.safetensors").unlink()
    names = {name: f"model-{number % 2}.safetensors" for number, name in enumerate(tensors)}
    for file in set(names.values()):
        shard = {name: tensor for name, tensor in tensors.items() if names[name] == file}
        save_file(shard, tmp_path / "encoder" / file, metadata={"format": "pt"})
    write_json(tmp_path / "encoder" / "model.safetensors.index.json", {"weight_map": names})
    found = encoders.load(tmp_path / "encoder").encode(["a cat"])
    np.testing.assert_array_equal(found, original.encode(["a cat"]))
