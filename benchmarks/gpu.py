"""Measures speed and memory of training and evaluation on a GPU within eight minutes.

    python benchmarks/gpu.py [--device cpu|cuda] [--small]

Training: DeCLUTR with a transformer of roberta-base's size (random weights, 50,265 words, random tokens: nothing
is downloaded) in bf16, with spans of 32 to 512 tokens, N = 16, A = 2, P = 2, in 1, 2, 3 and 6 sub-batches of
similar length, and packed where the encoder can. Memory: the peak of a step at N = 256, P = 4 with gradient
caching. Evaluation: sentences a second at each precision.

Prints a Markdown table. Batches are sampled before the clock starts. The number of kernels and the device's idle
share are those of three steps under torch.profiler. A part that exceeds its time limit is reported as such, and
the next one begins. --small measures a tiny model, to test the script on a CPU within a minute.
"""

from __future__ import annotations

import itertools
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run directly, from anywhere

import torch

from benchmarks import harness
from data.batch import Batch
from data.randomness import generator
from encoders.kernels import Precision
from objectives.declutr import Declutr

GROUPS = (1, 2, 3, 6)
PRECISIONS: tuple[Precision, ...] = ("fp32", "tf32", "bf16")
WARM, PROFILED = 2, 3  # steps


@dataclass(frozen=True)
class GPUSizes:
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
    seconds: int = 38


SMALL = GPUSizes(2, 32, 500, 32, 4, 2, 8, 4, 256, 200, 20)


def prepare_training(
    sizes: GPUSizes, device: str, count: int, attention: str | None = None, **settings: int | None
) -> tuple[Callable[[Batch], None], list[Batch]]:
    """Returns a training step of DeCLUTR, and ``count`` batches of random tokens."""
    encoder = harness.random_transformer(
        sizes.layers, sizes.width, words=sizes.words, attention=attention, device=device
    )
    objective = Declutr(min_length=min(32, sizes.longest), max_length=sizes.longest, **settings)  # type: ignore[arg-type]
    encoder.add_mlm_head()
    objective.build(encoder)
    objective.to(device).train()
    length = objective.requirements.min_tokens + 200
    batches = [harness.random_batch(objective, encoder, number, length) for number in range(count)]
    model = torch.nn.ModuleList([encoder, objective])
    return harness.make_step(model, lambda batch: objective.loss(encoder, batch.to(device)).total, device), batches


def training(sizes: GPUSizes, device: str, groups: int | None) -> tuple[str, str]:
    """Measures tokens a second in ``groups`` sub-batches (None: packed, where possible), and profiles a step."""
    step, batches = prepare_training(
        sizes,
        device,
        WARM + sizes.steps,
        None if groups is None else "sdpa",
        batch_size=sizes.documents,
        length_groups=groups or 1,
    )
    for batch in batches[:WARM]:
        step(batch)
    harness.wait(device)
    start = time.perf_counter()
    for batch in batches[WARM:]:
        step(batch)
    harness.wait(device)
    seconds = time.perf_counter() - start
    tokens = sum(batch.n_tokens for batch in batches[WARM:])
    return f"{tokens / seconds:,.0f} tokens/s", profile_steps(step, batches[-PROFILED:], device)


def profile_steps(step: Callable[[Batch], None], batches: list[Batch], device: str) -> str:
    """Counts the device's operations in a step, and the share of time in which none runs."""
    if device != "cuda":
        return "no operations of a device"
    from torch.autograd import DeviceType
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        for batch in batches:
            step(batch)
        harness.wait(device)
    spans = sorted(
        (event.time_range.start, event.time_range.end)
        for event in profiler.events() or []
        if event.device_type == DeviceType.CUDA
    )
    busy, end = 0.0, spans[0][0]
    for first, last in spans:
        busy += max(0.0, last - max(first, end))
        end = max(end, last)
    idle = 1 - busy / (end - spans[0][0])
    return f"{len(spans) / len(batches):,.0f} operations of the device a step, idle {idle:.0%} (profiled)"


def caching(sizes: GPUSizes, device: str) -> tuple[str, str]:
    """Measures peak memory and speed of one step of a large batch."""
    step, [batch] = prepare_training(
        sizes,
        device,
        1,
        batch_size=sizes.many_documents,
        positives_per_anchor=sizes.many_positives,
        cache_chunk=sizes.cache_chunk,
    )
    start = time.perf_counter()
    growth = harness.peak_growth(partial(step, batch), device)
    seconds = time.perf_counter() - start
    return f"{growth:.2f} GiB", f"{batch.n_tokens / seconds:,.0f} tokens/s, one step"


def encoding(sizes: GPUSizes, device: str, precision: Precision) -> tuple[str, str]:
    """Measures sentences a second of ``encode``."""
    encoder = harness.random_transformer(sizes.layers, sizes.width, words=sizes.words, device=device).eval()
    encoder.precision = precision
    lengths = generator(2).integers(3, 30, size=sizes.sentences)
    words = itertools.cycle(map(str, range(5000)))
    texts = [" ".join(itertools.islice(words, int(length))) for length in lengths]
    encoder.encode(texts[:64])  # warm
    start = time.perf_counter()
    encoder.encode(texts)
    seconds = time.perf_counter() - start
    return f"{len(texts) / seconds:,.0f} sentences/s", f"{len(texts):,} of 3 to 29 numbers"


@contextmanager
def limit(seconds: int) -> Iterator[None]:
    """Raises ``TimeoutError`` in its block after so many seconds."""

    def ring(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"not done after {seconds} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def main() -> None:
    parser = harness.make_parser(__doc__, device="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--small", action="store_true", help="a tiny model, to test the script")
    options = parser.parse_args()
    sizes, device = SMALL if options.small else GPUSizes(), options.device
    shape = f"{sizes.layers} x {sizes.width}"
    many = f"N = {sizes.many_documents}, P = {sizes.many_positives}, cache_chunk={sizes.cache_chunk}"
    parts: dict[str, Callable[[], tuple[str, str]]] = {
        **{f"DeCLUTR, {shape}, bf16, length_groups={n}": partial(training, sizes, device, n) for n in GROUPS},
        f"DeCLUTR, {shape}, bf16, packed": partial(training, sizes, device, None),
        f"peak of a step, {many}": partial(caching, sizes, device),
        **{f"encode, {shape}, {name}": partial(encoding, sizes, device, name) for name in PRECISIONS},
    }

    name = torch.cuda.get_device_name() if device == "cuda" else f"CPU, {torch.get_num_threads()} threads"
    print(f"{name}, torch {torch.__version__}{', a tiny model: only tests the script' if options.small else ''}\n")
    print("| measured | figure | remarks |\n|---|---|---|")
    for title, part in parts.items():
        try:
            with limit(sizes.seconds):
                figure, remark = part()
        except Exception as error:
            figure, remark = "—", f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"
        print(f"| {title} | {figure} | {remark} |", flush=True)
        if device == "cuda":
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
