"""Rules of the code base, checked in the source: allowed imports and calls, configuration keys, module names."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from tests.test_setup import normal, requirements

ROOT = Path(__file__).resolve().parents[1]
MAY_IMPORT = {
    "data": set[str](),
    "encoders": {"data"},
    "objectives": {"data", "encoders"},
    "analysis": {"data", "encoders"},
    "experiments": {"data", "encoders", "objectives", "analysis"},
}
# The modules of the suite that may be imported in a folder with stricter rules.
SENTEVAL = "analysis/senteval"
IN_SENTEVAL = ("analysis.bootstrap.", "analysis.senteval.", "analysis.tables.", "data.")
OURS = {*MAY_IMPORT, "benchmarks", "tests"}
NAMES_NO_KEYS = ("data", "encoders")  # their callers add the keys to messages
KEY = re.compile(r"\b(?:objective|budget)[.=]\w*")
# Modules that only one file may import, and a package of tests.
ONLY_IN = {"torchtext": "data/vectors.py", "mteb": "analysis/mteb.py"}
UNPICKLERS = {"pickle", "_pickle", "cloudpickle", "dill", "marshal", "shelve"}
MAY_UNPICKLE = f"{SENTEVAL}/captions.py", "pickle"  # by an unpickler restricted to plain data


def faults(root: Path) -> list[str]:
    """Returns every breach of the rules in the Python files under ``root``, as "path:line: what"."""
    reserved = sys.stdlib_module_names | list_imports("install")
    result = []
    for path in sources(root):
        where, tree = path.relative_to(root), ast.parse(path.read_text(encoding="utf-8"))
        breaches = [*_import_faults(where, tree), *_call_faults(tree), *_key_faults(where, tree)]
        name = where.parent.name if path.stem == "__init__" else path.stem
        if name in reserved:
            breaches.append((1, f"a module of the standard library or of a dependency is called {name} too"))
        if where.parts[0] in MAY_IMPORT and not (path.parent / "__init__.py").exists():
            breaches.append((1, "its folder has no __init__.py"))
        result += [f"{where}:{line}: {what}" for line, what in breaches]
    return result


def sources(root: Path) -> list[Path]:
    return sorted(path for package in OURS for path in (root / package).rglob("*.py"))


@cache
def list_imports(*extras: str) -> set[str]:
    """Returns the top-level modules of the distributions that setup.cfg requires."""
    names = {normal(re.split(r"[=<>~! \[]", line)[0]) for line in requirements(*extras)}
    return {module for module, owners in packages_distributions().items() if names & set(map(normal, owners))}


def _import_faults(where: Path, tree: ast.Module) -> Iterator[tuple[int, str]]:
    package, file = where.parts[0], where.as_posix()
    allowed = MAY_IMPORT.get(package)
    installed = list_imports("install") if allowed is not None else list_imports("install", "test")
    for line, module in _imports(tree):
        top = module.split(".")[0]
        if not top:
            yield line, "a relative import"
        elif top in UNPICKLERS and package != "tests" and (file, top) != MAY_UNPICKLE:
            yield line, f"{top}: nothing is unpickled here"  # a test may pickle an object as a worker process does
        elif top in ONLY_IN:  # mteb is an optional extra, which may be absent
            if file != ONLY_IN[top] and (package != "tests" or top == "torchtext"):
                yield line, f"{top}: only {ONLY_IN[top]} imports it"
        elif top == "sentence_transformers" and file == "encoders/model_folder.py":
            continue  # imported only for folders that need it
        elif top in OURS:
            if allowed is not None and top != package and top not in allowed:
                yield line, f"{package} imports {top}"
            elif where.is_relative_to(SENTEVAL) and not f"{module}.".startswith(IN_SENTEVAL):
                yield line, f"{SENTEVAL} imports {module}"
        elif top not in sys.stdlib_module_names and top not in installed:
            yield line, f"{top} is in none of setup.cfg's requirements"


def _imports(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.lineno, "" if node.level else node.module or ""


def _call_faults(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        values = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
        for name in ("trust_remote_code", "allow_pickle"):
            if values.get(name, "False") != "False":
                yield node.lineno, name
        if ast.unparse(node.func) == "torch.load" and values.get("weights_only") != "True":
            yield node.lineno, "torch.load without weights_only=True"


def _key_faults(where: Path, tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if where.parts[0] in NAMES_NO_KEYS and isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from ((node.lineno, f"{where.parts[0]} names the key {key}") for key in KEY.findall(node.value))


def test_the_source_keeps_all_rules() -> None:
    assert {path.relative_to(ROOT).parts[0] for path in sources(ROOT)} == OURS
    assert faults(ROOT) == []


@pytest.mark.parametrize(
    ("file", "line", "text"),
    [
        ("data/a.py", 1, "from encoders.base import Encoder\n"),
        ("encoders/a.py", 2, "def f() -> None:\n    import objectives.base\n"),
        ("analysis/a.py", 1, "import experiments\n"),
        ("analysis/senteval/a.py", 1, "from analysis.results import measure\n"),
        ("experiments/a.py", 1, "from tests import real_data\n"),
        ("data/a.py", 1, "from . import batch\n"),
        ("data/a.py", 1, "import torchtext\n"),
        ("analysis/a.py", 1, "import mteb\n"),
        ("benchmarks/a.py", 1, "import pickle\n"),
        (MAY_UNPICKLE[0], 2, "import pickle\nimport _pickle\n"),
        ("data/a.py", 1, "import pytest\n"),
        ("data/a.py", 1, "f(trust_remote_code=True)\n"),
        ("data/a.py", 1, "torch.load(f)\n"),
        ("data/random.py", 1, ""),
        ("data/a.py", 1, 'm = f"lower budget.documents={n}"\n'),
        ("encoders/a.py", 1, '"""See objective=nli."""\n'),
        ("data/views/a.py", 1, ""),
    ],
)
def test_breaches_are_found(tmp_path: Path, file: str, line: int, text: str) -> None:
    for package in (*sorted(OURS), SENTEVAL):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").touch()
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text(text, encoding="utf-8")
    [fault] = faults(tmp_path)
    assert fault.startswith(f"{file}:{line}: ")
