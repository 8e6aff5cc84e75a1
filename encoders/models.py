"""Models of the transformers library: opened from a folder or made untrained, and the names of their parts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from tokenizers import normalizers
from torch import Tensor, nn
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForMaskedLM,
    AutoTokenizer,
    PretrainedConfig,
    PreTrainedModel,
)
from transformers.utils import logging as hf_logging

from data.errors import UserError, reason
from encoders import offline, random_start
from encoders.layout import Layout

# How the families' masked-language-model classes hold their head: modules applied one after the other.
_HEADS = (
    ("lm_head",),  # RoBERTa, XLM-R, CamemBERT, MPNet
    ("cls",),  # BERT, DeBERTa
    ("predictions",),  # ALBERT
    ("vocab_transform", "activation", "vocab_layer_norm", "vocab_projector"),  # DistilBERT
    ("head", "decoder"),  # ModernBERT
    ("generator_predictions", "generator_lm_head"),  # ELECTRA
)
# What the families call the probabilities of dropout.
_DROPOUTS = (
    "hidden_dropout_prob", "attention_probs_dropout_prob", "dropout", "attention_dropout", "embedding_dropout",
    "mlp_dropout", "resid_pdrop", "embd_pdrop", "attn_pdrop",
)  # fmt: skip


# Families in which each token attends to all: others turn a mask of padding into one of their own (causal, local).
SEE_ALL = frozenset(("albert", "bert", "camembert", "distilbert", "electra", "roberta", "xlm-roberta"))


def full_mask(mask: Tensor) -> Tensor:
    """``mask`` of shape (B, T) as a view of shape (B, 1, T, T): who may attend to whom."""
    return mask[:, None, None, :].expand(-1, -1, mask.shape[1], -1)


def with_dropout(config: PretrainedConfig, dropout: float | None) -> PretrainedConfig:
    """Sets every probability of dropout in ``config``; None leaves them."""
    for key in _DROPOUTS if dropout is not None else ():
        if hasattr(config, key):
            setattr(config, key, dropout)
    return config


def untrained(config: PretrainedConfig, options: Mapping[str, Any]) -> PreTrainedModel:
    """A model with random weights, with an MLM head if its family has one."""
    kind = AutoModelForMaskedLM if offline.has_masked_lm(config.model_type) else AutoModel
    try:
        model = kind.from_config(config, trust_remote_code=False, **options)
    except (ValueError, ImportError) as error:
        raise ValueError(f"encoder.shape or encoder.attention: {error}") from error
    return model if head_parts(model) is not None else model.base_model


def load_tokenizer(layout: Layout) -> Any:
    """The fast tokenizer of a folder.

    Raises:
        UserError: if it cannot be opened, or there is no fast one.
    """
    with readable(layout.transformer):
        tokenizer = AutoTokenizer.from_pretrained(layout.transformer, trust_remote_code=False)
    if not tokenizer.is_fast:
        raise UserError(f"{layout.transformer} has no fast tokenizer (tokenizer.json).")
    backend = tokenizer.backend_tokenizer
    if layout.lowercase:
        backend.normalizer = normalizers.Sequence(
            [normalizers.Lowercase(), *([backend.normalizer] if backend.normalizer else [])]
        )
    return tokenizer


def load_model(folder: Path, dropout: float | None, options: Mapping[str, Any]) -> PreTrainedModel:
    """The model with its MLM head if all of the head's weights are there, else without one.

    Raises:
        UserError: if it cannot be opened, lacks weights of the model itself, or has a decoder.
    """
    with readable(folder), quiet():
        config = with_dropout(AutoConfig.from_pretrained(folder, trust_remote_code=False), dropout)
        if config.is_encoder_decoder:
            raise UserError(
                f"{folder} holds an encoder with a decoder ({config.model_type}), which is not opened here."
            )
        kind = AutoModelForMaskedLM if offline.has_masked_lm(config.model_type) else AutoModel
        model, report = kind.from_pretrained(
            folder,
            config=config,
            dtype=torch.float32,
            trust_remote_code=False,
            use_safetensors=True,
            output_loading_info=True,
            **options,
        )
    inside = f"{model.base_model_prefix}." if model.base_model is not model else ""
    absent = sorted(key for key in report["missing_keys"] if key.startswith(inside))
    if absent:
        raise UserError(f"{folder} lacks {len(absent)} of the model's weights ({absent[0]}, ...).")
    whole = not report["missing_keys"] and head_parts(model) is not None
    return model if whole else model.base_model


def head_parts(model: PreTrainedModel) -> tuple[str, ...] | None:
    """Names of the modules that make up the MLM head, in the order of their application; None without one."""
    if model.base_model is model:
        return None
    return next((parts for parts in _HEADS if all(hasattr(model, part) for part in parts)), None)


def keep_layers(model: PreTrainedModel, layers: int) -> None:
    """Cuts ``model`` down to its embeddings and its first ``layers`` layers; a head stays.

    Raises:
        UserError: if it has fewer.
    """
    backbone, config = model.base_model, model.config
    depth = config.num_hidden_layers
    if not 0 <= layers <= depth:
        raise UserError(f"layers must be from 0, the embeddings alone, to {depth}. Got {layers} instead.")
    for parent in list(backbone.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.ModuleList) and len(child) == depth:
                setattr(parent, name, child[:layers])
    config.num_hidden_layers = layers  # ALBERT has no list of them: one is applied again and again


def positions(config: PretrainedConfig) -> int:
    """Tokens that the model can tell the places of; as good as no limit where places are relative."""
    positions = getattr(config, "max_position_embeddings", None)
    if positions is None or positions < 1:
        return 1_000_000
    return positions - (config.pad_token_id + 1 if config.model_type in random_start.PADDED_POSITIONS else 0)


@contextmanager
def readable(folder: Path, what: str = "an encoder") -> Iterator[None]:
    """Turns what transformers raises at files it cannot use as ``what`` into one line."""
    try:
        yield
    except (OSError, ValueError, KeyError, RuntimeError, ImportError, SafetensorError) as error:
        raise UserError(f"{folder} cannot be opened as {what}: {reason(error)}.") from error


@contextmanager
def quiet() -> Iterator[None]:
    """Keeps transformers from reporting what is checked here anyway (weights that a head lacks, say)."""
    verbosity, bar = hf_logging.get_verbosity(), hf_logging.is_progress_bar_enabled()
    hf_logging.set_verbosity_error()
    hf_logging.disable_progress_bar()
    try:
        yield
    finally:
        hf_logging.set_verbosity(verbosity)
        if bar:
            hf_logging.enable_progress_bar()
