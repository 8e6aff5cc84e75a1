"""Components of a run: loaders of several tasks, warm starts of several encoders, and their learning rates."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

import encoders
from data.batch import Batch
from data.errors import UnfitError, UserError
from data.loader import MultiTaskLoader
from data.selection import Selection
from encoders.concatenated import Concatenated
from experiments import building, compose, experiment
from experiments.building import Parts
from objectives.base import Requirements, TaskData
from tests.data.samples import FORMAT, Cut
from tests.encoders.bilstms import tiny as bilstm
from tests.experiments import tiny

UNITS = [np.arange(100 * i, 100 * i + 50) for i in range(20)]


def test_tasks_see_the_same_text_in_another_order_and_with_other_random_numbers() -> None:
    def rows(batch: Batch) -> list[list[int]]:
        return sorted(batch.tokens["cut"].ids.tolist())

    task = Cut()
    task.batch_size, task.least_batch = 10, 2  # type: ignore[attr-defined]
    objective = SimpleNamespace(
        tasks={"a": task, "b": task},
        task_at=lambda step, seed: "ab"[step % 2],
        own_data=dict,
        requirements=Requirements(),
    )
    all_documents = Selection(np.arange(20), {})
    task_data = dict.fromkeys("ab", TaskData(cast(Any, UNITS), all_documents, all_documents))
    encoder = SimpleNamespace(format=FORMAT)
    batches = Parts(*cast(Any, (None, encoder, objective, None, task_data, "untrained", ""))).batches("train", 1)
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
        overrides = ("objective.k=2", "budget.steps=2", *more, f"run_dir={tmp_path / name}")
        return experiment.run(compose.check(tiny.conssent(tmp_path, *overrides, objective=objective)))

    first = train("first")
    assert "conssent_mt · bilstm_max · text (weights: random)" in capsys.readouterr().out
    second = train("second", f"warm_start={first}")
    line = f"warm start  continues the 2 encoders of {first}, sizes and words included; weights taken over by the "
    assert f"{line}objective: heads.D." in capsys.readouterr().out
    encoder = encoders.load(second / "encoder")
    assert isinstance(encoder, Concatenated) and [member.dimension for member in encoder.members] == [12, 12]
    assert f"continued from {first / 'encoder'}" in encoder.origin
    alone = train("alone", objective="conssent")
    with pytest.raises(UserError) as error:
        train("third", f"warm_start={alone}")
    assert str(error.value) == (
        f"warm_start: {alone / 'encoder'} must hold 2 concatenated encoders, which this objective trains beside "
        "each other. Got BiLSTMMax instead."
    )
    assert not (tmp_path / "third").exists()
    with pytest.raises(UserError) as error:
        train("fourth", f"warm_start={first}", objective="conssent")
    first_encoder = f"encoder.path={first / 'encoder' / 'encoder_1'}"
    assert str(error.value) == (
        f"warm_start={first} holds several encoders side by side, and this objective trains one: "
        f"encoder=concatenated continues all of them, {first_encoder} in place of warm_start= the first."
    )
    continued = train("fourth", first_encoder, objective="conssent")
    assert encoders.load(continued / "encoder").dimension == 12


def test_missing_word_order_is_reported_before_a_missing_mask_token(tmp_path: Path) -> None:
    """The message about the mask token advises another weight of the loss, which would not help here."""
    (tmp_path / "words.txt").write_text("a 1 2\nb 2 1\n")
    common = [
        text for text in tiny.overrides(tmp_path) if not text.startswith(("encoder", "weights", "objective"))
    ]
    overrides = [*common, "objective=sop", "encoder=bag_of_words", f"encoder.vectors={tmp_path / 'words.txt'}"]
    with pytest.raises(UnfitError, match=r"word order, which the encoder does not read \(bag_of_words\): choose"):
        experiment.run(compose.check([*overrides, f"run_dir={tmp_path / 'run'}"]))


def test_another_number_of_encoders_is_refused(tmp_path: Path) -> None:
    Concatenated([bilstm(), bilstm(), bilstm()]).save(tmp_path / "three")
    with pytest.raises(UserError, match=r"must hold 2 concatenated encoders, .* Got 3 of them instead\.$"):
        building._concatenated(str(tmp_path / "three"), 2)
    assert len(building._concatenated(str(tmp_path / "three"), 3).members) == 3


def gensen(folder: Path, *more: str) -> list[str]:
    """Returns the overrides of a GenSen run that trains a GRU on synthetic French pairs, not on the corpus."""
    settings = ("objective.tasks=[fr]", "objective.word_size=4", "objective.synthetic_pairs=300", "budget.steps=2")
    common = [text for text in tiny.conssent(folder, objective="gensen") if "encoder=" not in text]
    return [*common, "encoder=gru", *settings, *more]


@pytest.mark.usefixtures("without_plots")
def test_a_second_continuation_takes_the_rate_of_published_weights(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def rate(name: str, *more: str) -> str:
        common = [text for text in tiny.overrides(tmp_path) if not text.startswith("optimizer.lr")]
        overrides = [*common, "budget.steps=1", *more, f"run_dir={tmp_path / name}"]
        experiment.run(compose.check(overrides))
        return next(line for line in capsys.readouterr().out.splitlines() if line.startswith("optimizer"))

    assert rate("drawn").endswith("0.0005 (optimizer.lr_untrained: the weights are drawn at random)")
    warm = [f"warm_start={tmp_path / name}" for name in ("drawn", "first")]
    reason = f"{tmp_path / 'drawn'} began with random weights, and this is its first continuation"
    assert rate("first", warm[0]).endswith(f"0.0005 (optimizer.lr_bundled: {reason})")
    reason = f"{tmp_path / 'first'} did not begin with random weights, or was a continuation itself"
    assert rate("second", warm[1]).endswith(f"5e-05 (optimizer.lr_trained: {reason})")
    assert rate("chosen", warm[1], "optimizer.lr=1e-3").endswith("0.001 (optimizer.lr)")


@pytest.mark.usefixtures("without_plots")
def test_the_vocabulary_is_built_from_the_tasks_data(tmp_path: Path) -> None:
    first = experiment.run(compose.check(gensen(tmp_path, f"run_dir={tmp_path / 'first'}")))
    vocabulary = encoders.load(first / "encoder").tokenizer.get_vocab()
    assert "dog" in vocabulary and not {"bad", "baf", "ked", "lig"} & {*vocabulary}  # words of the corpus
    scores = json.loads((first / "quick.json").read_text())
    assert scores["start"]["dev_fr_unigram"] == scores["trained"]["dev_fr_unigram"] < scores["start"]["dev_fr"]
    journal = [json.loads(line) for line in (first / "metrics.jsonl").read_text().splitlines()]
    measured = next(line for line in reversed(journal) if "dev_fr" in line)
    assert measured["dev_fr_perplexity"] == pytest.approx(math.exp(measured["dev_fr"]))
    assert 0 <= measured["dev_fr_accuracy"] <= 1 and any("fr" in line for line in journal)


@pytest.mark.usefixtures("without_plots")
def test_too_few_pairs_name_their_task_and_key(tmp_path: Path) -> None:
    (tmp_path / "fr.tsv").write_text("".join(f"dog {i}\tchien {i}\n" for i in range(20)))
    for more, ending in (
        (["objective.synthetic_pairs=30", "objective.min_count=1"], "or raise objective.synthetic_pairs."),
        (
            [f"objective.fr={{tsv: {tmp_path / 'fr.tsv'}, dev_fraction: 0.2}}"],
            "or take more pairs (objective.fr).",
        ),
    ):
        with pytest.raises(UserError, match=r" pairs of fr for a batch: .* Write objective\.batch_size=") as error:
            experiment.run(compose.check(gensen(tmp_path, *more, f"run_dir={tmp_path / 'run'}")))
        assert str(error.value).endswith(ending)
    assert (
        building._more("objective.fr", {}, "dev")
        == "raise objective.fr.dev_fraction, or name held-out pairs there"
    )
