"""The teaching notebooks: each runs from top to bottom, leaves no files, and is stored with its outputs."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "teaching"
NOTEBOOKS = sorted(path.name for path in FOLDER.glob("*.ipynb"))
PACKAGES = ("analysis", "data", "encoders", "experiments", "objectives")
FAST = "1-spans-and-nt-xent.ipynb"  # the others, each of which takes about as long, are marked slow
MOST_BYTES = 250_000
LINK = re.compile(r"\]\(([^)#]+)\)")
# Absolute paths, which may contain a user's name, and warnings, which differ between executions.
PRIVATE = re.compile(r"(?<![\w.])/(home|Users|root|tmp|work|opt|usr|var)/|site-packages|[A-Z]:\\|Warning\b")


def read(name: str) -> Any:
    return nbformat.read(FOLDER / name, as_version=4)


def outputs(notebook: Any) -> list[Any]:
    return [output for cell in notebook.cells for output in cell.get("outputs", [])]


def printed(notebook: Any, stream: str = "stdout") -> str:
    return "".join(
        output.text for output in outputs(notebook) if output.output_type == "stream" and output.name == stream
    )


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a copy of the packages, in whose cache the first notebook stores the corpus for the others."""
    tree = tmp_path_factory.mktemp("checkout")
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tree / package, ignore=shutil.ignore_patterns("__pycache__"))
    return tree


@pytest.mark.parametrize(
    "name", [name if name == FAST else pytest.param(name, marks=pytest.mark.slow) for name in NOTEBOOKS]
)
def test_a_notebook_runs_and_leaves_no_files(name: str, tree: Path, tmp_path: Path) -> None:
    client = NotebookClient(read(name), timeout=900, resources={"metadata": {"path": str(tmp_path / "here")}})
    # Without folders to search for kernels, it starts ipykernel with this interpreter.
    manager = client.create_kernel_manager()
    manager.kernel_spec_manager.kernel_dirs = []
    manager.shutdown_wait_time = 60  # on a busy machine 5 s are too few to remove the temporary folder
    (tmp_path / "here").mkdir()
    (tmp_path / "temporary").mkdir()
    before = files(tree)
    client.execute(
        env=os.environ
        | {"PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": str(tmp_path / "temporary")}
        | {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "none"), "OMP_NUM_THREADS": "1"}
    )
    assert files(tree) == before
    assert not files(tmp_path / "here") and not files(tmp_path / "temporary")
    assert not printed(client.nb, "stderr")
    assert str(tree) not in printed(client.nb) and str(tmp_path) not in printed(client.nb)


def files(folder: Path) -> set[str]:
    """Returns all files below ``folder`` except those of the cache and compiled code."""
    found = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return {str(path) for path in found if {".cache", "__pycache__"}.isdisjoint(path.parts)}


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_is_stored_with_outputs_within_its_limits(name: str) -> None:
    notebook = read(name)
    nbformat.validate(notebook)
    assert (FOLDER / name).stat().st_size <= MOST_BYTES
    assert notebook.metadata.kernelspec.name == "python3"
    assert 8 <= len(notebook.cells) <= 15
    first, last = notebook.cells[0], notebook.cells[-1]
    assert re.match(rf"# {NOTEBOOKS.index(name) + 1} · \S", first.source)
    assert re.search(r"^\*\*[^*]+\?\*\*$", first.source, re.M)
    assert "*Hint.*" in last.source.partition("## Exercise")[2]
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    stored = outputs(notebook)
    assert {output.output_type for output in stored} == {"stream", "display_data"}
    assert any("image/png" in output.get("data", {}) for output in stored)
    assert printed(notebook) and not printed(notebook, "stderr")
    assert not PRIVATE.search(printed(notebook) + "".join(cell.source for cell in notebook.cells))


def test_the_page_links_to_every_notebook() -> None:
    links = LINK.findall((FOLDER / "README.md").read_text(encoding="utf-8"))
    assert len(NOTEBOOKS) == 5
    assert [link for link in links if link.endswith(".ipynb")] == NOTEBOOKS
    assert all((FOLDER / link).exists() for link in links if "://" not in link)
