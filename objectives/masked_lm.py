"""Masked language modelling (Devlin et al. 2019, section 3.1): which tokens are hidden, and the loss on them."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from data.batch import IGNORE
from data.token_format import TokenFormat
from encoders.base import Encoder
from objectives.functional import at_least_float32

ROWS_AT_ONCE = 2048  # rows x vocabulary is the peak of memory: 2,048 x 50,265 float32 are 0.4 GB


def mask_tokens(
    content: np.ndarray, format: TokenFormat, probability: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Hides tokens for MLM.

    Each non-special position is selected by Bernoulli(``probability``); of the selected, 80 % become the mask
    token, 10 % a random token of the whole vocabulary, 10 % stay.

    Args:
        content: token ids of shape (n,), without the added special tokens.

    Returns:
        Ids with tokens hidden and labels (the original id, or ``IGNORE``), both of shape (n,), int64.
    """
    assert format.mask_id is not None, "refused earlier by the objective's needs"
    content = content.astype(np.int64)  # stores keep small unsigned types, which cannot hold IGNORE
    selected = (rng.random(len(content)) < probability) & ~np.isin(content, list(format.special_ids))
    fate = rng.random(len(content))
    random_ids = rng.integers(format.vocab_size, size=len(content))
    hidden = np.where(fate < 0.8, format.mask_id, np.where(fate < 0.9, random_ids, content))
    return np.where(selected, hidden, content), np.where(selected, content, IGNORE)


def masked_lm_sum(encoder: Encoder, states: Tensor, labels: Tensor) -> Tensor:
    """Summed cross-entropy over the positions that have a label.

    Only those positions are projected to the vocabulary, in chunks whose logits are not kept.

    Args:
        states: of shape (B, T, H).
        labels: of shape (B, T), on the host; ``IGNORE`` where nothing is to be predicted.

    Returns:
        Scalar, float32.
    """
    states, labels = labelled(states, labels)

    def loss(part: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(at_least_float32(encoder.token_logits(part)), target, reduction="sum")

    if len(labels) <= ROWS_AT_ONCE:
        return loss(states, labels)
    parts = zip(states.split(ROWS_AT_ONCE), labels.split(ROWS_AT_ONCE), strict=True)
    return torch.stack([checkpoint(loss, part, target, use_reentrant=False) for part, target in parts]).sum()


def labelled(states: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """The M states that have a label, of shape (M, H), and these labels, of shape (M,), on their device.

    Args:
        states, labels: as ``masked_lm_sum`` has them.
    """
    chosen = (labels.flatten() != IGNORE).nonzero().squeeze(1)  # on the host: nothing waits for the device
    wanted = labels.flatten()[chosen].to(states.device, non_blocking=True)
    return states.flatten(0, 1)[chosen.to(states.device, non_blocking=True)], wanted
