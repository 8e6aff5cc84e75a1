"""The page as text: well formed, nothing from outside, everything in it, nothing that is not escaped."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from analysis.comparison import page, sections
from analysis.comparison.contents import Comparison
from tests.analysis.comparison import made_up
from tests.analysis.senteval import made_up as senteval

VOID = {"meta", "input", "link", "br", "img"}


class Parsed(HTMLParser):
    """The elements of a page, with their attributes and texts; faults of nesting."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.faults: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self.texts.setdefault(tag, []).append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.faults.append(f"</{tag}> at {self.getpos()}")

    def handle_data(self, data: str) -> None:
        for tag in {*self.open}:
            self.texts[tag][-1] += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    return made_up.comparison(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def text(whole: Comparison) -> str:
    return page.render(whole)


@pytest.fixture(scope="module")
def parsed(text: str) -> Parsed:
    return Parsed(text)


def test_it_is_well_formed(parsed: Parsed) -> None:
    assert parsed.faults == [] and parsed.open == []
    ids = [attributes["id"] for _, attributes in parsed.elements if "id" in attributes]
    assert len(ids) == len({*ids})
    assert {*(link["href"] for link in parsed.all("a"))} <= {f"#{name}" for name in ids}


def test_nothing_comes_from_outside(text: str, parsed: Parsed) -> None:
    assert not re.search(r"https?:|url\(|@import|\bfetch\(|XMLHttpRequest|\bimport\b\s*[({]", text)
    for tag, attributes in parsed.elements:
        assert tag not in ("link", "img", "iframe", "object", "base")
        assert not attributes.keys() & {"src", "srcset", "action"}
        assert not [name for name in attributes if name.startswith("on")]


def test_foreign_text_is_escaped(text: str, parsed: Parsed) -> None:
    assert made_up.NASTY not in text
    assert len(parsed.all("script")) == 2  # the program and the sentences
    data = next(part for part in parsed.texts["script"] if part.startswith("{"))
    assert made_up.NASTY in json.loads(data)["sentences"][0]


def test_what_is_told_without_seeing(parsed: Parsed) -> None:
    assert all(table.get("scope") in ("col", "row") for table in parsed.all("th"))
    assert len(parsed.texts["caption"]) == len(parsed.all("table")) and all(parsed.texts["caption"])
    pictures = [svg for svg in parsed.all("svg") if "aria-hidden" not in svg]
    assert all(svg["role"] == "img" for svg in pictures)
    assert len(parsed.texts["title"]) >= len(pictures) + 1 and all(parsed.texts["title"])
    assert parsed.all("html")[0]["lang"] == "en"


def test_all_parts_are_there(whole: Comparison, text: str, parsed: Parsed) -> None:
    assert whole.sample is not None
    classes = [(tag, attributes.get("class") or "") for tag, attributes in parsed.elements]
    assert [name for tag, name in classes].count("map") == 2
    assert [name for tag, name in classes].count("panel") == 4  # contrastive and mlm of either objective
    assert [name for tag, name in classes].count("cell") == 2 + 2 * 5
    assert [name for tag, name in classes].count("cell none") == 2 + 2 * 5  # of the pairs that are not there
    points = sum(name.startswith("label") for tag, name in classes if tag in ("circle", "rect"))
    assert points == 2 * len(whole.sample.sentences)
    assert "It has no mask token" in text and "not possible" in text
    assert "killed by signal 9 (out of memory?)" in text and ">failed<" in text
    assert "20,000 each" in text and "never with a paper" in text
    for run in whole.runs:
        if run.finished:
            assert run.command in text
    assert {"prefers-color-scheme", "@media print", "max-width: 40rem"} <= {*re.findall(
        r"prefers-color-scheme|@media print|max-width: 40rem", text)}  # fmt: skip


def test_best_scores_are_marked_and_the_start_is_not(parsed: Parsed) -> None:
    strong = parsed.texts["strong"]
    assert "21.50 ± 0.71" in strong  # recall@1 of declutr
    assert "before training: gru" in parsed.texts["th"]


def test_leads_are_counted_over_tasks_not_averages(whole: Comparison) -> None:
    runs = tuple(
        replace(run, results=senteval.results("any", senteval.records(("CR", "SUBJ"), 90.0 - 20 * place)))
        for place, run in enumerate(run for run in whole.runs if run.finished and run.seed == 1)
    )
    shown = sections.judgement(replace(whole, runs=runs))
    assert "declutr_downstream (2 of 17)" in shown
    assert "Clear leads: declutr · gru 2, of 2 scores." in shown


def test_it_can_do_without_everything(tmp_path: Path) -> None:
    """Where nothing was finished but one pair, and nothing could be looked at."""
    one = made_up.run(tmp_path, "declutr", "gru")
    bare = made_up.comparison(tmp_path / "others", runs=(one,), sample=None, geometry={}, views=())
    bare = replace(bare, problems=("Maps and neighbours: too little text",))
    parsed = Parsed(page.render(bare))
    assert parsed.faults == [] and "too little text" in " ".join(parsed.texts["li"])


def test_the_same_runs_give_the_same_page(whole: Comparison, text: str) -> None:
    assert page.render(whole) == text


def test_colours_on_dark_ground_are_light() -> None:
    for colour in ("#00573F", "#0072B2", "#2B1B7E", "#000000"):
        assert page._luminance(page.to_rgb(page.lightened(colour))) >= page.LEAST_LIGHT - 0.01
    assert page.lightened("#E69F00") == "#e69f00"


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no node")
def test_its_program_is_free_of_syntax_errors() -> None:
    checked = subprocess.run(["node", "--check", page.FOLDER / "script.js"], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr
