r"""Conditional GRU decoder: predicts a token sequence from a sentence vector, with teacher forcing.

    r = sigmoid(W_r x_t + C_r h_x + U_r h + b_r)        z = sigmoid(W_z x_t + C_z h_x + U_z h + b_z)
    n = tanh(W_n x_t + C_n h_x + b_n + r * (U_n h + c_n))        h' = (1 - z) * n + z * h
    p(y_t | y_<t, h_x) = softmax(V h' + d)

x_t is the vector of the previous token, h_x the sentence vector, and the first state is h_x. Subramanian et al.
(2018), section 3, in the form of their published program and of stock GRU kernels: equation 3 of the paper applies
the reset gate before U_d, its z is 1 - z here, and the index in its equation 4 is a misprint.

This is a stock GRU over [x_t ; h_x] with the input weights [W C], so all steps run in one kernel. Used directly,
the kernel would multiply each h_x by C at every step. But within a batch of B sentences, C h_x of sentence i is
column i of C X^T (X: the B vectors as rows), which is C X^T times the i-th unit vector e_i. So C X^T is computed
once, and the kernel runs over [x_t ; e_i] with the input weights [W  C X^T]: it has B columns in place of the D of
C.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import cross_entropy

from data.batch import Tokens, to_device
from encoders.kernels import autocast_dtype, without_autocast
from encoders.packed import in_chunks, packing, without_bf16_autocast
from objectives.functional import at_least_float32

WORD_RANGE = 0.1  # word vectors are initialised uniformly in [-0.1, 0.1], as in the published program
CHUNK = 256  # positions whose scores over the vocabulary are held at once


class Decoder(nn.Module):
    """GRU decoder with word vectors and an output layer of its own.

    Args:
        vocabulary: V, number of token ids, ``START`` and ``END`` included.
        condition: D, width of a sentence vector.
        word_size: E, width of a word vector.
        hidden: H, width of a state; None: D. If it differs from D, the first state is a linear map of h_x.
        dropout: dropout probability of h_x, in the first state and in the gates.
    """

    chunk = CHUNK

    def __init__(
        self,
        *,
        vocabulary: int,
        condition: int,
        word_size: int = 512,
        hidden: int | None = None,
        dropout: float = 0.3,
    ) -> None:
        super().__init__()
        hidden = condition if hidden is None else hidden
        self.embedding = nn.Embedding(vocabulary, word_size)
        self.start: nn.Module = nn.Identity() if hidden == condition else nn.Linear(condition, hidden)
        self.of_word = nn.Linear(word_size, 3 * hidden)  # W and b, rows in torch's order: r, z, n
        self.of_sentence = nn.Linear(condition, 3 * hidden, bias=False)  # C
        self.of_state = nn.Linear(hidden, 3 * hidden)  # U and c
        self.output = nn.Linear(hidden, vocabulary)  # V and d
        self.dropout = nn.Dropout(dropout)
        nn.init.uniform_(self.embedding.weight, -WORD_RANGE, WORD_RANGE)
        nn.init.zeros_(self.output.bias)
        for part in (self.of_word, self.of_sentence, self.of_state):
            for weight in part.parameters():
                nn.init.uniform_(weight, -(hidden**-0.5), hidden**-0.5)

    def loss(self, vectors: Tensor, targets: Tokens) -> tuple[Tensor, int]:
        """Computes the summed cross-entropy of all target tokens after the first of each row.

        Only real positions are projected to the vocabulary, ``chunk`` at a time, together with the gradient of
        their scores: the scores never exist as a whole, and none is computed twice.

        Args:
            vectors: h_x, of shape (B, D).
            targets: B rows that begin with ``START`` and end with ``END``.

        Returns:
            The sum, a scalar in float32 or float64, and the number of tokens.
        """
        states, words = self.states(vectors, targets)
        return cross_entropy_sum(self.output, states, words, self.chunk), len(words)

    def loss_and_hits(self, vectors: Tensor, targets: Tokens) -> tuple[Tensor, Tensor, int]:
        """Computes the loss and the number of correct predictions; arguments as in ``loss``.

        Returns:
            The summed cross-entropy and the number of tokens whose score is the largest, both scalars, and the
            number of tokens.
        """
        states, words = self.states(vectors, targets)
        total, hits = at_least_float32(states.new_zeros(())), words.new_zeros(())
        for state, tokens in zip(states.split(self.chunk), words.split(self.chunk), strict=True):
            scores = at_least_float32(self.output(state))
            total = total + cross_entropy(scores, tokens, reduction="sum")
            hits = hits + (scores.argmax(dim=1) == tokens).sum()
        return total, hits, len(words)

    def states(self, vectors: Tensor, targets: Tokens) -> tuple[Tensor, Tensor]:
        """Computes the states from which the N target tokens after the first of each row are predicted.

        Returns:
            States of shape (N, H) and the tokens, of shape (N,), both in the order of a packed sequence: all first
            tokens, then all second ones, longer rows first.
        """
        width = targets.ids.shape[1]
        places, running = packing(targets.lengths - 1, width)
        places = to_device(places, targets.ids.device)
        rows = places // width  # (N,)
        ids = targets.ids.flatten()
        vectors = self.dropout(at_least_float32(vectors))
        units = torch.eye(len(vectors), device=vectors.device, dtype=vectors.dtype)
        with without_bf16_autocast(vectors):
            weights = torch.cat([self.of_word.weight, self.of_sentence(vectors).T], dim=1)  # [W  C X^T]
            states = in_chunks(
                torch.gru,
                torch.cat([self.embedding(ids[places]), units[rows]], dim=1),
                running,
                [self.start(vectors)[rows[: len(vectors)]].unsqueeze(0)],
                (weights, self.of_state.weight, self.of_word.bias, self.of_state.bias),
            )
        return states, ids[places + 1]


def cross_entropy_sum(output: nn.Linear, states: Tensor, targets: Tensor, chunk: int) -> Tensor:
    """Computes -log softmax(output(h))[y], summed over N states h and tokens y; differentiable once.

    torch's own ``linear_cross_entropy`` works in chunks as well, but its backward pass holds the gradient of the
    weights twice.

    Args:
        output: linear layer from H to V, applied in autocast's type if autocast is on.
        states: of shape (N, H).
        targets: tokens y, of shape (N,), int64.
        chunk: number of states whose scores are held at once.

    Returns:
        A scalar, in float32 or float64.
    """
    dtype = autocast_dtype(states.device) or output.weight.dtype
    with without_autocast(states.device):
        return _CrossEntropySum.apply(
            states.to(dtype), output.weight, output.bias, targets, chunk, torch.is_grad_enabled()
        )


class _CrossEntropySum(torch.autograd.Function):
    """Computes the gradient with the loss: that of a chunk's scores is their softmax minus the one-hot target.

    Products have the type of ``states``. Sums over chunks have that of the weights: in half precision the later
    chunks of a large batch would be rounded away.
    """

    @staticmethod
    def forward(
        ctx: Any, states: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, chunk: int, training: bool
    ) -> Tensor:
        total = at_least_float32(states.new_zeros(()))
        ctx.gradients = [torch.zeros_like(each) for each in (states, weight, bias)] if training else None
        cast_weight, cast_bias = weight.to(states.dtype), bias.to(states.dtype)
        for first in range(0, len(states), chunk):
            rows = slice(first, first + chunk)
            state, column = states[rows], targets[rows, None]
            scores = at_least_float32(torch.addmm(cast_bias, state, cast_weight.T))  # (n, V)
            norm = scores.logsumexp(dim=1, keepdim=True)
            total += (norm - scores.gather(1, column)).sum()
            if training:
                scores.sub_(norm).exp_().scatter_add_(1, column, scores.new_full((1, 1), -1.0).expand_as(column))
                of_scores = scores.to(states.dtype)
                of_states, of_weight, of_bias = ctx.gradients
                torch.mm(of_scores, cast_weight, out=of_states[rows])
                if of_weight.dtype == state.dtype:
                    torch.addmm(of_weight, of_scores.T, state, out=of_weight)
                else:
                    of_weight += of_scores.T @ state
                of_bias += scores.sum(dim=0)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        gradients, ctx.gradients = ctx.gradients, None  # scaled in place, so this works once
        return (*(each.mul_(grad_output) for each in gradients), None, None, None)
