"""The page as text: well-formed, self-contained, complete and escaped."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from analysis.comparison import marking, page
from analysis.comparison.page import Page
from analysis.comparison.reading import Run
from analysis.comparison.views import ObjectiveView, TaskView
from tests.analysis.comparison import example_comparison
from tests.analysis.senteval import example_results as senteval

VOID = {"meta", "input", "link", "br", "img"}


class Parsed(HTMLParser):
    """Elements of a page, their attributes and texts, and faults of nesting."""

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
def example_page(tmp_path_factory: pytest.TempPathFactory) -> Page:
    return example_comparison.comparison(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def text(example_page: Page) -> str:
    return page.render(example_page)


@pytest.fixture(scope="module")
def parsed(text: str) -> Parsed:
    return Parsed(text)


def test_the_page_is_well_formed(parsed: Parsed) -> None:
    assert parsed.faults == [] and parsed.open == []
    ids = [attributes["id"] for _, attributes in parsed.elements if "id" in attributes]
    assert len(ids) == len({*ids})
    assert {*(link["href"] for link in parsed.all("a"))} <= {f"#{name}" for name in ids}


def test_the_page_loads_nothing_from_outside(text: str, parsed: Parsed) -> None:
    assert not re.search(r"https?:|url\(|@import|\bfetch\(|XMLHttpRequest|\bimport\b\s*[({]", text)
    for tag, attributes in parsed.elements:
        assert tag not in ("link", "img", "iframe", "object", "base")
        assert not attributes.keys() & {"src", "srcset", "action"}
        assert not [name for name in attributes if name.startswith("on")]


def test_foreign_text_is_escaped(text: str, parsed: Parsed) -> None:
    assert example_comparison.NASTY not in text
    assert len(parsed.all("script")) == 2  # the page's script and its sentences
    data = next(part for part in parsed.texts["script"] if part.startswith("{"))
    assert example_comparison.NASTY in json.loads(data)["sentences"][0]


def test_the_page_is_accessible_to_screen_readers(parsed: Parsed) -> None:
    assert all(table.get("scope") in ("col", "row") for table in parsed.all("th"))
    assert len(parsed.texts["caption"]) == len(parsed.all("table")) and all(parsed.texts["caption"])
    pictures = [svg for svg in parsed.all("svg") if "aria-hidden" not in svg]
    assert all(svg["role"] == "img" for svg in pictures)
    assert len(parsed.texts["title"]) >= len(pictures) + 1 and all(parsed.texts["title"])
    assert parsed.all("html")[0]["lang"] == "en"
    frames = [attributes for tag, attributes in parsed.elements if attributes.get("role") and tag != "svg"]
    assert frames and all(attributes.get("aria-label") for attributes in frames)
    assert all(button["aria-label"] and button["aria-expanded"] == "false" for button in parsed.all("button"))


def test_all_parts_are_on_the_page(example_page: Page, text: str, parsed: Parsed) -> None:
    assert example_page.sample is not None
    classes = [(tag, attributes.get("class") or "") for tag, attributes in parsed.elements]
    assert [name for tag, name in classes].count("map") == 2
    assert sum(name.startswith("panel o") for _, name in classes) == 4  # contrastive and mlm of either objective
    assert classes.count(("line", "chance")) == 2  # the chance level of mlm is unknown
    assert [name for tag, name in classes].count("cell") == 2 + 2 * 5
    assert [name for tag, name in classes].count(
        "cell none"
    ) == 2 + 2 * 5  # cells of the impossible pair and the failed one
    points = sum(name.startswith("label") for tag, name in classes if tag in ("circle", "rect"))
    assert points == 2 * len(example_page.sample.sentences)
    assert "It has no mask token" in text and "not possible" in text
    assert "killed by signal 9 (out of memory?)" in text and ">failed<" in text
    assert "20,000 each" in text and "never with a paper" in text.replace("&#39;", "'")
    for run in example_page.runs:
        if run.finished:
            assert run.command in text
    assert [name for tag, name in classes].count("lanes") == 1 and len(parsed.all("button")) == 2
    assert {"light-dark", "@media print", "max-width: 40rem"} <= {*re.findall(
        r"light-dark|@media print|max-width: 40rem", text)}  # fmt: skip


def test_scores_are_defined_beside_their_values(parsed: Parsed) -> None:
    defined = dict(zip(parsed.texts["dt"], parsed.texts["dd"], strict=True))
    for name, meaning in {
        "recall@1": "most similar",
        "bigram shift": "two adjacent words",
        "alignment": "distance",
    }.items():
        assert meaning in defined[name]
    assert len(parsed.all("math")) == 3  # the equation of an objective, alignment, uniformity


def test_the_conclusion_comes_first(example_page: Page, parsed: Parsed) -> None:
    conclusion = next(text for text in parsed.texts["section"] if "Conclusion" in text)
    assert "declutr · gru has the highest recall@1" in conclusion and "fewer than 3 seeds" in conclusion
    assert next(attributes["id"] for tag, attributes in parsed.elements if tag == "section") == "conclusion"


def test_different_widths_are_stated(example_page: Page, text: str, tmp_path: Path) -> None:
    assert "differ in width" not in text
    runs = (example_comparison.run(tmp_path, "nsp", "gru"), example_comparison.run(tmp_path, "nsp", "lstm"))
    [space, *_] = example_page.geometry.values()
    spaces = {"nsp · gru": replace(space, dimension=512), "nsp · lstm": replace(space, dimension=256)}
    shown = page.render(
        replace(example_page, objectives=("nsp",), encoders=("gru", "lstm"), runs=runs, views=(), geometry=spaces)
    )
    assert "The vectors differ in width (gru 512, lstm 256):" in shown


def test_deleted_tokens_are_marked_in_plain_text_too(example_page: Page) -> None:
    document = np.arange(3, 12)
    view = marking.view(document, {"sequence": example_comparison.tokens(np.delete(document, 3))}, {})
    task = TaskView("D", "held-out sentence", (view,))
    shown = page.render(replace(example_page, views=(ObjectiveView("conssent", tasks=(task,)),)))
    plain = " ".join(re.sub("<[^>]+>", "", shown).split())
    assert "the cat sat [-on-] a mat" in plain and "[-token-] deleted" in plain


def test_best_scores_are_marked_but_never_the_untrained_encoder(parsed: Parsed) -> None:
    strong = parsed.texts["strong"]
    assert "21.50 ± 0.71" in strong  # recall@1 of declutr
    assert "before training: gru" in parsed.texts["th"]


def test_leads_are_counted_over_tasks_not_averages(example_page: Page) -> None:
    runs = tuple(
        replace(run, results=senteval.results("any", senteval.records(("CR", "SUBJ"), 90.0 - 20 * place)))
        for place, run in enumerate(run for run in example_page.runs if run.finished and run.seed == 1)
    )
    shown = html.unescape(page.render(replace(example_page, runs=runs)))
    mean = "mean of 2 of DeCLUTR's 17 downstream tasks"
    assert mean in shown and f"On SentEval, declutr · gru has the highest {mean}, 90.00 %" in shown
    assert "Clear leads: declutr · gru 2, of 2 scores." in shown
    assert shown.count("A lead is clear if") == 1  # once below two tables


def test_a_page_without_maps_and_examples_is_complete(tmp_path: Path) -> None:
    """One pair is finished, and there is nothing to embed."""
    run = example_comparison.run(tmp_path, "declutr", "gru")
    bare = example_comparison.comparison(tmp_path / "others", runs=(run,), sample=None, geometry={}, views=())
    bare = replace(bare, problems=("Maps and neighbours: too little text",))
    parsed = Parsed(page.render(bare))
    assert parsed.faults == [] and "too little text" in " ".join(parsed.texts["li"])
    without_scores = page.render(replace(bare, runs=(Run("declutr", "gru", 1, "c", problem="gone"),)))
    assert Parsed(without_scores).faults == [] and "No run has been evaluated" in without_scores


def test_the_same_runs_give_the_same_page(example_page: Page, text: str) -> None:
    assert page.render(example_page) == text


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no node")
def test_the_script_of_the_page_has_no_syntax_errors(parsed: Parsed, tmp_path: Path) -> None:
    (tmp_path / "script.js").write_text(parsed.texts["script"][-1], encoding="utf-8")
    checked = subprocess.run(["node", "--check", tmp_path / "script.js"], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr
