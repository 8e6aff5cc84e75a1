"""Masked-language-model loss (Devlin et al. 2019, section 3.1); ``data.views.masking`` masks the tokens.

L = - sum_t  log softmax(scores_t)[y_t]        t: masked positions
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint

from data.batch import IGNORE, to_device
from encoders.base import Encoder
from objectives.functional import at_least_float32

CITATION = """@inproceedings{devlin-etal-2019-bert,
  title = {{BERT}: Pre-training of Deep Bidirectional Transformers for Language Understanding},
  author = {Devlin, Jacob and Chang, Ming-Wei and Lee, Kenton and Toutanova, Kristina},
  booktitle = {Proceedings of NAACL-HLT},
  year = {2019},
  pages = {4171--4186}
}"""

SCORES_AT_ONCE = 10**8  # largest block of scores kept for the backward pass: 2,000 positions x 50,265 tokens
SCORES_IN_CACHE = 2**19  # float32 scores that fit into the cache of a CPU core


def masked_lm_sum(encoder: Encoder, states: Tensor, labels: Tensor) -> Tensor:
    """Computes the summed cross-entropy over the positions that have a label; differentiable once.

    Only these positions are projected to the vocabulary. If they are many, their scores are computed in chunks,
    and again in the backward pass.

    Args:
        encoder: with an MLM head.
        states: of shape (B, T, H).
        labels: token ids to predict, of shape (B, T), on the host; ``IGNORE`` at all other positions.

    Returns:
        Scalar, float32.
    """
    states, labels = labelled_states(states, labels)

    def loss(part: Tensor, target: Tensor) -> Tensor:
        return CrossEntropyOfScores.apply(encoder.token_logits(part), target)

    rows = max(1, SCORES_AT_ONCE // encoder.format.vocab_size)
    if len(labels) <= rows:
        return loss(states, labels)
    parts = zip(states.split(rows), labels.split(rows), strict=True)
    return torch.stack([checkpoint(loss, part, target, use_reentrant=False) for part, target in parts]).sum()


def labelled_states(states: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Selects the M states that have a label.

    Args:
        states, labels: as in ``masked_lm_sum``.

    Returns:
        The states, of shape (M, H), and their labels, of shape (M,), on the device of the states.
    """
    chosen = (labels.flatten() != IGNORE).nonzero().squeeze(1)  # on the host, so that nothing waits for the device
    targets = to_device(labels.flatten()[chosen], states.device)
    return states.flatten(0, 1)[to_device(chosen, states.device)], targets


class CrossEntropyOfScores(torch.autograd.Function):
    """Computes -log softmax(scores)[targets], summed over N rows; differentiable once.

    Scores in half precision are converted to float32 a few rows at a time, so few that they stay in a CPU's cache:
    the usual implementation copies all of them and is bound by memory. (``objectives.decoder.cross_entropy_sum``
    goes further, but only for scores that come from a single linear layer; MLM heads have many forms.)

    Args:
        scores: of shape (N, V).
        targets: of shape (N,), int64.

    Returns:
        Scalar, in float32 or float64.
    """

    @staticmethod
    def forward(ctx: Any, scores: Tensor, targets: Tensor) -> Tensor:
        rows = _rows_in_cache(scores)
        norms = torch.cat([at_least_float32(part).logsumexp(dim=1) for part in scores.split(rows)])
        ctx.save_for_backward(scores, targets, norms)
        return (norms - scores.gather(1, targets[:, None])[:, 0]).sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:
        scores, targets, norms = ctx.saved_tensors
        rows = _rows_in_cache(scores)
        gradient = torch.empty_like(scores)
        parts = (each.split(rows) for each in (scores, targets[:, None], norms[:, None], gradient))
        for score, column, norm, result in zip(*parts, strict=True):
            softmax = (at_least_float32(score) - norm).exp_()
            softmax.scatter_add_(1, column, softmax.new_full((1, 1), -1.0).expand_as(column))
            result.copy_(softmax.mul_(grad_output))
        return gradient, None


def _rows_in_cache(scores: Tensor) -> int:
    return max(1, len(scores) if scores.is_cuda else SCORES_IN_CACHE // scores.shape[1])
