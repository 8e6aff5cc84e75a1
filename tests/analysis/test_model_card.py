"""SentEval scores on a model card: metadata for the hub, tables for readers, and text that is kept."""

from __future__ import annotations

from operator import attrgetter
from pathlib import Path

import pytest
from huggingface_hub import ModelCard

from analysis.model_card import add_scores
from tests.analysis.senteval.example_results import record, results

CARD = """---
license: mit
model-index:
- name: mine
  results:
  - task: {type: text-classification}
    dataset: {type: others/reviews, name: Reviews}
    metrics: [{type: accuracy, value: 91.5}]
---

# Ours

## Use

Carefully.
"""


@pytest.fixture
def card(tmp_path: Path) -> Path:
    path = tmp_path / "README.md"
    path.write_text(CARD)
    return path


def entries(card: Path) -> set[tuple[object, ...]]:
    fields = attrgetter("dataset_name", "dataset_config", "metric_type", "metric_value", "dataset_args")
    return {
        (*values, str(arguments or ""))
        for *values, arguments in map(fields, ModelCard.load(card).data.eval_results or [])
    }


def test_the_hub_and_readers_get_every_score(card: Path) -> None:
    tasks = ("MRPC", "STS12", "STSBenchmark", "ImageCaptionRetrieval")
    scores = {task: record(task, 71.234) for task in tasks}
    scores |= {"CR": record("CR", n_train=40), "SST2": record("SST2", float("nan"))}
    add_scores(card, results("ours", scores))
    reason = "40 training examples, SentEval has 3,775"
    assert entries(card) == {
        ("Reviews", None, "accuracy", 91.5, ""),
        ("SentEval MRPC", "default", "accuracy", 71.23, ""),
        ("SentEval MRPC", "default", "f1", 79.23, ""),
        ("SentEval STS12", "default", "mean spearman", 71.23, ""),
        ("SentEval STSBenchmark", "default", "spearman", 71.23, ""),
        ("SentEval ImageCaptionRetrieval", "default", "mean recall", 71.23, ""),
        ("SentEval CR", "default", "accuracy", 70, str({"not_comparable": reason})),
    }
    text = card.read_text().partition("## SentEval, protocol default\n")[2].partition("\n## ")[0]
    assert reason in text
    for row in ("MRPC | F1 | – | 79.23", "STSBenchmark | Spearman | 60.00 | 71.23", "SST2 | accuracy | 60.00 | –"):
        assert f"| {row} |" in text


def test_a_later_evaluation_replaces_the_scores_of_its_protocol_and_nothing_else(card: Path) -> None:
    simcse = results(tasks={"CR": record("CR", 60, protocol="simcse")}, protocol="simcse")
    for scores in (results(tasks={"CR": record("CR", 50), "MR": record("MR", 51)}), simcse):
        add_scores(card, scores)
    for _ in range(2):
        add_scores(card, results(tasks={"CR": record("CR", 70)}))
    assert entries(card) == {
        ("Reviews", None, "accuracy", 91.5, ""),
        ("SentEval CR", "default", "accuracy", 70, ""),
        ("SentEval CR", "simcse", "accuracy", 60, ""),
    }
    text = card.read_text()
    assert text.count("\n## SentEval, protocol ") == 2 and "| MR |" not in text
    data = ModelCard.load(card).data
    assert data.model_name == "mine" and data.license == "mit"
    assert "\n# Ours\n" in text and text.endswith("\n## Use\n\nCarefully.\n")
