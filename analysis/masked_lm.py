"""Masked-language-model loss of encoders on a text, per token and per character.

    loss = sum of -log p(token) over the masked tokens / their number                           in nats
    bits per character = loss * tokens / characters / log 2           comparable between vocabularies

Each line of the text is a passage. Every encoder gets the same passages, cut to its positions; encoders with the
same tokenizer get the same masked tokens.
"""

from __future__ import annotations

import math
from itertools import islice
from typing import Unpack

import numpy as np
import torch
from torch.nn import functional as F

from analysis.models import Model
from analysis.reports import ReportOptions
from data.batch import IGNORE, Tokens
from data.errors import UserError
from data.randomness import MASKED_PASSAGES, generator
from data.ranges import Count, Factor
from data.sources.reading import stripped_lines
from data.views.masking import mask_tokens
from encoders.base import Encoder


@torch.inference_mode()
def evaluate_masked_lm(
    model: Model,
    *,
    data: str,
    probability: Factor = 0.15,
    passages: Count = 1000,
    **options: Unpack[ReportOptions],
) -> dict[str, float]:
    """Computes the masked-language-model loss.

    Args:
        model: model with an MLM head.
        data: text file, a passage a line, that no model was trained on.
        probability: masking probability of a token.
        passages: number of passages, from the first that is not blank.
        options: see ``analysis.reports.ReportOptions``.

    Returns:
        "loss" in nats per masked token, "bits_per_character", and "masked", the number of masked tokens.

    Raises:
        UserError: if the file cannot be read, or the model has no head.
    """
    encoder = model.encoder
    if not isinstance(encoder, Encoder) or not encoder.has_mlm_head:
        raise UserError(f"{model.name} has no head for masked language modelling", key="models")
    device, first, sums = next(encoder.parameters()).device, len(encoder.format.prefix), []
    for place, text in enumerate(islice(stripped_lines(data), passages)):
        ids = np.array(encoder.tokenizer.encode(text, add_special_tokens=False))[: encoder.format.max_content]
        masked, labels = mask_tokens(ids, encoder.format, probability, generator(MASKED_PASSAGES, 1, place))
        tokens = Tokens.pad([encoder.format.wrap(masked)], encoder.format.pad_id).to(device)
        logits = encoder.token_logits(encoder(tokens).states[0, first : first + len(ids)]).double()
        nats = F.cross_entropy(logits, torch.from_numpy(labels).to(device), reduction="sum")
        sums.append((nats.item(), np.sum(labels != IGNORE), len(ids), len(encoder.tokenizer.decode(ids))))
    if not sums:
        raise UserError("no passage", key=data)
    nats, count, length, characters = np.sum(sums, axis=0)
    bits = nats / count * length / characters / math.log(2)
    return {"loss": nats / count, "bits_per_character": bits, "masked": int(count)}
