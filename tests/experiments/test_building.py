"""Components of a run: loaders of several tasks, the vocabulary, and the text of a resumed run."""

from __future__ import annotations

import math
import shutil
from pathlib import Path

import pytest

import encoders
from data.errors import UserError
from data.files import read_json
from tests.checks.pairs import open_parts
from tests.experiments import tiny


def test_each_task_has_its_own_stream_of_random_numbers(small_files: Path) -> None:
    loaders = open_parts(small_files, "conssent_mt", "bilstm_max").loaders("train", 1, 0, 1)
    assert sorted(loader.stream for loader in loaders.values()) == [*range(6)]


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


def test_a_resumed_run_needs_the_same_text(tmp_path: Path) -> None:
    run = tiny.run(tmp_path, "budget.steps=2", f"run_dir={tmp_path / 'run'}")
    shutil.rmtree(run / "encoder")
    (tmp_path / "corpus.jsonl").write_text((tmp_path / "corpus.jsonl").read_text().replace("ba", "be"))
    with pytest.raises(UserError) as error:
        tiny.resume(run, tmp_path / "cache")
    assert error.value.key == "resume: store"
