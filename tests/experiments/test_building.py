"""Components of a run: loaders of several tasks, warm starts of several encoders, and their learning rates."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

import encoders
from data.batch import Batch
from data.errors import UnfitError, UserError
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
    def train(name: str, *more: str, objective: str = "conssent_mt") -> Path:
        common = tiny.conssent(tmp_path, "objective.k=2", "budget.steps=2", *more, objective=objective)
        if more:  # the encoder is that of the run that it starts from
            common = [text for text in common if not text.startswith("encoder")]
        return tiny.train(tiny.check([*common, f"run_dir={tmp_path / name}"]))

    first = train("first")
    assert "conssent_mt · bilstm_max · text (weights: random)" in capsys.readouterr().out
    second = train("second", f"warm_start={first}")
    assert "weights of the objective: heads.D." in capsys.readouterr().out
    encoder = encoders.load(second / "encoder")
    assert isinstance(encoder, Concatenated) and [member.dimension for member in encoder.members] == [12, 12]
    assert f"continued from {first / 'encoder'}" in encoder.origin
    alone = train("alone", objective="conssent")
    with pytest.raises(UserError, match="warm_start"):
        train("third", f"warm_start={alone}")
    assert not (tmp_path / "third").exists()


def test_missing_word_order_is_reported_before_a_missing_mask_token(tmp_path: Path) -> None:
    """The message about the mask token advises another weight of the loss, which would not help here."""
    (tmp_path / "words.txt").write_text("a 1 2\nb 2 1\n")
    common = [
        text for text in tiny.overrides(tmp_path) if not text.startswith(("encoder", "weights", "objective"))
    ]
    overrides = [*common, "objective=sop", "encoder=bag_of_words", f"encoder.vectors={tmp_path / 'words.txt'}"]
    with pytest.raises(UnfitError, match="word order"):
        tiny.train(tiny.check([*overrides, f"run_dir={tmp_path / 'run'}"]))


def gensen(folder: Path, *more: str) -> list[str]:
    """Returns the overrides of a GenSen run that trains a GRU on synthetic French pairs, not on the corpus."""
    settings = ("objective.tasks=[fr]", "objective.word_size=4", "objective.synthetic_pairs=300", "budget.steps=2")
    common = [text for text in tiny.conssent(folder, objective="gensen") if "encoder=" not in text]
    return [*common, "encoder=gru", *settings, *more]


@pytest.mark.usefixtures("without_plots")
def test_the_rate_follows_the_kind_of_weights(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def rate(name: str, *overrides: str) -> str:
        dropped = ("optimizer.lr", "encoder", "weights")
        common = [text for text in tiny.overrides(tmp_path) if not text.startswith(dropped)]
        tiny.train(tiny.check([*common, "budget.steps=1", *overrides, f"run_dir={tmp_path / name}"]))
        return next(line for line in capsys.readouterr().out.splitlines() if line.startswith("optimizer"))

    own = [text for text in tiny.overrides(tmp_path) if text.startswith(("encoder", "weights"))]
    assert rate("random", *own).endswith("0.0005 (optimizer.lr_untrained)")
    assert rate("warm", f"warm_start={tmp_path / 'random'}").endswith("0.0005 (optimizer.lr_bundled)")
    assert rate("chosen", *own, "optimizer.lr=1e-3").endswith("0.001 (optimizer.lr)")
    shutil.rmtree(tmp_path / "random" / "encoder")
    tiny.train(tiny.check([f"resume={tmp_path / 'random'}", f"cache={tmp_path / 'cache'}"]))
    assert "0.0005" in (output := capsys.readouterr().out) and "optimizer.lr" not in output


@pytest.mark.usefixtures("without_plots")
def test_the_vocabulary_is_built_from_the_tasks_data(tmp_path: Path) -> None:
    first = tiny.train(tiny.check(gensen(tmp_path, f"run_dir={tmp_path / 'first'}")))
    vocabulary = encoders.load(first / "encoder").tokenizer.get_vocab()
    assert "dog" in vocabulary and not {"bad", "baf", "ked", "lig"} & {*vocabulary}  # words of the corpus
    scores = json.loads((first / "quick.json").read_text())
    assert scores["start"]["dev_fr_unigram"] == scores["trained"]["dev_fr_unigram"] < scores["start"]["dev_fr"]
    journal = [json.loads(line) for line in (first / "metrics.jsonl").read_text().splitlines()]
    measured = next(line for line in reversed(journal) if "dev_fr" in line)
    assert measured["dev_fr_perplexity"] == pytest.approx(math.exp(measured["dev_fr"]))
    assert 0 <= measured["dev_fr_accuracy"] <= 1 and any("fr" in line for line in journal)


def test_a_short_text_is_refused_with_the_length_that_is_needed(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"longest has \d+ tokens, 5,000") as error:
        tiny.run(tmp_path, "objective.min_tokens=5000", f"run_dir={tmp_path / 'run'}")
    assert error.value.key == "corpus" and "budget.min_tokens" in error.value.hint
    with pytest.raises(UserError) as error:
        tiny.train(tiny.check(gensen(tmp_path, "objective.synthetic_pairs=30", "objective.min_count=1")))
    assert error.value.key == "objective.synthetic_pairs"


def test_a_resumed_run_needs_the_same_text(tmp_path: Path) -> None:
    run = tiny.run(tmp_path, "budget.steps=2", f"run_dir={tmp_path / 'run'}")
    shutil.rmtree(run / "encoder")
    (tmp_path / "corpus.jsonl").write_text((tmp_path / "corpus.jsonl").read_text().replace("ba", "be"))
    with pytest.raises(UserError) as error:
        tiny.train(tiny.check([f"resume={run}", f"cache={tmp_path / 'cache'}"]))
    assert error.value.key == "resume: store"
