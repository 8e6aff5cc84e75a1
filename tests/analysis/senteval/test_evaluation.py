"""Evaluations of a generated folder by ``senteval.evaluate``."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import encoders
from analysis import senteval
from analysis.senteval.records import Results, read_results
from analysis.senteval.tasks import TASKS
from analysis.senteval.vectors import CHUNK
from data.errors import UserError
from encoders.bag_of_words import BagOfWords
from encoders.fingerprint import fingerprint
from encoders.random_vectors import RandomVectors
from tests.analysis.senteval import small_data
from tests.analysis.senteval.example_results import SENTEVAL
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


class Function:
    """Function of random vectors that records its calls; raises KeyboardInterrupt at the call ``stop``."""

    def __init__(self, seed: int = 0, stop: int | None = None) -> None:
        self.encoder, self.stop, self.calls = RandomVectors(dimension=8, seed=seed), stop, list[list[str]]()

    def __call__(self, sentences: list[str]) -> np.ndarray:
        if len(self.calls) == self.stop:
            raise KeyboardInterrupt
        self.calls.append(sentences)
        return self.encoder.encode(sentences)


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
    assert {record.protocol for record in results.tasks.values()} == {"prototyping"}
    for name in ("MR", "CR", "BigramShift"):
        assert (results.tasks[name].test or 0) > 75
    assert results.tasks["SNLI"].l2 == 1e-9
    counts = {name: (record.n_train, record.n_dev, record.n_test) for name, record in results.tasks.items()}
    assert counts["CR"] == (60, 60, 60) and counts["TREC"] == (120, 120, 120) and counts["SST2"] == (24, 24, 24)
    assert counts["STS12"] == (0, 0, 100) and counts["ImageCaptionRetrieval"] == (150, 150, 150)
    assert results == read_results(tmp_path) and {"declutr_downstream", "probing"} <= {*results.averages}


def test_saved_predictions_reproduce_the_scores(data: Path, tmp_path: Path) -> None:
    results = evaluate(Function(), data, [*QUICK, "MRPC", "SNLI"], out=tmp_path)
    for name in ("MRPC", "SNLI"):
        with np.load(tmp_path / "predictions" / f"{name}.npz") as saved:
            right = saved["predicted"].argmax(axis=1) == saved["gold"]
        assert round(100 * right.mean(), 2) == results.tasks[name].test
    with np.load(tmp_path / "predictions" / "CR.npz") as saved:
        right = saved["predicted"].argmax(axis=1) == saved["gold"]
        folds = [round(100 * right[saved["fold"] == fold].mean(), 2) for fold in np.unique(saved["fold"])]
    assert len(folds) == 5 and round(np.mean(folds), 2) == results.tasks["CR"].test
    table = results.compare(results)
    assert (table[["difference", "low", "high"]] == 0).all(axis=None)
    assert {key.partition(".")[0] for key in table.index} == {*QUICK, "MRPC", "SNLI"}


@pytest.mark.parametrize("kept", [True, False])
def test_a_function_gets_only_the_tasks_sentences_in_small_batches(kept: bool, data: Path, tmp_path: Path) -> None:
    function = Function()
    results = evaluate(function, data, batch_size=16, out=tmp_path if kept else None)
    calls, sentences = function.calls, task_sentences(data, *QUICK)
    assert max(map(len, calls)) == 16 and {type(text) for call in calls for text in call} == {str}
    assert {text for call in calls for text in call} == sentences
    assert len([text for call in calls for text in call]) == len(sentences) + 5  # checked with two sentences
    for name, record in results.tasks.items():
        assert record.sentences == len(task_sentences(data, name)) and record.embed_seconds is not None
    vectors = {text: function.encoder.encode([text])[0] for text in sentences}
    assert plain(evaluate(lambda texts: [vectors[text] for text in texts], data)) == plain(results)


def test_a_score_does_not_depend_on_the_other_tasks(data: Path, tmp_path: Path) -> None:
    def pad_to_longest(sentences: list[str]) -> np.ndarray:
        noise = RandomVectors(dimension=8, seed=max(map(len, sentences))).encode(sentences)
        return RandomVectors(dimension=8).encode(sentences) + noise

    pairs = ["SICKRelatedness", "SICKEntailment"]  # of the same sentences
    together = plain(evaluate(pad_to_longest, data, [*pairs, "CR"], out=tmp_path))
    for task in pairs:
        assert plain(evaluate(pad_to_longest, data, [task])) == {task: together[task]}


def test_processes_give_the_same_results(data: Path, tmp_path: Path) -> None:
    tasks = ["CR", "TREC", "STS12", "SICKEntailment", "SNLI"]
    one = evaluate(Function(), data, tasks)
    two = evaluate(Function(), data, tasks, processes=2, out=tmp_path)
    assert plain(one) == plain(two) and [*one.tasks] == [*two.tasks] == [*read_results(tmp_path).tasks]


def test_an_interrupted_evaluation_goes_on(data: Path, tmp_path: Path) -> None:
    first = Function(stop=10)
    with pytest.raises(KeyboardInterrupt):
        evaluate(first, data, out=tmp_path, batch_size=16)
    second = Function()
    results = evaluate(second, data, out=tmp_path, batch_size=16)
    new = [text for call in second.calls[3:] for text in call]
    assert len(new) == len(task_sentences(data, *QUICK)) - 16 * 7  # after three calls of checks
    assert plain(results) == plain(evaluate(Function(), data))
    third = Function()
    assert plain(evaluate(third, data, [*QUICK, "TREC"], out=tmp_path)).keys() == {*QUICK, "TREC"}
    assert {text for call in third.calls for text in call} <= task_sentences(data, "TREC")
    assert evaluate(Function(stop=0), data, ["CR", "TREC"], out=tmp_path).tasks.keys() == {*QUICK, "TREC"}
    assert not (tmp_path / ".evaluation.lock").exists()


def test_tasks_with_changed_files_are_evaluated_again(data: Path, tmp_path: Path) -> None:
    copy = tmp_path / "data"
    shutil.copytree(data, copy)
    evaluate(Function(), copy, ["CR"], out=tmp_path / "out")
    with (copy / "downstream" / TASKS["CR"].files[0]).open("a") as file:
        file.write("the dog sees the good cat .\n")
    assert evaluate(Function(), copy, ["CR"], out=tmp_path / "out").tasks["CR"].n_test == 61


def test_results_of_another_name_encoder_or_protocol_are_not_mixed(data: Path, tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    evaluate(Function(), data, ["STS12"], out=a, name="a/b")
    evaluate(RandomVectors(dimension=8), data, ["STS12"], out=b)
    for encode, options in (
        (Function(), {"out": a}),
        (Function(), {"out": a, "name": "a/b", "protocol": "default"}),
        (RandomVectors(dimension=8, seed=1), {"out": b}),
    ):
        with pytest.raises(UserError):
            evaluate(encode, data, ["STS12"], **options)
    assert evaluate(Function(1), data, ["STS12"], out=a, name="a/b").model["name"] == "a/b"
    assert evaluate(RandomVectors(dimension=8), data, ["STS12"], out=b, name="other").model["name"] == "other"


def test_simcse_trains_nothing_on_sts(data: Path) -> None:
    tasks = evaluate(Function(), data, ["STSBenchmark", "STS12"], protocol="simcse").tasks
    assert tasks["STSBenchmark"].mse is None and tasks["STSBenchmark"].dev != tasks["STSBenchmark"].dev_pearson
    assert tasks["STS12"].test == tasks["STS12"].score("spearman.all")


def test_conssent_tunes_width_and_dropout_only_for_probing(data: Path) -> None:
    tasks = evaluate(Function(), data, ["Length", "WordContent", "SST2"], protocol="conssent").tasks
    assert tasks["Length"].hidden in (50, 100, 200) and tasks["Length"].dropout in (0.0, 0.1, 0.2)
    assert tasks["WordContent"].hidden is None and tasks["SST2"].hidden is None


def test_folds_are_those_of_the_protocol(data: Path, tmp_path: Path) -> None:
    results = evaluate(Function(), data, ["CR"], protocol="prototyping", out=tmp_path)
    assert results.protocol == results.tasks["CR"].protocol == "prototyping"
    with np.load(tmp_path / "predictions" / "CR.npz") as saved:
        assert {*saved["fold"]} == {0, 1, 2, 3, 4}


def test_gensen_takes_the_pooling_that_is_best_on_dev(data: Path, tmp_path: Path) -> None:
    """Pooling "max" opens an encoder of word vectors and "last" one of random vectors, which is worse on dev."""
    by_pooling: dict[str, Any] = {
        "max": BagOfWords(vectors=str(data / "words.txt")),
        "last": RandomVectors(dimension=8),
    }
    first, last = (evaluate(each, data, ["CR"], protocol="default").tasks["CR"] for each in by_pooling.values())
    cache = tmp_path / "cache"
    results = evaluate(by_pooling, data, ["CR", "STS12"], protocol="gensen", out=tmp_path, cache=cache)
    assert (first.dev or 0) > (last.dev or 0)
    assert results.tasks["CR"].pooling == "max" and results.tasks["CR"].test == first.test
    assert results.tasks["STS12"].pooling == "last"  # the last pooling, as STS12 has no dev set
    folders = {path.name for path in cache.iterdir()}
    assert folders == {*map(fingerprint, by_pooling.values())}


@pytest.mark.parametrize("processes", [1, 2])
def test_an_error_of_a_task_is_one_line(processes: int, data: Path, tmp_path: Path) -> None:
    copy = tmp_path / "data"
    shutil.copytree(data, copy)
    for file in TASKS["SUBJ"].files:  # fewer examples than folds
        (copy / "downstream" / file).write_text("the dog .\n" * 3)
    with pytest.raises(UserError) as error:
        evaluate(Function(), copy, ["STS12", "SUBJ"], processes=processes)
    assert error.value.key.startswith("SUBJ (") and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("encode", "options", "key"),
    [
        pytest.param("all-MiniLM-L6-v2", {}, "encode", id="model name instead of an encoder"),
        pytest.param(lambda texts: torch.rand(len(texts), 3), {}, "encode", id="other vectors each time"),
        pytest.param(Function(), {"tasks": ["STSB"]}, "tasks", id="unknown task"),
        pytest.param(Function(), {"protocol": "defualt"}, "protocol=defualt", id="unknown protocol"),
        pytest.param(Function(), {"protocol": "gensen"}, "protocol=gensen", id="protocol with poolings"),
        pytest.param(Function(), {"data": "no/such"}, "data", id="missing data folder"),
    ],
)
def test_mistakes_are_one_line(data: Path, encode: Any, options: dict[str, Any], key: str) -> None:
    with pytest.raises(UserError) as error:
        evaluate(encode, **{"data": data, **options})
    assert error.value.key == key and "\n" not in str(error.value)


def test_progress_is_shown_on_the_error_stream(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evaluate(Function(), data)
    shown = capsys.readouterr()
    assert shown.out == "" and [word for word in shown.err.split() if word in QUICK] == QUICK


def test_tasks_and_protocols_are_read_without_heavy_imports() -> None:
    code = "import sys, analysis.senteval.protocols; assert not {'torch', 'rich'} & {*sys.modules}"
    subprocess.run([sys.executable, "-c", code], check=True)


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
