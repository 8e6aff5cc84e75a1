"""Reproduced figures: files of every kind, without warnings; points, claims, labels, colours."""

from __future__ import annotations

import csv
import warnings
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from analysis.figures import drawing, labelled_maps, span_lengths, style
from analysis.figures.claims import greater
from analysis.figures.exhibits import Figure
from analysis.figures.labelled_maps import labelled_map
from analysis.figures.reproduction import draw
from analysis.figures.scores import Mark, Point
from analysis.figures.verdicts import Claim
from analysis.projection_map import Labelled
from data.errors import UserError
from data.views.spans import SpanSampler

NOTE = "teaching size: 2 seeds, weights: random, pydocs, 10,000 tokens_a_run"


@pytest.fixture(autouse=True)
def no_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def make_figure(**changes: Any) -> Figure:
    claims = [
        Claim("a", "two beat one", "5.2", lambda scores: greater(scores(x="2"), scores(x="1"))),
        Claim("b", "no P=4", "caption", reason="it states what was run"),
    ]
    defaults = {
        "id": "declutr/2a",
        "title": "Figure 2a",
        "kind": "distribution",
        "x": "A",
        "y": "average (%)",
        "groups": ["small", "base"],
        "ticks": ["1", "2"],
        "colours": {"small": "declutr", "base": "declutr"},
        "claims": claims,
    }
    return Figure(**defaults | changes)


def scores(panels: tuple[str, ...] = ("",), seeds: int = 5) -> list[Point]:
    return [
        Point(
            panel,
            group,
            x,
            seed,
            50 + 3 * int(x) + i + 0.3 * ((seed * 7 + i + int(x)) % 5),
            "tau=0.05",
            "a run, of",
        )
        for panel in panels
        for i, group in enumerate(("small", "base"))
        for x in ("1", "2")
        for seed in range(seeds)
    ]


def read_points(path: Path) -> list[Point]:
    """Returns the points of a CSV that ``draw`` wrote, without the printed ones."""
    with path.open(encoding="utf-8", newline="") as file:
        ours = [row for row in csv.DictReader(file) if row.pop("source") == "ours"]
    return [Point(**row | {"seed": int(row["seed"]), "score": float(row["score"])}) for row in ours]  # type: ignore[arg-type]


def names(paths: list[Path]) -> list[str]:
    return [path.name for path in paths]


def test_a_figure_has_pictures_text_and_csv(tmp_path: Path) -> None:
    printed = [Mark("", "base", "2", 57.5)]
    paths = draw((make_figure(printed=printed)), scores(), tmp_path / "new", NOTE)
    assert names(paths) == [f"declutr-2a.{kind}" for kind in ("pdf", "png", "csv", "md")]
    assert sorted(tmp_path.glob("new/*")) == sorted(paths)
    assert paths[0].read_bytes().startswith(b"%PDF") and paths[1].read_bytes().startswith(b"\x89PNG")
    assert read_points(paths[2]) == scores()
    assert "printed,,base,2,,57.5,," in paths[2].read_text().splitlines()
    text = paths[3].read_text()
    assert "![Figure 2a](declutr-2a.png)" in text and NOTE.replace("_", r"\_") in text
    assert "- **held** (section 5.2): two beat one\n  - 2 − 1: +3.0" in text and "5 seeds" in text
    assert "- **not computed here** (caption): no P=4\n  - it states what was run" in text
    assert "5 seeds; claimed: above 0\n" in text


def test_too_few_seeds_leave_claims_undecided_and_are_reported(tmp_path: Path) -> None:
    for seeds, count in ((1, "1 seed"), (2, "2 seeds")):
        text = draw((make_figure()), scores(seeds=seeds), tmp_path, NOTE)[3].read_text()
        assert "- **undecided at this size** (section 5.2): two beat one" in text
        assert f"\n  - {count}: at least 3 are needed\n" in text
    text = draw((make_figure()), scores(seeds=3), tmp_path, NOTE)[3].read_text()
    assert "- **held** (section 5.2): two beat one" in text and "are needed" not in text


def test_the_same_scores_give_the_same_bytes(tmp_path: Path) -> None:
    figure = make_figure()
    first, second = (draw(figure, scores(), tmp_path / name, NOTE) for name in "ab")
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


@pytest.mark.parametrize("seeds", [1, 2])
def test_lines_stand_side_by_side_only_where_scores_are_repeated(seeds: int) -> None:
    with style.look():
        picture = drawing.picture(make_figure(kind="line"), scores(seeds=seeds), NOTE)
    lines = picture.get_axes()[0].lines
    places = np.concatenate([np.ravel(line.get_xdata()) for line in lines]).astype(float)
    assert (places == places.round()).all() == (seeds == 1)
    assert any("small dots" in text.get_text() for text in picture.subfigs[0].texts) is (seeds > 1)


@pytest.mark.parametrize("kind", ["line", "distribution", "bars"])
@pytest.mark.parametrize("mark", [55.0, 88.0])
def test_every_kind_is_drawn_with_and_without_distant_printed_values(
    tmp_path: Path, kind: str, mark: float
) -> None:
    changes = {
        "kind": kind,
        "panels": ["TREC", "MRPC"],
        "printed": [Mark("MRPC", "small", "2", mark)],
    }
    points = [*scores(("TREC", "MRPC")), Point("TREC", "none", "", 1, 51.0), Point("TREC", "none", "", 2, 52.0)]
    figure = make_figure(**changes, legend="model")
    with style.look():
        picture = drawing.picture(figure, points, NOTE)
    assert len(picture.get_axes()) == (2 if mark < 60 else 4)
    assert [axes.get_title(loc="left") for axes in picture.get_axes()].count("MRPC") == 1
    assert len(draw(figure, points, tmp_path, NOTE)) == 4


def test_a_single_score_is_drawn(tmp_path: Path) -> None:
    for kind in ("line", "distribution", "bars"):
        figure = make_figure(kind=kind, scale="linear", ticks=["1", "2", "50"])
        paths = draw(figure, [Point("", "small", "2", 1, 50.0)], tmp_path / kind, NOTE)
        assert len(paths) == 4 and all(path.stat().st_size for path in paths)


def test_every_score_of_a_distribution_is_shown() -> None:
    figure = make_figure()
    with style.look():
        [axes] = drawing.picture(figure, scores(), NOTE).get_axes()
    shown = [y for line in axes.lines if line.get_marker() in ("o", "s") for y in np.asarray(line.get_ydata())]
    assert sorted(shown) == sorted(point.score for point in scores())


@pytest.mark.parametrize("panels", [1, 2, 6])
@pytest.mark.parametrize("mark", [52.0, 90.0])
def test_a_long_label_of_an_axis_stays_beside_it(panels: int, mark: float) -> None:
    panel_names = tuple(f"panel {number}" for number in range(panels))
    y = "SentEval score on dev, % [declutr_downstream_with_snli_dev (4 of 18)]"
    printed = [Mark(panel_names[0], "small", "1", mark)]
    figure = make_figure(kind="line", y=y, panels=list(panel_names), printed=printed)
    with style.look():
        picture = drawing.picture(figure, scores(panel_names), NOTE)
        FigureCanvasAgg(picture).draw()
        _, body = picture.subfigs
        labels = [axes.yaxis.label for axes in picture.get_axes() if axes.get_ylabel().startswith("SentEval")]
    assert len(labels) == -(-panels // drawing.MOST_ACROSS)
    for label in labels:
        box = label.get_window_extent()
        assert body.bbox.y0 <= box.y0 and box.y1 <= body.bbox.y1 and box.x0 >= 0
        assert box.height <= 1.15 * body.bbox.height / len(labels)


def test_a_density_figure_draws_groups_and_decides_claims(tmp_path: Path) -> None:
    claim = Claim(
        "a", "anchors are longer", "3.2", lambda scores: greater(scores(group="anchor"), scores(group="positive"))
    )
    changes: dict[str, Any] = {"kind": "density", "groups": ["anchor", "positive"], "claims": [claim]}
    spans = SpanSampler(min_length=8, max_length=64)
    paths = draw(make_figure(**changes, spans=spans), span_lengths.lengths(spans, 300), tmp_path, NOTE)
    points = read_points(paths[2])
    assert len(points) == 300 * (2 + 4) and {point.group for point in points} == {"anchor", "positive"}
    assert all(8 <= point.score <= 64 for point in points)
    assert "**held**" in paths[3].read_text() and "tokens" in paths[3].read_text()
    assert span_lengths.lengths(spans, 300) == points


def test_sampled_lengths_follow_their_density() -> None:
    drawn = np.array([p.score for p in span_lengths.lengths(SpanSampler(), 1500) if p.group == "anchor"])
    edges = np.linspace(32, 512, 11)
    inner = np.linspace(32, 512, 4801)
    density = span_lengths.density(inner, 32, 512, 4, 2)
    assert np.trapezoid(density, inner) == pytest.approx(1, abs=1e-4)
    expected = [np.trapezoid(np.where((inner >= a) & (inner <= b), density, 0), inner) for a, b in pairwise(edges)]
    found = np.histogram(drawn, edges)[0] / len(drawn)
    np.testing.assert_allclose(found, expected, atol=0.03)


def test_a_map_figure_draws_labels_with_special_characters(tmp_path: Path) -> None:
    """The labels contain characters that matplotlib takes for invalid mathematics unless they are escaped."""
    rng = np.random.default_rng(0)
    kinds = np.repeat([0, 1, 2], 31)
    maps = [
        labelled_map(
            panel,
            Labelled([f"text {i}, of {panel}" for i in range(93)], [f"$a_{{$ {kind}" for kind in kinds]),
            6 * np.eye(3, 8)[kinds] + rng.normal(size=(93, 8)),
        )
        for panel in ("SUBJ", "TREC", "DBpedia")
    ]
    claim = Claim(
        "a", "clusters", "5.2", lambda scores: greater(scores(group="in the map"), scores(group="by guessing"))
    )
    figure = Figure(id="gensen/1", title="t", kind="map", x="", y="", claims=[claim])
    paths = draw(figure, [], tmp_path, NOTE, maps)
    assert names(paths)[-1] == "gensen-1-places.csv"
    assert len(paths[4].read_text().splitlines()) == 1 + 3 * 93
    assert len(read_points(paths[2])) == 9
    assert "in the map − by guessing: +6" in paths[3].read_text()


def test_maps_of_several_models_stand_below_each_other(tmp_path: Path) -> None:
    data = Labelled([f"text {i}" for i in range(93)], [str(i % 3) for i in range(93)])
    vectors = np.random.default_rng(0).normal(size=(93, 8))
    maps = [
        labelled_map(panel, data, vectors, seed=seed, model=model)
        for model in ("GenSen", "skip-thought")
        for seed in (1, 2)
        for panel in ("TREC", "SUBJ")
    ]
    figure = Figure(id="a/1", title="t", kind="map", x="", y="", panels=["SUBJ", "TREC"])
    with style.look():
        titles = [axes.get_title(loc="left") for axes in labelled_maps.picture(figure, maps, NOTE).get_axes()]
    assert titles == [f"{model}: {panel}" for model in ("GenSen", "skip-thought") for panel in ("SUBJ", "TREC")]
    groups = {point.group for point in labelled_maps.agreements(maps)}
    assert groups == {
        f"{model}, {what}"
        for model in ("GenSen", "skip-thought")
        for what in ("in the map", "in the vectors", "by guessing")
    }


def test_nothing_to_draw_is_reported_and_nothing_written(tmp_path: Path) -> None:
    for kind, what in (("line", "scores"), ("map", "maps")):
        with pytest.raises(UserError, match=rf"nothing to draw for figure declutr/2a: it has no {what} yet\.$"):
            draw((make_figure(kind=kind)), [], tmp_path, NOTE)
    assert not list(tmp_path.iterdir())


def test_groups_have_different_colours_dashes_and_markers() -> None:
    figure = make_figure(colours={"small": "declutr", "base": "declutr", "x": "mlm_only"})
    looks = drawing.looks(figure, ["small", "base", "x", "ConsSent-D", "Ensemble"])
    assert looks["small"].hue == style.OBJECTIVES["declutr"] and looks["x"].hue == style.OBJECTIVES["mlm_only"]
    assert looks["ConsSent-D"].hue == style.OBJECTIVES["conssent_d"] and looks["Ensemble"].hue == style.OTHER
    assert looks["base"].hue == style.lighter(looks["small"].hue) and looks["base"].dash != looks["small"].dash
    assert len({look.marker for look in looks.values()}) == 5
    gradual = drawing.looks((make_figure(colours={})), ["0.001", "0.01", "0.05"])
    brightness = [sum(style.to_rgb(look.hue)) for look in gradual.values()]
    assert brightness == sorted(brightness)
