"""MkDocs hooks: README.md as the first page of the site, and formulas of the notebooks as MathML."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert

README = Path(__file__).parents[1] / "README.md"
LINK = re.compile(r"(!?\[[^\]]*\])\((?!https:)([^)]+)\)")
CODE = re.compile(r"(<(pre|code|script|style)\b.*?</\2>)", re.S)
FORMULA = re.compile(r"\$\$(.+?)\$\$|\$([^$\n]+?)\$", re.S)


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Replaces index.md by README.md. Of links to files outside of docs/ only the text remains."""
    return LINK.sub(_inside, README.read_text(encoding="utf-8")) if page.file.src_uri == "index.md" else markdown


def _inside(link: re.Match[str]) -> str:
    text, target = link.groups()
    return f"{text}({target.removeprefix('docs/')})" if target.startswith("docs/") else text[1:-1]


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Typesets the formulas of the notebooks."""
    if not page.file.src_uri.endswith(".ipynb"):
        return html
    parts = CODE.split(html)  # text, a whole element of code, the element's name, text, ...
    parts[::3] = [FORMULA.sub(_typeset, text) for text in parts[::3]]
    del parts[2::3]
    return "".join(parts)


def _typeset(formula: re.Match[str]) -> str:
    block, inline = formula.groups()
    return str(convert(unescape(block or inline), display="block" if block else "inline"))
