"""Measures GenSen's decoder against the published program's loop, and the memory of its scores over a vocabulary.

    python benchmarks/decoder.py [--hidden 1500] [--sentences 48] [--rounds 5] [--device cpu|cuda]

States: forward and backward pass of teacher forcing, from tokens and sentence vectors to states. The published
loop runs step by step over padded rows and multiplies the sentence vector by C at each step. "[x_t ; h_x]" is
torch's GRU kernel on words joined to sentence vectors, with as many products, but of all steps together. Targets
are measured with one length for all, where nothing is padded, and with lengths as in news (mean 25, deviation
9). All variants begin with the same weights, and their gradients are compared before anything is timed.

Memory: loss and gradient from given states to scores over 30,000 words, at once and in chunks, each in a process
of its own. The growth is that of the peak resident memory (on a GPU, of the allocated memory) beyond weights,
states and the gradients that are kept. It includes one copy of the weights' gradient: 0.17 GiB at width 1500.

Prints seconds and ratios for the states (rounds alternate, ratios are taken round by round), then GiB and
seconds for the scores.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from benchmarks.memory import peak_growth
from data.batch import Tokens
from data.randomness import generator
from data.tokenizer import PAD, START
from encoders.packed import packing
from objectives.decoder import Decoder, cross_entropy_sum

WORDS, VOCABULARY = 1000, 30_000  # size of the vocabulary for states, and for scores
LENGTH, DEVIATION, SHORTEST, LONGEST = 25, 9.0, 4, 88  # predicted tokens of a target
States = Callable[[Decoder, Tensor, Tokens], Tensor]


def loop(decoder: Decoder, vectors: Tensor, targets: Tokens) -> Tensor:
    words = decoder.embedding(targets.ids[:, :-1])
    state = decoder.start(vectors)
    states = []
    for step in range(words.shape[1]):
        i_r, i_z, i_n = decoder.of_word(words[:, step]).chunk(3, dim=1)
        h_r, h_z, h_n = decoder.of_state(state).chunk(3, dim=1)
        c_r, c_z, c_n = decoder.of_sentence(vectors).chunk(3, dim=1)
        reset, keep = torch.sigmoid(i_r + h_r + c_r), torch.sigmoid(i_z + h_z + c_z)
        new = torch.tanh(i_n + reset * h_n + c_n)
        state = new + keep * (state - new)
        states.append(state)
    return torch.stack(states, dim=1)[targets.mask[:, 1:]]


def both_at_each_step(decoder: Decoder, vectors: Tensor, targets: Tokens) -> Tensor:
    width = targets.ids.shape[1]
    places, running = packing(targets.lengths - 1, width)
    places = places.to(vectors.device)
    rows = places // width
    weights = torch.cat([decoder.of_word.weight, decoder.of_sentence.weight], dim=1)
    return torch.gru(
        torch.cat([decoder.embedding(targets.ids.flatten()[places]), vectors[rows]], dim=1),
        running,
        decoder.start(vectors)[rows[: len(vectors)]].unsqueeze(0),
        (weights, decoder.of_state.weight, decoder.of_word.bias, decoder.of_state.bias),
        True, 1, 0.0, True, False,
    )[0]  # fmt: skip


def ours(decoder: Decoder, vectors: Tensor, targets: Tokens) -> Tensor:
    return decoder.states(vectors, targets)[0]


WAYS: dict[str, States] = {"loop": loop, "[x_t ; h_x]": both_at_each_step, "ours": ours}


def random_targets(rng: np.random.Generator, sentences: int, equal: bool, device: str) -> Tokens:
    lengths = np.full(sentences, LENGTH)
    if not equal:
        lengths = rng.normal(LENGTH, DEVIATION, size=sentences).round().clip(SHORTEST, LONGEST).astype(int)
    rows = [np.append(START, rng.integers(5, WORDS, size=length)) for length in lengths]
    return Tokens.pad(rows, PAD).to(device)


def seconds(way: States, decoder: Decoder, vectors: Tensor, targets: Tokens) -> float:
    """Returns the seconds of a forward and backward pass."""
    wait = torch.cuda.synchronize if vectors.is_cuda else lambda: None
    decoder.zero_grad()
    wait()
    start = time.perf_counter()
    way(decoder, vectors, targets).square().sum().backward()
    wait()
    return time.perf_counter() - start


def measure_states(options: argparse.Namespace) -> None:
    torch.manual_seed(0)
    width = options.hidden
    decoder = Decoder(vocabulary=WORDS, condition=width, dropout=0.0).to(options.device)
    vectors = torch.randn(options.sentences, width, device=options.device, requires_grad=True)
    rng = generator(0)
    few = random_targets(rng, min(4, options.sentences), False, options.device)
    gradients = [
        torch.autograd.grad(way(decoder, vectors[: len(few)], few).square().sum(), vectors)[0]
        for way in WAYS.values()
    ]
    for other in gradients[1:]:
        torch.testing.assert_close(other, gradients[0], rtol=1e-3, atol=1e-4)
    print(
        f"states: width {width}, words of {decoder.embedding.embedding_dim}, {options.sentences} sentences, "
        f"{options.device}, {torch.get_num_threads()} threads, {options.rounds} rounds after one warm-up"
    )
    for title, equal in (("equal lengths", True), ("lengths as in news", False)):
        times: dict[str, list[float]] = {name: [] for name in WAYS}
        for number in range(options.rounds + 1):
            targets = random_targets(rng, options.sentences, equal, options.device)
            for name, way in list(WAYS.items())[:: 1 if number % 2 else -1]:
                times[name].append(seconds(way, decoder, vectors, targets))
        for name, taken in times.items():
            ratios = [one / other for one, other in zip(times["loop"][1:], taken[1:], strict=True)]
            shown = f"{min(ratios):.2f} to {max(ratios):.2f}, median {median(ratios):.2f}"
            print(f"{title:>20}  {name:<12} {median(taken[1:]):7.3f} s  loop's time over it: {shown}", flush=True)


def growth(hidden: int, positions: int, chunk: int, device: str) -> tuple[float, float]:
    """Returns the GiB that loss and gradient add to the peak, and their seconds; ``chunk`` 0: all at once."""
    torch.manual_seed(0)
    decoder = Decoder(vocabulary=VOCABULARY, condition=hidden).to(device)
    weight, bias = decoder.output.weight, decoder.output.bias
    weight.grad, bias.grad = torch.ones_like(weight), torch.ones_like(bias)  # zeros would not be resident yet
    states = torch.randn(positions, hidden, device=device, requires_grad=True)
    states.grad = torch.ones_like(states)
    wanted = torch.randint(VOCABULARY, (positions,), device=device)

    def step() -> float:
        start = time.perf_counter()
        if chunk:
            cross_entropy_sum(decoder.output, states, wanted, chunk).backward()
        else:
            F.cross_entropy(F.linear(states, weight, bias), wanted, reduction="sum").backward()
        return time.perf_counter() - start

    taken, grown = peak_growth(step, device)
    return grown, taken


def measure_memory(options: argparse.Namespace) -> None:
    positions = options.sentences * LENGTH
    print(f"scores: {positions:,} positions, width {options.hidden}, {VOCABULARY:,} words")
    for chunk in (0, *options.chunks):
        command = [sys.executable, __file__, "--point", str(chunk), "--hidden", str(options.hidden)]
        command += ["--sentences", str(options.sentences), "--device", options.device]
        environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536"}  # freed blocks go back at once
        gibibytes, taken = subprocess.check_output(command, env=environment, text=True).split()
        title = f"{chunk} positions" if chunk else "at once"
        print(f"{title:>20}  {float(gibibytes):6.2f} GiB  {float(taken):7.2f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hidden", type=int, default=1500, help="of states and sentence vectors")
    parser.add_argument("--sentences", type=int, default=48, help="of a batch")
    parser.add_argument("--chunks", type=int, nargs="*", default=[128, 256, 512])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--point", type=int, help=argparse.SUPPRESS)  # one process' share
    options = parser.parse_args()
    if options.point is not None:
        print(*growth(options.hidden, options.sentences * LENGTH, options.point, options.device))
        return
    measure_states(options)
    measure_memory(options)


if __name__ == "__main__":
    main()
