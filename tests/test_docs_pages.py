"""Pages: links, named files, README's example; those on extending the suite are followed in a copy of the tree."""

from __future__ import annotations

import doctest
import json
import math
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.checks import pairs
from tests.experiments import tiny

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
TEXTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
CURRENT = [path for path in TEXTS if path.parent.name != "results"]  # those are of older versions, too
PACKAGES = ("analysis", "data", "encoders", "experiments", "objectives", "tests")
GROUPS = ("objective", "encoder")
NAMES = ("an-objective", "an-encoder")  # of add-a-task: tests/test_add_a_task.py
PAGES = {name: (DOCS / f"add-{name}.md").read_text(encoding="utf-8") for name in NAMES}
FILE = re.compile(r"^\*\*`([^`\n]+)`\*\*\n\n```\w+\n(.*?)^```$", re.M | re.S)
FILES = [file for page in PAGES.values() for file in FILE.findall(page)]
COMMANDS = {
    name: re.findall(r"^    ((?:python|pytest) .+)$", FILE.sub("", page), re.M) for name, page in PAGES.items()
}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a checkout with the files of the pages, and a corpus of sentences."""
    tree = tmp_path_factory.mktemp("checkout")
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tree / package)  # with compiled code, which takes half a minute to compile
    for name in ("pyproject.toml", "setup.cfg"):
        shutil.copy(ROOT / name, tree)
    for name, text in FILES:
        (tree / name).write_text(text, encoding="utf-8")
    pairs.write_files(tree)
    return tree


def follow(command: str, tree: Path, *more: str) -> str:
    """Runs a page's command in ``tree``; returns what it printed."""
    program, *words = shlex.split(command)
    module = ["-m", "pytest", "-p", "no:cacheprovider"] if program == "pytest" else []
    done = subprocess.run(
        [sys.executable, *module, *words, *more],
        capture_output=True,
        text=True,
        cwd=tree,
        env=os.environ | {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tree / "none"), "COLUMNS": "200"},
        timeout=1800,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.mark.parametrize(
    "source", [*TEXTS, *sorted(DOCS.rglob("*.ipynb"))], ids=lambda path: str(path.relative_to(ROOT))
)
def test_relative_links_lead_to_files_and_headings(source: Path) -> None:
    def prose(path: Path) -> str:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".ipynb":
            cells = json.loads(text)["cells"]
            text = "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
        return re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)

    for link in re.findall(r"\]\((?!\w+:)([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", prose(source))):
        name, _, anchor = link.partition("#")
        target = source.parent / name if name else source
        assert target.exists(), link
        if anchor:
            titles = re.findall(r"^#+ (.+)$", prose(target), re.M)
            assert anchor in {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}, link


@pytest.mark.parametrize("source", CURRENT, ids=lambda path: str(path.relative_to(ROOT)))
def test_pages_name_files_that_exist(source: Path) -> None:
    text = FILE.sub("", source.read_text(encoding="utf-8"))
    names = re.findall(rf"(?<![\w/.])(?:{'|'.join(PACKAGES)}|benchmarks)/[\w./-]+\.\w+", text)
    missing = [name for name in names if not (ROOT / name).exists() and not (ROOT / "tests" / name).exists()]
    assert [name for name in missing if "mine" not in name] == []


def test_the_readmes_example_prints_what_it_shows() -> None:
    [session] = re.findall(r"^```pycon\n(.*?)^```$", (ROOT / "README.md").read_text(encoding="utf-8"), re.M | re.S)
    example = doctest.DocTestParser().get_doctest(session, {}, "README", "README.md", 0)
    results = doctest.DocTestRunner(verbose=False).run(example)
    assert results.attempted and not results.failed


def test_the_tests_on_the_pages_and_the_suites_own_pass(tree: Path) -> None:
    files = [COMMANDS[name][0].removeprefix("pytest ") for name in PAGES]
    assert COMMANDS["an-objective"][-2] == COMMANDS["an-encoder"][-2]
    follow(COMMANDS["an-encoder"][-2], tree, *files)  # in one process, as start-up takes most of the time


def test_help_names_the_new_objective_and_encoder(tree: Path) -> None:
    shown = follow(COMMANDS["an-encoder"][2], tree)
    assert all(re.search(rf"^# {group}: .*\bmine\b", shown, re.M) for group in GROUPS), shown


@pytest.mark.slow
@pytest.mark.parametrize("group", GROUPS)
def test_the_command_on_the_page_trains(group: str, tree: Path) -> None:
    """The command, run on a small corpus, writes a model, and the loss falls."""
    run = tree / f"run-{group}"
    small = [
        "corpus=text", f"corpus.path={tree / 'corpus.jsonl'}", "corpus.dev_fraction=0.2", "budget.documents=4",
        "budget.sentences=8", "budget.min_span=4", "budget.max_span=8", "budget.min_tokens=null", "dev_batches=1",
    ]  # fmt: skip
    follow(COMMANDS[f"an-{group}"][1], tree, *small, "threads=1", "device=cpu", "cache=cache", f"run_dir={run}")
    steps = [line["loss"] for line in tiny.metrics(run) if "loss" in line]
    assert len(steps) == 20 and all(map(math.isfinite, steps)) and sum(steps[-5:]) < sum(steps[:5])
    assert {"start", "trained"} <= set(json.loads((run / "quick.json").read_text()))
    assert (run / "encoder" / "encoder.json").is_file()


@pytest.mark.slow
def test_every_pair_with_the_new_objective_or_encoder_trains(tree: Path) -> None:
    follow(COMMANDS["an-encoder"][-1], tree, "-m", "not slow")
