"""Model card of an exported encoder: weights, data, training, scores, use and limits.

Mitchell et al. (2019), "Model Cards for Model Reporting"; the front matter is that of the Hugging Face hub.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from encoders.folder import NO_LIMIT
from encoders.pooling import POOLINGS

if TYPE_CHECKING:
    from encoders.base import Encoder

_BEGINNINGS = {
    "pretrained": "The weights began as **pretrained** ones: {origin}.",
    "bundled": (
        "> **Weights: bundled.** They began as a small checkpoint that ships with the suite, and no published "
        "model is behind them: {origin}. Do not compare the scores with printed ones."
    ),
    "random": (
        "> **Weights: random.** They were once drawn at random, and no published model is behind them: {origin}. "
        "For teaching and for tests; do not compare the scores with printed ones."
    ),
}
_NORMALIZE = "\nvectors = torch.nn.functional.normalize(vectors)"


def model_card(
    *,
    title: str,
    encoder: Encoder,
    corpus: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    scores: Mapping[str, Any] | None = None,
    licence: str | None = None,
    citation: str | None = None,
) -> str:
    """Returns Markdown with the hub's front matter.

    Args:
        title: its first heading.
        encoder: the encoder to describe (origin of its weights, sizes, pooling).
        corpus: facts on its training data, by name.
        settings: settings of its training; may be nested.
        scores: by name, or by column and name ({"start": {...}, "trained": {...}}).
        licence: identifier of the hub ("apache-2.0", say) or free text; None: not stated.
        citation: BibTeX entry of the method.
    """
    tags = ["feature-extraction", "sentence-similarity"]
    if encoder.opens_elsewhere:
        tags = ["sentence-transformers", *tags, "transformers"]
    front = [
        "---",
        *(["library_name: sentence-transformers"] if encoder.opens_elsewhere else []),
        "pipeline_tag: sentence-similarity",
        *([f"license: {licence if re.fullmatch('[a-z0-9.-]+', licence) else 'other'}"] if licence else []),
        "tags:",
        *(f"- {tag}" for tag in tags),
        f"- weights-{encoder.weights}",
        "---",
    ]
    pooling = getattr(encoder, "pooling", "")
    parameters = sum(weight.numel() for weight in encoder.parameters())
    sections = {
        "Encoder": (
            f"{_BEGINNINGS[encoder.weights].format(origin=encoder.origin)}\n\n"
            f"{parameters:,} parameters; vectors of {encoder.dimension}{pooling and f', {pooling} pooling'}; "
            f"input of {_length(encoder.format.max_length)}."
        ),
        "Data": _table(corpus) if corpus else "Not stated.",
        "Training": _table(settings) if settings else "Not stated.",
        "Scores": _scores(scores) if scores else "Not stated.",
        "Use": _use(encoder, pooling),
        "Limits": (
            "The vectors reflect the text that the encoder was trained on, with its language, period and "
            "prejudices. They say which texts resemble each other to this model, not which ones are true, and "
            "were not examined for any use in which people could come to harm."
        ),
        "Licence": licence or "Not stated. Those of the data and of the first weights apply.",
        "Citation": f"```bibtex\n{citation.strip()}\n```" if citation else "Not stated.",
    }
    body = "\n\n".join(f"## {name}\n\n{text}" for name, text in sections.items())
    return "\n".join(front) + f"\n\n# {title}\n\n{body}\n"


def _length(most: int) -> str:
    return "any length" if most >= NO_LIMIT else f"at most {most} tokens, the rest is cut"


def _use(encoder: Encoder, pooling: str) -> str:
    snippets = ['import encoders\n\nvectors = encoders.load("<folder>").encode(["A sentence."])']
    if not encoder.opens_elsewhere:
        return (
            "Only this suite opens the folder as a whole; sentence-transformers has no encoder of this form.\n\n"
            f"```python\n{snippets[0]}\n```"
        )
    snippets.append(
        "from sentence_transformers import SentenceTransformer\n\n"
        'vectors = SentenceTransformer("<folder>").encode(["A sentence."])'
    )
    if hasattr(encoder, "backbone") and pooling in POOLINGS and not len(getattr(encoder, "dense", ())):
        snippets.append(
            "import torch\nfrom transformers import AutoModel, AutoTokenizer\n\n"
            'tokenizer = AutoTokenizer.from_pretrained("<folder>")\n'
            'model = AutoModel.from_pretrained("<folder>").eval()\n'
            'batch = tokenizer(["A sentence."], padding=True, truncation=True, return_tensors="pt")\n'
            "with torch.no_grad():\n"
            "    states = model(**batch).last_hidden_state\n"
            'mask = batch["attention_mask"].unsqueeze(-1)\n'
            f"vectors = {POOLINGS[pooling].code}" + (_NORMALIZE if getattr(encoder, "normalize", False) else "")
        )
    return "\n\n".join(f"```python\n{snippet}\n```" for snippet in snippets)


def _scores(scores: Mapping[str, Any]) -> str:
    columns = {name: dict(_flat(values)) for name, values in scores.items() if isinstance(values, Mapping)}
    if len(columns) < len(scores):
        return _table(scores)
    rows = dict.fromkeys(key for column in columns.values() for key in column)
    lines = [f"| | {' | '.join(columns)} |", "| --- |" + " ---: |" * len(columns)]
    for key in rows:
        cells = " | ".join(_cell(column.get(key)) for column in columns.values())
        lines.append(f"| {_cell(key)} | {cells} |")
    return "\n".join(lines)


def _table(facts: Mapping[str, Any]) -> str:
    return "\n".join(
        ["| | |", "| --- | --- |", *(f"| {_cell(key)} | {_cell(value)} |" for key, value in _flat(facts))]
    )


def _flat(facts: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in facts.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _cell(value: Any) -> str:
    if value is None:
        return "—"
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return " ".join(text.split()).replace("|", "\\|")
