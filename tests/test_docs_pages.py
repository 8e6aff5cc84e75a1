"""Links of all pages; README's example; the pages on adding an objective and an encoder, followed in a copy."""

from __future__ import annotations

import doctest
import importlib.util
import json
import math
import os
import random
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

ROOT = Path(__file__).resolve().parents[1]
GROUPS = {"objective": "add-an-objective.md", "encoder": "add-an-encoder.md"}
PACKAGES = ("analysis", "data", "encoders", "experiments", "objectives", "tests")
FILE = re.compile(r"^\*\*`([^`\n]+)`\*\*\n\n```\w+\n(.*?)^```$", re.M | re.S)
COMMAND = re.compile(r"^    ((?:python|pytest) .+)$", re.M)


def page(group: str) -> str:
    return (ROOT / "docs" / GROUPS[group]).read_text(encoding="utf-8")


def files(group: str) -> dict[str, str]:
    """Returns the files that the page has its reader write, by path, in order."""
    return dict(FILE.findall(page(group)))


def commands(group: str) -> list[str]:
    """Returns the commands that the page has its reader run, in order."""
    return COMMAND.findall(FILE.sub("", page(group)))


def checkout(tree: Path) -> Path:
    """Copies the packages and the settings of the tests into ``tree``, and returns it."""
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tree / package, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "setup.cfg"):
        shutil.copy(ROOT / name, tree)
    return tree


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a checkout with the files of both pages, and a corpus of sentences."""
    tree = checkout(tmp_path_factory.mktemp("checkout"))
    for group in GROUPS:
        for path, text in files(group).items():
            assert not (tree / path).exists()
            (tree / path).write_text(text, encoding="utf-8")
    rng = random.Random(0)
    words = [f"{a}{b}" for a in ("ba", "ke", "li", "mo", "nu", "ra") for b in "dfgklmnrst"]
    with (tree / "corpus.jsonl").open("w") as lines:
        for _ in range(80):
            sentences = [" ".join(rng.choices(words, k=rng.randint(6, 14))).capitalize() + "." for _ in range(40)]
            lines.write(json.dumps({"text": " ".join(sentences)}) + "\n")
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


def test_pages_have_a_test_then_a_module_then_a_yaml_and_what_to_run() -> None:
    for group in GROUPS:
        assert list(files(group)) == [
            f"tests/{group}s/test_mine.py",
            f"{group}s/mine.py",
            f"experiments/configs/{group}/mine.yaml",
        ]
        test, run, listing, *both = commands(group)
        assert test == f"pytest tests/{group}s/test_mine.py"
        assert run.startswith("python experiments/run.py ") and f"{group}=mine" in run
        assert listing == "python experiments/run.py --help"
        assert both == ["pytest tests/test_configs.py -k mine", "pytest tests/test_interchange.py -k mine"]


def test_pages_name_files_that_exist() -> None:
    for group in GROUPS:
        text = FILE.sub("", page(group))
        named = {name for name in re.findall(r"`([\w./-]+/[\w./-]+\.\w+)`", text) if "mine" not in name}
        assert named and all((ROOT / name).exists() for name in named), named


def broken_links(source: Path) -> list[str]:
    """Returns a page's or notebook's relative links to missing files or headings (by GitHub's anchors)."""

    def prose(path: Path) -> str:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".ipynb":
            cells = json.loads(text)["cells"]
            text = "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
        return re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)

    broken = []
    for link in re.findall(r"\]\((?!\w+:)([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", prose(source))):
        name, _, anchor = link.partition("#")
        target = source.parent / name if name else source
        exists = target.exists()
        if exists and anchor:
            titles = re.findall(r"^#+ (.+)$", prose(target), re.M)
            exists = anchor in {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}
        if not exists:
            broken.append(link)
    return broken


@pytest.mark.parametrize(
    "source",
    [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "docs").rglob("*.ipynb"))],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_relative_links_lead_to_files_and_headings(source: Path) -> None:
    assert broken_links(source) == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    (tmp_path / "there.md").write_text("# What `k` is, and why\n", encoding="utf-8")
    page = tmp_path / "page.md"
    page.write_text(
        "# Here\n[a](there.md) [b](there.md#what-k-is-and-why) [c](#here) [d](https://example.org/x.md)\n"
        "`[e](code.md)` ![f](none.png) [g](there.md#why) [h](#there)\n",
        encoding="utf-8",
    )
    assert broken_links(page) == ["none.png", "there.md#why", "#there"]


def test_the_tests_on_the_pages_pass(tree: Path) -> None:
    """Both in one process, as start-up takes most of the time."""
    first, second = (commands(group)[0] for group in GROUPS)
    assert re.search(r"\b7 passed", follow(first, tree, *shlex.split(second)[1:]))


@pytest.mark.slow
@pytest.mark.parametrize("group", GROUPS)
def test_the_command_on_the_page_trains(group: str, tree: Path) -> None:
    """The command, run on a small corpus, writes a model, and the loss falls."""
    run = tree / f"run-{group}"
    small = ["corpus=text", f"corpus.path={tree / 'corpus.jsonl'}", "corpus.dev_fraction=0.2", "dev_batches=1"]
    follow(commands(group)[1], tree, *small, "threads=1", "device=cpu", "cache=cache", f"run_dir={run}")
    losses = [json.loads(line).get("loss") for line in (run / "metrics.jsonl").read_text().splitlines()]
    steps = [loss for loss in losses if loss is not None]
    assert len(steps) == 20 and all(map(math.isfinite, steps))
    assert sum(steps[-5:]) < sum(steps[:5])
    assert {"start", "trained"} <= set(json.loads((run / "quick.json").read_text()))
    assert (run / "encoder" / "encoder.json").is_file()


@pytest.mark.slow
def test_help_names_the_new_objective_and_encoder(tree: Path) -> None:
    shown = follow(commands("encoder")[2], tree)
    assert all(re.search(rf"^  {group}=[^=]*\| mine\b", shown, re.M) for group in GROUPS), shown


@pytest.mark.slow
def test_the_suites_tests_find_the_new_objective_and_encoder(tree: Path) -> None:
    """Every encoder with the new objective, every objective with the new encoder, and both with each other."""
    configs, interchange = commands("encoder")[3:]
    assert commands("objective")[3:] == [configs, interchange]
    assert re.search(r"\b4 passed", follow(configs, tree))
    follow(interchange, tree, "-m", "not slow")


def test_the_readmes_example_prints_what_it_shows() -> None:
    [session] = re.findall(r"^```pycon\n(.*?)^```$", (ROOT / "README.md").read_text(encoding="utf-8"), re.M | re.S)
    messages: list[str] = []
    example = doctest.DocTestParser().get_doctest(session, {}, "README", "README.md", 0)
    assert len(example.examples) == 6
    assert doctest.DocTestRunner(verbose=False).run(example, out=messages.append).failed == 0, "".join(messages)


@pytest.fixture
def hooks() -> ModuleType:
    """Returns the module docs/hooks.py, which is in no package."""
    spec = importlib.util.spec_from_file_location("hooks", ROOT / "docs" / "hooks.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("url", "linked"), [("", False), ("https://github.com/owner/name", True)], ids=["no address", "address"]
)
def test_notebooks_link_to_colab_where_the_repository_has_an_address(
    url: str, linked: bool, hooks: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup = tmp_path / "setup.cfg"
    text, count = re.subn(r"^url =.*$", f"url = {url}", hooks.SETUP.read_text(encoding="utf-8"), flags=re.M)
    assert count == 1
    setup.write_text(text, encoding="utf-8")
    monkeypatch.setattr(hooks, "SETUP", setup)

    def shown(name: str) -> str:
        return hooks.on_page_content("<h1>Title</h1>", SimpleNamespace(file=SimpleNamespace(src_uri=name)))

    link = "https://colab.research.google.com/github/owner/name/blob/main/docs/teaching/2-temperature.ipynb"
    assert (f'<a href="{link}">' in shown("teaching/2-temperature.ipynb")) == linked
    assert shown("teaching/2-temperature.ipynb").endswith("<h1>Title</h1>")
    assert shown("training.md") == "<h1>Title</h1>"
