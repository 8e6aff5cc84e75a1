"""Word similarity: compared with a plain rank correlation; coverage, sources of vectors, the paper's rows."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis import wordsim
from analysis.wordsim import (
    Lexicon,
    ModelScores,
    Pair,
    Similarity,
    cosine,
    evaluate_similarity,
    read_sets,
    report_word_similarity,
    spearman,
    table,
)
from data.errors import UserError
from encoders.bag_of_words import BagOfWords
from encoders.bilstm_max import BiLSTMMax
from encoders.concatenated import Concatenated
from encoders.random_vectors import RandomVectors
from tests.analysis.evaluation_helpers import vector_file
from tests.encoders.models import tiny
from tests.real_data import suite_data

WORDS = {"sun": (1.0, 0.0), "moon": (0.8, 0.6), "car": (0.0, 1.0), "Rome": (-1.0, 0.1), "zero": (0.0, 0.0)}


@pytest.fixture
def words(tmp_path: Path) -> BagOfWords:
    return BagOfWords(vectors=str(vector_file(tmp_path / "words.txt", WORDS)))


def ranks(values: list[float]) -> list[float]:
    """Returns ranks from 1; equal values have the mean of their ranks."""
    return [sum(b < a for b in values) + (1 + sum(b == a for b in values)) / 2 for a in values]


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=2, max_size=20))
def test_spearman_is_the_correlation_of_ranks(pairs: list[tuple[int, int]]) -> None:
    ours, theirs = ([float(pair[side]) for pair in pairs] for side in (0, 1))
    found = spearman(np.array(ours), theirs)
    if len(set(ours)) < 2 or len(set(theirs)) < 2:
        assert found is None
    else:
        assert found == pytest.approx(np.corrcoef(ranks(ours), ranks(theirs))[0, 1], abs=1e-9)


def test_cosine_of_a_zero_vector_is_zero() -> None:
    found = cosine(np.array([[3.0, 4.0], [0.0, 0.0]]), np.array([[4.0, 3.0], [1.0, 0.0]]))
    np.testing.assert_allclose(found, [24 / 25, 0.0])


def test_unknown_words_are_left_out_and_counted(words: BagOfWords, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wordsim, "LEAST_PAIRS", 4)
    pairs = [Pair("Sun", "moon", 9), Pair("sun", "car", 1), Pair("sun", "mars", 5), Pair("moon", "car", 4)]
    pairs += [Pair("rome", "sun", 0), Pair("Rome", "sun", 0.5)]
    found = evaluate_similarity(Lexicon(words, words.encode), {"made": pairs, "none": pairs[2:3]})
    # "Sun" is looked up in lower case, "Rome" as it is written, "rome" and "mars" are unknown.
    assert found["made"][1:] == (4, 6) and found["made"].spearman == pytest.approx(1.0)
    assert found["none"] == Similarity(None, 0, 1)
    monkeypatch.undo()
    assert evaluate_similarity(Lexicon(words, words.encode), {"made": pairs})["made"] == Similarity(None, 4, 6)


def test_a_bag_has_the_same_words_in_its_table_and_as_sentences(words: BagOfWords) -> None:
    lexicons = [Lexicon(words, words.encode, kind) for kind in (None, "table", "sentence")]
    assert [lexicon.kind for lexicon in lexicons] == ["table", "table", "sentence"]
    for lexicon in lexicons:
        assert [lexicon.form(word) for word in ("SUN", "Rome", "rome", "mars", "")] == [
            "sun",
            "Rome",
            None,
            None,
            None,
        ]
        np.testing.assert_allclose(lexicon.vectors(["moon", "mars"]), [WORDS["moon"], (0, 0)], atol=1e-6)


def test_other_encoders_encode_words_as_sentences(words: BagOfWords, tmp_path: Path) -> None:
    lstm = BiLSTMMax(hidden=4, word_size=3, min_count=1, texts=lambda: ["the sun and the long-term moon"])
    table, sentence = (Lexicon(lstm, lstm.encode, kind) for kind in ("table", "sentence"))
    for lexicon in (table, sentence):
        assert (
            lexicon.knows("sun")
            and lexicon.knows("long-term")
            and not lexicon.knows("mars")
            and not lexicon.knows("<s>")
        )
    assert sentence.knows("the sun") and not table.knows("the sun")
    row = lstm.tokenizer.convert_tokens_to_ids("sun")
    np.testing.assert_array_equal(table.vectors(["sun"])[0], lstm.embedding.weight[row].detach().numpy())
    unknown = lstm.embedding.weight[lstm.tokenizer.unk_token_id].detach().numpy()
    np.testing.assert_array_equal(table.vectors(["mars"])[0], unknown)
    assert sentence.vectors(["sun"]).shape == (1, 8)

    pieces = tiny()
    assert Lexicon(pieces, pieces.encode).kind == "sentence" and Lexicon(pieces, pieces.encode).knows("qwxz")
    random = RandomVectors()
    assert Lexicon(random, random.encode).knows("qwxz")
    both = Concatenated([words, lstm])
    joined = Lexicon(both, both.encode)
    assert joined.kind == "sentence"
    assert joined.knows("moon") and not joined.knows("car") and not joined.knows("the")
    with pytest.raises(UserError, match=r"no table of word vectors: words=sentence"):
        Lexicon(pieces, pieces.encode, "table")


def test_word_pair_sets_are_read_unchanged(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("no set")
    (tmp_path / "EN-OWN.txt").write_bytes(b"\xef\xbb\xbfa b 1\r\n\r\nc\td\t2.5")
    (tmp_path / "EN-RG-65.txt").write_text("e f 3\n")
    found = read_sets(tmp_path)
    assert list(found) == ["RG-65", "OWN"]
    assert found["OWN"] == [Pair("a", "b", 1), Pair("c", "d", 2.5)]


@pytest.mark.parametrize("content", ["a b\n", "a b 1\nc d much\n", "a b nan\n", "\xe9 b 1\n", "\n"])
def test_damaged_sets_are_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "EN-X.txt").write_bytes(content.encode("latin-1"))
    with pytest.raises(UserError, match=r"EN-X\.txt"):
        read_sets(tmp_path)


def test_printed_rows_are_shown_below_and_qvec_is_named_as_missing() -> None:
    scores = {"RG-65": Similarity(0.876, 20, 65), "OWN": Similarity(None, 1, 4)}
    grid = table([ModelScores("a", "table", scores)])
    assert [name for _, name in grid.columns] == ["RG-65", "QVEC", "OWN"]
    assert {name: cell.text for (_, name), cell in grid.ours[0].cells.items()} == {
        "RG-65": "0.88 (20/65)",
        "OWN": "– (1/4)",
    }
    glove = next(row for row in grid.printed if row.name == "GloVe6B")
    assert {name: cell.text for (_, name), cell in glove.cells.items()} == {"RG-65": "0.77", "QVEC": "0.47"}
    assert len(grid.printed) == 8  # two printed rows have no score on RG-65
    assert any(note.startswith("QVEC is missing") for note in grid.notes)
    assert grid.notes[0] == "a: a word's vector is the row in its table of word vectors."


def test_the_command_writes_table_and_record(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wordsim, "LEAST_PAIRS", 2)
    (tmp_path / "EN-X.txt").write_text("sun moon 9\nsun car 1\nsun mars 4\n")
    file = vector_file(tmp_path / "words.txt", WORDS)
    out = tmp_path / "new" / "found.json"
    report_word_similarity(
        models=["bag_of_words", "random_vectors"],
        data=str(tmp_path),
        format="csv",
        out=str(out),
        encoder={"vectors": str(file)},
        cache=None,
    )
    output = capsys.readouterr()
    rows = list(csv.DictReader(io.StringIO(output.out)))
    assert rows[0]["model"] == "bag_of_words, words" and rows[0]["protocol"] == "table"
    assert (rows[0]["X"], rows[0]["X.covered"], rows[0]["X.pairs"]) == ("1.00", "2", "3")
    assert (rows[1]["protocol"], rows[1]["X.covered"]) == ("sentence", "3")
    assert "QVEC is missing" in output.err
    [first, second] = json.loads(out.read_text())["wordsim"]
    assert first["sets"]["X"] == {"spearman": pytest.approx(1.0), "covered": 2, "pairs": 3, "skipped": 1}
    assert first["vectors"] == "table" and second["model"]["origin"].startswith("random vectors")


@pytest.mark.slow
def test_real_vectors_score_as_expected_on_the_real_sets() -> None:
    words = BagOfWords(vectors=str(suite_data("embeddings/glove.100d.10k.txt.gz")))
    found = evaluate_similarity(Lexicon(words, words.encode), read_sets(suite_data("wordsim")))
    assert len(found) == 13
    for name, rho, covered, pairs in (  # as counted in the README of the data
        ("WS-353-ALL", 0.547, 273, 353),
        ("MEN-TR-3k", 0.725, 1474, 3000),
        ("SIMLEX-999", 0.306, 687, 999),
        ("RG-65", 0.871, 20, 65),
        ("RW-STANFORD", 0.579, 151, 2034),
        ("YP-130", 0.417, 54, 130),
    ):
        assert found[name] == (pytest.approx(rho, abs=6e-4), covered, pairs)
