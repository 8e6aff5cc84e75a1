"""Model card of an exported encoder: weights, data, training, scores, use and limits.

Mitchell et al. (2019), "Model Cards for Model Reporting"; the front matter is that of the Hugging Face hub.
"""

from __future__ import annotations

import re
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
_NOT_PUBLISHED = "no published model is behind them"
_HISTORY = {
    "bundled": (
        f". They began as a small checkpoint that ships with the suite, and {_NOT_PUBLISHED}: do not compare the "
        "scores with printed ones"
    ),
    "random": (
        f". They were once drawn at random, and {_NOT_PUBLISHED}: for teaching and for tests; do not compare the "
        "scores with printed ones"
    ),
}
_MAIN_SCORES = 2  # number of scores in the summary list; the first ones are taken


def model_card(
    *,
    title: str,
    encoder: Encoder,
    objective: str | None = None,
    corpus: Mapping[str, Any] | None = None,
    tokens: int | None = None,
    settings: Mapping[str, Any] | None = None,
    scores: Mapping[str, Any] | None = None,
    licence: str | None = None,
    citation: str | None = None,
) -> str:
    """Returns Markdown with the hub's front matter: a summary list, then the details.

    Args:
        title: its first heading.
        encoder: the encoder to describe (origin of its weights, sizes, pooling).
        objective: name of the objective that trained it.
        corpus: facts on its training data, by name ("name", "where", "licence", ...); one for each data set if
            there are several, {"fr": {...}}.
        tokens: number of tokens that it was trained on.
        settings: settings of its training; may be nested.
        scores: by name, or by column and name ({"start": {...}, "trained": {...}}).
        licence: identifier of the hub ("apache-2.0", say) or free text; None: the card says what is to be decided.
        citation: BibTeX entry of the method.
    """
    from huggingface_hub import ModelCardData  # late: most commands write no card

    tags = ["feature-extraction", "sentence-similarity"]
    if encoder.opens_elsewhere:
        tags = ["sentence-transformers", *tags, "transformers"]
    front = ModelCardData(
        library_name="sentence-transformers" if encoder.opens_elsewhere else None,
        license=licence if licence is None or re.fullmatch("[a-z0-9.-]+", licence) else "other",
        pipeline_tag="sentence-similarity",
        tags=[*tags, f"weights-{encoder.weights}"],
    )
    pooling = getattr(encoder, "pooling", "")
    plain = hasattr(encoder, "backbone") and pooling in POOLINGS and not len(encoder.others)  # type: ignore[arg-type]
    columns = {name: dict(flatten(part)) for name, part in (scores or {}).items() if isinstance(part, Mapping)}
    names = dict.fromkeys(key for column in columns.values() or [scores or {}] for key in column)
    environment = Environment(undefined=StrictUndefined)  # Markdown: nothing to escape
    environment.filters |= {"cell": _cell, "line": _line}
    return environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(
        front=front.to_yaml(),
        title=title,
        encoder=encoder,
        kind=type(encoder).__name__,
        parameters=sum(weight.numel() for weight in encoder.parameters()),
        pooling=pooling,
        unlimited=encoder.format.max_length >= NO_LIMIT,
        weights="of the folder " if encoder.weights == "own" else f"{encoder.weights}: ",
        history=_HISTORY.get(encoder.weights, ""),
        states=POOLINGS[pooling].code if plain else "",
        objective=objective,
        cited=_cite(citation or ""),
        citation=citation,
        corpus=corpus or {},
        names=_names,
        tokens=tokens,
        settings=settings,
        scores=scores,
        columns=columns if len(columns) == len(scores or {}) else {},
        rows=names,
        main_scores=_main_scores(columns or {"": dict(scores or {})}, names),
        flatten=flatten,
        licence=licence,
    )


def section(card: str, heading: str) -> str:
    """Returns the text of ``card`` under a heading of the second level; "" if there is none."""
    match = re.search(rf"^## {re.escape(heading)} *\n(.*?)(?=^## |\Z)", card, re.MULTILINE | re.DOTALL)
    return match[1].strip() if match else ""


def with_section(card: str, heading: str, text: str) -> str:
    """Returns ``card`` with ``text`` under ``heading``, in place of its old text, or else before "Use"."""
    parts = re.split(r"^(?=## )", card, flags=re.MULTILINE)
    headings = [part.partition("\n")[0].removeprefix("## ").strip() for part in parts]
    new = f"## {heading}\n\n{text}\n\n"
    if heading in headings:
        parts[headings.index(heading)] = new
    elif "Use" in headings:
        parts.insert(headings.index("Use"), new)
    else:
        parts += ["\n" if card.endswith("\n") else "\n\n", new]
    return "".join(parts).rstrip("\n") + "\n"


def _cite(citation: str) -> str:
    """Returns title and year of a BibTeX entry, to stand behind the method's name; "" if it has none."""
    matches = [re.search(rf"\b{key}\s*=\s*(.+?),?$", citation, re.MULTILINE) for key in ("title", "year")]
    title, year = (match and re.sub(r'[{}"\\]', "", match[1]) for match in matches)
    return f" ([{title}](#citation), {year})" if title and year else ""


def _names(corpus: Mapping[str, Any], *keys: str) -> str:
    """Returns the names of the data sets, with their other facts ``keys`` where they are known."""
    sets = [corpus, *(value for value in corpus.values() if isinstance(value, Mapping))]
    known = [[str(facts[key]) for key in ("name", *keys) if facts.get(key)] for facts in sets if "name" in facts]
    return "; ".join(map(", ".join, known))


def _main_scores(columns: Mapping[str, Mapping[str, Any]], names: Mapping[str, None]) -> str:
    """Returns the first scores: "recall@1: 12.5 → 50.0 (start → trained)" where there are columns."""
    known = [name for name in names if any(column.get(name) is not None for column in columns.values())]
    lines = (
        f"{name}: {' → '.join(_cell(column.get(name)) for column in columns.values())}"
        for name in known[:_MAIN_SCORES]
    )
    return "; ".join(lines) + (f" ({' → '.join(columns)})" if known and "" not in columns else "")


def _cell(value: Any) -> str:
    if value is None:
        return "—"
    return _line(f"{value:.4g}" if isinstance(value, float) else str(value)).replace("|", "\\|")


def _line(text: str) -> str:
    return " ".join(text.split())
