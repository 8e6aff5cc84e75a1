"""Components of a run: loaders of several tasks, warm starts of several encoders, and their learning rates."""

from __future__ import annotations

import math
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

import encoders
from data.batch import Batch
from data.errors import UserError
from data.files import read_json
from data.loader import MultiTaskLoader
from data.store import Selection
from encoders.concatenated import Concatenated
from experiments.building import Parts
from objectives.base import Requirements, TaskData
from tests.data.samples import FORMAT, Cut
from tests.experiments import tiny

UNITS = [np.arange(100 * i, 100 * i + 50) for i in range(20)]


def test_tasks_see_the_same_text_in_another_order_and_with_other_random_numbers() -> None:
    def rows(batch: Batch) -> list[list[int]]:
        return sorted(batch.tokens["cut"].ids.tolist())

    task = Cut()
    task.batch_size = 10  # type: ignore[attr-defined]
    objective = SimpleNamespace(
        tasks={"a": task, "b": task},
        task_at=lambda step, seed: "ab"[step % 2],
        own_data=dict,
        requirements=Requirements(),
    )
    all_documents = Selection(np.arange(20), {})
    task_data = dict.fromkeys("ab", TaskData(cast(Any, UNITS), all_documents, all_documents))
    encoder = SimpleNamespace(format=FORMAT)
    batches = Parts(*cast(Any, (None, encoder, objective, None, task_data))).batches("train", 1)
    assert isinstance(batches, MultiTaskLoader)
    a, b = (
        sorted(rows(batches.batch(step)) + rows(batches.batch(step + 2))) for step in (0, 1)
    )  # one epoch of each task
    assert [row[0] // 100 for row in a] == [row[0] // 100 for row in b] == list(range(20))
    assert sum(row_a[-1] == row_b[-1] for row_a, row_b in zip(a, b, strict=True)) < 3
    assert [row[0] // 100 for row in rows(batches.batch(0))] != [row[0] // 100 for row in rows(batches.batch(1))]
    held_out = batches.fixed(1)
    assert rows(held_out[0]) != rows(held_out[1])


@pytest.mark.usefixtures("without_plots")
def test_concatenated_encoders_can_be_warm_started(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def train(name: str, *more: str) -> Path:
        common = tiny.conssent(tmp_path, "objective.k=2", "budget.steps=2", *more, objective="conssent_mt")
        if more:  # the encoder is that of the run that it starts from
            common = [text for text in common if not text.startswith("encoder")]
        return tiny.train(tiny.check([*common, f"run_dir={tmp_path / name}"]))

    first = train("first")
    assert "conssent_mt · bilstm_max · text" in capsys.readouterr().out
    second = train("second", f"warm_start={first}")
    assert "weights of the objective: heads.D." in capsys.readouterr().out
    encoder = encoders.load(second / "encoder")
    assert isinstance(encoder, Concatenated) and [member.dimension for member in encoder.members] == [12, 12]
    assert f"continued from {first / 'encoder'}" in encoder.origin


def gensen(folder: Path, *more: str) -> list[str]:
    """Returns the overrides of a GenSen run that trains a GRU on synthetic French pairs, not on the corpus."""
    settings = ("objective.tasks=[fr]", "objective.word_size=4", "objective.synthetic_pairs=300", "budget.steps=2")
    common = [text for text in tiny.conssent(folder, objective="gensen") if "encoder=" not in text]
    return [*common, "encoder=gru", *settings, *more]


@pytest.mark.usefixtures("without_plots")
def test_the_vocabulary_is_built_from_the_tasks_data(tmp_path: Path) -> None:
    first = tiny.train(tiny.check(gensen(tmp_path, f"run_dir={tmp_path / 'first'}")))
    vocabulary = encoders.load(first / "encoder").tokenizer.get_vocab()
    assert "dog" in vocabulary and not {"bad", "baf", "ked", "lig"} & {*vocabulary}  # words of the corpus
    scores = read_json(first / "quick.json")
    assert scores["start"]["dev_fr_unigram"] == scores["trained"]["dev_fr_unigram"] < scores["start"]["dev_fr"]
    journal = tiny.metrics(first)
    measured = next(line for line in reversed(journal) if "dev_fr" in line)
    assert measured["dev_fr_perplexity"] == pytest.approx(math.exp(measured["dev_fr"]))
    assert 0 <= measured["dev_fr_accuracy"] <= 1 and any("fr" in line for line in journal)


def test_a_short_text_is_refused_with_the_length_that_is_needed(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"longest has \d+ tokens, 5,000") as error:
        tiny.run(tmp_path, "objective.min_tokens=5000", f"run_dir={tmp_path / 'run'}")
    assert error.value.key == "corpus"
    with pytest.raises(UserError) as error:
        tiny.train(tiny.check(gensen(tmp_path, "objective.synthetic_pairs=30", "objective.min_count=1")))
    assert error.value.key == "objective.synthetic_pairs"


def test_a_resumed_run_needs_the_same_text(tmp_path: Path) -> None:
    run = tiny.run(tmp_path, "budget.steps=2", f"run_dir={tmp_path / 'run'}")
    shutil.rmtree(run / "encoder")
    (tmp_path / "corpus.jsonl").write_text((tmp_path / "corpus.jsonl").read_text().replace("ba", "be"))
    with pytest.raises(UserError) as error:
        tiny.resume(run, tmp_path / "cache")
    assert error.value.key == "resume: store"
