"""Maps of sentences: sampling, agreement of neighbours against a plain loop, files."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from analysis.models import Model
from analysis.projection_map import (
    Labelled,
    compute_agreement,
    evaluate_map,
    place_sentences,
    read,
    scatter,
    take_sample,
)
from data.errors import UserError
from encoders.bag_of_words import BagOfWords
from encoders.random_vectors import RandomVectors
from tests.analysis.evaluation_helpers import NOUNS, vector_file
from tests.real_data import suite_data


def test_agreement_equals_a_loop() -> None:
    rng = np.random.default_rng(0)
    points, labels = rng.normal(size=(60, 3)), [str(label) for label in rng.integers(3, size=60)]
    hits = 0
    for i in range(60):
        order = [j for j in np.argsort(((points - points[i]) ** 2).sum(axis=1)) if j != i][:7]
        hits += Counter(labels[j] for j in order).most_common(1)[0][0] == labels[i]
    assert compute_agreement(points, labels, k=7) == pytest.approx(100 * hits / 60)


def test_agreement_leaves_the_point_itself_out() -> None:
    points = np.array([[0.0], [0.1], [5.0], [5.1]])
    assert compute_agreement(points, ["a", "b", "a", "b"], k=1) == 0.0
    assert compute_agreement(points, ["a", "a", "b", "b"], k=1) == 100.0


def test_a_map_keeps_clusters_together() -> None:
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(3, 80)) * 5
    kinds = np.repeat(np.arange(3), 30)
    vectors = centres[kinds] + rng.normal(size=(90, 80))
    labels = [str(kind) for kind in kinds]
    points, scores = place_sentences(vectors, labels, perplexity=10, seed=1)
    assert (
        points.shape == (90, 2) and scores.vectors == scores.map == 100 and scores.guess == pytest.approx(100 / 3)
    )
    np.testing.assert_array_equal(points, place_sentences(vectors, labels, perplexity=10, seed=1)[0])
    with pytest.raises(UserError) as error:
        place_sentences(vectors, labels, perplexity=30)
    assert error.value.key == "perplexity"


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
    data = Labelled([f"s{i}" for i in range(20)], [f"${i % 10}$" for i in range(20)])
    axes = Figure().subplots()
    scatter(axes, np.random.default_rng(0).normal(size=(20, 2)), data)
    assert len({(line.get_color(), line.get_marker()) for line in axes.lines}) == len(axes.lines) == 10
    assert [text.get_text() for text in axes.texts] == data.names


def test_a_map_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    words = {
        f"{noun}{n}": (rng.normal(size=4) + 9 * (i % 2)).round(3).tolist()
        for i, noun in enumerate(NOUNS)
        for n in range(10)
    }
    lines = [f"{'odd' if NOUNS.index(word[:-1]) % 2 else 'even'}\t{word}" for word in words]
    (tmp_path / "made.tsv").write_text("\n".join([*lines, lines[0]]) + "\n")  # the first line occurs twice
    monkeypatch.setenv("HOME", str(tmp_path))
    model = Model("a/b, c", BagOfWords(vectors=str(vector_file(tmp_path / "words.txt", words))))
    scores = evaluate_map(model, data="~/made.tsv", folder="~/maps", perplexity=8)
    names = sorted(path.name for path in (tmp_path / "maps").iterdir())
    assert names == [f"made-a_b_c.{kind}" for kind in ("csv", "pdf", "png")]
    points = pd.read_csv(tmp_path / "maps" / names[0])
    assert points["label"].value_counts().to_dict() == {"odd": 40, "even": 40}
    assert np.isfinite(points[["x", "y"]]).all(axis=None)
    assert scores["guess"] == 50.0 and scores["vectors"] > 90


@pytest.mark.parametrize(
    ("content", "labels"), [("a text\n", None), ("a\tone\nb\ttwo\n", ["a", "c"]), ("a\tone\nb\ttwo\n", None)]
)
def test_unusable_files_are_refused(tmp_path: Path, content: str, labels: list[str] | None) -> None:
    """No tab, an unknown label, and too few sentences for the perplexity."""
    (tmp_path / "made.tsv").write_text(content)
    with pytest.raises(UserError):
        evaluate_map(Model("random", RandomVectors()), data=str(tmp_path / "made.tsv"), labels=labels)


def test_maps_of_real_labels() -> None:
    news = read(suite_data("labelled/ag_news_test_titles.tsv.gz"))
    assert news.names == ["Business", "Sci/Tech", "Sports", "World"] and len(news.texts) > 7000
    chosen = read(suite_data("labelled/stackoverflow_titles.tsv.gz"), ["2", "10"])
    assert chosen.names == ["2", "10"]
