"""Floating-point operations of a training step, counted on torch's meta device, on which nothing is computed."""

from __future__ import annotations

import copy

from torch.utils.flop_counter import FlopCounterMode

from data.batch import Batch
from data.loader import Batches
from encoders.base import Encoder
from objectives.base import Objective

SAMPLED = 16  # micro-batches of each task from which the mean number of tokens is estimated


def measure_flops(objective: Objective, encoder: Encoder, batches: Batches) -> float:
    """Counts the expected operations of a training step over one micro-batch: ``loss`` and its backward pass.

    The operations of one micro-batch of each task are counted, and scaled to the mean number of tokens. Matrix
    products and attention count, with 2 operations for a product and its sum. The result depends on the
    configuration and the text, but not on seed, device, precision or number of processes.

    Args:
        objective: after ``build``.
        encoder: the encoder that it trains.
        batches: the training part's micro-batches of all processes together.
    """
    objective, encoder = copy.deepcopy((objective, encoder))  # together, as they may share weights
    objective.to("meta").train()
    encoder.to("meta").train()
    for module in encoder.modules():
        if config := getattr(module, "config", None):
            config.pad_token_id = None  # transformers would read values to warn of padding without a mask

    def count(batch: Batch) -> float:
        with FlopCounterMode(display=False) as counter:
            objective.loss(encoder, batch.to("meta")).total.backward()
        return counter.get_total_flops()

    return batches.expectation(count, 1) * batches.mean_tokens(SAMPLED) / batches.mean_tokens(1)
