"""Evaluations of a generated folder by ``run_tasks``, and by ``senteval.evaluate`` with any callable."""

from __future__ import annotations

import csv
import io
import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix

import encoders
from analysis import senteval
from analysis.reporting.bootstrap import compare_folders
from analysis.senteval.display import Watch
from analysis.senteval.evaluation import PROBES, run_tasks
from analysis.senteval.protocols import PROTOCOLS
from analysis.senteval.records import fault
from analysis.senteval.results import Results, read_results
from analysis.senteval.tasks import TASKS
from data.errors import UserError
from encoders.bag_of_words import BagOfWords
from encoders.fingerprint import fingerprint
from encoders.random_vectors import RandomVectors
from tests.analysis.senteval import small_data
from tests.analysis.senteval.example_results import SENTEVAL
from tests.encoders.models import minilm
from tests.real_data import suite_data

QUICK = ["CR", "STS12", "SICKRelatedness"]
FEW = ["CR", "STS12", "MRPC"]
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


class RecordingWatch(Watch):
    """Progress display that records its calls."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self.shares: list[float] = []

    def begin(self, results: Results, running: Sequence[str], waiting: Sequence[str]) -> None:
        self.started.append(running[-1])

    def embedding(self, share: float) -> None:
        self.shares.append(share)


class RecordingEncoder(RandomVectors):
    """Encoder of random vectors that records the sentences it embeds."""

    embedded: list[str]

    def encode(self, sentences: Sequence[str], **options: Any) -> np.ndarray:
        self.embedded = [*getattr(self, "embedded", []), *sentences]
        return super().encode(sentences, **options)


def run(data: Path, out: Path, protocol: str = "prototyping", encoder: Any = None, **options: Any) -> Results:
    out.mkdir(parents=True, exist_ok=True)
    encoder = encoder or RandomVectors(dimension=8)
    return run_tasks(
        lambda pooling: encoder,
        {"name": "it"},
        PROTOCOLS[protocol],
        fingerprint=fingerprint,
        data=data,
        out=out,
        **options,
    )


def test_all_28_tasks_from_word_vectors(data: Path, tmp_path: Path) -> None:
    """Sentiment sentences contain "good" or "bad", so means of word vectors separate the classes."""
    watch = RecordingWatch()
    results = run(data, tmp_path, encoder=BagOfWords(vectors=str(data / "words.txt")), watch=watch)
    assert [*results.tasks] == watch.started == [*SENTEVAL]
    assert all(fault(name, record) is None for name, record in results.tasks.items())
    assert {record["protocol"] for record in results.tasks.values()} == {"prototyping"}
    for name in ("MR", "CR", "BigramShift"):
        assert (results.tasks[name]["test"] or 0) > 75
    assert watch.shares[-1] == 1 and results.tasks["SNLI"]["l2"] == 1e-9
    # The generated tasks are smaller than SentEval's, so no score and no average counts as comparable.
    assert not any(record["comparable"] for record in results.tasks.values())
    averages = json.loads((tmp_path / "senteval.json").read_text())["averages"]
    assert averages and all("(" in label for label in averages)


def test_saved_predictions_reproduce_the_scores(data: Path, tmp_path: Path) -> None:
    results = run(data, tmp_path, tasks=[*QUICK, "MRPC", "SNLI", "TREC"])
    for name in ("TREC", "MRPC", "SNLI"):
        with np.load(tmp_path / "predictions" / f"{name}.npz") as saved:
            right = saved["predicted"].argmax(axis=1) == saved["gold"]
        assert round(100 * right.mean(), 2) == results.tasks[name]["test"]
    with np.load(tmp_path / "predictions" / "CR.npz") as saved:
        right = saved["predicted"].argmax(axis=1) == saved["gold"]
        folds = [round(100 * right[saved["fold"] == fold].mean(), 2) for fold in np.unique(saved["fold"])]
    assert len(folds) == 5 and round(np.mean(folds), 2) == results.tasks["CR"]["test"]
    differences = compare_folders(tmp_path, tmp_path)
    assert {task for task, _ in differences} == {*QUICK, "MRPC", "SNLI", "TREC"}
    assert all(difference[:3] == (0, 0, 0) for difference in differences.values())


def test_each_distinct_sentence_is_embedded_once(data: Path, tmp_path: Path) -> None:
    encoder = RecordingEncoder(dimension=4)
    run(data, tmp_path / "a", encoder=encoder, tasks=QUICK, cache=tmp_path / "cache")
    assert len(encoder.embedded) == len({*encoder.embedded}) > 100
    before = len(encoder.embedded)
    run(data, tmp_path / "b", encoder=encoder, tasks=QUICK, cache=tmp_path / "cache")
    assert len(encoder.embedded) == before


def test_an_interrupted_evaluation_resumes_at_the_next_task(data: Path, tmp_path: Path) -> None:
    uninterrupted = run(data, tmp_path / "whole", tasks=QUICK)

    class Interrupting(Watch):
        def begin(self, results: Results, running: Sequence[str], waiting: Sequence[str]) -> None:
            if running == ["STS12"]:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(data, tmp_path / "out", tasks=QUICK, watch=Interrupting())
    assert [*read_results(tmp_path / "out").tasks] == ["CR"]
    watch = RecordingWatch()
    resumed = run(data, tmp_path / "out", tasks=QUICK, watch=watch)
    assert watch.started == QUICK[1:]
    for name in QUICK:
        assert dict(resumed.tasks[name], seconds=0) == dict(uninterrupted.tasks[name], seconds=0)
    extended = run(data, tmp_path / "out", tasks=["TREC"])
    assert {*extended.tasks} == {*QUICK, "TREC"}


def test_tasks_with_changed_files_are_evaluated_again(data: Path, tmp_path: Path) -> None:
    copy = tmp_path / "data"
    shutil.copytree(data, copy)
    run(copy, tmp_path / "out", tasks=["CR"])
    with (copy / "downstream" / TASKS["CR"].files[0]).open("a") as file:
        file.write("the dog sees the good cat .\n")
    watch = RecordingWatch()
    assert run(copy, tmp_path / "out", tasks=["CR"], watch=watch).tasks["CR"]["n_test"] == 61
    assert watch.started == ["CR"]


def test_results_of_another_model_or_protocol_are_not_mixed(data: Path, tmp_path: Path) -> None:
    run(data, tmp_path, tasks=["STS12"])
    with pytest.raises(UserError):
        run(data, tmp_path, encoder=RandomVectors(dimension=8, seed=1), tasks=["STS12"])
    with pytest.raises(UserError):
        run(data, tmp_path, protocol="default", tasks=["STS12"])


def test_tasks_without_files_are_left_out_by_name(data: Path, tmp_path: Path) -> None:
    copy = tmp_path / "data"
    shutil.copytree(data / "downstream" / "STS", copy / "downstream" / "STS")
    results = run(copy, tmp_path / "out")
    assert [*results.tasks] == ["STSBenchmark", *(f"STS{year}" for year in range(12, 17))]
    assert results.missing["MR"] == str(copy / "downstream" / TASKS["MR"].files[0])
    assert len(results.missing) == len(TASKS) - 6
    with pytest.raises(UserError):
        run(tmp_path / "none", tmp_path / "out2")


def test_simcse_trains_nothing_on_sts(data: Path, tmp_path: Path) -> None:
    results = run(data, tmp_path, protocol="simcse", tasks=["STSBenchmark", "STS12"])
    assert results.tasks["STSBenchmark"]["mse"] is None
    spearman = results.tasks["STS12"]["spearman"]
    assert isinstance(spearman, dict) and results.tasks["STS12"]["test"] == spearman["all"]


def test_conssent_tunes_width_and_dropout_only_for_probing(data: Path, tmp_path: Path) -> None:
    results = run(data, tmp_path, protocol="conssent", tasks=["Length", "WordContent", "SST2"])
    assert results.tasks["Length"]["hidden"] in (50, 100, 200)
    assert results.tasks["Length"]["dropout"] in (0.0, 0.1, 0.2)
    assert "hidden" not in results.tasks["WordContent"] and "hidden" not in results.tasks["SST2"]


def test_a_changed_protocol_has_another_name(data: Path, tmp_path: Path) -> None:
    protocol = PROTOCOLS["prototyping"].changed(hidden=6, dropout=0.1, folds=3)
    results = run_tasks(
        lambda pooling: RandomVectors(dimension=8),
        {},
        protocol,
        fingerprint=fingerprint,
        data=data,
        out=tmp_path,
        tasks=["CR", "WordContent"],
    )
    assert results.protocol == results.tasks["CR"]["protocol"] == "prototyping+hidden=6+dropout=0.1+folds=3"
    with np.load(tmp_path / "predictions" / "CR.npz") as saved:
        assert {*saved["fold"]} == {0, 1, 2}
    assert protocol.classifier.hidden == 6 and PROTOCOLS["prototyping"].classifier.hidden == 0


def test_a_hidden_layer_that_is_given_is_not_tuned(data: Path, tmp_path: Path) -> None:
    conssent = PROTOCOLS["conssent"]
    results = run_tasks(
        lambda pooling: RandomVectors(dimension=8),
        {},
        conssent.changed(hidden=6),
        fingerprint=fingerprint,
        data=data,
        out=tmp_path,
        tasks=["Length"],
    )
    assert results.protocol == "conssent+hidden=6" and "hidden" not in results.tasks["Length"]
    assert conssent.changed(folds=3).probing_hidden == conssent.probing_hidden
    assert conssent.changed(dropout=0.0).probing_dropout == (0.0,)


def test_captions_have_no_predictions(data: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        run(data, tmp_path / name, tasks=["ImageCaptionRetrieval", "STS12"])
    assert {task for task, _ in compare_folders(tmp_path / "a", tmp_path / "b")} == {"STS12"}


def test_gensen_takes_the_pooling_that_is_best_on_dev(data: Path, tmp_path: Path) -> None:
    """Pooling "max" opens an encoder of word vectors and "last" one of random vectors, which is worse on dev."""
    encoder_by_pooling: dict[str, BagOfWords | RandomVectors] = {
        "max": BagOfWords(vectors=str(data / "words.txt")),
        "last": RandomVectors(dimension=8),
    }
    by_pooling = {
        pooling: run(data, tmp_path / pooling, "default", encoder, tasks=["CR"]).tasks["CR"]
        for pooling, encoder in encoder_by_pooling.items()
    }
    results = run_tasks(
        lambda pooling: encoder_by_pooling[str(pooling)],
        {"name": "it"},
        PROTOCOLS["gensen"],
        fingerprint=fingerprint,
        data=data,
        out=tmp_path,
        tasks=["CR", "STS12"],
    )
    better = "max" if (by_pooling["max"]["dev"] or 0) >= (by_pooling["last"]["dev"] or 0) else "last"
    assert results.tasks["CR"]["pooling"] == better == "max"
    assert results.tasks["CR"]["test"] == by_pooling["max"]["test"]
    assert results.tasks["STS12"]["pooling"] == "last"  # the last pooling, as STS12 has no dev set


def evaluate(encode: Any, data: Path, **options: Any) -> Results:
    arguments: dict[str, Any] = {"tasks": FEW, "progress": False} | options
    return senteval.evaluate(encode, data=data, protocol="prototyping", **arguments)


def records_without_times(results: Results) -> dict[str, Any]:
    return {name: dict(record, seconds=0) for name, record in results.tasks.items()}


def test_function_object_tensor_and_command_score_alike(data: Path, tmp_path: Path) -> None:
    encoder = RandomVectors(dimension=8)
    expected = records_without_times(
        run_tasks(
            lambda _: encoder,
            {"name": "it"},
            PROTOCOLS["prototyping"],
            fingerprint=lambda _: "it",
            data=data,
            out=tmp_path,
            tasks=FEW,
        )
    )
    assert records_without_times(evaluate(encoder, data)) == expected
    assert (
        records_without_times(evaluate(lambda texts: encoder.encode(texts).astype(np.float64).tolist(), data))
        == expected
    )
    assert (
        records_without_times(
            evaluate(lambda texts: torch.from_numpy(encoder.encode(texts)).requires_grad_(), data)
        )
        == expected
    )


def test_a_folder_holds_the_returned_results_and_is_resumed(data: Path, tmp_path: Path) -> None:
    encoder, encoded = RandomVectors(dimension=8), list[str]()

    def encode(texts: list[str]) -> np.ndarray:
        encoded.extend(texts)
        return encoder.encode(texts)

    first = evaluate(encode, data, out=tmp_path, tasks=["CR"], name="mine")
    assert (
        records_without_times(read_results(tmp_path)) == records_without_times(first)
        and first.model["name"] == "mine"
    )
    encoded.clear()
    resumed = evaluate(encode, data, out=tmp_path, name="mine")
    assert {*resumed.tasks} == {*FEW}
    encoded.clear()
    assert records_without_times(evaluate(encode, data, out=tmp_path, name="mine")) == records_without_times(
        resumed
    )
    assert {*encoded} == {*PROBES}  # no sentence of a task is embedded again
    with pytest.raises(UserError):
        evaluate(RandomVectors(dimension=9), data, out=tmp_path, name="mine")
    assert not (tmp_path / ".evaluation.lock").exists()


def test_undefined_scores_are_none_with_and_without_a_folder(data: Path, tmp_path: Path) -> None:
    def constant(texts: list[str]) -> np.ndarray:
        return np.ones((len(texts), 3))

    kept, returned = (evaluate(constant, data, out=out, tasks=["STS12"], name="x") for out in (tmp_path, None))
    assert records_without_times(kept) == records_without_times(returned)
    assert returned.tasks["STS12"]["test"] is None


def test_results_of_another_encoder_are_not_reused(data: Path, tmp_path: Path) -> None:
    """Rounding errors make no other encoder; a cut input, longer vectors or another name do."""
    encoder, rng = RandomVectors(dimension=32), np.random.default_rng(0)
    evaluate(encoder, data, out=tmp_path, tasks=["CR"], name="mine")

    def rounded(texts: list[str]) -> np.ndarray:
        vectors = encoder.encode(texts)
        return vectors * (1 + 1e-3 * rng.normal(size=vectors.shape))

    def truncated(texts: list[str]) -> np.ndarray:
        return encoder.encode([text[:1000] for text in texts])

    def longer(texts: list[str]) -> np.ndarray:
        return 2 * encoder.encode(texts)

    assert evaluate(rounded, data, out=tmp_path, tasks=["CR"], name="mine").model["name"] == "mine"
    for other, name in ((truncated, "mine"), (longer, "mine"), (encoder, "yours")):
        with pytest.raises(UserError):
            evaluate(other, data, out=tmp_path, tasks=["CR"], name=name)


@pytest.mark.parametrize("change", [{"signature": "abc"}, {"signature": {"a": 1}}, {"fingerprint": None}], ids=str)
def test_results_with_a_damaged_mark_are_another_models(
    data: Path, tmp_path: Path, change: dict[str, Any]
) -> None:
    evaluate(RandomVectors(dimension=8), data, out=tmp_path, tasks=["STS12"], name="x")
    kept = json.loads((tmp_path / "senteval.json").read_text())
    (tmp_path / "senteval.json").write_text(json.dumps(kept | {"model": kept["model"] | change}))
    with pytest.raises(UserError):
        evaluate(RandomVectors(dimension=8, seed=7), data, out=tmp_path, tasks=["STS12"], name="x")


def test_a_list_of_tensors_and_a_name_that_is_a_path_are_taken(data: Path) -> None:
    encoder = RandomVectors(dimension=8)

    def tensors(texts: list[str]) -> list[torch.Tensor]:
        return [torch.tensor(row, requires_grad=True) for row in encoder.encode(texts)]

    found = evaluate(tensors, data, tasks=["STS12"], name=Path("a/b"))
    assert found.scores == evaluate(encoder, data, tasks=["STS12"]).scores and found.model["name"] == "a/b"


def test_results_print_convert_and_compare(data: Path, tmp_path: Path) -> None:
    one, other = (
        evaluate(RandomVectors(dimension=8), data),
        evaluate(RandomVectors(dimension=16), data, name="wide"),
    )
    assert {*one.scores} >= {"CR", "STS12", "MRPC", "MRPC.f1"}
    assert f"{one.scores['CR']:.2f}" in str(one) and "SentEval: RandomVectors (prototyping)" in str(one)
    assert json.loads(json.dumps(one.to_dict()))["tasks"]["CR"]["test"] == one.scores["CR"]
    text = one.to_csv(tmp_path / "scores.csv")
    assert (tmp_path / "scores.csv").read_text() == text
    rows = {row["task"]: (row["metric"], row["score"]) for row in csv.DictReader(io.StringIO(text))}
    assert rows["MRPC.f1"] == ("F1", f"{one.scores['MRPC.f1']:.2f}")
    assert rows["MRPC"][0] == "accuracy" and rows["STS12"][0] == "mean Spearman"
    compared = one.compare(other)
    assert compared.differences["CR"] == (one.scores["CR"] or 0) - (other.scores["CR"] or 0)
    assert "wide" in str(compared) and f"{compared.differences['CR']:+.2f}" in str(compared)
    with pytest.raises(UserError):
        one.compare(Results("default", {}))
    with pytest.raises(UserError):
        one.compare(Results("prototyping", {}))


@pytest.mark.parametrize(
    ("encode", "options", "key"),
    [
        pytest.param(lambda texts: np.zeros(len(texts)), {}, "encode", id="numbers instead of vectors"),
        pytest.param(lambda texts: np.zeros((2, 3)), {}, "encode", id="wrong number of vectors"),
        pytest.param(
            lambda texts: np.zeros((len(texts), len(texts))), {}, "encode", id="dimension changes between calls"
        ),
        pytest.param(lambda texts: np.full((len(texts), 3), np.nan), {}, "", id="NaN"),
        pytest.param(
            lambda texts: [[0.0] * len(text) for text in texts], {}, "encode", id="vectors of different lengths"
        ),
        pytest.param(lambda texts: np.zeros((len(texts), 0)), {}, "encode", id="vectors without numbers"),
        pytest.param(lambda texts: csr_matrix(np.ones((len(texts), 3))), {}, "encode", id="sparse matrix"),
        pytest.param(lambda texts: None, {}, "encode", id="no return value"),
        pytest.param("all-MiniLM-L6-v2", {}, "encode", id="model name instead of an encoder"),
        pytest.param(RandomVectors(), {"device": "auto"}, "device=auto", id="unknown device"),
        pytest.param(RandomVectors(), {"tasks": "STSB"}, "tasks", id="unknown task"),
        pytest.param(RandomVectors(), {"tasks": ["STSB"]}, "tasks", id="unknown task in a list"),
        pytest.param(RandomVectors(), {"tasks": [3]}, "tasks", id="number of a task"),
        pytest.param(RandomVectors(), {"protocol": "defualt"}, "protocol=defualt", id="unknown protocol"),
        pytest.param(RandomVectors(), {"protocol": "gensen"}, "protocol=gensen", id="protocol with poolings"),
        pytest.param(RandomVectors(), {"data": "no/such"}, "data=no/such", id="missing data folder"),
    ],
)
def test_mistakes_are_one_line(data: Path, encode: Any, options: dict[str, Any], key: str) -> None:
    with pytest.raises(UserError) as error:
        arguments: dict[str, Any] = {"data": data, "tasks": FEW, "progress": False} | options
        senteval.evaluate(encode, **arguments)
    assert error.value.key == key and "\n" not in str(error.value)


def test_progress_is_shown(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evaluate(RandomVectors(dimension=8), data, progress=True)
    shown = capsys.readouterr()
    assert shown.out == "" and [line.split()[0] for line in shown.err.splitlines()] == FEW


def test_tasks_and_protocols_are_read_without_heavy_imports() -> None:
    code = "import sys, analysis.senteval.protocols; assert not {'torch', 'rich'} & {*sys.modules}"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_callable_gets_lists_of_str(data: Path) -> None:
    types: set[type] = set()

    def encode(texts: Sequence[str]) -> np.ndarray:
        types.update({type(texts), *map(type, texts)})
        return RandomVectors(dimension=4).encode(list(texts))

    evaluate(encode, data, tasks=["CR"])
    assert types == {list, str}


@pytest.mark.slow
def test_scores_of_whole_tasks_equal_those_of_the_toolkit(tmp_path: Path) -> None:
    data = suite_data("senteval")
    encoder = encoders.load(minilm())
    for protocol, tasks in TOOLKIT.items():
        results = run_tasks(
            lambda _: encoder,
            {"name": "MiniLM"},
            PROTOCOLS[protocol],
            fingerprint=fingerprint,
            data=data,
            out=tmp_path / protocol,
            tasks=list(tasks),
            cache=tmp_path / "vectors",
        )
        for task, scores in tasks.items():
            found = dict(results.tasks[task])
            assert {name: found[name] for name in scores} == scores
