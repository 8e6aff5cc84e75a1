"""Maps of sentences: sampling, agreement of neighbours against a plain loop, files, error messages."""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from analysis.projection_map import (
    COLOURS,
    MOST_LABELS,
    SHAPES,
    Agreement,
    Labelled,
    agreement,
    draw,
    project,
    read,
    sample,
)
from data.errors import UserError
from tests.analysis.evaluation_helpers import NOUNS, evaluate, refusal, vector_file
from tests.real_data import suite_data


def test_agreement_equals_a_loop() -> None:
    rng = np.random.default_rng(0)
    points, labels = rng.normal(size=(60, 3)), [str(label) for label in rng.integers(3, size=60)]
    hits = 0
    for i in range(60):
        order = [j for j in np.argsort(((points - points[i]) ** 2).sum(axis=1)) if j != i][:7]
        hits += Counter(labels[j] for j in order).most_common(1)[0][0] == labels[i]
    assert agreement(points, labels, k=7) == pytest.approx(100 * hits / 60)


def test_agreement_leaves_the_point_itself_out() -> None:
    points = np.array([[0.0], [0.1], [5.0], [5.1]])
    assert agreement(points, ["a", "b", "a", "b"], k=1) == 0.0
    assert agreement(points, ["a", "a", "b", "b"], k=1) == 100.0


def test_a_map_keeps_clusters_together() -> None:
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(3, 80)) * 5
    kinds = np.repeat(np.arange(3), 30)
    vectors = centres[kinds] + rng.normal(size=(90, 80))
    points = project(vectors, perplexity=10, seed=1)
    assert points.shape == (90, 2)
    assert agreement(points, [str(kind) for kind in kinds]) == 100.0
    np.testing.assert_array_equal(points, project(vectors, perplexity=10, seed=1))
    with pytest.raises(
        UserError, match=r"There are 90 sentences: perplexity= must be below a third of that. Got 30"
    ):
        project(vectors, perplexity=30)


def test_a_sample_keeps_shares_and_order() -> None:
    labels = ["a"] * 80 + ["b"] * 20
    data = Labelled([f"s{i}" for i in range(100)], labels)
    drawn = sample(data, 50, seed=0)
    assert Counter(drawn.labels) == {"a": 40, "b": 10}
    places = [data.texts.index(text) for text in drawn.texts]
    assert places == sorted(places) and len(set(places)) == 50
    assert [labels[i] for i in places] == drawn.labels
    assert sample(data, 50, 0) == drawn != sample(data, 50, 1)
    assert sample(data, 100, 0) is data


def test_a_sample_has_the_wanted_size() -> None:
    labels = [*"aaaaaaa", *"bbbbbbb", *"ccccccc", *"d"]
    data = Labelled([f"s{i}" for i in range(22)], labels)
    for size in range(4, 22):
        drawn = sample(data, size, seed=0)
        counts = Counter(drawn.labels)
        assert len(drawn.texts) == size and counts["d"] == 1
        assert max(counts[name] for name in "abc") - min(counts[name] for name in "abc") <= 1
    assert Counter(sample(data, 2, 0).labels) == dict.fromkeys("abcd", 1)  # every label keeps a sentence


def test_labels_are_sorted_with_numbers_by_value() -> None:
    assert Labelled([], ["10", "9", "b", "a", "9"]).names == ["a", "b", "9", "10"]


def test_every_label_has_its_own_colour_and_shape() -> None:
    data = Labelled([f"s{i}" for i in range(20)], [f"l{i % 10}" for i in range(20)])
    figure = draw(np.random.default_rng(0).normal(size=(20, 2)), data, Agreement(1, 2, 3), model="m", source="d")
    [axes] = figure.axes
    styles = {(line.get_color(), line.get_marker()) for line in axes.lines}
    assert len(styles) == len(axes.lines) == 10
    legend = axes.get_legend()
    assert legend is not None and [text.get_text() for text in legend.get_texts()] == data.names
    assert axes.get_title(loc="left") == "m: d, 20 sentences"
    assert "1.0 % in the vectors, 2.0 % in the map, 3.0 % by guessing" in axes.get_xlabel()
    assert len(set(COLOURS)) * len(set(SHAPES)) == MOST_LABELS


def test_the_command_draws_a_map(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    words = {
        f"{noun}{n}": (rng.normal(size=4) + 9 * (i % 2)).round(3).tolist()
        for i, noun in enumerate(NOUNS)
        for n in range(10)
    }
    file = vector_file(tmp_path / "words.txt", words)
    data, out = tmp_path / "made.tsv", tmp_path / "found.json"
    lines = [f"{'odd' if NOUNS.index(word[:-1]) % 2 else 'even'}\t{word}" for word in words]
    data.write_text("\n".join([*lines, lines[0]]) + "\n")  # the first line occurs twice
    overrides = ["models=bag_of_words", f"encoder.vectors={file}", "cache=null", "perplexity=8", f"out={out}"]
    monkeypatch.setenv("HOME", str(tmp_path))
    evaluate("projection_map", *overrides, "data='~/made.tsv'", "folder='~/maps'")
    output = capsys.readouterr().out
    names = sorted(path.name for path in (tmp_path / "maps").iterdir())
    assert names == [f"made-bag_of_words_words.{kind}" for kind in ("csv", "pdf", "png")]
    with (tmp_path / "maps" / names[0]).open() as points:
        rows = list(csv.DictReader(points))
    assert Counter(row["series"] for row in rows) == {"odd": 40, "even": 40}
    assert all(row["panel"] == "map" and np.isfinite([float(row["x"]), float(row["y"])]).all() for row in rows)
    record = json.loads(out.read_text())
    [found] = record["projection_map"]
    assert record["sentences"] == 80 and found["guess"] == 50.0 and found["vectors"] > 90
    assert f"{found['map']:.1f} % in the map, 50.0 % by guessing." in output


@pytest.mark.parametrize(
    ("content", "overrides", "message"),
    [
        pytest.param(
            "a text\n",
            [],
            "made.tsv:1: a line must be a label and a text, separated by a tab. Got 1 of 2 columns.",
            id="no tab",
        ),
        pytest.param(
            "a\tone\na\ttwo\n", [], "has 1 labels; a map shows 2 to 49: labels=[a,b] chooses some.", id="one label"
        ),
        pytest.param("a\tone\nb\ttwo\n", ["labels=[a,c]"], "has no label c.", id="unknown label"),
        pytest.param(
            "a\tone\nb\ttwo\n",
            [],
            "There are 2 sentences: perplexity= must be below a third of that. Got 30.",
            id="too few sentences",
        ),
        pytest.param(
            "a\tone\nb\ttwo\n",
            ["perplexity=0"],
            "perplexity must be at least 1. Got 0 instead.",
            id="perplexity 0",
        ),
    ],
)
def test_faults_of_the_file_are_reported(tmp_path: Path, content: str, overrides: list[str], message: str) -> None:
    (tmp_path / "made.tsv").write_text(content)
    arguments = ["models=random_vectors", "cache=null", f"data={tmp_path / 'made.tsv'}", *overrides]
    assert refusal("projection_map", *arguments).endswith(message)


def test_maps_of_real_labels() -> None:
    news = read(suite_data("labelled/ag_news_test_titles.tsv.gz"))
    assert news.names == ["Business", "Sci/Tech", "Sports", "World"] and len(news.texts) > 7000
    chosen = read(suite_data("labelled/stackoverflow_titles.tsv.gz"), ["2", "10"])
    assert chosen.names == ["2", "10"]
