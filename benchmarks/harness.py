"""Parts of the benchmarks: alternating rounds and their ratios, peak memory, random models, a training step."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from data.batch import Batch
from data.randomness import generator
from data.tokenizer import train_bpe
from encoders.base import Encoder
from encoders.transformer import Transformer
from objectives.base import Objective


def make_parser(documentation: str | None, **defaults: Any) -> argparse.ArgumentParser:
    """Returns a parser with an option for each default, whose help is a module's docstring."""
    parser = argparse.ArgumentParser(
        description=documentation, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, default in defaults.items():
        parser.add_argument(f"--{name}", type=type(default), default=default)
    return parser


def wait(device: str) -> None:
    """Waits for the device's work."""
    if device == "cuda":
        torch.cuda.synchronize()


def measure(sides: Mapping[str, Callable[[int], Any]], rounds: int, device: str = "cpu") -> dict[str, list[float]]:
    """Measures the seconds of each side in rounds, after one that warms up.

    The order alternates, so that a drift of the machine's speed affects all sides.

    Args:
        sides: functions of the round's number.
        rounds: number of rounds.
        device: waited for after each call.
    """
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(rounds + 1):
        for name in list(sides)[:: 1 if number % 2 else -1]:
            start = time.perf_counter()
            sides[name](number)
            wait(device)
            if number:
                seconds[name].append(time.perf_counter() - start)
    return seconds


def spread(values: np.ndarray, form: str = ".2f") -> str:
    """Returns "median (min to max)"."""
    middle, least, most = (format(value, form) for value in np.quantile(values, [0.5, 0, 1]))
    return f"{middle} ({least} to {most})"


def peak_growth(function: Callable[[], Any], device: str) -> float:
    """Returns by how many GiB ``function`` raises the peak of this process or of the GPU."""
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated() / 2**30
        function()
        return torch.cuda.max_memory_allocated() / 2**30 - before
    before = reset_peak()
    function()
    return resident("VmHWM") - before


def reset_peak() -> float:
    """Resets the peak of this process' memory to what is in use, and returns that in GiB."""
    Path("/proc/self/clear_refs").write_text("5")
    return resident("VmRSS")


def resident(figure: str) -> float:
    """Returns this process' resident memory in GiB: "VmRSS" (now) or "VmHWM" (peak since ``reset_peak``)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(figure)) / 2**20


def roberta_shape(layers: int = 4, width: int = 256) -> dict[str, Any]:
    """Returns a RoBERTa's shape, with heads of width 64."""
    sizes = {"num_hidden_layers": layers, "hidden_size": width, "intermediate_size": 4 * width}
    return {"model_type": "roberta", "num_attention_heads": max(1, width // 64), **sizes}


def random_transformer(
    layers: int, width: int, *, words: int, attention: str | None = None, device: str
) -> Transformer:
    """Returns a RoBERTa with random weights, in training mode, whose tokenizer knows numbers.

    Args:
        layers, width: sizes of the model.
        words: number of token embeddings.
        attention: implementation of the attention; None: the default.
        device: device of the model.
    """
    torch.manual_seed(0)
    tokenizer = train_bpe([" ".join(map(str, range(5000)))], vocab_size=400)
    shape = roberta_shape(layers, width)
    encoder = Transformer(weights="random", shape=shape, tokenizer=tokenizer, attention=attention)
    encoder.model.resize_token_embeddings(words, mean_resizing=False)
    encoder.format = replace(encoder.format, vocab_size=words)
    return encoder.to(device).train()


def random_batch(objective: Objective, encoder: Encoder, number: int, length: int) -> Batch:
    """Samples a batch from units of ``length`` random tokens."""
    rng = generator(0, number)
    examples = [
        objective.sample(
            rng.integers(5, encoder.format.vocab_size, size=length), encoder.format, generator(1, number, i)
        )
        for i in range(objective.batch_size)
    ]
    return objective.collate(examples, encoder.format)


def make_step(
    model: nn.Module, loss: Callable[[Any], Tensor], device: str, precision: str = "bf16"
) -> Callable[[Any], None]:
    """Returns a function that takes a step of AdamW on the ``loss`` of its argument."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5, eps=1e-6, weight_decay=0.1, fused=True)

    def step(argument: Any) -> None:
        with torch.autocast(device, torch.bfloat16, enabled=precision == "bf16"):
            value = loss(argument)
        value.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return step
