"""Measures a DeCLUTR training step against the published recipe built from public parts: same spans, same model.

    python benchmarks/training.py [--precision fp32|bf16] [--documents 16] [--rounds 3] [--packed] [--device cuda]

The published recipe decodes every span to text and tokenises it again, pads anchors to the longest anchor and
positives to the longest positive, projects every position of both to the vocabulary, and takes
pytorch-metric-learning's NTXentLoss. This suite cuts token ids, runs spans of similar length together and
projects the masked positions only. Both take AdamW steps on the same weights; rounds alternate, so that a drift
of the machine's speed affects both sides, and ratios are taken round by round.

Prints tokens a second of both, the ratio, and the fill rate (real tokens among all that the encoder processes):
1 minus it is the share of the encoder's time that perfect packing could still save.
"""

from __future__ import annotations

import argparse
import copy
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
import torch
from pytorch_metric_learning.losses import NTXentLoss
from transformers import DataCollatorForLanguageModeling, PreTrainedTokenizerFast, RobertaForMaskedLM

from benchmarks.gpu import wait
from data.grouping import length_groups
from data.randomness import generator
from data.sources.pydocs import Pydocs
from data.views.spans import Span, SpanSampler
from encoders.transformer import Transformer
from objectives.declutr import Declutr

SHAPE = {
    "model_type": "roberta",
    "num_hidden_layers": 4,
    "hidden_size": 256,
    "num_attention_heads": 4,
    "intermediate_size": 1024,
}


def published_step(
    model: RobertaForMaskedLM,
    tokenizer: PreTrainedTokenizerFast,
    mask: DataCollatorForLanguageModeling,
    units: list[np.ndarray],
    drawn: list[tuple[list[Span], list[list[Span]]]],
) -> torch.Tensor:
    """Returns the loss of the published recipe on the spans ``drawn`` from ``units``."""
    anchors = [
        tokenizer.decode(unit[a:b]) for unit, (spans, _) in zip(units, drawn, strict=True) for a, b in spans
    ]
    positives = [
        tokenizer.decode(unit[a:b])
        for unit, (_, groups) in zip(units, drawn, strict=True)
        for group in groups
        for a, b in group
    ]
    vectors, losses = [], []
    for texts, role in ((anchors, "anchor"), (positives, "positive")):
        encoded = tokenizer(texts, truncation=True, max_length=512, padding=True, return_tensors="pt")
        ids, labels = encoded["input_ids"], None
        if role == "anchor":
            ids, labels = mask.torch_mask_tokens(ids)
        mask_of_rows = encoded["attention_mask"].to(model.device)
        output = model(
            input_ids=ids.to(model.device),
            attention_mask=mask_of_rows,
            labels=None if labels is None else labels.to(model.device),
            output_hidden_states=True,
        )
        real = mask_of_rows[:, :, None].float()
        states = output.hidden_states[-1]
        vectors.append((states * real).sum(1) / real.sum(1))
        if role == "anchor":
            losses.append(output.loss)
    mean_positives = vectors[1].unflatten(0, (len(anchors), -1)).mean(1)
    embeddings = torch.cat([vectors[0], mean_positives]).float()
    labels = torch.arange(len(anchors), device=embeddings.device).repeat(2)
    return NTXentLoss(temperature=0.05)(embeddings, labels) + losses[0]


def trainer(
    model: torch.nn.Module, loss: Callable[[int], torch.Tensor], precision: str, device: str
) -> Callable[[int], None]:
    """Returns a function that takes the optimisation step of a given number."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5, eps=1e-6, weight_decay=0.1, fused=True)

    def step(number: int) -> None:
        with torch.autocast(device, dtype=torch.bfloat16, enabled=precision == "bf16"):
            value = loss(number)
        value.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        wait(device)

    return step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--documents", type=int, default=16, help="N, documents a step")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--groups", type=int, default=6, help="sub-batches of similar length in ours")
    parser.add_argument("--packed", action="store_true", help="also time ours with packed rows, without padding")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    options = parser.parse_args()

    source = Pydocs()
    encoder = Transformer(
        weights="random", shape=SHAPE, vocab_size=8192, texts=source.texts, device=options.device
    )
    tokenizer: Any = encoder.tokenizer
    objective = Declutr(batch_size=options.documents, length_groups=options.groups)
    objective.build(encoder)
    sampler: SpanSampler = objective.sampler
    units: list[np.ndarray] = []
    for text in source.texts():
        ids = np.array(tokenizer(" " + " ".join(text.split()), add_special_tokens=False)["input_ids"])
        if len(ids) >= objective.requirements.min_tokens:
            units.append(ids)
        if len(units) == options.documents * (options.rounds + 1):
            break
    if len(units) < options.documents:
        raise SystemExit(f"{len(units)} documents are long enough; --documents must not exceed that")

    def documents(number: int) -> list[np.ndarray]:
        return [units[(number * options.documents + i) % len(units)] for i in range(options.documents)]

    model = copy.deepcopy(encoder.model)
    mask = DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.15)

    def published(number: int) -> torch.Tensor:
        drawn = [sampler.draw(len(unit), generator(number, i)) for i, unit in enumerate(documents(number))]
        return published_step(model, tokenizer, mask, documents(number), drawn)

    def ours(encoder: Transformer, number: int) -> torch.Tensor:
        # draw() takes the spans first, so the same generator gives the same spans
        examples = [
            objective.sample(unit, encoder.format, generator(number, i))
            for i, unit in enumerate(documents(number))
        ]
        return objective.loss(encoder, objective.collate(examples, encoder.format).to(options.device)).total

    trained = {"ours": encoder}
    if options.packed:
        trained["ours, packed"] = copy.deepcopy(encoder)
        trained["ours, packed"].force_packing = True
    steps = {"published recipe": trainer(model, published, options.precision, options.device)} | {
        name: trainer(each, partial(ours, each), options.precision, options.device)
        for name, each in trained.items()
    }
    tokens, padded, groups_padded = [], [], []
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for number in range(options.rounds + 1):
        drawn = [sampler.draw(len(unit), generator(number, i)) for i, unit in enumerate(documents(number))]
        anchor = np.array([b - a + 2 for spans, _ in drawn for a, b in spans])
        positive = np.array([b - a + 2 for _, groups in drawn for group in groups for a, b in group])
        both = np.minimum(np.concatenate([anchor, positive]), encoder.format.max_length)
        for name, step in steps.items():
            start = time.perf_counter()
            step(number)
            if number:  # the first round warms up
                seconds[name].append(time.perf_counter() - start)
        if number:
            tokens.append(both.sum())
            padded.append(anchor.max() * len(anchor) + positive.max() * len(positive))
            sets = length_groups(both, options.groups)
            groups_padded.append(sum(len(rows) * both[rows].max() for rows in sets))

    ratios = [a / b for a, b in zip(seconds["published recipe"], seconds["ours"], strict=True)]
    print(
        f"roberta 4 x 256, vocabulary {len(tokenizer)}, spans of 32..512 tokens, N={options.documents}, A=2, P=2, "
        f"{options.precision}, {torch.get_num_threads()} threads, {options.rounds} rounds after one warm-up"
    )
    for name, times in seconds.items():
        rate = [count / second for count, second in zip(tokens, times, strict=True)]
        print(f"{name:>17}: {median(rate):8.0f} real tokens/s (min {min(rate):.0f}, max {max(rate):.0f})")
    if options.packed:
        gains = [a / b for a, b in zip(seconds["ours"], seconds["ours, packed"], strict=True)]
        print(f"{'packed':>17}: {median(gains):8.2f} times ours (min {min(gains):.2f}, max {max(gains):.2f})")
    print(f"{'ratio':>17}: {median(ratios):8.2f} (min {min(ratios):.2f}, max {max(ratios):.2f})")
    fill = np.sum(tokens) / np.sum(groups_padded)
    print(
        f"fill rate: published recipe {np.sum(tokens) / np.sum(padded):.2f}, ours {fill:.3f} in "
        f"{options.groups} groups: perfect packing could save at most {1 - fill:.1%} of our encoder's time"
    )


if __name__ == "__main__":
    main()
