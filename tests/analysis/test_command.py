"""What the evaluations share: how models are named and opened, vectors kept, results written."""

from __future__ import annotations

import json
from argparse import ArgumentTypeError
from pathlib import Path
from typing import get_args, get_type_hints

import numpy as np
import pytest
import torch

from analysis import command
from analysis.command import Model, opened, parser, positive, whole, write
from data.errors import UserError
from encoders.random_vectors import RandomVectors
from experiments.settings import EvaluationSettings
from tests.encoders.models import tiny


def test_models_are_opened_and_named(tmp_path: Path) -> None:
    run = tmp_path / "runs" / "declutr-1"
    tiny().save(run / "encoder")
    (run / "config.yaml").write_text("")
    given = parser("x", "", several=True).parse_args(["a", "--no-cache"])
    for name in (run, run / "encoder"):
        model = opened(str(name), given)
        assert model.name == "declutr-1" and not model.encoder.training  # type: ignore[union-attr]
    (run / "config.yaml").unlink()
    alone = opened(str(run / "encoder"), given)
    assert alone.name == "declutr-1/encoder"
    assert alone.facts()["fingerprint"] == model.facts()["fingerprint"]
    maximum = parser("x", "", several=True).parse_args(["a", "--no-cache", "--pooling", "max"])
    assert opened(str(run / "encoder"), maximum).name == "declutr-1/encoder, max"


def test_what_evaluate_takes_is_taken(tmp_path: Path) -> None:
    texts, vectors = tmp_path / "texts.txt", tmp_path / "vectors.txt"
    texts.write_text("the cat\nthe dog\nthe the dog\n")
    vectors.write_text("the 1 2\ncat 3 4\ndog -1 1\n")
    words = ["bag_of_words", "--no-cache", "--word-vectors", str(vectors)]
    plain = opened("bag_of_words", parser("x", "", several=True).parse_args(words))
    given = parser("x", "", several=True).parse_args([*words, "--weighting", "tfidf", "--counts", str(texts)])
    weighted = opened("bag_of_words", given)
    assert weighted.name == "bag_of_words, vectors, tfidf of texts"
    assert not np.allclose(weighted.rows(["the cat"]), plain.rows(["the cat"]))
    given.counts = None
    with pytest.raises(UserError, match=r"^--weighting tfidf needs --counts: .* one sentence per line\.$"):
        opened("bag_of_words", given)
    own = next(action for action in parser("x", "", several=True)._actions if action.dest == "pooling")
    [asked, _] = get_args(get_type_hints(EvaluationSettings)["pooling"])
    assert own.choices == get_args(asked)


def test_vectors_are_kept(tmp_path: Path) -> None:
    class Counting(RandomVectors):
        asked = 0

        def encode(self, sentences, **options):  # type: ignore[no-untyped-def]
            self.asked += len(sentences)
            return super().encode(sentences, **options)

    encoder = Counting(dimension=3)
    model = Model("m", encoder, tmp_path)
    first = model.rows(["a", "b", "a"])
    np.testing.assert_array_equal(model.rows(["b", "a", "b"]), first[[1, 0, 1]])
    assert encoder.asked == 2


def test_results_are_whole_or_not_there(tmp_path: Path) -> None:
    out = tmp_path / "new" / "x.json"
    write(out, {"a": 1})
    assert json.loads(out.read_text()) == {"a": 1} and [path.name for path in out.parent.iterdir()] == ["x.json"]
    write(None, {"a": 1})
    with pytest.raises(UserError, match="cannot be written"):
        write(out / "below", {})


def test_numbers_are_checked() -> None:
    assert positive("3") == 3 and whole("0") == 0
    for check, text in ((positive, "0"), (positive, "1.5"), (whole, "-1"), (whole, "x")):
        with pytest.raises(
            ArgumentTypeError, match=rf"must be a whole number of at least \d\. Got {text} instead"
        ):
            check(text)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_refused() -> None:
    with pytest.raises(UserError, match="device cuda: there is none here"):
        command.device("cuda")
    assert command.device("auto") == "cpu"


def test_long_work_tells_how_far_it_is_without_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = iter([0.0, 0.0, 5.0, 12.0, 12.0, 15.0, 25.0, 25.0, 40.0])
    monkeypatch.setattr(command.time, "monotonic", lambda: next(now))
    with command.bar("embedding, it") as progress:
        for share in (0.1, 0.25, 0.3, 0.5, 1.0):
            progress(share)
    assert capsys.readouterr().err.splitlines() == [
        "embedding, it 25%  about 0:00:36 left in all",
        "embedding, it 50%  about 0:00:25 left in all",
    ]
