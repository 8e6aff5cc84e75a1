"""The page of a comparison: marks of what was done to a text, paired changes, conclusion, the whole page."""

from __future__ import annotations

from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from analysis import page, page_sample
from analysis.page import Piece, ShownExample, ShownRow, View
from data.randomness import generator
from data.sentences import split_sentences
from data.views import perturbations
from data.views.perturbations import Noise
from encoders.random_vectors import RandomVectors
from experiments.config import CONFIGS
from objectives.declutr import Declutr
from tests.tiny_encoder import FORMAT

SCRIPT = "<script>alert(1)</script>"
NOISE = Noise(np.ones(30), range(20))  # above all tokens of the sentences below


def words(ids: Any) -> list[str]:
    return [f" {int(number)}" for number in ids]


@pytest.mark.parametrize("change", ["delete", "permute", "insert", "replace"])
@given(st.lists(st.integers(5, 12), min_size=4, max_size=12), st.integers(0, 99))
def test_marks_show_the_row_and_the_text_that_it_comes_from(change: str, ids: list[int], seed: int) -> None:
    tokens = np.array([*ids, 13])
    noise = (NOISE,) * (change in ("insert", "replace"))
    row, sources = getattr(perturbations, change)(tokens, 3, generator(seed), *noise)
    pieces = page.mark_changes(sources, words(row), words(tokens))
    assert [piece.text for piece in pieces if piece.mark != "deleted"] == words(row)
    text = [f" {piece.original}" if piece.original else piece.text for piece in pieces if piece.mark != "inserted"]
    assert text == words(tokens)
    marks = {"delete": "deleted", "permute": "moved", "insert": "inserted", "replace": "replaced"}
    assert {piece.mark for piece in pieces} == {"", marks[change]}


def test_tokens_to_be_predicted_show_their_originals() -> None:
    ids, labels = [0, 7, 4, 9, 8, 2], [-100, -100, 6, 5, 8, -100]
    assert page.mark_masked(ids, labels, words, FORMAT) == [
        Piece(" 0", "special"),
        Piece(" 7"),
        Piece(" 4", "masked", "6"),
        Piece(" 9", "exchanged", "5"),
        Piece(" 8", "unchanged"),
        Piece(" 2", "special"),
    ]


def test_spans_are_where_they_were_sampled_in_text_that_repeats_itself() -> None:
    objective, unit = Declutr(min_length=4, max_length=8), np.tile(np.arange(5, 9), 20)
    example = objective.sample(unit, FORMAT, generator(1))
    rows = [
        row
        for role, block in objective.collate([example], FORMAT).tokens.items()
        for row in page.show_rows(role, block, words, FORMAT, unit=words(unit), sources=example.sources[role])
    ]
    assert [row.span for row in rows] == [
        range(each[0], each[-1] + 1) for spans in example.sources.values() for each in spans
    ]
    assert {row.role for row in rows} == {"anchor 1", "anchor 2", *(f"positive {i}" for i in (1, 2, 3, 4))}


def wide(after: dict[tuple[str, str], list[float]]) -> pd.DataFrame:
    rows = [(*pair, seed, value) for pair, values in after.items() for seed, value in enumerate(values, start=1)]
    return pd.DataFrame(rows, columns=["objective", "encoder", "seed", "recall@1"])


def scores(after: dict[tuple[str, str], list[float]], change: float = 1.0) -> pd.DataFrame:
    frame = wide(after)
    return page.compare_scores(frame, frame[["recall@1"]] - change)


def test_changes_are_paired_by_run() -> None:
    """Each seed has other test examples, so that the scores of the start differ among seeds, too."""
    summary = page.summarise(scores({("a", "x"): [50.0, 60.0, 71.0]}, change=0.1))
    row = summary.iloc[0]
    assert row["change"] == pytest.approx(-0.1 + 0.2) and row["change ±"] == pytest.approx(0.0, abs=1e-9)
    assert row["after"] == pytest.approx(60.33, abs=0.01) and row["after ±"] == pytest.approx(26.1, abs=0.1)
    assert np.isnan(page.summarise(scores({("a", "x"): [50.0, 60.0]}))["change ±"].iloc[0])


def test_the_mean_of_senteval_is_over_tasks_that_all_runs_have() -> None:
    frame = pd.DataFrame({"objective": ["a", "b"], "encoder": "x", "seed": 1})
    tasks = {"CR.test": [70.0, 80.0], "TREC.test": [50.0, 70.0], "MR.test": [1.0, None]}
    table = page.compare_scores(frame.assign(**tasks), pd.DataFrame({"CR.test": [60.0, 60.0]}))
    means = table[table["score"].str.startswith(page.MEAN)]
    assert means["after"].tolist() == [60.0, 75.0] and means["before"].isna().all()
    assert table.loc[table["score"] == "CR", "change"].tolist() == [10.0, 20.0]
    assert page.find_lead(table)[0].index[0] == ("b", "x")


def test_a_lead_is_that_of_equal_seeds() -> None:
    means, lead = page.find_lead(scores({("b", "x"): [58.0, 68.0], ("a", "x"): [60.0, 70.0, 80.0]}))
    assert means.to_dict() == {("a", "x"): 65.0, ("b", "x"): 63.0} and lead.to_dict() == {1: 2.0, 2: 2.0}


def test_formulas_can_be_drawn() -> None:
    configs = (yaml.safe_load(path.read_text()) for path in (CONFIGS / "objective").glob("*.yaml"))
    for name in filter(None, (config.get("_target_") for config in configs)):
        formula = resolve_name(name).formula
        assert formula and all(map(page.draw_equation, formula.splitlines()))


def write(out: Path, frame: pd.DataFrame, **texts: Any) -> tuple[str, list[Path]]:
    """Writes a page of runs that scored one point less before training; returns its HTML, too."""
    run: dict[str, Any] = {"steps": 2, "tokens": 9, "seconds": 1.5, "tokens_per_second": 6.0, "memory_gib": 0.1}
    run |= {
        "metrics": [{"step": 0, "dev_a": 2.0, "dev_a_unigram": 3.0}, {"step": 1, "loss": 1, "a": 1.5, "tokens": 9}]
    }
    run |= {"chance": {"dev_a": 1.0}, "facts": {"negatives": SCRIPT}}
    run |= {"weights": "random", "environment": {}, "command": "run"}
    runs = [run | row for row in frame.to_dict("records")]
    texts = {"views": [], "sample": None, "spaces": {}} | texts
    starts = frame[["recall@1"]] - 1
    paths = page.write_page(out, frame, starts, runs, title=SCRIPT, notes=[SCRIPT], command=SCRIPT, **texts)
    return out.read_text(encoding="utf-8"), paths


def test_the_page_escapes_names_and_has_its_numbers_beside_it(tmp_path: Path) -> None:
    texts = [
        " ".join(f"The sentence {i} of the text {n} stands at this place." for i in range(9)) for n in range(9)
    ]
    sample = page_sample.sample_sentences(texts, [SCRIPT])
    assert {*sample.searched} <= {*split_sentences(texts)}  # one splitter for all, trained where none is installed
    space = page_sample.embed_sample(RandomVectors(), sample)
    assert space.map and len(space.nearest[0]) == page_sample.NEAREST
    rows = [
        ShownRow("anchor", [Piece(f" {SCRIPT}", "moved", SCRIPT)], range(20, 30)),
        ShownRow("part", [], range(9)),
    ]
    example = ShownExample(words(range(60)), rows, {"x": SCRIPT})
    text, paths = write(
        tmp_path / "new" / "page.html",
        wide({("simcse", "x"): [10.0], (SCRIPT, "x"): [9.0]}).assign(n_pairs=80),
        views=[View("simcse", SCRIPT, r"\frac{a}{b}", {SCRIPT: [example]})],
        sample=sample,
        spaces={("simcse", "x"): space},
    )
    assert "<script" not in text and "http" not in text.replace("http://www.w3.org", "")
    assert "left:33.33%;width:16.67%" in text and "21–30" in text and "+1.0" in text
    assert "n = 80<" in text and "chance 1.2<" in text
    assert text.count('class="k0 "') == 10 and text.count('class="k1 "') == 9  # tokens of the spans
    assert text.count("data:image/svg+xml") == 1 + 2 + 1 + 1  # formula, losses, scores, map
    assert {path.suffix for path in paths} == {".html", ".csv", ".pdf", ".png"}
    assert pd.read_csv(paths[0].with_suffix(".csv"))["change"].tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    ("second", "verdict"),
    [
        ([58.0, 68.0, 79.0], "is clear"),
        ([58.0, 68.0, 70.0], "is not clear"),
        ([50.0], "is not known"),
    ],
)
def test_the_page_says_whether_the_lead_is_clear(second: list[float], verdict: str, tmp_path: Path) -> None:
    text, _ = write(tmp_path / "page.html", wide({("a", "x"): [60.0, 70.0, 80.0], ("b", "x"): second}))
    lead = text.partition('class="lead"')[2].partition("</p>")[0]
    assert "a · x" in lead and verdict in lead and "9.0 %)" in lead  # the start, 1 point less
    assert "<th>start · x</th>" in text
