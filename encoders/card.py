"""Model card of an exported encoder: weights, data, training, scores, use and limits.

Mitchell et al. (2019), "Model Cards for Model Reporting"; the front matter is that of the Hugging Face hub.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, StrictUndefined

from data.display import flatten
from encoders.pooling import POOLINGS
from encoders.saving import NO_LIMIT

if TYPE_CHECKING:
    from encoders.base import Encoder

TEMPLATE = Path(__file__).with_name("card.md.jinja")


def model_card(
    *,
    title: str,
    encoder: Encoder,
    objective: str | None = None,
    corpus: Mapping[str, Any] | None = None,
    tokens: int | None = None,
    settings: Mapping[str, Any] | None = None,
    scores: Mapping[str, Mapping[str, Any]] | None = None,
    citation: str | None = None,
) -> str:
    """Returns Markdown with the hub's front matter: a summary list, then the details.

    Args:
        title: its first heading.
        encoder: the encoder to describe (origin of its weights, sizes, pooling).
        objective: name of the objective that trained it.
        corpus: facts on its training data, by name ("name", "where", "licence", ...); may be nested.
        tokens: number of tokens that it was trained on.
        settings: settings of its training; may be nested.
        scores: by column and name ({"start": {...}, "trained": {...}}).
        citation: BibTeX entry of the method.
    """
    pooling = getattr(encoder, "pooling", "")
    plain = hasattr(encoder, "backbone") and not len(encoder.others)  # type: ignore[arg-type]
    columns = {name: dict(flatten(column)) for name, column in (scores or {}).items()}
    environment = Environment(undefined=StrictUndefined)  # Markdown: nothing to escape
    environment.filters["cell"] = _cell
    return environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(
        title=title,
        encoder=encoder,
        parameters=sum(weight.numel() for weight in encoder.parameters()),
        pooling=pooling,
        unlimited=encoder.format.max_length >= NO_LIMIT,
        states=POOLINGS[pooling].code if plain else "",
        objective=objective,
        citation=citation,
        corpus=corpus,
        tokens=tokens,
        settings=settings,
        columns=columns,
        flatten=flatten,
    )


def _cell(value: Any) -> str:
    text = "—" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
    return " ".join(text.split()).replace("|", "\\|")
