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

from data.sources.base import Example, Source, text_hash
from data.sources.prose import paragraphs

# Import names; all of them come with what the project pins.
PACKAGES = [
    "accelerate",
    "datasets",
    "fsspec",
    "huggingface_hub",
    "jinja2",
    "joblib",
    "matplotlib",
    "mpmath",
    "networkx",
    "nltk",
    "numpy",
    "pandas",
    "PIL",
    "rich",
    "scipy",
    "sklearn",
    "sympy",
    "torch",
    "transformers",
]
LEFT_OUT = {
    *("dist-packages", "site-packages", "_vendor", "externals", "idlelib", "lib2to3", "test", "testing", "tests"),
    "models",  # hundreds of folders in transformers, which say the same of each other
}
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

    def examples(self) -> Iterator[Example]:
        yield from self._examples

    def identity(self) -> Iterator[str | bytes]:
        yield self._versions
        yield from (Path(inspect.getfile(rule)).read_bytes() for rule in (Pydocs, paragraphs))

    def describe(self) -> dict[str, Any]:
        licence = "those of the packages (PSF, BSD, MIT, Apache-2.0, ...)"
        return {"name": "pydocs", "where": f"docstrings of {self._versions}", "licence": licence}

    @property
    def _versions(self) -> str:
        registered = metadata.packages_distributions()
        versions = [f"{module} {metadata.version(registered[module][0])}" for module, _ in packages()]
        return ", ".join([f"Python {platform.python_version()}", *versions])

    @cached_property
    def _examples(self) -> list[Example]:
        seen = set[int]()
        roots = [("python", Path(sysconfig.get_path("stdlib"))), *packages()]
        gc.freeze()  # collections would go through the objects of other modules for each file: twice the time
        documents = [document for package, root in roots for document in join_modules(root, package, seen)]
        gc.unfreeze()
        return documents


def packages() -> Iterator[tuple[str, Path]]:
    """Yields the installed packages of ``PACKAGES`` and their folders."""
    for module in PACKAGES:
        if (spec := importlib.util.find_spec(module)) and spec.submodule_search_locations:
            yield module, Path(spec.submodule_search_locations[0])


def join_modules(root: Path, package: str, seen: set[int]) -> Iterator[Example]:
    """Yields the modules of a package as documents of ``FEWEST_WORDS`` to about ``MOST_WORDS`` words."""
    text: list[str] = []
    words = 0
    group = package

    def document() -> Example:
        return Example(("\n\n".join(text),), group=group)

    for path in _source_files(root):
        for paragraph in _fresh_paragraphs(path, seen):
            if words >= MOST_WORDS:
                yield document()
                text, words = [], 0
            if not text:
                group = ".".join((package, *path.relative_to(root).with_suffix("").parts))
            text.append(paragraph)
            words += paragraph.count(" ") + 1
        if words >= FEWEST_WORDS:
            yield document()
            text, words = [], 0
    if text:
        yield document()


def _source_files(root: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(set(folders) - LEFT_OUT)
        yield from (Path(folder, name) for name in sorted(files) if name.endswith(".py"))


def _fresh_paragraphs(path: Path, seen: set[int]) -> Iterator[str]:
    """Yields the prose of a source file without paragraphs that, but for names, are in ``seen``."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of their escape sequences
            tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):  # templates, and files for other versions of Python
        return
    for docstring in _docstrings(tree):
        for paragraph in paragraphs(docstring):
            key = text_hash(" ".join(word for word in paragraph.split() if word.isalpha() and word.islower()))
            if key not in seen:
                seen.add(key)
                yield paragraph


def _docstrings(node: ast.AST) -> Iterator[str]:
    """Yields the docstrings of ``node`` and of its contents, in their order."""
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        yield ast.get_docstring(node, clean=False) or ""
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef() | ast.If() | ast.Try():
                yield from _docstrings(child)
            case ast.Expr(ast.Call(ast.Name(name) | ast.Attribute(attr=name))) if name in ADD_DOCS:
                yield max(_strings(child), key=len, default="")
            case ast.Assign([ast.Name("topics")], ast.Dict()):  # pydoc_data.topics: the language reference
                yield from _strings(child)


def _strings(node: ast.AST) -> Iterator[str]:
    for leaf in ast.walk(node):
        if isinstance(leaf, ast.Constant) and isinstance(leaf.value, str):
            yield leaf.value
