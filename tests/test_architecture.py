"""Rules of the code base, checked in the source: allowed imports and calls, configuration keys, module names."""

from __future__ import annotations

import ast
import configparser
import importlib
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MAY_IMPORT = {
    "data": set[str](),
    "encoders": {"data"},
    "objectives": {"data", "encoders"},
    "analysis": {"data", "encoders"},
    "experiments": {"data", "encoders", "objectives", "analysis"},
}
# Folders of analysis with stricter rules: the modules of the suite that each may import.
WITHIN = {
    "analysis/senteval": ("analysis.bootstrap", "analysis.senteval", "analysis.tables", "data"),
}
OURS = {*MAY_IMPORT, "benchmarks", "tests"}
# Groups of configuration keys that a package must not name: the caller adds them to messages.
NO_KEYS_OF = {"data": ("objective", "budget"), "encoders": ("objective", "budget")}
UNPICKLERS = {"pickle", "_pickle", "cloudpickle", "dill", "marshal", "shelve"}
MAY_UNPICKLE = "analysis/senteval/captions.py", "pickle"  # by an unpickler restricted to plain data


def faults(root: Path) -> list[str]:
    """Returns every breach of the rules in the Python files under ``root``, as "path:line: what"."""
    requirements = declared(root / "setup.cfg")
    reserved = sys.stdlib_module_names | imports_of(requirements["install"])
    result = []
    for path in sources(root):
        where = path.relative_to(root)
        tree = ast.parse(path.read_text(encoding="utf-8"))
        result += [f"{where}:{line}: {what}" for line, what in _import_faults(where, tree, requirements)]
        result += [f"{where}:{line}: {what}" for line, what in _call_faults(tree)]
        result += [f"{where}:{line}: {what}" for line, what in _key_faults(where, tree)]
        name = where.parent.name if path.stem == "__init__" else path.stem
        if name in reserved:
            result.append(f"{where}:1: a module of the standard library or of a dependency is called {name} too")
        if path.stem != "__init__" and not (path.parent / "__init__.py").exists() and where.parts[0] in MAY_IMPORT:
            result.append(f"{where}:1: its folder has no __init__.py")
    return result


def sources(root: Path) -> list[Path]:
    return sorted(path for package in OURS for path in (root / package).rglob("*.py"))


def declared(setup: Path) -> dict[str, set[str]]:
    """Returns the distributions that setup.cfg installs, always ("install") and for tests ("test")."""
    config = configparser.ConfigParser()
    config.read(setup, encoding="utf-8")

    def names(block: str) -> set[str]:
        return {normal(re.split(r"[=<>~! \[]", line)[0]) for line in block.splitlines() if line.strip()}

    install = names(config.get("options", "install_requires", fallback=""))
    return {"install": install, "test": install | names(config.get("options.extras_require", "test", fallback=""))}


def normal(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).lower()


def imports_of(distributions: Iterable[str]) -> set[str]:
    """Returns the top-level modules that ``distributions`` install."""
    names = set(distributions)
    return {module for module, owners in _installed().items() if names & owners}


@cache
def _installed() -> dict[str, set[str]]:
    return {module: set(map(normal, owners)) for module, owners in packages_distributions().items()}


def imported_from_outside(names: Iterable[str], root: Path) -> list[str]:
    """Returns one line for each package that Python imports from outside ``root``."""
    result = []
    for name in sorted(names):
        file = importlib.import_module(name).__file__
        if file is None or not Path(file).resolve().is_relative_to(root):
            result.append(f"{name} is {file}, not the one in {root}")
    return result


def _import_faults(where: Path, tree: ast.Module, requirements: dict[str, set[str]]) -> Iterator[tuple[int, str]]:
    package = where.parts[0]
    allowed = MAY_IMPORT.get(package)
    installed = imports_of(requirements["test" if allowed is None else "install"])
    for line, module in _imports(tree):
        top = module.split(".")[0]
        if not top:
            yield line, "a relative import"
        elif top in UNPICKLERS and package != "tests" and (where.as_posix(), top) != MAY_UNPICKLE:
            yield line, f"{top}: nothing is unpickled here"  # a test may pickle an object as a worker process does
        elif top == "torchtext" and where.as_posix() != "data/vectors.py":
            yield line, "torchtext: only data/vectors.py imports it"
        elif top == "sentence_transformers" and where.as_posix() == "encoders/transformer.py":
            continue  # imported only for folders that need it
        elif top == "mteb":  # an optional extra, which may be absent
            if package != "tests" and where.as_posix() != "analysis/mteb.py":
                yield line, "mteb: only analysis/mteb.py imports it"
        elif top in OURS and (folder := next((each for each in WITHIN if where.is_relative_to(each)), None)):
            if not any(f"{module}.".startswith(f"{prefix}.") for prefix in WITHIN[folder]):
                yield line, f"{folder} imports {module}"
        elif top in OURS:
            if allowed is not None and top != package and top not in allowed:
                yield line, f"{package} imports {top}"
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
        keywords = {keyword.arg: keyword.value for keyword in node.keywords}
        name = ast.unparse(node.func)
        if "trust_remote_code" in keywords and not _is(keywords["trust_remote_code"], False):
            yield node.lineno, "trust_remote_code: no remote code"
        if "allow_pickle" in keywords and not _is(keywords["allow_pickle"], False):
            yield node.lineno, "allow_pickle: nothing is unpickled here"
        if name == "torch.load" and not _is(keywords.get("weights_only"), True):
            yield node.lineno, "torch.load without weights_only=True"


def _key_faults(where: Path, tree: ast.Module) -> Iterator[tuple[int, str]]:
    if not (groups := NO_KEYS_OF.get(where.parts[0])):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            for key in re.findall(rf"\b(?:{'|'.join(groups)})[.=]\w*", node.value):
                yield node.lineno, f"{where.parts[0]} names the key {key}"


def _is(node: ast.expr | None, value: bool) -> bool:
    return isinstance(node, ast.Constant) and node.value is value


def test_the_source_keeps_all_rules() -> None:
    assert faults(ROOT) == []


def test_packages_are_imported_from_this_checkout() -> None:
    assert imported_from_outside(OURS, ROOT) == []


def test_the_rules_cover_every_package() -> None:
    assert {path.relative_to(ROOT).parts[0] for path in sources(ROOT)} == OURS


@pytest.mark.parametrize(
    ("file", "text", "fault"),
    [
        ("data/a.py", "import encoders\n", "data/a.py:1: data imports encoders"),
        ("data/a.py", "from encoders.base import Encoder\n", "data/a.py:1: data imports encoders"),
        (
            "encoders/a.py",
            "def f() -> None:\n    import objectives.base\n",
            "encoders/a.py:2: encoders imports objectives",
        ),
        ("objectives/a.py", "from analysis import quick\n", "objectives/a.py:1: objectives imports analysis"),
        ("analysis/a.py", "import experiments\n", "analysis/a.py:1: analysis imports experiments"),
        (
            "analysis/senteval/a.py",
            "from analysis.results import measure\n",
            "analysis/senteval/a.py:1: analysis/senteval imports analysis.results",
        ),
        ("experiments/a.py", "from tests import real_data\n", "experiments/a.py:1: experiments imports tests"),
        ("data/a.py", "from . import batch\n", "data/a.py:1: a relative import"),
        ("data/a.py", "import torchtext\n", "data/a.py:1: torchtext: only data/vectors.py imports it"),
        ("analysis/a.py", "import mteb\n", "analysis/a.py:1: mteb: only analysis/mteb.py imports it"),
        ("benchmarks/a.py", "import pickle\n", "benchmarks/a.py:1: pickle: nothing is unpickled here"),
        ("analysis/captions.py", "import pickle\n", "analysis/captions.py:1: pickle: nothing is unpickled here"),
        ("data/a.py", "import pytest\n", "data/a.py:1: pytest is in none of setup.cfg's requirements"),
        ("data/a.py", "f(trust_remote_code=True)\n", "data/a.py:1: trust_remote_code: no remote code"),
        ("data/a.py", "f(trust_remote_code=x)\n", "data/a.py:1: trust_remote_code: no remote code"),
        ("data/a.py", "np.load(f, allow_pickle=True)\n", "data/a.py:1: allow_pickle: nothing is unpickled here"),
        ("data/a.py", "torch.load(f)\n", "data/a.py:1: torch.load without weights_only=True"),
        ("data/a.py", "torch.load(f, weights_only=False)\n", "data/a.py:1: torch.load without weights_only=True"),
        (
            "data/random.py",
            "",
            "data/random.py:1: a module of the standard library or of a dependency is called random too",
        ),
        (
            "data/torch.py",
            "",
            "data/torch.py:1: a module of the standard library or of a dependency is called torch too",
        ),
        ("data/a.py", 'm = f"lower budget.documents={n}"\n', "data/a.py:1: data names the key budget.documents"),
        ("encoders/a.py", '"""See objective=nli."""\n', "encoders/a.py:1: encoders names the key objective=nli"),
        ("data/views/a.py", "", "data/views/a.py:1: its folder has no __init__.py"),
    ],
)
def test_breaches_are_found(tmp_path: Path, file: str, text: str, fault: str) -> None:
    write_tree(tmp_path, {file: text})
    assert faults(tmp_path) == [fault]


def test_what_is_allowed_is_no_breach(tmp_path: Path) -> None:
    write_tree(
        tmp_path,
        {
            "data/a.py": 'm = "objective of objectives.base, corpus.path"\n',
            "objectives/a.py": 'm = "objective.k"\n',
            "data/vectors.py": "import torchtext\nimport torch\ntorch.load(f, weights_only=True)\n",
            "analysis/mteb.py": "import mteb\n",
            "experiments/a.py": "import analysis, data, encoders, objectives\n",
            "tests/a.py": "import experiments\nimport pickle\nimport pytest\nf(trust_remote_code=False)\n",
        },
    )
    assert faults(tmp_path) == []


def test_only_one_file_may_unpickle_and_only_by_pickle(tmp_path: Path) -> None:
    file, _ = MAY_UNPICKLE
    write_tree(tmp_path, {"analysis/senteval/__init__.py": "", file: "import pickle\nimport _pickle\n"})
    assert faults(tmp_path) == [f"{file}:2: _pickle: nothing is unpickled here"]


def test_a_package_imported_from_outside_the_checkout_is_named(tmp_path: Path) -> None:
    [line] = imported_from_outside(["data"], tmp_path)
    assert line == f"data is {ROOT / 'data' / '__init__.py'}, not the one in {tmp_path}"


def write_tree(root: Path, files: dict[str, str]) -> None:
    """Writes setup.cfg, the packages and ``files`` below ``root``."""
    (root / "setup.cfg").write_text((ROOT / "setup.cfg").read_text(encoding="utf-8"), encoding="utf-8")
    for package in (*sorted(OURS), *WITHIN):
        (root / package).mkdir()
        (root / package / "__init__.py").touch()
    for file, text in files.items():
        (root / file).parent.mkdir(exist_ok=True)
        (root / file).write_text(text, encoding="utf-8")
