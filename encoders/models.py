"""Models of the transformers library: opens them from a folder or builds untrained ones, and names their parts."""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from tokenizers import normalizers
from torch import Tensor, nn
from transformers import (
    CONFIG_MAPPING,
    AutoModel,
    AutoModelForMaskedLM,
    AutoTokenizer,
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)
from transformers.models.auto import modeling_auto
from transformers.models.auto.auto_factory import _get_model_class  # private: AutoModel opens files itself
from transformers.utils import logging as hf_logging

from data.errors import UserError, reading
from data.files import read_json, write_json
from encoders import folder as folders
from encoders.layout import Layout
from encoders.pooling import POOLER

# How the families' masked-language-model classes hold their head: modules applied one after the other.
_HEADS = (
    ("lm_head",),  # RoBERTa, XLM-R, CamemBERT, MPNet
    ("cls",),  # BERT, DeBERTa
    ("predictions",),  # ALBERT
    ("vocab_transform", "activation", "vocab_layer_norm", "vocab_projector"),  # DistilBERT
    ("head", "decoder"),  # ModernBERT
    ("generator_predictions", "generator_lm_head"),  # ELECTRA
)
# Names of dropout probabilities in the families' configurations.
_DROPOUTS = (
    "hidden_dropout_prob", "attention_probs_dropout_prob", "dropout", "attention_dropout", "embedding_dropout",
    "mlp_dropout", "resid_pdrop", "embd_pdrop", "attn_pdrop",
)  # fmt: skip
# Settings that choose code, files or parallelism; those in a folder are ignored. "implementation" can name a
# repository of kernels, "backbone" a model on the hub; "sinusoidal" fills a table slowly that the weights have.
_IGNORED = re.compile(
    "implementation|auto_map|name_or_path|(fusion|distributed)_config|transformers_weights|chunk_size|backbone|sinusoidal"
)
INDEX = "model.safetensors.index.json"  # lists the files of sharded weights
MLM_INDEX = "model.safetensors.index.mlm.json"  # lists model and MLM head, for transformers' variant="mlm"
# Endings of the names of buffers that older versions of transformers saved: masks and positions.
_BUFFERS = (
    "position_ids", "token_type_ids", "attn.bias", "attention.bias", "masked_bias", "inv_freq",
    "num_batches_tracked",
)  # fmt: skip
POSITIONS = 512  # of a random model, by default

# Where the published models of a family differ from the defaults of its configuration class.
_OWN: dict[str, dict[str, Any]] = {
    "roberta": {"type_vocab_size": 1, "layer_norm_eps": 1e-5},
    "albert": {"embedding_size": 128},
}
_SPECIAL_IDS = ("bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id")
_RENAMED = {"distilbert": {"intermediate_size": "hidden_dim"}}

# Families that count positions from the id of the padding token on (fairseq's habit).
PADDED_POSITIONS = frozenset({"roberta", "roberta-prelayernorm", "xlm-roberta", "camembert", "mpnet", "xmod"})

# Families of text models, without and with those whose encoder has a decoder.
_ENCODERS = {
    **modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    **modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
}
_TEXT = {**_ENCODERS, **modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES}


def family(name: str) -> str | None:
    """Returns the architecture family (``model_type``) in a model's name, if it is one of text models."""
    stem = name.rsplit("/", 1)[-1].lower()
    return max((each for each in _ENCODERS if len(each) > 3 and each in stem), key=len, default=None)


def has_masked_lm(model_type: str) -> bool:
    """Returns whether the family has a masked language model (GPT-2, for example, has none)."""
    return model_type in modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES


def full_mask(mask: Tensor) -> Tensor:
    """Returns ``mask`` of shape (B, T) viewed as (B, 1, T, T): each token may attend to all real ones."""
    return mask[:, None, None, :].expand(-1, -1, mask.shape[1], -1)


def with_dropout(config: PretrainedConfig, dropout: float | None) -> PretrainedConfig:
    """Sets all dropout probabilities in ``config`` to ``dropout``; None: leaves them as they are."""
    for key in _DROPOUTS if dropout is not None else ():
        if hasattr(config, key):
            setattr(config, key, dropout)
    return config


def in_each_layer(shape: Mapping[str, Any], layers: int) -> dict[str, Any]:
    """Returns ``shape``, with "layer_types" repeated for each of ``layers`` layers if it is a single string."""
    kinds = shape.get("layer_types")
    return {**shape, "layer_types": [kinds] * layers} if isinstance(kinds, str) else dict(shape)


def configuration(shape: Mapping[str, Any], tokenizer: PreTrainedTokenizerFast) -> PretrainedConfig:
    """Returns the configuration of the family ``shape["model_type"]`` with the sizes of ``shape``.

    Args:
        shape: "model_type", and arguments of the family's configuration class (num_hidden_layers,
            hidden_size, num_attention_heads, intermediate_size, ...); "layer_types" may be one string for all
            layers.
        tokenizer: gives the vocabulary's size and the special tokens' ids.

    Raises:
        UserError: if the family or an argument is unknown, or a value is refused.
    """
    sizes = dict(shape)
    model_type = sizes.pop("model_type", None)
    if model_type not in CONFIG_MAPPING:
        raise UserError(f"{model_type} is no family of transformers", key="encoder.shape.model_type")
    kind = CONFIG_MAPPING[model_type]
    renamed = _RENAMED.get(model_type, {})
    known = {field.name for field in dataclasses.fields(kind)} | set(kind.attribute_map) | set(renamed)
    for key in sizes:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"Did you mean {near[0]}?" if near else ""
            raise UserError(f"{kind.__name__} has no such argument", key=f"encoder.shape.{key}", hint=hint)
    pad = tokenizer.pad_token_id
    sizes = in_each_layer(sizes, sizes.get("num_hidden_layers", 0))
    offset = pad + 1 if model_type in PADDED_POSITIONS else 0
    settings: dict[str, Any] = {
        "max_position_embeddings": POSITIONS + offset,
        **_OWN.get(model_type, {}),
        **{renamed.get(key, key): value for key, value in sizes.items()},
        "vocab_size": len(tokenizer),
        "pad_token_id": pad,
        **{key: getattr(tokenizer, key) for key in _SPECIAL_IDS if key in known},
    }
    with reading("shape", "encoder.shape"):
        return kind(**settings)


def describe(config: PretrainedConfig) -> str:
    """Describes an untrained model by family and sizes, in one line."""
    return (
        f"random {config.model_type}, {config.num_hidden_layers} layers x {config.hidden_size}, "
        f"vocabulary of {config.vocab_size}"
    )


def untrained(config: PretrainedConfig, options: Mapping[str, Any]) -> PreTrainedModel:
    """Returns a model with random weights, with an MLM head if its family has one.

    Args:
        config: of the model.
        options: further arguments of ``from_config`` ("attn_implementation", say).

    Raises:
        UserError: if the family does not support the sizes or the attention.
    """
    kind = AutoModelForMaskedLM if has_masked_lm(config.model_type) else AutoModel
    with reading("shape", "encoder.shape"):
        model = kind.from_config(config, trust_remote_code=False, **options)
    return model if head_parts(model) is not None else model.base_model


def read_config(folder: Path, dropout: float | None) -> PretrainedConfig:
    """Returns the configuration of a folder's model, without the settings that choose code or other files.

    Raises:
        UserError: if it is no text model's.
    """
    path = folder / "config.json"
    settings = read_json(path, dict[str, Any])
    family = settings.get("model_type")
    if family not in _TEXT:
        raise UserError(f"{family!r} is no family of transformers' text models", key=str(path))
    settings = CONFIG_MAPPING[family].from_dict(_harmless(settings), name_or_path=str(folder))
    return with_dropout(settings, dropout)


def _harmless(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: _harmless(value) if isinstance(value, Mapping) else value
        for key, value in settings.items()
        if not _IGNORED.search(key)
    }


def load_tokenizer(layout: Layout, config: PretrainedConfig) -> Any:
    """Opens the fast tokenizer of a folder.

    Raises:
        UserError: if it is not a fast one.
    """
    tokenizer = AutoTokenizer.from_pretrained(
        layout.transformer, config=config, trust_remote_code=False, local_files_only=True
    )
    if not tokenizer.is_fast:
        raise UserError("no fast tokenizer (tokenizer.json)", key=str(layout.transformer))
    backend = tokenizer.backend_tokenizer
    if layout.lowercase:
        backend.normalizer = normalizers.Sequence(
            [normalizers.Lowercase(), *([backend.normalizer] if backend.normalizer else [])]
        )
    return tokenizer


def load_model(folder: Path, config: PretrainedConfig, options: Mapping[str, Any]) -> PreTrainedModel:
    """Opens the model, with its MLM head if all of the head's weights are there.

    The weights are opened here and passed to transformers, which opens no file itself. Weights of other heads and
    of a pooler are ignored.

    Raises:
        UserError: if it has a decoder, or its weights are not those of the configured model.
    """
    if config.is_encoder_decoder:
        raise UserError(f"an encoder with a decoder ({config.model_type}) is not supported", key=str(folder))
    kind = AutoModelForMaskedLM if has_masked_lm(config.model_type) else AutoModel
    with quiet(), ExitStack() as stack:
        paths = [*weight_files(folder), *(path for path in [folder / folders.HEAD] if path.is_file())]
        files = [stack.enter_context(safe_open(path, framework="pt")) for path in paths]
        weights = {name: file.get_slice(name) for file in files for name in file.keys()}  # noqa: SIM118 (no dictionary)
        model, report = _get_model_class(config, kind._model_mapping).from_pretrained(
            None,
            config=config,
            state_dict=weights,
            dtype=torch.float32,
            ignore_mismatched_sizes=True,
            output_loading_info=True,
            **options,
        )
    prefix = f"{model.base_model_prefix}."
    inside = prefix if model.base_model is not model else ""
    parts = dict(model.base_model.named_children())
    wrong = [f"{name} has another shape" for name, *_ in sorted(report["mismatched_keys"])]
    wrong += [f"{key} is missing" for key in sorted(report["missing_keys"]) if key.startswith(inside)]
    wrong += [f"{key} has no place" for key in sorted(report["unexpected_keys"]) if _of_model(key, prefix, parts)]
    if wrong:
        raise UserError(f"weights and config.json do not fit ({len(wrong)}: {wrong[0]}, ...)", key=str(folder))
    whole = not report["missing_keys"] and head_parts(model) is not None
    return model if whole else model.base_model


def save_model(model: PreTrainedModel, folder: Path) -> None:
    """Writes ``model`` without head as transformers does, and the MLM head's weights into a file of their own.

    In one file, other libraries would report the head's weights as unexpected. With ``variant="mlm"``, the
    ``from_pretrained`` of transformers opens both files.
    """
    prefix = f"{model.base_model_prefix}." if model.base_model is not model else ""
    body = {name: weight for name, weight in model.state_dict().items() if name.startswith(prefix)}
    seen = {weight.data_ptr() for weight in body.values()}
    head = {}
    for name, weight in model.state_dict().items():
        if name not in body and weight.data_ptr() not in seen:  # else it is tied to a saved one
            seen.add(weight.data_ptr())
            head[name] = weight.cpu().contiguous()
    with quiet():
        model.save_pretrained(folder, state_dict=dict(body))  # a copy, as save_pretrained empties it
    if head:
        save_file(head, folder / folders.HEAD, metadata={"format": "pt"})
        places = dict.fromkeys(body, folders.WEIGHTS) | dict.fromkeys(head, folders.HEAD)
        write_json(folder / MLM_INDEX, {"metadata": {}, "weight_map": places})


def weight_files(folder: Path) -> list[Path]:
    """Returns the files of a model's weights: one, or those in an index. Only safetensors files can be opened."""
    index = folder / INDEX
    if (folder / folders.WEIGHTS).is_file() or not index.is_file():
        return [folder / folders.WEIGHTS]
    return sorted({folder / name for name in read_json(index)["weight_map"].values()})


def _of_model(key: str, prefix: str, parts: Mapping[str, nn.Module]) -> bool:
    """Returns whether a weight belongs to the model without head (modules ``parts``) and is not of a pooler."""
    own = key.removeprefix(prefix)
    first = own.split(".")[0]
    return (own != key or first in parts) and not first.startswith(POOLER) and not own.endswith(_BUFFERS)


def head_parts(model: PreTrainedModel) -> tuple[str, ...] | None:
    """Returns the names of the modules of the MLM head, in the order of their application; None without one."""
    if model.base_model is model:
        return None
    return next((parts for parts in _HEADS if all(hasattr(model, part) for part in parts)), None)


def keep_layers(model: PreTrainedModel, layers: int) -> None:
    """Cuts ``model`` down to its embeddings and its first ``layers`` layers; a head stays.

    Raises:
        UserError: if it has fewer layers.
    """
    backbone, config = model.base_model, model.config
    depth = config.num_hidden_layers
    if not 0 <= layers <= depth:
        raise UserError(f"must be from 0, the embeddings only, to {depth}", key=f"layers={layers}")
    for parent in list(backbone.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.ModuleList) and len(child) == depth:
                setattr(parent, name, child[:layers])
    if getattr(config, "layer_types", None):
        config.layer_types = config.layer_types[:layers]
    config.num_hidden_layers = layers  # ALBERT applies one layer this many times


def positions(config: PretrainedConfig) -> int:
    """Returns the number of positions of the model; ``NO_LIMIT`` if positions are relative."""
    positions = getattr(config, "max_position_embeddings", None)
    if positions is None or positions < 1:
        return folders.NO_LIMIT
    return positions - (config.pad_token_id + 1 if config.model_type in PADDED_POSITIONS else 0)


@contextmanager
def quiet() -> Iterator[None]:
    """Silences reports of transformers on what is checked here anyway (a head without weights, for example)."""
    verbosity, bar = hf_logging.get_verbosity(), hf_logging.is_progress_bar_enabled()
    hf_logging.set_verbosity_error()
    hf_logging.disable_progress_bar()
    try:
        yield
    finally:
        hf_logging.set_verbosity(verbosity)
        if bar:
            hf_logging.enable_progress_bar()
