"""Masked-language-model heads of transformers' families: the modules that map states to scores of tokens."""

from __future__ import annotations

from typing import Any

from torch import Tensor

# Applied one after the other.
HEADS = (
    ("lm_head",),  # RoBERTa, XLM-R, CamemBERT, MPNet
    ("cls",),  # BERT, DeBERTa
    ("predictions",),  # ALBERT
    ("vocab_transform", "activation", "vocab_layer_norm", "vocab_projector"),  # DistilBERT
    ("head", "decoder"),  # ModernBERT
    ("generator_predictions", "generator_lm_head"),  # ELECTRA
)


def head_parts(model: Any) -> tuple[str, ...] | None:
    """Returns the names of the head's modules in a model of transformers; None if it has no head."""
    if model.base_model is model:
        return None
    return next((parts for parts in HEADS if all(hasattr(model, part) for part in parts)), None)


def token_logits(model: Any, states: Tensor) -> Tensor:
    """Computes the head's scores, of shape (M, V), for states of shape (M, H)."""
    for part in head_parts(model) or ():
        states = getattr(model, part)(states)
    return states
