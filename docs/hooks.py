"""MkDocs hooks: README.md as the first page; formulas and links to Colab on the pages of the notebooks."""

from __future__ import annotations

import re
from configparser import ConfigParser
from html import unescape
from pathlib import Path
from typing import Any

README = Path(__file__).parents[1] / "README.md"
SETUP = README.with_name("setup.cfg")
GITHUB = re.compile(r"https://github\.com/([\w.-]+)/([\w.-]+)")
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
    """Typesets the formulas of a notebook and adds a link to Colab."""
    if not page.file.src_uri.endswith(".ipynb"):
        return html
    parts = CODE.split(html)  # text, a whole element of code, the element's name, text, ...
    parts[::3] = [FORMULA.sub(_typeset, text) for text in parts[::3]]
    del parts[2::3]
    return _colab(page.file.src_uri) + "".join(parts)


def _colab(notebook: str) -> str:
    """Returns a link that opens a file of docs/ in Colab, or nothing while setup.cfg has no url on GitHub."""
    setup = ConfigParser()
    setup.read(SETUP, encoding="utf-8")
    repository = GITHUB.fullmatch(setup.get("metadata", "url", fallback=""))
    if not repository:
        return ""
    owner, name = repository.groups()
    link = f"https://colab.research.google.com/github/{owner}/{name}/blob/main/docs/{notebook}"
    install = f"!git clone {repository[0]} &amp;&amp; pip install -q -e {name}"
    return (
        f'<p><a href="{link}">Open in Colab</a>. Run this in a new cell there first: '
        f"<code>{install}</code>, then <code>%cd {name}</code>.</p>"
    )


def _typeset(formula: re.Match[str]) -> str:
    from latex2mathml.converter import convert  # late: only `make docs` installs it

    block, inline = formula.groups()
    return str(convert(unescape(block or inline), display="block" if block else "inline"))
