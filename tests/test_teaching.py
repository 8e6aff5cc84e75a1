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
MOST_BYTES = 250_000
# Absolute paths, which may contain a user's name, and warnings, which differ between executions.
PRIVATE = re.compile(r"(?<![\w.])/(home|Users|root|tmp|work|opt|usr|var)/|site-packages|[A-Z]:\\|Warning\b")


def read(name: str) -> Any:
    return nbformat.read(FOLDER / name, as_version=4)


def printed(notebook: Any, stream: str = "stdout") -> str:
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return "".join(output.text for output in outputs if output.get("name") == stream)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a copy of the packages, whose cache keeps the corpus for further notebooks."""
    tree = tmp_path_factory.mktemp("checkout")
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tree / package, ignore=shutil.ignore_patterns("__pycache__"))
    return tree


def files(folder: Path) -> set[str]:
    """Returns all files below ``folder`` except those of the cache."""
    paths = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return {str(path) for path in paths if ".cache" not in path.parts}


def run(name: str, tree: Path, folder: Path) -> None:
    """Runs a notebook in ``folder`` with the code in ``tree``; it must leave no files and print no warnings."""
    work, temporary = folder / "work", folder / "temporary"
    work.mkdir()
    temporary.mkdir()
    client = NotebookClient(read(name), timeout=900, resources={"metadata": {"path": str(work)}})
    # Without folders to search for kernels, it starts ipykernel with this interpreter.
    manager = client.create_kernel_manager()
    manager.kernel_spec_manager.kernel_dirs = []
    manager.shutdown_wait_time = 60  # on a busy machine 5 s are too few to remove the temporary folder
    before = files(tree)
    client.execute(
        env=os.environ
        | {"PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": str(temporary)}
        | {"HF_HUB_OFFLINE": "1", "HF_HOME": str(folder / "none"), "OMP_NUM_THREADS": "1"}
    )
    assert files(tree) == before and not files(work) and not files(temporary)
    assert not printed(client.nb, "stderr")
    assert str(tree) not in printed(client.nb) and str(folder) not in printed(client.nb)


@pytest.mark.slow
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_runs(name: str, tree: Path, tmp_path: Path) -> None:
    run(name, tree, tmp_path)


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_is_stored_with_its_outputs(name: str) -> None:
    notebook = read(name)
    nbformat.validate(notebook)
    assert (FOLDER / name).stat().st_size <= MOST_BYTES
    assert notebook.metadata.kernelspec.name == "python3"
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert printed(notebook) and not printed(notebook, "stderr")
    assert not PRIVATE.search(printed(notebook) + "".join(cell.source for cell in notebook.cells))
