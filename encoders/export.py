"""Model card of an exported encoder: weights, data, training, scores, use and limits.

Mitchell et al. (2019), "Model Cards for Model Reporting"; the front matter is that of the Hugging Face hub.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from data.display import flatten
from encoders.folder import NO_LIMIT
from encoders.pooling import POOLINGS

if TYPE_CHECKING:
    from encoders.base import Encoder

_WEIGHTS = {
    "pretrained": "pretrained: {origin}",
    "own": "of the folder {origin}",
    "bundled": (
        "bundled: {origin}. They began as a small checkpoint that ships with the suite, and no published model is "
        "behind them: do not compare the scores with printed ones"
    ),
    "random": (
        "random: {origin}. They were once drawn at random, and no published model is behind them: for teaching "
        "and for tests; do not compare the scores with printed ones"
    ),
}
_NORMALIZE = "\nvectors = torch.nn.functional.normalize(vectors)"
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
    identifier = licence if licence is None or re.fullmatch("[a-z0-9.-]+", licence) else "other"
    front = ModelCardData(
        library_name="sentence-transformers" if encoder.opens_elsewhere else None,
        license=identifier,
        pipeline_tag="sentence-similarity",
        tags=[*tags, f"weights-{encoder.weights}"],
    )
    pooling = getattr(encoder, "pooling", "")
    parameters = sum(weight.numel() for weight in encoder.parameters())
    facts = {
        "Objective": objective and objective + _cited(citation),
        "Encoder": (
            f"{type(encoder).__name__} of {parameters:,} parameters; "
            f"vectors of {encoder.dimension}{pooling and f', {pooling} pooling'}; "
            f"input of {_length(encoder.format.max_length)}"
        ),
        "Weights": _WEIGHTS[encoder.weights].format(origin=encoder.origin),
        "Corpus": "; ".join(_corpora(corpus or {}, "where")),
        "Tokens seen": tokens and f"{tokens:,}",
        "Scores": scores and _main_scores(scores),
    }
    sections = {
        "Data": corpus and _table(corpus),
        "Training": settings and f"<details>\n<summary>All settings</summary>\n\n{_table(settings)}\n\n</details>",
        "Scores": scores and _scores(scores),
        "Use": _use(encoder, pooling),
        "Limits": (
            "The vectors reflect the text that the encoder was trained on, with its language, period and "
            "prejudices. They say which texts resemble each other to this model, not which ones are true, and "
            "were not examined for any use in which people could come to harm."
        ),
        "Licence": licence or _missing_licence(corpus or {}, encoder),
        "Citation": citation and f"```bibtex\n{citation.strip()}\n```",
    }
    listed = "\n".join(f"- **{name}:** {_line(value)}." for name, value in facts.items() if value)
    body = "\n\n".join(f"## {name}\n\n{text}" for name, text in sections.items() if text)
    return f"---\n{front.to_yaml()}\n---\n\n# {title}\n\n{listed}\n\n{body}\n"


def section(card: str, heading: str) -> str:
    """Returns the text of ``card`` under a heading of the second level; "" if there is none."""
    found = (part.partition("\n")[2].strip() for part in _parts(card) if _heading(part) == heading)
    return next(found, "")


def with_section(card: str, heading: str, text: str) -> str:
    """Returns ``card`` with ``text`` under ``heading``, in place of its old text, or else before "Use"."""
    parts = _parts(card)
    headings = [_heading(part) for part in parts]
    new = f"## {heading}\n\n{text}\n\n"
    if heading in headings:
        parts[headings.index(heading)] = new
    elif "Use" in headings:
        parts.insert(headings.index("Use"), new)
    else:
        parts += ["\n" if card.endswith("\n") else "\n\n", new]
    return "".join(parts).rstrip("\n") + "\n"


def _parts(card: str) -> list[str]:
    """Cuts ``card`` before each heading of the second level."""
    return re.split(r"^(?=## )", card, flags=re.MULTILINE)


def _heading(part: str) -> str:
    return part.partition("\n")[0].removeprefix("## ").strip()


def _cited(citation: str | None) -> str:
    """Returns title and year of a BibTeX entry, to stand behind the method's name; "" if it has none."""
    found = (re.search(rf"\b{key}\s*=\s*(.+?),?$", citation or "", re.MULTILINE) for key in ("title", "year"))
    title, year = (match and re.sub(r'[{}"\\]', "", match[1]) for match in found)
    return f" ([{title}](#citation), {year})" if title and year else ""


def _corpora(corpus: Mapping[str, Any], *keys: str) -> Iterator[str]:
    """Yields the name of each data set, with its other facts ``keys`` where they are known."""
    for one in (corpus, *(value for value in corpus.values() if isinstance(value, Mapping))):
        if "name" in one:
            known = [str(one[key]) for key in keys if one.get(key)]
            yield ", ".join([str(one["name"]), *known])


def _missing_licence(corpus: Mapping[str, Any], encoder: Encoder) -> str:
    """Returns the section for an encoder without a licence: what its publisher has to decide."""
    texts = "; ".join(_corpora(corpus, "where", "licence")) or "the text that it was trained on"
    return _line(
        "No licence is chosen yet; whoever publishes the encoder decides. Write `license:` and an identifier of "
        "the hub (`apache-2.0`, say) into the first lines of this file, and replace this section. Two licences "
        f"must allow it: that of the corpus ({texts}), and that of the start weights ({encoder.weights}: "
        f"{encoder.origin})."
    )


def _main_scores(scores: Mapping[str, Any]) -> str:
    """Returns the first scores: "recall@1: 12.5 → 50.0 (start → trained)" where there are columns."""
    columns = {name: dict(flatten(values)) for name, values in scores.items() if isinstance(values, Mapping)}
    rows = dict.fromkeys(
        key for column in columns.values() or [scores] for key, value in column.items() if value is not None
    )
    cells = {
        name: " → ".join(_cell(column.get(name)) for column in columns.values() or [scores])
        for name in list(rows)[:_MAIN_SCORES]
    }
    named = f" ({' → '.join(columns)})" if columns else ""
    return "; ".join(f"{name}: {cell}" for name, cell in cells.items()) + named


def _length(most: int) -> str:
    return "any length" if most >= NO_LIMIT else f"at most {most} tokens, the rest is cut"


def _use(encoder: Encoder, pooling: str) -> str:
    snippets = ['import encoders\n\nvectors = encoders.load("<folder>").encode(["A sentence."])']
    if not encoder.opens_elsewhere:
        return (
            "Only this suite can open the folder as a whole: sentence-transformers has no encoder of this form.\n"
            f"\n```python\n{snippets[0]}\n```"
        )
    empty = "  # an empty text gives -inf" * (pooling == "max" and not hasattr(encoder, "backbone"))
    snippets.append(
        "from sentence_transformers import SentenceTransformer\n\n"
        f'vectors = SentenceTransformer("<folder>").encode(["A sentence."]){empty}'
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
    columns = {name: dict(flatten(values)) for name, values in scores.items() if isinstance(values, Mapping)}
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
        ["| | |", "| --- | --- |", *(f"| {_cell(key)} | {_cell(value)} |" for key, value in flatten(facts))]
    )


def _cell(value: Any) -> str:
    if value is None:
        return "—"
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return _line(text).replace("|", "\\|")


def _line(text: str) -> str:
    return " ".join(text.split())
