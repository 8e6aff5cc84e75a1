r"""A conditional GRU decoder: a token sequence from one sentence vector, under teacher forcing.

    r = sigmoid(W_r x_t + C_r h_x + U_r h + b_r)        z = sigmoid(W_z x_t + C_z h_x + U_z h + b_z)
    n = tanh(W_n x_t + C_n h_x + b_n + r * (U_n h + c_n))        h' = (1 - z) * n + z * h
    p(y_t | y_<t, h_x) = softmax(V h' + d)

x_t is the vector of the token before, h_x the sentence vector, and h begins as h_x. Subramanian et al. (2018),
section 3, in the form of their published program and of every stock GRU kernel: the paper's equation 3 has the
reset gate before U_d, its z is 1 - z here, and the index of its equation 4 is a misprint.

That is a stock GRU over [x_t ; h_x] whose input weights are [W C], so that no step is taken in Python. As it
stands, the kernel would multiply each h_x by C at every step. Within a batch of B sentences, though, C h_x of
sentence i is column i of C X^T (X: the B vectors as rows), hence C X^T times the i-th unit vector e_i. So C X^T is
computed once, and the same kernel runs over [x_t ; e_i] with the input weights [W  C X^T]: B columns in place of
C's D, and all but one of their products with e_i are zeros.
"""

from __future__ import annotations

from typing import Annotated, Any

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import cross_entropy

from data.batch import Tokens, to_device
from data.ranges import COUNT, Below1, Count
from data.schema import validated
from data.tokenizer import END, SPECIAL, START
from encoders.packed import in_chunks, in_own_type, packing
from objectives.functional import at_least_float32

WORD_RANGE = 0.1  # first word vectors are uniform within it, as in the published program


class Decoder(nn.Module):
    """Reads a sentence vector, writes tokens.

    Args:
        vocabulary: V, token ids; ``START`` and ``END`` among them.
        condition: D, of the sentence vectors.
        word_size: E, of its own word vectors.
        hidden: H, of its states; None: D. Where it differs from D, a linear map of h_x is the first state.
        dropout: of h_x, in the first state and in the gates alike.
        chunk: positions whose scores over the vocabulary are held at once.

    Raises:
        ValueError: if an argument is out of range.
    """

    def __init__(
        self,
        *,
        vocabulary: Annotated[int, Field(ge=len(SPECIAL) + 1, le=COUNT)],
        condition: Count,
        word_size: Count = 512,
        hidden: Count | None = None,
        dropout: Below1 = 0.3,
        chunk: Count = 256,
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
        self.chunk = chunk
        nn.init.uniform_(self.embedding.weight, -WORD_RANGE, WORD_RANGE)
        nn.init.zeros_(self.output.bias)
        for part in (self.of_word, self.of_sentence, self.of_state):
            for weight in part.parameters():
                nn.init.uniform_(weight, -(hidden**-0.5), hidden**-0.5)

    def loss(self, vectors: Tensor, targets: Tokens) -> tuple[Tensor, int]:
        """Cross-entropy of each target token after the first, summed, and how many these are.

        Only real positions are projected to the vocabulary, ``chunk`` at a time, and the gradient of a chunk's
        scores is computed with it: they are never there as a whole, nor computed twice.

        Args:
            vectors: h_x, of shape (B, D).
            targets: B rows that begin with ``START`` and end with ``END``.

        Returns:
            A scalar, at least float32, and a count.

        Raises:
            ValueError: if there is no row, or one with nothing to predict.
        """
        states, wanted = self.states(vectors, targets)
        return output_loss(self.output, states, wanted, self.chunk), len(wanted)

    def loss_and_hits(self, vectors: Tensor, targets: Tokens) -> tuple[Tensor, Tensor, int]:
        """Returns what ``loss`` returns and, between the two, the number of tokens predicted correctly."""
        states, wanted = self.states(vectors, targets)
        total, hits = (
            states.new_zeros((), dtype=torch.promote_types(states.dtype, torch.float32)),
            wanted.new_zeros(()),
        )
        for state, tokens in zip(states.split(self.chunk), wanted.split(self.chunk), strict=True):
            scores = at_least_float32(self.output(state))
            total = total + cross_entropy(scores, tokens, reduction="sum")
            hits = hits + (scores.argmax(dim=1) == tokens).sum()
        return total, hits, len(wanted)

    def states(self, vectors: Tensor, targets: Tokens) -> tuple[Tensor, Tensor]:
        """States before each target token after the first, of shape (N, H), and these tokens, of shape (N,).

        The order is that of a packed sequence: all first tokens, then all second ones, longer rows first.

        Raises:
            ValueError: if there is no row, or one with nothing to predict.
        """
        width = targets.ids.shape[1]
        if len(targets) == 0 or int(targets.lengths.min()) < 2:
            raise ValueError("Each target must have two tokens or more: what begins it, and one to predict.")
        places, running = packing(targets.lengths - 1, width)
        places = to_device(places, targets.ids.device)
        rows = places // width  # (N,)
        ids = targets.ids.flatten()
        vectors = self.dropout(at_least_float32(vectors))
        with in_own_type(vectors):
            states = in_chunks(
                torch.gru,
                torch.cat([self.embedding(ids[places]), _units(vectors)[rows]], dim=1),
                running,
                [self.start(vectors)[rows[: len(vectors)]].unsqueeze(0)],
                (self._input_weights(vectors), self.of_state.weight, self.of_word.bias, self.of_state.bias),
            )
        return states, ids[places + 1]

    @torch.no_grad()
    def greedy(self, vectors: Tensor, *, max_length: int) -> list[list[int]]:
        """The likeliest token after those before, again and again, without dropout.

        Args:
            vectors: h_x, of shape (B, D).
            max_length: most tokens of a row.

        Returns:
            Ids of each of the B rows up to ``END``, which is not among them.

        Raises:
            ValueError: if ``max_length`` is not positive.
        """
        if max_length < 1:
            raise ValueError(f"max_length must be at least 1. Got {max_length} instead.")
        state, weights, units = self.start(vectors), self._input_weights(vectors), _units(vectors)
        token = torch.full((len(vectors),), START, device=vectors.device)
        ended = torch.zeros_like(token, dtype=torch.bool)
        tokens = []
        for _ in range(max_length):
            given = torch.cat([self.embedding(token), units], dim=1)
            state = torch.gru_cell(
                given, state, weights, self.of_state.weight, self.of_word.bias, self.of_state.bias
            )
            token = self.output(state).argmax(dim=1).masked_fill(ended, END)
            ended = token == END
            if bool(ended.all()):
                break
            tokens.append(token)
        rows = torch.stack(tokens, dim=1).tolist() if tokens else [[] for _ in vectors]
        return [row[: row.index(END)] if END in row else row for row in rows]

    def flops(self, rows: int, tokens: int) -> float:
        """Floating-point operations of a forward pass: 2 a weight and sentence or predicted token, as it is used.

        Args:
            rows: sentences.
            tokens: predicted tokens in all.
        """
        sentence = [self.of_sentence.weight, *(w for w in self.start.parameters() if w.ndim == 2)]
        token = [self.of_word.weight, self.of_state.weight, self.output.weight]
        return 2.0 * sum(
            count * weight.numel() for count, weights in ((rows, sentence), (tokens, token)) for weight in weights
        )

    def _input_weights(self, vectors: Tensor) -> Tensor:
        """[W  C X^T], of shape (3H, E + B), for ``vectors`` of shape (B, D)."""
        return torch.cat([self.of_word.weight, self.of_sentence(vectors).T], dim=1)


validated(Decoder, "decoder")


def _units(vectors: Tensor) -> Tensor:
    """The B unit vectors, of shape (B, B), that name the sentences of a batch."""
    return torch.eye(len(vectors), device=vectors.device, dtype=vectors.dtype)


def output_loss(output: nn.Linear, states: Tensor, wanted: Tensor, chunk: int) -> Tensor:
    """``cross_entropy_sum`` of the scores that a layer gives to states, in autocast's type where it is on."""
    kind = states.device.type
    dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else output.weight.dtype
    weight, bias = output.weight.to(dtype), output.bias.to(dtype)
    with torch.autocast(kind, enabled=False):
        return cross_entropy_sum(states.to(dtype), weight, bias, wanted, chunk)


def cross_entropy_sum(states: Tensor, weight: Tensor, bias: Tensor, wanted: Tensor, chunk: int) -> Tensor:
    """-log softmax(weight h + bias)[y], summed over N states h and tokens y, ``chunk`` states at a time.

    torch's own ``linear_cross_entropy`` works so as well, but its backward pass holds the weights' gradient twice.

    Args:
        states, weight, bias: of shapes (N, H), (V, H), (V,) and of one type.
        wanted: of shape (N,), int64.

    Returns:
        A scalar, at least float32. It can be differentiated once.
    """
    return _CrossEntropySum.apply(states, weight, bias, wanted, chunk, torch.is_grad_enabled())


class _CrossEntropySum(torch.autograd.Function):
    """The gradient of a chunk follows from its scores while these are there: softmax less the wanted one."""

    @staticmethod
    def forward(
        ctx: Any, states: Tensor, weight: Tensor, bias: Tensor, wanted: Tensor, chunk: int, training: bool
    ) -> Tensor:
        total = states.new_zeros((), dtype=torch.promote_types(states.dtype, torch.float32))
        ctx.gradients = [torch.zeros_like(each) for each in (states, weight, bias)] if training else None
        for first in range(0, len(states), chunk):
            rows = slice(first, first + chunk)
            state, column = states[rows], wanted[rows, None]
            scores = at_least_float32(torch.addmm(bias, state, weight.T))  # (n, V)
            norm = scores.logsumexp(dim=1, keepdim=True)
            total += (norm - scores.gather(1, column)).sum()
            if training:
                scores.sub_(norm).exp_().scatter_add_(1, column, scores.new_full((1, 1), -1.0).expand_as(column))
                of_scores = scores.to(states.dtype)
                of_states, of_weight, of_bias = ctx.gradients
                torch.mm(of_scores, weight, out=of_states[rows])
                of_weight.addmm_(of_scores.T, state)
                of_bias += of_scores.sum(dim=0)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, given: Tensor) -> tuple[Tensor | None, ...]:
        if ctx.gradients is None:
            raise RuntimeError("This loss was differentiated already.")
        gradients, ctx.gradients = ctx.gradients, None  # scaled in place, so this works once
        return (*(each.mul_(given) for each in gradients), None, None, None)
