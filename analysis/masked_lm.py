"""Masked-language-model loss of encoders on held-out text, per token and per character.

    loss = sum of -log p(token) over the masked tokens / their number                           in nats
    bits per character = loss * tokens / characters / log 2           comparable between vocabularies

A corpus is given as in ``corpus=mixture``. Its held-out documents are cut into passages of 128 words. Every
encoder gets the same passages, cut to its positions; encoders with the same tokenizer get the same masked tokens.
The 95 % intervals are over documents, or over groups of them, such as books.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, Unpack

import numpy as np
import pandas as pd
import torch
from scipy.special import stdtrit
from torch.nn import functional as F

from analysis.models import Model
from analysis.reports import ReportOptions, make_command
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
NOTES = (
    "Loss in nats per masked token, bits per character (comparable between vocabularies), and half of their 95 % "
    "intervals over groups: documents or, where the corpus names them, books.",
)


class Passage(NamedTuple):
    """Consecutive words of a held-out document; ``group`` is the document's (a book, say), or its number."""

    text: str
    group: str


def held_out_passages(corpus: Mixture, limit: int = 1000) -> list[Passage]:
    """Returns at most ``limit`` passages of held-out documents, drawn at random but always the same.

    Raises:
        UserError: if the corpus cannot be read, or no held-out document has ``PASSAGE_WORDS`` words.
    """
    passages = []
    for number, document in enumerate(corpus.documents()):
        text = normalise(document.text)
        if part_of(document.part, split_hash(document.group, text), corpus.dev_fraction) == "dev":
            words, group = text.split(" "), document.group or str(number)
            starts = range(0, len(words) - PASSAGE_WORDS + 1, PASSAGE_WORDS)
            passages += [Passage(" ".join(words[start : start + PASSAGE_WORDS]), group) for start in starts]
    if not passages:
        raise UserError(f"no held-out document of {', '.join(corpus.corpora)} has {PASSAGE_WORDS} words")
    return [passages[place] for place in sorted(generator(MASKED_PASSAGES).permutation(len(passages))[:limit])]


@torch.inference_mode()
def masked_loss(encoder: Encoder, passages: Sequence[Passage], probability: float) -> dict[str, float]:
    """Computes the loss of ``encoder``, which must have an MLM head, on passages.

    Args:
        encoder: in eval mode.
        passages: the passages.
        probability: of a token to be masked, in (0, 1].

    Returns:
        "loss" in nats per masked token and "interval", half of its 95 % interval (NaN with one group);
        "bits_per_character" and "bits_interval"; "masked", number of masked tokens; "groups", number of groups.

    Raises:
        UserError: if no token is masked.
    """
    device = next(encoder.parameters()).device
    sums = []
    with bar("masked passages") as progress:
        for place, passage in enumerate(passages):
            ids = np.array(encoder.tokenizer.encode(passage.text, add_special_tokens=False))
            ids = ids[: encoder.format.max_content]
            masked, labels = mask_tokens(ids, encoder.format, probability, generator(MASKED_PASSAGES, 1, place))
            (chosen,) = np.nonzero(labels != IGNORE)
            tokens = Tokens.pad([encoder.format.wrap(masked)], encoder.format.pad_id).to(device)
            states = encoder(tokens).states[0, chosen + len(encoder.format.prefix)]
            answers = torch.from_numpy(labels[chosen]).to(device)
            losses = F.cross_entropy(encoder.token_logits(states).float(), answers, reduction="none")
            characters = len(encoder.tokenizer.decode(ids))
            sums.append((losses.double().sum().item(), len(chosen), len(ids), characters))
            progress((place + 1) / len(passages))
    table = pd.DataFrame(sums, columns=["nats", "masked", "tokens", "characters"])
    groups = table.groupby([passage.group for passage in passages]).sum()
    total = groups.sum()
    if not total["masked"]:
        raise UserError(f"no token is masked in {len(passages)} passages", key=f"probability={probability}")
    loss = total["nats"] / total["masked"]
    # The ratio of sums, linearised: its standard error is that of the mean of these values.
    values = (groups["nats"] - loss * groups["masked"]) * len(groups) / total["masked"]
    interval = float(stdtrit(len(groups) - 1, 0.975) * values.sem())
    bits = total["tokens"] / total["characters"] / math.log(2)
    scores = {
        "loss": loss,
        "interval": interval,
        "bits_per_character": loss * bits,
        "bits_interval": interval * bits,
    }
    return scores | {"masked": int(total["masked"]), "groups": len(groups)}


def evaluate_masked_lm(
    model: Model,
    *,
    corpora: dict[str, dict[str, Any]],
    probability: Factor = 0.15,
    passages: Count = 1000,
    **options: Unpack[ReportOptions],
) -> dict[str, float]:
    """Computes the masked-language-model loss on held-out text of corpora.

    Args:
        model: model with an MLM head.
        corpora: keys of ``corpus=mixture`` by name.
        probability: masking probability of a token.
        passages: largest number of passages of a corpus.
        options: see ``analysis.reports.ReportOptions``.

    Returns:
        "<corpus>.loss" and so on, see ``masked_loss``.

    Raises:
        UserError: if a corpus cannot be read, or the model has no head.
    """
    scores: dict[str, float] = {}
    for name, corpus in corpora.items():
        with reading("corpus", f"corpora.{name}"):
            mixture = Mixture(corpora={name: corpus}, dev_fraction=corpus.get("dev_fraction", 0.05))
            texts = held_out_passages(mixture, passages)
        if not isinstance(model.encoder, Encoder) or not model.encoder.has_mlm_head:
            raise UserError(f"{model.name} has no head for masked language modelling", key="models")
        losses = masked_loss(model.encoder, texts, probability)
        scores |= {f"{name}.{key}": value for key, value in losses.items()}
    return scores


report_masked_lm = make_command(evaluate_masked_lm, NOTES, decimals=3)
