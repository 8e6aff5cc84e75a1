"""``senteval.evaluate``: equal to the command's scores, any callable, what it prints, what it refuses."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from analysis import senteval
from analysis.senteval.api import PROBES
from analysis.senteval.evaluation import run_tasks
from analysis.senteval.protocols import PROTOCOLS
from analysis.senteval.results import Results, read_results
from data.errors import UserError
from encoders.random_vectors import RandomVectors
from tests.analysis.senteval import small_data

TASKS = ["CR", "STS12", "MRPC"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_data.folder(tmp_path_factory.mktemp("senteval"))


def evaluate(encode: Any, data: Path, **options: Any) -> Results:
    given: dict[str, Any] = {"tasks": TASKS, "progress": False} | options
    return senteval.evaluate(encode, data=data, protocol="prototyping", **given)


def plain(results: Results) -> dict[str, Any]:
    return {name: dict(record, seconds=0) for name, record in results.tasks.items()}


def test_function_object_tensor_and_command_score_alike(data: Path, tmp_path: Path) -> None:
    encoder = RandomVectors(dimension=8)
    expected = plain(
        run_tasks(
            lambda _: encoder,
            {"name": "it"},
            PROTOCOLS["prototyping"],
            fingerprint=lambda _: "it",
            data=data,
            out=tmp_path,
            tasks=TASKS,
        )
    )
    assert plain(evaluate(encoder, data)) == expected
    assert plain(evaluate(lambda texts: encoder.encode(texts).astype(np.float64).tolist(), data)) == expected
    assert (
        plain(evaluate(lambda texts: torch.from_numpy(encoder.encode(texts)).requires_grad_(), data)) == expected
    )


def test_a_folder_holds_what_is_returned_and_goes_on(data: Path, tmp_path: Path) -> None:
    encoder, seen = RandomVectors(dimension=8), list[str]()

    def encode(texts: list[str]) -> np.ndarray:
        seen.extend(texts)
        return encoder.encode(texts)

    first = evaluate(encode, data, out=tmp_path, tasks=["CR"], name="mine")
    assert plain(read_results(tmp_path)) == plain(first) and first.model["name"] == "mine"
    seen.clear()
    both = evaluate(encode, data, out=tmp_path, name="mine")
    assert {*both.tasks} == {*TASKS}
    seen.clear()
    assert plain(evaluate(encode, data, out=tmp_path, name="mine")) == plain(both)
    assert {*seen} == {*PROBES}  # nothing is embedded again
    with pytest.raises(UserError, match="another model"):
        evaluate(RandomVectors(dimension=9), data, out=tmp_path, name="mine")
    assert not (tmp_path / ".evaluation.lock").exists()


def test_results_are_of_the_encoder_that_made_them(data: Path, tmp_path: Path) -> None:
    """Rounding, as of another machine, is the same encoder; another window or another name is another one."""
    encoder, rng = RandomVectors(dimension=32), np.random.default_rng(0)
    evaluate(encoder, data, out=tmp_path, tasks=["CR"], name="mine")

    def rounded(texts: list[str]) -> np.ndarray:
        vectors = encoder.encode(texts)
        return vectors * (1 + 1e-3 * rng.normal(size=vectors.shape))

    def cut(texts: list[str]) -> np.ndarray:
        return encoder.encode([text[:1000] for text in texts])

    assert evaluate(rounded, data, out=tmp_path, tasks=["CR"], name="mine").model["name"] == "mine"
    for other, name in ((cut, "mine"), (encoder, "yours")):
        with pytest.raises(UserError, match="another model"):
            evaluate(other, data, out=tmp_path, tasks=["CR"], name=name)


def test_nothing_is_written_through_a_link(data: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out/predictions").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError, match="predictions"):
        evaluate(RandomVectors(dimension=8), data, out=tmp_path / "out")
    assert not [*(tmp_path / "elsewhere").iterdir()]


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
    rows = {row["task"]: row["score"] for row in csv.DictReader(io.StringIO(text))}
    assert rows["MRPC.f1"] == f"{one.scores['MRPC.f1']:.2f}"
    found = one.compare(other)
    assert found.differences["CR"] == (one.scores["CR"] or 0) - (other.scores["CR"] or 0)
    assert "wide" in str(found) and f"{found.differences['CR']:+.2f}" in str(found)
    with pytest.raises(UserError, match="cannot be compared"):
        one.compare(Results("default", {}))
    with pytest.raises(UserError, match="no task in common"):
        one.compare(Results("prototyping", {}))


@pytest.mark.parametrize(
    ("encode", "options", "message"),
    [
        (
            lambda texts: np.zeros(len(texts)),
            {},
            "encode must return numbers of shape (4, D) for 4 sentences. Got",
        ),
        (lambda texts: np.zeros((2, 3)), {}, "encode must return numbers of shape (4, D) for 4 sentences. Got"),
        (lambda texts: np.zeros((len(texts), len(texts))), {}, "encode returned vectors of 4 numbers, then of"),
        (lambda texts: np.full((len(texts), 3), np.nan), {}, "has no finite vector"),
        (lambda texts: [[0.0] * len(text) for text in texts], {}, "encode must return numbers of shape (4, D)"),
        (lambda texts: np.zeros((len(texts), 0)), {}, "encode must return numbers of shape (4, D)"),
        (RandomVectors(), {"device": "auto"}, "device=auto: there is none here; device='cpu' always works."),
        (RandomVectors(), {"tasks": "STSB"}, "tasks: there is no task 'STSB'; did you mean STSBenchmark?"),
        ("all-MiniLM-L6-v2", {}, "encode must be a function or have a method encode. Got str instead:"),
        (RandomVectors(), {"protocol": "defualt"}, "protocol=defualt: no such protocol."),
        (RandomVectors(), {"protocol": "gensen"}, "protocol=gensen chooses among poolings"),
        (RandomVectors(), {"tasks": ["STSB"]}, "tasks: there is no task 'STSB'; did you mean STSBenchmark?"),
        (RandomVectors(), {"data": "no/such"}, "data=no/such: there is no such folder."),
    ],
)
def test_mistakes_are_one_line(data: Path, encode: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as error:
        given: dict[str, Any] = {"data": data, "tasks": TASKS, "progress": False} | options
        senteval.evaluate(encode, **given)
    assert message in str(error.value) and "\n" not in str(error.value)


def test_progress_is_shown(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evaluate(RandomVectors(dimension=8), data, progress=True)
    shown = capsys.readouterr()
    assert shown.out == "" and [line.split()[0] for line in shown.err.splitlines()] == TASKS


def test_tasks_and_protocols_are_read_without_heavy_imports() -> None:
    code = "import sys, analysis.senteval.protocols; assert not {'torch', 'rich'} & {*sys.modules}"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_vectors_are_asked_for_in_lists_of_str(data: Path) -> None:
    kinds: set[type] = set()

    def encode(texts: Sequence[str]) -> np.ndarray:
        kinds.update({type(texts), *map(type, texts)})
        return RandomVectors(dimension=4).encode(list(texts))

    evaluate(encode, data, tasks=["CR"])
    assert kinds == {list, str}
