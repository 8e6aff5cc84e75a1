"""Measures speed and memory of training and evaluation on a GPU within eight minutes.

    python benchmarks/gpu.py [--device auto|cpu|cuda] [--small]

Training: DeCLUTR with a transformer of roberta-base's size (random weights, 50,265 words, random tokens: nothing
is downloaded) in bf16, with spans of 32 to 512 tokens, N = 16, A = 2, P = 2, in 1, 2, 3 and 6 sub-batches of
similar length, and packed where the encoder can. Memory: the peak of a step at N = 256, P = 4 with gradient
caching. Evaluation: sentences a second at each precision, and the 41 fits of an outer fold of logistic
regression.

Prints a Markdown table. Batches are sampled before the clock starts. The number of kernels and the device's idle
share are those of three steps under torch.profiler. A part that exceeds its time limit is reported as such, and
the next one begins. --small measures a tiny model, to test the script on a CPU within a minute.
"""

from __future__ import annotations

import argparse
import itertools
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import FrameType

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run directly, from anywhere

import numpy as np
import torch

from benchmarks.memory import reset_peak, resident
from data.batch import Batch
from data.randomness import generator
from encoders.kernels import Precision
from encoders.transformer import Transformer
from experiments.optimizer import AdamW
from objectives.declutr import Declutr

GROUPS = (1, 2, 3, 6)
PRECISIONS: tuple[Precision, ...] = ("fp32", "tf32", "bf16")
WARM, PROFILED = 2, 3  # steps


@dataclass(frozen=True)
class Sizes:
    """Sizes of the model and of its batches, and the time limit of a part in seconds."""

    layers: int = 12
    width: int = 768
    words: int = 50_265
    longest: int = 512  # of a span
    documents: int = 16
    steps: int = 20
    many_documents: int = 256
    many_positives: int = 4
    cache_chunk: int = 8192
    sentences: int = 20_000
    examples: int = 10_000  # of a classification task
    seconds: int = 38


SMALL = Sizes(2, 32, 500, 32, 4, 2, 8, 4, 256, 200, 300, 20)


def transformer(sizes: Sizes, device: str, attention: str | None = None) -> Transformer:
    """Returns a random model of the given size, with an MLM head and a vocabulary of the real size."""
    shape = {"model_type": "roberta", "num_hidden_layers": sizes.layers, "hidden_size": sizes.width}
    shape |= {"num_attention_heads": max(1, sizes.width // 64), "intermediate_size": 4 * sizes.width}
    numbers = [" ".join(map(str, range(5000)))]  # the tokenizer needs some text
    torch.manual_seed(0)
    encoder = Transformer(
        weights="random", shape=shape, vocab_size=400, texts=lambda: numbers, max_length=512, attention=attention
    )
    encoder.model.resize_token_embeddings(sizes.words, mean_resizing=False)
    encoder.format = replace(encoder.format, vocab_size=sizes.words)
    return encoder.to(device).train()


def random_batches(objective: Declutr, encoder: Transformer, count: int) -> list[Batch]:
    """Returns ``count`` batches of random tokens."""
    batches = []
    for number in range(count):
        rng = generator(0, number)
        units = [
            rng.integers(5, encoder.format.vocab_size, size=objective.requirements.min_tokens + 200)
            for _ in range(objective.batch_size)
        ]
        examples = [
            objective.sample(unit, encoder.format, generator(1, number, i)) for i, unit in enumerate(units)
        ]
        batches.append(objective.collate(examples, encoder.format))
    return batches


def training_step(encoder: Transformer, objective: Declutr, device: str) -> Callable[[Batch], None]:
    """Returns a function that trains on one batch."""
    parameters = [*encoder.parameters(), *objective.parameters()]
    optimizer = AdamW(lr=5e-5, weight_decay=0.1).build(parameters)

    def step(batch: Batch) -> None:
        with torch.autocast(device, torch.bfloat16):
            loss = objective.loss(encoder, batch.to(device)).total
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        objective.after_step()

    return step


def wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def training(sizes: Sizes, device: str, groups: int | None) -> tuple[str, str]:
    """Measures tokens a second in ``groups`` sub-batches (None: packed), and profiles a step."""
    encoder = transformer(sizes, device, None if groups is None else "sdpa")
    objective = Declutr(
        batch_size=sizes.documents,
        min_length=min(32, sizes.longest),
        max_length=sizes.longest,
        length_groups=groups or 1,
    )
    objective.build(encoder)
    step = training_step(encoder, objective.to(device).train(), device)
    batches = random_batches(objective, encoder, WARM + sizes.steps)
    for batch in batches[:WARM]:
        step(batch)
    wait(device)
    start = time.perf_counter()
    for batch in batches[WARM:]:
        step(batch)
    wait(device)
    seconds = time.perf_counter() - start
    tokens = sum(batch.n_tokens for batch in batches[WARM:])
    remark = profiled(step, batches[-PROFILED:], device)
    if groups is None:
        with torch.autocast(device, torch.bfloat16):
            packs = encoder.packs(batches[0].to(device).tokens["anchor"])
        remark = remark if packs else f"padded, as this device packs no rows; {remark}"
    return f"{tokens / seconds:,.0f} tokens/s", remark


def profiled(step: Callable[[Batch], None], batches: list[Batch], device: str) -> str:
    """Counts the kernels of a step, and the share of time in which none runs."""
    if device != "cuda":
        return "no kernels to count"
    from torch.autograd import DeviceType
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as found:
        for batch in batches:
            step(batch)
        wait(device)
    spans = sorted(
        (event.time_range.start, event.time_range.end)
        for event in found.events() or []
        if event.device_type == DeviceType.CUDA
    )
    busy, end = 0.0, spans[0][0]
    for first, last in spans:
        busy += max(0.0, last - max(first, end))
        end = max(end, last)
    idle = 1 - busy / (end - spans[0][0])
    return f"{len(spans) / len(batches):,.0f} operations of the device a step, idle {idle:.0%} (profiled)"


def caching(sizes: Sizes, device: str) -> tuple[str, str]:
    """Measures peak memory and speed of one step of a large batch."""
    encoder = transformer(sizes, device)
    objective = Declutr(
        batch_size=sizes.many_documents,
        positives_per_anchor=sizes.many_positives,
        min_length=min(32, sizes.longest),
        max_length=sizes.longest,
        cache_chunk=sizes.cache_chunk,
    )
    objective.build(encoder)
    step = training_step(encoder, objective.to(device).train(), device)
    [batch] = random_batches(objective, encoder, 1)
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    before = reset_peak() if device == "cpu" else 0.0
    start = time.perf_counter()
    step(batch)
    wait(device)
    seconds = time.perf_counter() - start
    peak = torch.cuda.max_memory_allocated() / 2**30 if device == "cuda" else resident("VmHWM") - before
    return (
        f"{peak:.2f} GiB",
        f"cache_chunk={sizes.cache_chunk}, {batch.n_tokens / seconds:,.0f} tokens/s, one step",
    )


def encoding(sizes: Sizes, device: str, precision: Precision) -> tuple[str, str]:
    """Measures sentences a second of ``encode``."""
    encoder = transformer(sizes, device)
    encoder.encode_in(precision)
    lengths = generator(2).integers(3, 30, size=sizes.sentences)
    words = itertools.cycle(map(str, range(5000)))
    texts = [" ".join(itertools.islice(words, int(length))) for length in lengths]
    encoder.encode(texts[:64])  # warm
    start = time.perf_counter()
    encoder.encode(texts)
    seconds = time.perf_counter() - start
    return f"{len(texts) / seconds:,.0f} sentences/s", f"{len(texts):,} of 3 to 29 numbers"


def classifying(sizes: Sizes, device: str) -> tuple[str, str]:
    """Measures the seconds of one outer fold of nested cross-validation, by the default protocol."""
    from analysis.senteval.classifiers.selection import stratified
    from analysis.senteval.classifiers.training import Fits, fit_many
    from analysis.senteval.protocols import L2, PROTOCOLS

    protocol, rng = PROTOCOLS["default"], generator(3)
    labels = rng.integers(2, size=sizes.examples)
    features = rng.normal(size=(sizes.examples, sizes.width)).astype(np.float32)
    features[:, 0] += labels
    fits = [Fits(*rows, L2) for rows in stratified(labels, protocol.folds)]
    start = time.perf_counter()
    fit_many(features, labels, fits, 2, protocol.classifier, device=device)
    seconds = time.perf_counter() - start
    return (
        f"{seconds:.1f} s",
        f"{len(fits) * len(L2)} fits, {sizes.examples:,} examples of {sizes.width} dimensions",
    )


class PartTimeout(Exception):
    """A part has exceeded its time limit."""


@contextmanager
def limit(seconds: int) -> Iterator[None]:
    """Raises ``PartTimeout`` in its block after so many seconds."""

    def ring(number: int, frame: FrameType | None) -> None:
        raise PartTimeout

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto")
    parser.add_argument("--small", action="store_true", help="a tiny model, to test the script")
    options = parser.parse_args()
    device = options.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    sizes = SMALL if options.small else Sizes()
    shape = f"{sizes.layers} x {sizes.width}"
    many = f"N = {sizes.many_documents}, P = {sizes.many_positives}"
    parts: list[tuple[str, Callable[[], tuple[str, str]]]] = [
        *((f"DeCLUTR, {shape}, bf16, length_groups={n}", partial(training, sizes, device, n)) for n in GROUPS),
        (f"DeCLUTR, {shape}, bf16, packed", partial(training, sizes, device, None)),
        (f"peak of a step, {many}, gradient caching", partial(caching, sizes, device)),
        *((f"encode, {shape}, {one}", partial(encoding, sizes, device, one)) for one in PRECISIONS),
        ("SentEval's classifier", partial(classifying, sizes, device)),
    ]

    name = torch.cuda.get_device_name() if device == "cuda" else f"CPU, {torch.get_num_threads()} threads"
    print(f"{name}, torch {torch.__version__}{', a tiny model: only tests the script' if options.small else ''}\n")
    print("| measured | figure | remarks |\n|---|---|---|")
    for title, part in parts:
        try:
            with limit(sizes.seconds):
                figure, remark = part()
        except PartTimeout:
            figure, remark = "—", f"not done after {sizes.seconds} s"
        except Exception as error:
            figure, remark = "—", f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"
        print(f"| {title} | {figure} | {remark} |", flush=True)
        if device == "cuda":
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
