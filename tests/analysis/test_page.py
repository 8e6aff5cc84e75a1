"""The page of a comparison: marks of what was done to a text, paired changes, conclusion, the whole page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis import geometry, page
from analysis.page import Example, Piece, Row, View
from data.errors import UserError
from data.randomness import generator
from data.views import perturbations
from data.views.perturbations import Noise
from objectives.base import Objective
from objectives.conssent import ConsSent
from objectives.conssent_mt import ConsSentMT
from objectives.declutr import Declutr
from objectives.gensen.objective import GenSen
from objectives.language_model import LanguageModel
from objectives.nli import NLI
from objectives.nsp import NSP
from objectives.quick_thoughts import QuickThoughts
from objectives.simcse import SimCSE
from objectives.sop import SOP
from objectives.tsdae import TSDAE
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


def sample_rows(objective: Objective, unit: np.ndarray) -> list[Row]:
    example = objective.sample(unit, FORMAT, generator(1))
    tokens, sources = objective.collate([example], FORMAT).tokens, getattr(example, "sources", {})
    return [
        row
        for role, block in tokens.items()
        for row in page.show_rows(role, block, words, FORMAT, unit=words(unit), sources=sources[role])
    ]


def test_spans_are_where_they_were_sampled_in_text_that_repeats_itself() -> None:
    objective, unit = Declutr(min_length=4, max_length=8), np.tile(np.arange(5, 9), 20)
    example = objective.sample(unit, FORMAT, generator(1))
    rows = sample_rows(objective, unit)
    assert [row.span for row in rows] == [range(*span) for spans in example.spans for span in spans]
    assert {row.role for row in rows} == {"anchor 1", "anchor 2", *(f"positive {i}" for i in (1, 2, 3, 4))}
    assert {row.kind for row in rows} == {"anchor", "positive"}


def test_parts_of_a_sentence_are_bars() -> None:
    first, second = sample_rows(ConsSent(task="C", k=2), np.arange(5, 15))
    assert first.span and second.span and [*first.span, *second.span] == [*range(10)]


def test_rows_are_listed_with_their_changes() -> None:
    pieces = [Piece(" a"), Piece(" b", "deleted"), Piece(" c", "moved", "d"), Piece(" e", "unchanged")]
    view = View("conssent", "", "", {"": [Example([], [Row("sequence", pieces)], {"consistent": "0"})]})
    assert page.list_rows(view).reset_index().values.tolist() == [
        ["conssent", "sequence consistent=0", " a b‹deleted› c‹d› e"]
    ]


def wide(after: dict[tuple[str, str], list[float]]) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {"objective": pair[0], "encoder": pair[1], "seed": seed, "recall@1": value}
            for pair, values in after.items()
            for seed, value in enumerate(values, start=1)
        ]
    )


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
    frame = pd.DataFrame(
        {
            "objective": ["a", "b"],
            "encoder": "x",
            "seed": 1,
            "CR.test": [70.0, 80.0],
            "TREC.test": [50.0, 70.0],
            "MR.test": [1.0, None],
        }
    )
    table = page.compare_scores(frame, pd.DataFrame({"CR.test": [60.0, 60.0]}))
    means = table[table["score"].str.startswith(page.MEAN)]
    assert means["after"].tolist() == [60.0, 75.0] and means["before"].isna().all()
    assert table.loc[table["score"] == "CR", "change"].tolist() == [10.0, 20.0]
    assert page.find_lead(table)[0].index[0] == ("b", "x")


def test_runs_without_a_score_cannot_be_compared() -> None:
    frame = pd.DataFrame({"objective": ["a"], "encoder": "x", "seed": 1, "n_pairs": 0.0})
    with pytest.raises(UserError):
        page.compare_scores(frame, frame)


def test_a_lead_is_that_of_equal_seeds() -> None:
    means, lead = page.find_lead(scores({("b", "x"): [58.0, 68.0], ("a", "x"): [60.0, 70.0, 80.0]}))
    assert means.to_dict() == {("a", "x"): 65.0, ("b", "x"): 63.0} and lead.to_dict() == {1: 2.0, 2: 2.0}


def test_formulas_can_be_drawn() -> None:
    for cls in (Declutr, ConsSent, ConsSentMT, GenSen, LanguageModel, NLI, NSP, SOP, QuickThoughts, SimCSE, TSDAE):
        assert cls.formula and all(map(page.draw_equation, cls.formula.splitlines()))


class Letters:
    """Encoder of a text as its letters' frequencies."""

    def encode(self, texts: list[str]) -> np.ndarray:
        return np.array(
            [[text.count(letter) + 0.01 for letter in "abcdefghi"] for text in texts], dtype=np.float32
        )


def write(out: Path, frame: pd.DataFrame, **texts: Any) -> tuple[str, list[Path]]:
    """Writes a page of runs that scored one point less before training; returns its HTML, too."""
    run = {
        "steps": 2,
        "tokens": 9,
        "seconds": 1.5,
        "tokens_per_second": 6.0,
        "memory_gib": 0.1,
        "metrics": [{"step": 0, "dev_a": 2.0}, {"step": 1, "loss": 1, "a": 1.5, "tokens": 9}],
        "chance": {"dev_a": 1.0},
        "weights": "random",
        "facts": {"negatives": SCRIPT},
        "environment": {},
        "command": "run",
    }
    runs = [run | row for row in frame.to_dict("records")]
    texts = {"views": [], "sample": None, "spaces": {}} | texts
    starts = frame[["recall@1"]] - 1
    paths = page.write_page(out, frame, starts, runs, title=SCRIPT, notes=[SCRIPT], command=SCRIPT, **texts)
    return out.read_text(encoding="utf-8"), paths


def test_the_page_escapes_names_and_has_its_numbers_beside_it(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    texts = [
        " ".join(" ".join(rng.choice(list("abcdefghi"), 7)).capitalize() + "." for _ in range(9)) for _ in range(9)
    ]
    sample = geometry.sample_sentences(texts, [SCRIPT])
    space = geometry.embed_sample(Letters(), sample)
    assert space.map and [len(near) for near in space.nearest] == [geometry.NEAREST]
    assert sample.mapped["label"].nunique() == 7
    moved = [Piece(f" {SCRIPT}", "moved", SCRIPT)]
    rows = [Row("anchor", moved, range(20, 30)), Row("part", [Piece(" bar")], range(9))]
    example = Example(words(range(60)), rows, {"x": SCRIPT})
    text, paths = write(
        tmp_path / "new" / "page.html",
        wide({("simcse", "x"): [10.0], (SCRIPT, "x"): [9.0]}),
        views=[View("simcse", SCRIPT, r"\frac{a}{b}", {SCRIPT: [example]})],
        sample=sample,
        spaces={("simcse", "x"): space},
    )
    assert "<script" not in text and "http" not in text.replace("http://www.w3.org", "")
    assert "left:33.33%;width:16.67%" in text and "21–30" in text and "+1.0" in text
    assert text.count('class="k0 "') == 10 and text.count('class="k1 "') == 9  # tokens of the spans
    assert "<b>anchor</b>" in text and "<b>part</b>" not in text  # a span without marks is a bar only
    assert text.count("data:image/svg+xml") == 1 + 2 + 1 + 1  # formula, losses, scores, map
    assert {path.suffix for path in paths} == {".html", ".csv", ".pdf", ".png"}
    table = pd.read_csv(paths[0].with_suffix(".csv"))
    assert table["change"].tolist() == [1.0, 1.0] and table["score"].unique().tolist() == ["recall@1"]


def test_scores_have_their_size_chance_level_and_unit_and_missing_ones_a_reason(tmp_path: Path) -> None:
    frame = wide({("a", "x"): [10.0], ("b", "x"): [9.0]})
    more = {
        "CR.test": [70.0, 71.0],
        "CR.n_test": 753,
        "alignment": [0.5, 0.25],
        "n_pairs": 80,
        "n_probe_length": 9,
    }
    text, paths = write(tmp_path / "page.html", frame.assign(**more))
    head, *rows = text.partition('id="scores"')[2].partition("</table>")[0].split("<tr>")[1:]
    assert "n = 753<" in head and head.count("n = 80<") == 2 and "chance 1.2<" in head
    assert "0.25" in rows[1] and "70.0" in rows[0]
    assert [row.count("best") for row in rows] == [1, 1]  # of CR and recall@1, as alignment is not ranked
    assert text.count("Not evaluated") == 5 and "(9)" in text  # recall@5, three probes, uniformity
    assert {*pd.read_csv(paths[1].with_suffix(".csv"))["score"]} == {"CR", "recall@1", "alignment"}


@pytest.mark.parametrize(
    ("second", "verdict"),
    [
        ([58.0, 68.0, 79.0], "is clear"),
        ([58.0, 68.0, 70.0], "is not clear"),
        ([50.0], "is not known"),
        ([], "no other pair"),
    ],
)
def test_the_page_says_whether_the_lead_is_clear(second: list[float], verdict: str, tmp_path: Path) -> None:
    text, _ = write(tmp_path / "page.html", wide({("a", "x"): [60.0, 70.0, 80.0], ("b", "x"): second}))
    lead = text.partition('class="lead"')[2].partition("</p>")[0]
    assert "a · x" in lead and verdict in lead
