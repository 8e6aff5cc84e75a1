"""Loss of masked language modelling (Devlin et al. 2019, section 3.1); ``data.views.masking`` masks the tokens."""

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

SCORES_AT_ONCE = 10**8  # of all tokens for some positions, the peak of memory: 2,000 positions x 50,265
GPU_SHARE = 1 / 32  # of a GPU's memory that scores may take in float32, where it has room for more of them
SCORES_IN_CACHE = 2**19  # float32, that a CPU's core works through without its memory


def masked_lm_sum(encoder: Encoder, states: Tensor, labels: Tensor) -> Tensor:
    """Summed cross-entropy over the positions that have a label.

    Only those positions are projected to the vocabulary; where they are many, in chunks whose scores are not kept
    (on a large GPU many more are kept than on a CPU).
    It can be differentiated once.

    Args:
        states: of shape (B, T, H).
        labels: of shape (B, T), on the host; ``IGNORE`` where nothing is to be predicted.

    Returns:
        Scalar, float32.
    """
    states, labels = labelled(states, labels)

    def loss(part: Tensor, target: Tensor) -> Tensor:
        return cross_entropy_of_scores(encoder.token_logits(part), target)

    rows = max(1, _scores_at_once(states.device) // encoder.format.vocab_size)
    if len(labels) <= rows:
        return loss(states, labels)
    parts = zip(states.split(rows), labels.split(rows), strict=True)
    return torch.stack([checkpoint(loss, part, target, use_reentrant=False) for part, target in parts]).sum()


def _scores_at_once(device: torch.device) -> int:
    """Returns how many scores are kept for the backward pass; more are computed again, chunk by chunk."""
    if device.type != "cuda":
        return SCORES_AT_ONCE
    return max(SCORES_AT_ONCE, int(GPU_SHARE * torch.cuda.get_device_properties(device).total_memory) // 4)


def labelled(states: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """The M states that have a label, of shape (M, H), and these labels, of shape (M,), on their device.

    Args:
        states, labels: as ``masked_lm_sum`` has them.
    """
    chosen = (labels.flatten() != IGNORE).nonzero().squeeze(1)  # on the host: nothing waits for the device
    wanted = to_device(labels.flatten()[chosen], states.device)
    return states.flatten(0, 1)[to_device(chosen, states.device)], wanted


def cross_entropy_of_scores(scores: Tensor, wanted: Tensor) -> Tensor:
    """-log softmax(scores)[wanted], summed over N rows.

    Of ``scores`` in half precision no other copy is made as a whole: float32 is for as few rows at a time as stay
    in a CPU's cache, where the usual form waits for its memory. (A decoder's output is one linear layer,
    whose product is taken within its loss, objectives.decoder.cross_entropy_sum; heads here have many forms.)

    Args:
        scores: of shape (N, V).
        wanted: of shape (N,), int64.

    Returns:
        Scalar, at least float32. It can be differentiated once.
    """
    return _CrossEntropyOfScores.apply(scores, wanted)


class _CrossEntropyOfScores(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, wanted: Tensor) -> Tensor:
        rows = _rows_in_cache(scores)
        norms = torch.cat([at_least_float32(part).logsumexp(dim=1) for part in scores.split(rows)])
        ctx.save_for_backward(scores, wanted, norms)
        return (norms - scores.gather(1, wanted[:, None])[:, 0]).sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, given: Tensor) -> tuple[Tensor, None]:
        scores, wanted, norms = ctx.saved_tensors
        rows = _rows_in_cache(scores)
        gradient = torch.empty_like(scores)
        parts = (each.split(rows) for each in (scores, wanted[:, None], norms[:, None], gradient))
        for score, column, norm, result in zip(*parts, strict=True):
            softmax = (at_least_float32(score) - norm).exp_()
            softmax.scatter_add_(1, column, softmax.new_full((1, 1), -1.0).expand_as(column))
            result.copy_(softmax.mul_(given))
        return gradient, None


def _rows_in_cache(scores: Tensor) -> int:
    return max(1, len(scores) if scores.is_cuda else SCORES_IN_CACHE // scores.shape[1])
