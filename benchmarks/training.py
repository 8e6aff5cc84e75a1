"""Measures a DeCLUTR training step against the published recipe built from public parts: same spans, same model.

    python benchmarks/training.py [--precision fp32|bf16] [--documents 16] [--rounds 3] [--packed] [--device cuda]

The published recipe decodes every span to text and tokenises it again, pads anchors to the longest anchor and
positives to the longest positive, projects every position of both to the vocabulary, and takes
pytorch-metric-learning's NTXentLoss. This suite cuts token ids, runs spans of similar length together and
projects the masked positions only. Both take AdamW steps on the same weights.

Prints real tokens a second of both, their ratio round by round, and the fill rate (real tokens among all that the
encoder processes): 1 minus it is the share of the encoder's time that perfect packing could still save.
"""

from __future__ import annotations

import copy
import sys
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run directly, from anywhere

import numpy as np
import torch
from pytorch_metric_learning.losses import NTXentLoss
from transformers import DataCollatorForLanguageModeling

from benchmarks import harness
from data.batch import TokenExample
from data.grouping import length_groups
from data.randomness import generator
from data.sources.pydocs import Pydocs
from data.tokenizer import train_bpe
from encoders.transformer import Transformer
from objectives.declutr import Declutr


def published_loss(
    model: Any, tokenizer: Any, mask: Any, units: list[Any], examples: list[TokenExample]
) -> torch.Tensor:
    """Returns the loss of the published recipe on the spans that ``examples`` were sampled from."""
    vectors, losses = [], []
    for role in ("anchor", "positive"):
        texts = [
            tokenizer.decode(unit[places])
            for unit, each in zip(units, examples, strict=True)
            for places in each.sources[role]
        ]
        inputs = tokenizer(texts, truncation=True, max_length=512, padding=True, return_tensors="pt")
        if role == "anchor":
            inputs["input_ids"], inputs["labels"] = mask.torch_mask_tokens(inputs["input_ids"])
        inputs = inputs.to(model.device)
        output = model(**inputs, output_hidden_states=True)
        real = inputs["attention_mask"][:, :, None].float()
        vectors.append((output.hidden_states[-1] * real).sum(1) / real.sum(1))
        losses.append(output.loss)
    anchors = vectors[0]
    embeddings = torch.cat([anchors, vectors[1].unflatten(0, (len(anchors), -1)).mean(1)]).float()
    labels = torch.arange(len(anchors), device=embeddings.device).repeat(2)
    return NTXentLoss(temperature=0.05)(embeddings, labels) + losses[0]


def main() -> None:
    parser = harness.make_parser(__doc__, rounds=3, device="cpu")
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--documents", type=int, default=16, help="N, documents a step")
    parser.add_argument("--groups", type=int, default=6, help="sub-batches of similar length in ours")
    parser.add_argument("--packed", action="store_true", help="also times ours with packed rows, without padding")
    options = parser.parse_args()

    source = Pydocs()
    tokenizer: Any = train_bpe(source.texts(), vocab_size=8192)
    encoder = Transformer(weights="random", shape=harness.roberta_shape(), tokenizer=tokenizer)
    objective = Declutr(batch_size=options.documents, length_groups=options.groups)
    encoder.add_mlm_head()
    encoder.to(options.device).train()
    units: list[np.ndarray] = []
    for text in source.texts():
        ids = np.array(tokenizer(f" {text}", add_special_tokens=False)["input_ids"])
        units += [ids] if len(ids) >= objective.requirements.min_tokens else []
        if len(units) == options.documents * (options.rounds + 1):
            break

    def sample(number: int) -> tuple[list[np.ndarray], list[TokenExample]]:
        rows = [units[(number * options.documents + i) % len(units)] for i in range(options.documents)]
        examples = [objective.sample(row, encoder.format, generator(number, i)) for i, row in enumerate(rows)]
        return rows, examples

    def ours(encoder: Transformer, number: int) -> torch.Tensor:
        return objective.loss(
            encoder, objective.collate(sample(number)[1], encoder.format).to(options.device)
        ).total

    model = copy.deepcopy(encoder.model)
    mask = DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.15)
    make_step = partial(harness.make_step, device=options.device, precision=options.precision)
    published = make_step(model, lambda number: published_loss(model, tokenizer, mask, *sample(number)))
    sides = {"published recipe": published, "ours": make_step(encoder, partial(ours, encoder))}
    if options.packed:
        packed = copy.deepcopy(encoder)
        packed.packing.forced = True
        sides["ours, packed"] = make_step(packed, partial(ours, packed))
    seconds = harness.measure(sides, options.rounds, options.device)

    tokens, padded, grouped = [], [], []
    for number in range(1, options.rounds + 1):
        batch = objective.collate(sample(number)[1], encoder.format)
        lengths = [block.lengths.numpy() for block in batch.tokens.values()]
        both = np.concatenate(lengths)
        tokens.append(float(both.sum()))
        padded.append(sum(each.max() * len(each) for each in lengths))
        grouped.append(sum(len(rows) * both[rows].max() for rows in length_groups(both, options.groups)))
    print(
        f"roberta 4 x 256, vocabulary {len(tokenizer)}, spans of 32..512 tokens, N={options.documents}, A=2, P=2, "
        f"{options.precision}, {torch.get_num_threads()} threads, {options.rounds} rounds after one warm-up"
    )
    for name, times in seconds.items():
        gain = harness.spread(np.divide(seconds["published recipe"], times))
        rate = harness.spread(np.divide(tokens, times), ".0f")
        print(f"{name:>17}: {rate} real tokens/s, {gain} times the published recipe")
    fill = sum(tokens) / sum(grouped)
    print(
        f"fill rate: published recipe {sum(tokens) / sum(padded):.2f}, ours {fill:.3f} in {options.groups} "
        f"groups: perfect packing could save at most {1 - fill:.1%} of our encoder's time"
    )


if __name__ == "__main__":
    main()
