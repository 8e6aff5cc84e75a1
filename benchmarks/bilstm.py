"""Measures a ConsSent training step on BiLSTM-Max against the bare LSTM kernels.

    python benchmarks/bilstm.py [--corpus <one sentence a line>] [--length 25] [--task D] [--device cpu|cuda]

A step is forward pass, maximum, classifier 512-512-2 (or the scores of pairs), backward pass, gradient norm and
SGD update, with word vectors for 50,000 words. The bare cost is one forward and backward pass of nn.LSTM of the
same size over random input, packed to the batch's lengths beforehand and without a gradient of the input.
Sampling and collating run in the same process (workers=0).

Prints seconds of both and of their stages, the ratio, and the share of a step that sampling and collating take
with each task. Both sides take turns in going first, so that a drift of the machine's speed affects both, and
ratios are taken round by round.
"""

from __future__ import annotations

import argparse
import sys
import time
from itertools import islice
from pathlib import Path
from statistics import median
from typing import get_args

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence

from data.batch import Batch, Tokens
from data.randomness import generator
from data.sources.reading import lines
from encoders.bilstm_max import BiLSTMMax
from encoders.packed import packing
from experiments.optimizer import SGD
from objectives.conssent import ConsSent, TaskName

MOST_SENTENCES = 20_000
DEVIATION = 0.36  # of generated sentences' lengths, as a share of the mean, like the Billion Word benchmark's
SHORTEST, LONGEST = 7, 64


class StageClock:
    """Measures seconds of named stages, the device's work included."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.seconds: dict[str, list[float]] = {}
        self.last = 0.0

    def start(self) -> None:
        self._wait()
        self.last = time.perf_counter()

    def lap(self, name: str) -> None:
        """Adds the time since the last call to a stage."""
        self._wait()
        now = time.perf_counter()
        self.seconds.setdefault(name, []).append(now - self.last)
        self.last = now

    def _wait(self) -> None:
        if self.device == "cuda":
            torch.cuda.synchronize()


def generated(vocab_size: int, mean: int) -> tuple[list[str], list[np.ndarray]]:
    """Returns a text with every word of the vocabulary, and sentences of words under Zipf's distribution."""
    rng = generator(0)
    words = [f"w{number}" for number in range(vocab_size - 5)]
    share = 1 / (np.arange(len(words)) + 2.7)
    lengths = rng.normal(mean, DEVIATION * mean, size=MOST_SENTENCES).round()
    lengths = lengths.clip(SHORTEST, max(LONGEST, 2 * mean)).astype(int)
    drawn = 5 + rng.choice(len(words), size=lengths.sum(), p=share / share.sum())
    return words, np.split(drawn, lengths.cumsum()[:-1])


def spread(values: list[float], form: str) -> str:
    low, middle, high = (format(value, form) for value in (min(values), median(values), max(values)))
    return f"min {low}, median {middle}, max {high}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, help="text with one sentence a line; without one, it is generated")
    parser.add_argument("--length", type=int, default=25, help="mean number of words of a generated sentence")
    parser.add_argument("--task", choices=get_args(TaskName), default="D")
    parser.add_argument("--k", type=int, default=5)
    parser.add_argument("--sentences", type=int, default=64, help="of a batch")
    parser.add_argument("--hidden", type=int, default=2048, help="per direction")
    parser.add_argument("--words", type=int, default=50_000, help="of the vocabulary")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    options = parser.parse_args()

    torch.manual_seed(0)
    units: list[np.ndarray] = []
    if options.corpus:
        texts = [line.strip() for _, line in islice(lines(options.corpus), MOST_SENTENCES)]
    else:
        texts, units = generated(options.words, options.length)
    encoder = BiLSTMMax(
        hidden=options.hidden, vocab_size=options.words, min_count=1, texts=lambda: texts, device=options.device
    )
    if options.corpus:
        read = [np.array(ids) for ids in encoder.tokenizer(texts)["input_ids"]]
        units = [ids for ids in read if SHORTEST <= len(ids) <= LONGEST]
    if len(units) < options.sentences:
        raise SystemExit(f"{len(units)} sentences have {SHORTEST} to {LONGEST} words; a batch takes more.")

    objectives = {
        task: ConsSent(batch_size=options.sentences, task=task, k=options.k) for task in get_args(TaskName)
    }
    for objective in objectives.values():
        objective.fit_to_corpus(units, np.arange(len(units)))
        objective.build(encoder)
        objective.to(options.device)
    trained = objectives[options.task]
    encoder.train()
    parameters = [*encoder.parameters(), *trained.parameters()]
    optimizer = SGD(lr=0.1).build(parameters)
    shape = encoder.shape
    bare = nn.LSTM(shape.word_size, shape.hidden, bidirectional=True).to(options.device)

    def sampled(objective: ConsSent, number: int) -> Batch:
        examples = []
        for row in range(options.sentences):
            unit = units[(number * options.sentences + row) % len(units)]
            examples.append(objective.sample(unit, encoder.format, generator(1, number, row)))
        return objective.collate(examples, encoder.format)

    def step(batch: Batch, clock: StageClock) -> None:
        clock.start()
        loss = trained.loss(encoder, batch.to(options.device)).total
        clock.lap("forward")
        loss.backward()
        clock.lap("backward")
        torch.nn.utils.clip_grad_norm_(parameters, 5.0)
        clock.lap("norm")
        optimizer.step()
        optimizer.zero_grad()
        clock.lap("update")

    def kernels(running: torch.Tensor, clock: StageClock) -> None:
        count = int(running.sum())
        data = torch.randn(count, shape.word_size, device=options.device)
        gradient = torch.randn(count, shape.state, device=options.device)
        clock.start()
        states = bare(PackedSequence(data, running))[0].data
        clock.lap("forward")
        states.backward(gradient)
        clock.lap("backward")
        bare.zero_grad()

    whole, only, sampling = StageClock(options.device), StageClock(options.device), StageClock("cpu")
    lengths = []
    for number in range(options.rounds + 1):
        for task, objective in objectives.items():
            sampling.start()
            sampled(objective, number)
            sampling.lap(task)
        batch = sampled(trained, number)
        blocks = list(batch.tokens.values())
        tokens = blocks[0] if len(blocks) == 1 else Tokens.cat(blocks, encoder.format.pad_id)
        running = packing(tokens.lengths, tokens.ids.shape[1])[1]
        lengths.append(float(tokens.lengths.double().mean()))
        if number % 2:
            step(batch, whole)
            kernels(running, only)
        else:
            kernels(running, only)
            step(batch, whole)

    def totals(clock: StageClock) -> list[float]:
        """Returns the seconds of each round but the first one, which warms up."""
        return [sum(laps) for laps in zip(*clock.seconds.values(), strict=True)][1:]

    ratios = [step / kernel for step, kernel in zip(totals(whole), totals(only), strict=True)]
    print(
        f"BiLSTM-Max, 2 x {shape.hidden}, {len(encoder.tokenizer):,} words of {shape.word_size}; {options.task}"
        f"({options.k}), {options.sentences} sentences, {len(tokens)} rows of {np.mean(lengths):.1f} words; "
        f"{options.device}, {torch.get_num_threads()} threads, {options.rounds} rounds after one warm-up"
    )
    for title, clock in (("step", whole), ("bare kernels", only)):
        parts = ", ".join(f"{name} {median(laps[1:]):.3f}" for name, laps in clock.seconds.items())
        print(f"{title:>12}: seconds {spread(totals(clock), '.3f')} ({parts})")
    print(f"{'ratio':>12}: {spread(ratios, '.3f')}")
    middle = median(totals(whole))
    parts = ", ".join(f"{task} {median(laps[1:]) / middle:.2%}" for task, laps in sampling.seconds.items())
    print(f"{'sampling':>12}: perturbing and collating, share of a step: {parts}")


if __name__ == "__main__":
    main()
