"""Transformers models with random weights: family and sizes from a mapping, ids from a tokenizer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from transformers import (
    CONFIG_MAPPING,
    AutoModel,
    AutoModelForMaskedLM,
    AutoModelForTextEncoding,
    PretrainedConfig,
    PreTrainedTokenizerFast,
)
from transformers.models.auto import modeling_auto

from data.errors import UserError, reading
from encoders.mlm_heads import head_parts

POSITIONS = 512  # by default
FROM_PADDING = {"max_position_embeddings": POSITIONS + 2}  # as positions are counted from the padding id, 1
# Where published models of a family differ from the defaults of its configuration class.
PUBLISHED: dict[str, dict[str, Any]] = {
    "roberta": {"type_vocab_size": 1, "layer_norm_eps": 1e-5, **FROM_PADDING},
    **dict.fromkeys(("xlm-roberta", "camembert", "mpnet"), FROM_PADDING),
}
SPECIAL_IDS = ("bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id")


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
    family = sizes.pop("model_type", None)
    if family not in CONFIG_MAPPING:
        raise UserError(f"{family} is no family of transformers", key="encoder.shape.model_type")
    kind = CONFIG_MAPPING[family]
    defaults = kind()
    for key in sizes:
        if not hasattr(defaults, key):
            raise UserError(f"{kind.__name__} has no such argument", key=f"encoder.shape.{key}")
    ids = {key: getattr(tokenizer, key) for key in SPECIAL_IDS if hasattr(defaults, key)}
    ids |= {"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id}
    with reading("shape", "encoder.shape"):
        if isinstance(sizes.get("layer_types"), str):
            sizes["layer_types"] = [sizes["layer_types"]] * sizes["num_hidden_layers"]
        return kind(**{"max_position_embeddings": POSITIONS, **PUBLISHED.get(family, {}), **sizes, **ids})


def with_dropout(config: PretrainedConfig, dropout: float | None) -> PretrainedConfig:
    """Sets all dropout probabilities in ``config`` to ``dropout``; None: leaves them as they are."""
    for key, value in config.to_dict().items() if dropout is not None else ():
        if "drop" in key and isinstance(value, int | float):
            setattr(config, key, dropout)
    return config


def model_class(config: PretrainedConfig) -> Any:
    """Returns the automatic class of a family: with its MLM head if it has one, of T5's families the encoder."""
    if config.model_type in modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES:
        return AutoModelForTextEncoding  # refuses families without an encoder of its own
    headed = config.model_type in modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES
    return AutoModelForMaskedLM if headed else AutoModel


def random_model(config: PretrainedConfig) -> Any:
    """Returns a model with random weights, with an MLM head if its family has one."""
    with reading("shape", "encoder.shape"):
        model = model_class(config).from_config(config, trust_remote_code=False)
    return model if head_parts(model) else model.base_model
