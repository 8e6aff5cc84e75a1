"""Labelled sentences of maps: from SentEval's tasks, with the names of their classes, or from files."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.figures import labelled_maps
from data.errors import UserError

CLASSES = {"SUBJ": ["subjective", "objective"], "TREC": ["ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM"]}


@pytest.fixture
def senteval(tmp_path: Path) -> Path:
    subj, trec = tmp_path / "downstream" / "SUBJ", tmp_path / "downstream" / "TREC"
    for folder in (subj, trec):
        folder.mkdir(parents=True)
    (subj / "subj.objective").write_text("a ship leaves\n")
    (subj / "subj.subjective").write_text("a lovely ship\nso dull\n")
    (trec / "train_5500.label").write_text("LOC:city Where is Rome ?\nNUM:date When ?\n")
    (trec / "TREC_10.label").write_text("ABBR:exp What is UN ?\n")
    return tmp_path


def test_sentences_come_from_senteval_tasks_or_files(senteval: Path) -> None:
    (senteval / "dbpedia.tsv").write_text("Company\ta firm\nPlant\ta tree\n")
    found = {
        name: dict(zip(data.texts, data.labels, strict=True))
        for name, data in labelled_maps.labelled_sets(senteval, CLASSES)
    }
    assert found == {
        "SUBJ": {"a ship leaves": "objective", "a lovely ship": "subjective", "so dull": "subjective"},
        "TREC": {"Where is Rome ?": "LOC", "When ?": "NUM", "What is UN ?": "ABBR"},
        "dbpedia": {"a firm": "Company", "a tree": "Plant"},
    }
    [(name, _)] = labelled_maps.labelled_sets(senteval / "dbpedia.tsv", CLASSES)
    assert name == "dbpedia"


def test_a_folder_without_sentences_is_refused(senteval: Path) -> None:
    labelled_maps.require(senteval, CLASSES)
    with pytest.raises(
        UserError, match=r"has no labelled sentences: no \.tsv or \.tsv\.gz .*, and no SUBJ or TREC of"
    ):
        labelled_maps.require(senteval / "downstream", CLASSES)
    with pytest.raises(
        UserError, match=r"has no labelled sentences: no \.tsv or \.tsv\.gz \(label, tab, text\)\."
    ):
        labelled_maps.require(senteval, {})
