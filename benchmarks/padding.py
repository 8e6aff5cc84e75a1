"""Measures a training step on a CPU: sentences in sub-batches of similar length against the same in one block.

    python benchmarks/padding.py [--sentences 64] [--rounds 5] [--precision bf16]

A step is forward pass, loss and backward pass of one objective over sentences of the bundled texts, with the
bundled checkpoint. Prints tokens a second of both and their ratio for each objective. Rounds alternate, so that
a drift of the machine's speed affects both sides, and ratios are taken round by round.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
import torch

import encoders
from data.randomness import generator
from data.sentences import split_sentences
from data.sources.pydocs import Pydocs
from encoders.concatenated import Concatenated
from encoders.transformer import Transformer
from objectives.base import Objective
from objectives.conssent import ConsSent
from objectives.quick_thoughts import QuickThoughts
from objectives.simcse import SimCSE

LEAST = 6  # tokens that a sentence needs for D(5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=int, default=64, help="of a batch")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    options = parser.parse_args()

    encoder = encoders.load(encoders.BUNDLED).train()
    needed = options.sentences * (options.rounds + 1)
    units: list[np.ndarray] = []
    for sentence in split_sentences(Pydocs().texts()):
        if 3 <= len(sentence.split()) <= 64:
            ids = np.array(encoder.tokenizer(sentence, add_special_tokens=False)["input_ids"])
            units += [ids[: encoder.format.max_content]] if len(ids) >= LEAST else []
        if len(units) == needed:
            break
    else:
        raise SystemExit(f"{len(units)} sentences, and {needed} are needed: lower --sentences or --rounds.")

    trained: dict[str, Objective] = {
        "conssent, D(5)": ConsSent(batch_size=options.sentences, task="D", k=5),
        "simcse": SimCSE(batch_size=options.sentences),
        "quick_thoughts": QuickThoughts(batch_size=options.sentences),
    }
    print(
        f"{encoders.BUNDLED}, {options.sentences} sentences "
        f"of {np.mean([len(unit) for unit in units]):.1f} tokens, "
        f"the longest {max(map(len, units))}; {options.precision}, "
        f"{torch.get_num_threads()} threads, {options.rounds} rounds after one warm-up"
    )
    for name, objective in trained.items():
        model = encoder
        if objective.requirements.encoders > 1:
            model = Concatenated([encoder, encoders.load(encoders.BUNDLED).train()])
        members = [one for one in model.modules() if isinstance(one, Transformer)]
        objective.fit_to_corpus(units, np.arange(len(units)))
        objective.build(model)
        seconds: dict[bool, list[float]] = {False: [], True: []}
        tokens: list[int] = []
        for number in range(options.rounds + 1):
            rows = units[number * options.sentences : (number + 1) * options.sentences]
            examples = [objective.sample(unit, model.format, generator(number, i)) for i, unit in enumerate(rows)]
            batch = objective.collate(examples, model.format)
            tokens.append(batch.n_tokens)
            for grouped in sorted(seconds, reverse=bool(number % 2)):
                for member in members:
                    member.computes_padding = grouped  # then the encoder takes sub-batches of similar length
                start = time.perf_counter()
                with torch.autocast("cpu", torch.bfloat16, enabled=options.precision == "bf16"):
                    loss = objective.loss(model, batch).total
                loss.backward()
                seconds[grouped].append(time.perf_counter() - start)
                model.zero_grad()
        rates = [median(np.array(tokens[1:]) / np.array(times[1:])) for times in seconds.values()]
        ratios = [block / parts for block, parts in zip(*(times[1:] for times in seconds.values()), strict=True)]
        print(
            f"{name:>14}: in one block {rates[0]:6.0f} tokens/s, in sub-batches {rates[-1]:6.0f}; "
            f"ratio {median(ratios):.2f} (min {min(ratios):.2f}, max {max(ratios):.2f})"
        )


if __name__ == "__main__":
    main()
