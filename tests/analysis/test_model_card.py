"""SentEval scores on a model card: metadata for the hub, tables for readers, and text that is kept."""

from __future__ import annotations

from pathlib import Path

import pytest
from huggingface_hub import ModelCard

from analysis.model_card import add_scores
from data.errors import UserError
from encoders.export import section
from tests.analysis.senteval.example_results import record, results
from tests.encoders.models import tiny

EDITED = """---
# chosen by us
license: "mit"   # agreed
model-index:
- name: mine
  results:
  - task: {type: text-classification}
    dataset: {type: others/reviews, name: Reviews}
    metrics: [{type: accuracy, value: 91.5}]
language: [en]
---

# Ours

## Use

Carefully.

## Notes

Edited by hand.
"""


@pytest.fixture
def card(tmp_path: Path) -> Path:
    tiny().save(tmp_path / "encoder")
    return tmp_path / "encoder" / "README.md"


def hub_scores(card: Path) -> dict[tuple[str, str | None, str], float]:
    found = ModelCard.load(card).data.eval_results or []
    return {
        (result.dataset_name, result.dataset_config, result.metric_type): result.metric_value for result in found
    }


def test_the_hub_reads_every_score_that_a_table_shows(card: Path) -> None:
    tasks = ("CR", "MRPC", "STS12", "STSBenchmark", "ImageCaptionRetrieval", "Length")
    add_scores(card, results("ours", {task: record(task, 71.234) for task in tasks}))
    assert hub_scores(card) == {
        ("SentEval CR", "default", "accuracy"): 71.23,
        ("SentEval MRPC", "default", "accuracy"): 71.23,
        ("SentEval MRPC", "default", "f1"): 79.23,
        ("SentEval STS12", "default", "spearmanr"): 71.23,
        ("SentEval STSBenchmark", "default", "spearmanr"): 71.23,
        ("SentEval ImageCaptionRetrieval", "default", "recall"): 71.23,
        ("SentEval Length", "default", "accuracy"): 71.23,
    }
    data = ModelCard.load(card).data
    assert data.model_name == "ours" and "weights-random" in (data.tags or [])
    assert {result.task_type for result in data.eval_results or []} == {
        "text-classification", "sentence-similarity", "text-retrieval",
    }  # fmt: skip
    text = section(card.read_text(), "SentEval, protocol default")
    for row in (
        "| CR | accuracy | 60.00 | 71.23 | default |",
        "| MRPC | F1 | – | 79.23 | default |",
        "| STS12 | mean Spearman | – | 71.23 | default |",
        "| STSBenchmark | Spearman (dev: Pearson) | 60.00 | 71.23 | default |",
        "| ImageCaptionRetrieval | mean recall | 60.00 | 71.23 | default |",
    ):
        assert row in text


def test_incomparable_scores_are_marked(card: Path) -> None:
    add_scores(card, results(tasks={"CR": record("CR", n_train=40), "MR": record("MR")}))
    reason = "40 training examples, SentEval has 3,775"
    entries = {result.dataset_name: result.dataset_args for result in ModelCard.load(card).data.eval_results or []}
    assert entries == {"SentEval CR": {"not_comparable": reason}, "SentEval MR": None}
    assert f"Not comparable with published scores: CR: {reason}." in card.read_text()


def test_a_missing_score_has_no_entry(card: Path) -> None:
    add_scores(card, results(tasks={"CR": record("CR"), "SST2": record("SST2") | {"test": None}}))
    assert [name for name, *_ in hub_scores(card)] == ["SentEval CR"]
    assert "| SST2 | accuracy | 60.00 | – | default |" in card.read_text()


def test_a_later_evaluation_replaces_the_scores_of_its_protocol_only(card: Path) -> None:
    before = card.read_text()
    add_scores(card, results(tasks={"CR": record("CR", 50), "MR": record("MR", 51)}))
    add_scores(card, results(tasks={"CR": record("CR", 60) | {"protocol": "simcse"}}, protocol="simcse"))
    first = card.read_text()
    add_scores(card, results(tasks={"CR": record("CR", 70)}))
    assert hub_scores(card) == {
        ("SentEval CR", "default", "accuracy"): 70,
        ("SentEval CR", "simcse", "accuracy"): 60,
    }
    after = card.read_text()
    assert after.count("\n## SentEval, protocol ") == 2 and "| MR |" not in after
    assert section(after, "SentEval, protocol simcse") == section(first, "SentEval, protocol simcse")
    for name in ("Use", "Limits"):
        assert section(after, name) == section(before, name)
    add_scores(card, results(tasks={"CR": record("CR", 70)}))
    assert card.read_text() == after


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_edits_of_the_card_are_kept(tmp_path: Path, ending: str) -> None:
    path = tmp_path / "README.md"
    path.write_bytes(EDITED.replace("\n", ending).encode())
    add_scores(path, results(tasks={"CR": record("CR", 70)}))
    assert hub_scores(path) == {
        ("Reviews", None, "accuracy"): 91.5,
        ("SentEval CR", "default", "accuracy"): 70,
    }
    text = path.read_bytes().decode()
    assert text.count("\n") == text.count(ending)
    kept = EDITED[: EDITED.index("model-index")], EDITED[EDITED.index("language") : EDITED.index("## Use")]
    for part in (*kept, EDITED[EDITED.index("## Use") :]):
        assert part.removesuffix("---\n\n# Ours\n\n").replace("\n", ending) in text
    assert ModelCard.load(path).data.model_name == "mine"


def test_a_card_without_front_matter_gets_one(tmp_path: Path) -> None:
    path = tmp_path / "README.md"
    path.write_text("# Ours\n\nWords.")
    add_scores(path, results(tasks={"CR": record("CR", 70)}))
    assert hub_scores(path) == {("SentEval CR", "default", "accuracy"): 70}
    assert "---\n\n# Ours\n\nWords.\n\n## SentEval, protocol default\n\n" in path.read_text()


@pytest.mark.parametrize(
    "damaged",
    [
        pytest.param("---\n\"model-index\": [{name: a, results: []}]\n---\n", id="quoted key"),
        pytest.param("---\na: [\n---\n# Ours\n", id="invalid YAML"),
        pytest.param("---\n- a\n---\n", id="list"),
        pytest.param("---\nmodel-index: 3\n---\n", id="model-index is a number"),
        pytest.param("\xff", id="not UTF-8"),
        pytest.param(
            "---\nmodel-index: [{name: a, results: [{task: {type: b}, dataset: {type: c, name: d}, metrics: [\n"
            "# e\n{type: f, value: 1}]}]}]\n---\n",
            id="comment in model-index",
        ),
    ],
)  # fmt: skip
def test_an_unreadable_card_is_left_unchanged(tmp_path: Path, damaged: str) -> None:
    path = tmp_path / "README.md"
    path.write_bytes(damaged.encode("latin-1"))
    with pytest.raises(UserError) as refusal:
        add_scores(path, results(tasks={"CR": record("CR", 70)}))
    assert refusal.value.key == str(path)
    assert path.read_bytes() == damaged.encode("latin-1") and [*tmp_path.iterdir()] == [path]
