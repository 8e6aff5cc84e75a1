"""Evaluations of a generated folder by ``senteval.evaluate``."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import encoders
from analysis import senteval
from analysis.senteval.records import Results, read_results
from analysis.senteval.tasks import TASKS
from analysis.senteval.vectors import CHUNK
from data.errors import UserError
from encoders.bag_of_words import BagOfWords
from encoders.postprocess import postprocess
from encoders.random_vectors import RandomVectors
from tests.analysis.senteval import small_data
from tests.analysis.senteval.example_results import SENTEVAL
from tests.analysis.senteval.recorder import Recorder
from tests.encoders.models import minilm
from tests.real_data import suite_data

QUICK = ["CR", "STS12", "SICKRelatedness"]
# Percentages of the published toolkit (commit 5d6dc117, on a CPU) for all-MiniLM-L6-v2.
TOOLKIT: dict[str, dict[str, dict[str, float]]] = {
    "default": {"TREC": {"dev": 84.41, "test": 90.0}, "SICKEntailment": {"dev": 83.2, "test": 82.85}},
    "prototyping": {
        "SICKEntailment": {"dev": 84.2, "test": 83.19},
        "MRPC": {"dev": 73.58, "test": 72.29, "f1": 80.9},
    },
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = small_data.folder(tmp_path_factory.mktemp("senteval"))
    small_data.vector_file(folder / "words.txt")
    return folder


def evaluate(encode: Any, data: Path, tasks: list[str] | None = QUICK, **options: Any) -> Results:
    arguments: dict[str, Any] = {"protocol": "prototyping", "name": "it"} | options
    return senteval.evaluate(encode, data=data, tasks=tasks, **arguments)


def plain(results: Results) -> dict[str, Any]:
    """Returns the records without times."""
    times = {"seconds", "embed_seconds", "sentences_per_second"}
    return {task: record.model_dump(exclude=times) for task, record in results.tasks.items()}


def task_sentences(data: Path, *names: str) -> set[str]:
    parts = [part for name in names for part in TASKS[name].load(data / "downstream").values()]
    return {sentence for part in parts for sentence in part.first + part.second}


def test_all_28_tasks_from_word_vectors(data: Path, tmp_path: Path) -> None:
    """Sentiment sentences contain "good" or "bad", so means of word vectors separate the classes."""
    results = evaluate(BagOfWords(vectors=str(data / "words.txt")), data, None, out=tmp_path)
    assert [*results.tasks] == [*SENTEVAL] and not results.missing
    for name in ("MR", "CR", "BigramShift"):
        assert (results.tasks[name].test or 0) > 75
    assert results.tasks["SNLI"].l2 == 1e-9
    counts = {name: (record.n_train, record.n_dev, record.n_test) for name, record in results.tasks.items()}
    assert counts["CR"] == (60, 60, 60) and counts["TREC"] == (120, 120, 120) and counts["SST2"] == (24, 24, 24)
    assert counts["STS12"] == (0, 0, 100) and counts["ImageCaptionRetrieval"] == (150, 150, 150)
    assert results == read_results(tmp_path) and {"declutr_downstream", "probing"} <= {*results.averages}


def test_the_store_of_a_postprocessed_encoder_has_raw_vectors(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = BagOfWords(vectors=str(data / "words.txt"))
    evaluate(raw, data, out=tmp_path / "raw", cache=tmp_path / "cache")
    encoder: Any = postprocess(raw, sorted(task_sentences(data, "MR")), "center", where="MR")
    expected = plain(evaluate(encoder.encode, data))
    monkeypatch.setattr(BagOfWords, "forward", None)  # nothing is embedded again
    monkeypatch.setattr("analysis.senteval.vectors.CheckedEncoder.depends_on_batch", lambda *_: False)
    assert plain(evaluate(encoder, data, out=tmp_path / "mapped", cache=tmp_path / "cache")) == expected
    assert [path.name for path in (tmp_path / "cache").iterdir()] == [raw.fingerprint()]


def test_saved_predictions_reproduce_the_scores(data: Path, tmp_path: Path) -> None:
    results = evaluate(Recorder(), data, ["CR", "MRPC", "SNLI"], out=tmp_path)
    for name, folds in (("CR", 5), ("MRPC", 1), ("SNLI", 1)):
        with np.load(tmp_path / "predictions" / f"{name}.npz") as saved:
            right = pd.Series(saved["predicted"].argmax(axis=1) == saved["gold"])
            scores = (100 * right.groupby(saved.get("fold", np.zeros(len(right)))).mean()).round(2)
        assert len(scores) == folds and round(scores.mean(), 2) == results.tasks[name].test


def test_a_function_gets_only_the_tasks_sentences_in_small_batches(data: Path) -> None:
    function = Recorder()
    results = evaluate(function, data, batch_size=16)
    sentences = task_sentences(data, *QUICK)
    assert max(map(len, function.calls)) == 16 and {*map(type, function.sentences)} == {str}
    assert {*function.sentences} == sentences
    assert len(function.sentences) == len(sentences) + 5  # checked with two sentences
    for name, record in results.tasks.items():
        assert record.sentences == len(task_sentences(data, name)) and record.embed_seconds is not None


def test_processes_give_the_same_results(data: Path, tmp_path: Path) -> None:
    tasks = ["CR", "TREC", "STS12", "SICKEntailment", "SNLI"]
    one = evaluate(Recorder(), data, tasks)
    two = evaluate(Recorder(), data, tasks, processes=2, out=tmp_path)
    assert plain(one) == plain(two) and [*one.tasks] == [*two.tasks] == [*read_results(tmp_path).tasks]


def test_an_interrupted_evaluation_goes_on(data: Path, tmp_path: Path) -> None:
    first = Recorder(stop=10)
    with pytest.raises(KeyboardInterrupt):
        evaluate(first, data, out=tmp_path, batch_size=16)
    second = Recorder()
    results = evaluate(second, data, out=tmp_path, batch_size=16)
    new = [text for call in second.calls[3:] for text in call]
    assert len(new) == len(task_sentences(data, *QUICK)) - 16 * 7  # after three calls of checks
    assert plain(results) == plain(evaluate(Recorder(), data))
    evaluate(Recorder(), data, [*QUICK, "TREC"], out=tmp_path)
    assert evaluate(Recorder(stop=0), data, ["CR", "TREC"], out=tmp_path).tasks.keys() == {*QUICK, "TREC"}


def test_tasks_with_changed_files_are_evaluated_again_or_named_in_the_error(data: Path, tmp_path: Path) -> None:
    copy = tmp_path / "data"
    shutil.copytree(data, copy)
    evaluate(Recorder(), copy, ["CR"], out=tmp_path / "out")
    with (copy / "downstream" / TASKS["CR"].files[0]).open("a") as file:
        file.write("the dog sees the good cat .\n")
    assert evaluate(Recorder(), copy, ["CR"], out=tmp_path / "out").tasks["CR"].n_test == 61
    for name in TASKS["SUBJ"].files:  # fewer examples than folds
        (copy / "downstream" / name).write_text("the dog .\n" * 3)
    with pytest.raises(UserError) as error:
        evaluate(Recorder(), copy, ["STS12", "SUBJ"], processes=2)
    assert error.value.key.startswith("SUBJ (") and "\n" not in str(error.value)


def test_results_of_another_name_encoder_or_protocol_are_not_mixed(data: Path, tmp_path: Path) -> None:
    first, second = (RandomVectors(dimension=8, seed=seed) for seed in (0, 1))
    evaluate(first, data, ["STS12"], out=tmp_path)
    for encode, protocol in ((second, "prototyping"), (first, "default"), (Recorder(), "prototyping")):
        with pytest.raises(UserError):
            evaluate(encode, data, ["STS12"], out=tmp_path, protocol=protocol)
    assert evaluate(first, data, ["STS12"], out=tmp_path, name="other").model["name"] == "other"


def test_gensen_takes_the_pooling_that_is_best_on_dev(data: Path, tmp_path: Path) -> None:
    """Pooling "max" opens an encoder of word vectors and "last" one of random vectors, which is worse on dev."""
    by_pooling: dict[str, Any] = {
        "last": RandomVectors(dimension=8),
        "max": BagOfWords(vectors=str(data / "words.txt")),
    }
    last, first = (evaluate(each, data, ["CR"], protocol="default").tasks["CR"] for each in by_pooling.values())
    cache = tmp_path / "cache"
    results = evaluate(by_pooling, data, ["CR", "STS12"], protocol="gensen", out=tmp_path, cache=cache)
    assert (first.dev or 0) > (last.dev or 0)
    assert results.tasks["CR"].pooling == "max" and results.tasks["CR"].test == first.test
    assert results.tasks["STS12"].pooling == "last"  # the last pooling, as STS12 has no dev set
    folders = {path.name for path in cache.iterdir()}
    assert folders == {each.fingerprint() for each in by_pooling.values()}


def test_protocols_differ_as_their_papers(data: Path) -> None:
    simcse = evaluate(
        Recorder(), data, ["STSBenchmark", "STS12"], protocol="simcse"
    ).tasks  # trains nothing on STS
    assert simcse["STSBenchmark"].mse is None and simcse["STSBenchmark"].dev != simcse["STSBenchmark"].dev_pearson
    assert simcse["STS12"].test == simcse["STS12"].score("spearman.all")
    conssent = evaluate(Recorder(), data, ["Length", "WordContent", "SST2"], protocol="conssent").tasks
    assert conssent["Length"].hidden in (50, 100, 200) and conssent["Length"].dropout in (0.0, 0.1, 0.2)
    assert conssent["WordContent"].hidden is None and conssent["SST2"].hidden is None


@pytest.mark.parametrize(
    ("encode", "protocol", "key"),
    [
        ("all-MiniLM-L6-v2", "default", "encode"),  # a name instead of an encoder
        (lambda texts: torch.rand(len(texts), 3), "default", "encode"),  # other vectors each time
        (Recorder(), "gensen", "protocol=gensen"),  # it needs an encoder for each pooling
    ],
)
def test_mistakes_are_one_line(data: Path, encode: Any, protocol: str, key: str) -> None:
    with pytest.raises(UserError) as error:
        evaluate(encode, data, protocol=protocol)
    assert error.value.key == key and "\n" not in str(error.value)


@pytest.mark.slow
def test_scores_of_whole_tasks_equal_those_of_the_toolkit(tmp_path: Path) -> None:
    data, encoder = suite_data("senteval"), encoders.load(minilm())
    for protocol, tasks in TOOLKIT.items():
        results = senteval.evaluate(
            encoder,
            data=data,
            tasks=[*tasks],
            protocol=protocol,
            out=tmp_path / protocol,
            cache=tmp_path / "vectors",
            batch_size=CHUNK,
        )
        for task, scores in tasks.items():
            assert {name: results.tasks[task].score(name) for name in scores} == scores
