"""Maps of sentences: sampling, agreement of neighbours against a plain loop, files, error messages."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from analysis.projection_map import (
    COLOURS,
    MOST_LABELS,
    SHAPES,
    Agreement,
    Labelled,
    agreement,
    draw,
    draw_maps,
    project,
    read,
    take_sample,
)
from data.errors import UserError
from tests.analysis.evaluation_helpers import NOUNS, vector_file
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
    drawn = take_sample(data, 50, seed=0)
    assert Counter(drawn.labels) == {"a": 40, "b": 10}
    places = [data.texts.index(text) for text in drawn.texts]
    assert places == sorted(places) and len(set(places)) == 50
    assert [labels[i] for i in places] == drawn.labels
    assert take_sample(data, 50, 0) == drawn != take_sample(data, 50, 1)
    assert take_sample(data, 100, 0) is data


def test_a_sample_has_the_wanted_size() -> None:
    labels = [*"aaaaaaa", *"bbbbbbb", *"ccccccc", *"d"]
    data = Labelled([f"s{i}" for i in range(22)], labels)
    for size in range(4, 22):
        drawn = take_sample(data, size, seed=0)
        counts = Counter(drawn.labels)
        assert len(drawn.texts) == size and counts["d"] == 1
        assert max(counts[name] for name in "abc") - min(counts[name] for name in "abc") <= 1
    assert Counter(take_sample(data, 2, 0).labels) == dict.fromkeys("abcd", 1)  # every label keeps a sentence


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
    options: dict[str, Any] = {"encoder": {"vectors": str(file)}, "cache": None, "out": str(out), "perplexity": 8}
    monkeypatch.setenv("HOME", str(tmp_path))
    draw_maps(models=["bag_of_words"], data="~/made.tsv", folder="~/maps", **options)
    output = capsys.readouterr().out
    names = sorted(path.name for path in (tmp_path / "maps").iterdir())
    assert names == [f"made-bag_of_words_words.{kind}" for kind in ("csv", "pdf", "png")]
    points = pd.read_csv(tmp_path / "maps" / names[0])
    assert points["label"].value_counts().to_dict() == {"odd": 40, "even": 40}
    assert np.isfinite(points[["x", "y"]]).all(axis=None)
    record = json.loads(out.read_text())
    [found] = record["projection_map"]
    assert record["sentences"] == 80 and found["guess"] == 50.0 and found["vectors"] > 90
    assert f"{found['map']:.1f} % in the map, 50.0 % by guessing." in output


@pytest.mark.parametrize(
    ("content", "labels"),
    [("a text\n", None), ("a\tone\na\ttwo\n", None), ("a\tone\nb\ttwo\n", ["a", "c"]), ("a\tone\nb\ttwo\n", None)],
)
def test_unusable_files_are_refused(tmp_path: Path, content: str, labels: list[str] | None) -> None:
    """No tab, one label, an unknown label, and too few sentences for the perplexity."""
    (tmp_path / "made.tsv").write_text(content)
    with pytest.raises(UserError):
        draw_maps(models=["random_vectors"], cache=None, data=str(tmp_path / "made.tsv"), labels=labels)


def test_maps_of_real_labels() -> None:
    news = read(suite_data("labelled/ag_news_test_titles.tsv.gz"))
    assert news.names == ["Business", "Sci/Tech", "Sports", "World"] and len(news.texts) > 7000
    chosen = read(suite_data("labelled/stackoverflow_titles.tsv.gz"), ["2", "10"])
    assert chosen.names == ["2", "10"]
