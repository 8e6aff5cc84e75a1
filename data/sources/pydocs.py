"""The documentation of the Python standard library and the installed packages, which is always available."""

from __future__ import annotations

import ast
import gc
import importlib.util
import inspect
import os
import platform
import sysconfig
import warnings
from collections.abc import Iterator
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import Any

from data.sources.base import Document, Source, order_hash
from data.sources.prose import paragraphs

# Import name and name in the registry; all of them come with what the project pins.
PACKAGES = {
    "accelerate": "accelerate",
    "datasets": "datasets",
    "fsspec": "fsspec",
    "huggingface_hub": "huggingface_hub",
    "jinja2": "Jinja2",
    "joblib": "joblib",
    "matplotlib": "matplotlib",
    "mpmath": "mpmath",
    "networkx": "networkx",
    "nltk": "nltk",
    "numpy": "numpy",
    "pandas": "pandas",
    "PIL": "pillow",
    "rich": "rich",
    "scipy": "scipy",
    "sklearn": "scikit-learn",
    "sympy": "sympy",
    "torch": "torch",
    "transformers": "transformers",
}
LEFT_OUT = {"dist-packages", "site-packages", "_vendor", "externals", "idlelib", "lib2to3"}
LEFT_OUT |= {"test", "testing", "tests"}
LEFT_OUT |= {"models"}  # hundreds of folders in transformers, which say the same of each other
ADD_DOCS = {"add_docstr", "add_docstr_all", "add_newdoc"}  # calls by which torch, numpy and scipy document C code
FEWEST_WORDS = 600  # shorter modules are joined with their neighbours
MOST_WORDS = 2400  # longer ones are cut between paragraphs


class Pydocs(Source):
    """English prose from docstrings, read from the source files without importing any.

    Code, tables and signatures are removed, and so is a paragraph that repeats another one about something
    else, so that nothing held out has a near copy in training. A document is a module, cut if it
    is long, joined with its neighbours if it is short; its group is the module in which it begins.

    Args:
        fraction, dev_fraction, lowercase: see Source.
    """

    name = "pydocs"

    def documents(self) -> Iterator[Document]:
        yield from self._documents

    def identity(self) -> Iterator[str | bytes]:
        yield platform.python_version()
        yield from (f"{name} {version}" for name, version in self._versions.items())
        yield from (Path(inspect.getfile(rule)).read_bytes() for rule in (Pydocs, paragraphs))

    def describe(self) -> dict[str, Any]:
        packages = ", ".join(f"{name} {version}" for name, version in sorted(self._versions.items()))
        return {
            "name": "pydocs",
            "where": f"docstrings of Python {platform.python_version()}, {packages}",
            "licence": "those of the packages (PSF, BSD, MIT, Apache-2.0, ...)",
        }

    @property
    def total(self) -> int:
        return len(self._documents)

    @cached_property
    def _versions(self) -> dict[str, str]:
        versions = {}
        for module, name in PACKAGES.items():
            if importlib.util.find_spec(module) is not None:
                versions[module] = metadata.version(name)
        return versions

    @cached_property
    def _documents(self) -> list[Document]:
        seen: set[int] = set()
        collecting = gc.isenabled()
        gc.disable()  # syntax trees hold no cycles; looking for some takes a fifth of the time
        try:
            return [document for root, package in self._roots() for document in _joined(root, package, seen)]
        finally:
            if collecting:
                gc.enable()

    def _roots(self) -> Iterator[tuple[Path, str]]:
        yield Path(sysconfig.get_path("stdlib")), "python"
        for module in self._versions:
            spec = importlib.util.find_spec(module)
            if spec is not None and spec.submodule_search_locations:
                yield Path(spec.submodule_search_locations[0]), module


def _joined(root: Path, package: str, seen: set[int]) -> Iterator[Document]:
    """Yields the modules of a package as documents of ``FEWEST_WORDS`` to about ``MOST_WORDS`` words."""
    text: list[str] = []
    words = 0
    group = package
    for path in _source_files(root):
        for paragraph in _fresh(path, seen):
            if words >= MOST_WORDS:
                yield Document("\n\n".join(text), group)
                text, words = [], 0
            if not text:
                group = ".".join((package, *path.relative_to(root).with_suffix("").parts))
            text.append(paragraph)
            words += paragraph.count(" ") + 1
        if words >= FEWEST_WORDS:
            yield Document("\n\n".join(text), group)
            text, words = [], 0
    if text:
        yield Document("\n\n".join(text), group)


def _source_files(root: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(set(folders) - LEFT_OUT)
        yield from (Path(folder, name) for name in sorted(files) if name.endswith(".py"))


def _fresh(path: Path, seen: set[int]) -> list[str]:
    """Returns the prose of a source file without paragraphs that, but for names, are in ``seen``."""
    fresh = []
    for docstring in _docstrings(path):
        for paragraph in paragraphs(docstring):
            key = order_hash(" ".join(word for word in paragraph.split() if word.isalpha() and word.islower()))
            if key not in seen:
                seen.add(key)
                fresh.append(paragraph)
    return fresh


def _docstrings(path: Path) -> Iterator[str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of their escape sequences
            tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):  # templates, and files for other versions of Python
        return
    yield from _inside(tree)


def _inside(node: ast.AST) -> Iterator[str]:
    """Yields the docstrings of ``node`` and of its contents, in their order."""
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        yield ast.get_docstring(node, clean=False) or ""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | ast.If | ast.Try):
            yield from _inside(child)
        elif isinstance(child, ast.Expr) and isinstance(child.value, ast.Call) and _adds_docs(child.value):
            yield max(_strings(child.value), key=len, default="")
        elif isinstance(child, ast.Assign) and isinstance(child.value, ast.Dict) and _is_topics(child):
            yield from _strings(child.value)


def _adds_docs(call: ast.Call) -> bool:
    return getattr(call.func, "attr", getattr(call.func, "id", "")) in ADD_DOCS


def _is_topics(node: ast.Assign) -> bool:  # pydoc_data.topics: the language reference
    return isinstance(node.targets[0], ast.Name) and node.targets[0].id == "topics"


def _strings(node: ast.AST) -> Iterator[str]:
    for leaf in ast.walk(node):
        if isinstance(leaf, ast.Constant) and isinstance(leaf.value, str):
            yield leaf.value
