"""Masked-language-model loss of encoders on held-out text, per token and per character.

    loss = sum of -log p(token) over the masked tokens / their number                           in nats
    bits per character = loss * tokens / characters / log 2           comparable between vocabularies

A corpus is given as in ``corpus=mixture``. Its held-out documents are cut into passages of 128 words. Every
encoder gets the same passages, cut to its positions; encoders with the same tokenizer get the same masked tokens.
The 95 % intervals are over documents, or over groups of them, such as books.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Unpack

import numpy as np
import torch
from rich.console import Console
from torch.nn import functional as F

from analysis.model_names import Names
from analysis.models import ModelOptions, open_models
from analysis.reporting.intervals import reach
from analysis.reporting.rendering import (
    Form,
    csv_table,
    escape_markdown,
    markdown_table,
    text_table,
    write_result,
)
from data.batch import IGNORE, Tokens
from data.display import bar
from data.errors import UserError, reading
from data.randomness import MASKED_PASSAGES, generator
from data.ranges import Count, Factor
from data.sources.base import normalise, part_of, split_hash
from data.sources.mixture import Mixture
from data.views.masking import mask_tokens
from encoders.base import Encoder

PASSAGE_WORDS = 128
BATCH = 16  # passages in one forward pass
COLUMNS = ("model", "corpus", "loss, nats ↓", "bits per character ↓", "masked tokens", "groups")
SIDES = "llrrrr"


class Passage(NamedTuple):
    """Consecutive words of a held-out document; ``group`` is the document's (a book, say), or its number."""

    text: str
    group: str


class MaskedLoss(NamedTuple):
    """Loss over the masked tokens of passages.

    Attributes:
        loss, interval: mean in nats per masked token, and half of its 95 % interval (t; NaN with one group).
        bits_per_character, bits_interval: the same in bits per character of text.
        masked: masked tokens.
        groups: books or documents that the passages are from.
    """

    loss: float
    interval: float
    bits_per_character: float
    bits_interval: float
    masked: int
    groups: int


def held_out_passages(corpus: Mixture, limit: int = 1000) -> list[Passage]:
    """Returns at most ``limit`` passages of held-out documents, drawn at random but always the same.

    Raises:
        UserError: if the corpus cannot be read, or no held-out document has ``PASSAGE_WORDS`` words.
    """
    found = []
    for number, document in enumerate(corpus.documents()):
        text = normalise(document.text)
        if part_of(document.part, split_hash(document.group, text), corpus.dev_fraction) == "dev":
            words = text.split(" ")
            found += [
                Passage(" ".join(words[start : start + PASSAGE_WORDS]), document.group or str(number))
                for start in range(0, len(words) - PASSAGE_WORDS + 1, PASSAGE_WORDS)
            ]
    if not found:
        raise UserError(f"No held-out document of {', '.join(corpus.corpora)} has {PASSAGE_WORDS} words.")
    chosen = generator(MASKED_PASSAGES).permutation(len(found))[:limit]
    return [found[place] for place in sorted(chosen)]


@torch.inference_mode()
def masked_loss(
    encoder: Encoder,
    texts: Sequence[Passage],
    probability: float,
    progress: Callable[[float], None] = lambda _: None,
) -> MaskedLoss:
    """Computes the loss of ``encoder``, which must have an MLM head, on passages.

    Args:
        encoder: in eval mode.
        texts: the passages.
        probability: of a token to be masked, in (0, 1].
        progress: is called with the share that is done.

    Raises:
        UserError: if no token is masked.
    """
    device = next(encoder.parameters()).device
    sums = np.zeros((len(texts), 4))  # nats, masked tokens, tokens, characters
    for start in range(0, len(texts), BATCH):
        places = range(start, min(start + BATCH, len(texts)))
        rows, labels = [], []
        for place in places:
            content = np.array(encoder.tokenizer.encode(texts[place].text, add_special_tokens=False))
            content = content[: encoder.format.max_content]
            sums[place, 2:] = len(content), len(encoder.tokenizer.decode(content))
            masked, label = mask_tokens(content, encoder.format, probability, generator(MASKED_PASSAGES, 1, place))
            rows.append(encoder.format.wrap(masked))
            around = (np.full(len(ids), IGNORE) for ids in (encoder.format.prefix, encoder.format.suffix))
            labels.append(np.concatenate([next(around), label, next(around)]))
        tokens = Tokens.pad(rows, encoder.format.pad_id, labels=labels)
        assert tokens.labels is not None
        logits = encoder.token_logits(encoder(tokens.to(device)).states[(tokens.labels != IGNORE).to(device)])
        wanted = tokens.labels[tokens.labels != IGNORE].to(device)
        losses = F.cross_entropy(logits.float(), wanted, reduction="none").double().cpu().numpy()
        counts = (tokens.labels != IGNORE).sum(dim=1).numpy()
        owner = np.repeat(np.array(places), counts)
        np.add.at(sums[:, 0], owner, losses)
        sums[list(places), 1] = counts
        progress((places[-1] + 1) / len(texts))
    groups, owner = np.unique([one.group for one in texts], return_inverse=True)
    by_group = np.zeros((len(groups), sums.shape[1]))
    np.add.at(by_group, owner, sums)
    nats, masked_tokens, all_tokens, characters = by_group.sum(axis=0)
    if not masked_tokens:
        raise UserError(f"No token was masked: probability={probability} is too small for {len(texts)} passages.")
    loss = nats / masked_tokens
    # The standard error of a ratio of sums, by linearisation.
    count = len(groups)
    error = (
        math.sqrt(((by_group[:, 0] - loss * by_group[:, 1]) ** 2).sum() * count / max(count - 1, 1))
        / masked_tokens
    )
    interval = reach(error, count - 1) if count > 1 else math.nan
    bits = all_tokens / characters / math.log(2)
    return MaskedLoss(loss, interval, loss * bits, interval * bits, int(masked_tokens), len(groups))


def _spread(value: float, half: float) -> str:
    return f"{value:.3f}" + ("" if math.isnan(half) else f" ± {half:.3f}")


def _row(model: str, corpus: str, found: MaskedLoss) -> list[str]:
    return [
        model,
        corpus,
        _spread(found.loss, found.interval),
        _spread(found.bits_per_character, found.bits_interval),
        f"{found.masked:,}",
        f"{found.groups:,}",
    ]


def report_masked_lm(
    *,
    models: Names,
    corpora: dict[str, dict[str, Any]],
    probability: Factor = 0.15,
    passages: Count = 1000,
    format: Form = "text",
    out: str | None = None,
    **options: Unpack[ModelOptions],
) -> None:
    """Prints the table of each model's loss on each corpus, and writes them to ``out``.

    Args:
        models: names of models with an MLM head.
        corpora: keys of ``corpus=mixture`` by name.
        probability: masking probability of a token.
        passages: largest number of passages of a corpus.
        format: of the table.
        out: JSON file.
        options: see ``analysis.models.ModelOptions``.

    Raises:
        UserError: if a corpus cannot be read, or a model has no head.
    """
    texts = {}
    for name, corpus in corpora.items():
        with reading("corpus", f"corpora.{name}"):
            mixture = Mixture(corpora={name: corpus}, dev_fraction=corpus.get("dev_fraction", 0.05))
            texts[name] = held_out_passages(mixture, passages)
    rows: list[list[str]] = []
    records: list[Mapping[str, Any]] = []
    for model in open_models(models, **options):
        encoder = model.encoder
        if not isinstance(encoder, Encoder) or not encoder.has_mlm_head:
            raise UserError(f"{model.name} has no head for masked language modelling", key="models")
        for name, parts in texts.items():
            with bar(f"{model.name} on {name}") as progress:
                loss = masked_loss(encoder, parts, probability, progress)
            rows.append(_row(model.name, name, loss))
            records.append({"model": model.facts(), "corpus": name, **loss._asdict()})
    if format == "text":
        Console(width=max(Console().width, 110)).print(text_table(COLUMNS, rows, SIDES))
    elif format == "md":
        print(markdown_table(COLUMNS, [[*map(escape_markdown, row)] for row in rows], SIDES))
    else:
        print(csv_table([COLUMNS, *rows]))
    write_result(out, {"masked_lm": records, "probability": probability})
