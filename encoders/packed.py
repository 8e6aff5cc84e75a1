"""Recurrent layers over packed rows, with a backward pass in linear time on a CPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.utils.rnn import PackedSequence

from encoders.kernels import autocast_dtype, without_autocast

STEPS = 8  # per chunk on a CPU: longer ones waste time in the backward pass, shorter ones sum more gradients
COUNTED = "meta"  # device on which operations are counted


def packing(lengths: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """Computes how B rows of ``lengths`` (of shape (B,), on the host) in a block of ``width`` are packed.

    Returns:
        Places of the N real tokens in the flattened block (B * width,), in packed order (first tokens first,
        longer rows first; empty rows are left out), and how many rows are still running at each position.
    """
    order = torch.argsort(lengths, descending=True, stable=True)
    longest = int(lengths.max()) if len(lengths) else 0
    running = torch.arange(longest)[:, None] < lengths[order]  # (longest, B)
    position, rank = running.nonzero(as_tuple=True)
    return order[rank] * width + position, running.sum(dim=1)


def recurrent(layer: nn.RNNBase, data: Tensor, running: Tensor) -> Tensor:
    """Runs an nn.LSTM or nn.GRU over packed rows; returns states of shape (N, H).

    Args:
        layer: a single layer, in one direction or both.
        data: N tokens in packed order, of shape (N, E).
        running: rows at each position, of shape (T,), on the host, as ``packing`` returns it.
    """
    if data.device.type != COUNTED and (data.device.type != "cpu" or not torch.is_grad_enabled()):
        return layer(PackedSequence(data, running))[0].data
    kernel, directions = torch.lstm if isinstance(layer, nn.LSTM) else torch.gru, layer.all_weights
    zeros = data.new_zeros(1, int(running[0]), layer.hidden_size)
    start = [zeros] * (2 if kernel is torch.lstm else 1)
    states = in_chunks(kernel, data, running, start, directions[0])
    if not layer.bidirectional:
        return states
    mirror = _mirror(running)
    backwards = in_chunks(kernel, _Mirrored.apply(data, mirror), running, start, directions[1])
    return torch.cat([states, _Mirrored.apply(backwards, mirror)], dim=1)


def in_chunks(
    kernel: Callable[..., Any], data: Tensor, running: Tensor, start: Sequence[Tensor], weights: Sequence[Tensor]
) -> Tensor:
    """Runs a kernel over packed rows in one direction; returns states of shape (N, H).

    Torch's CPU kernels slice the rows of each step out of the whole packed sequence, and the backward pass of each
    slice fills a gradient as large as the whole: time grows with the square of the length. It does not if the
    sequence is first split into chunks of a few steps. On other devices the sequence is one chunk. On the meta
    device, where operations are counted, the products of all tokens are computed at once.

    Args:
        kernel: torch.lstm or torch.gru.
        data, running: see ``recurrent``.
        start: the first states (and cells), each of shape (1, B, H).
        weights: of input and state, and their biases.
    """
    if data.device.type == COUNTED:
        states = (data @ weights[0].T)[:, : weights[1].shape[1]]
        return states + (states @ weights[1].T)[:, : states.shape[1]]
    cut = data.device.type == "cpu" and torch.is_grad_enabled()
    sizes = running.split(STEPS if cut else len(running))
    state, chunks = list(start), []
    for part, size in zip(data.split([int(size.sum()) for size in sizes]), sizes, strict=True):
        state = [tensor[:, : int(size[0])] for tensor in state]  # without rows that have ended
        initial = state[0] if len(state) == 1 else tuple(state)
        chunk, *state = kernel(part, size, initial, tuple(weights), True, 1, 0.0, torch.is_grad_enabled(), False)
        chunks.append(chunk)
    return torch.cat(chunks)


def _mirror(running: Tensor) -> Tensor:
    """Returns the place of each of N packed tokens if every row is read backwards; it is its own inverse."""
    present = torch.arange(int(running[0])) < running[:, None]  # (T, B)
    position, rank = present.nonzero(as_tuple=True)
    return (running.cumsum(0) - running)[present.sum(dim=0)[rank] - 1 - position] + rank


class _Mirrored(torch.autograd.Function):
    """``values[mirror]``, with a gradient that is mirrored, too: each index occurs once, so nothing is summed."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, mirror: Tensor) -> Tensor:
        ctx.mirror = mirror
        return values.index_select(0, mirror)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient.index_select(0, ctx.mirror), None


def without_bf16_autocast(values: Tensor) -> AbstractContextManager[None]:
    """Switches autocast off on the device of ``values`` if it is in bf16, for recurrent kernels.

    On a GPU they would run in float16 (ATen's AutocastRNN.cpp always casts to that type), in which small gradients
    underflow without loss scaling, and bf16 training has none. On a CPU oneDNN has no backward pass of an
    LSTM in bf16, and a GRU is many times slower than in float32. Autocast in float16 is left on.
    """
    bf16 = autocast_dtype(values.device) == torch.bfloat16
    return without_autocast(values.device) if bf16 else nullcontext()
