"""The NLI objective: both classifiers against their equations, origin of the pairs, citations, refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from data.batch import Tokens
from data.randomness import generator
from objectives.gensen.objective import GenSen
from objectives.nli import NLI, Features
from tests.objectives.gensen.small_tasks import nli_pairs
from tests.tiny_encoder import FORMAT, TinyEncoder


def build(features: Any) -> tuple[Any, TinyEncoder]:
    torch.manual_seed(0)
    objective = NLI(features=features, classifier_width=7, synthetic_pairs=3)
    encoder = TinyEncoder().double()
    objective.build(encoder)
    return objective.double(), encoder


def scores(classifier: nn.Module, u: Tensor, v: Tensor, features: str) -> Tensor:
    layers = [layer for layer in classifier.modules() if isinstance(layer, nn.Linear)]
    values = torch.cat([u, v, (u - v).abs(), *([u * v] if features == "infersent" else [])])
    for layer in layers:  # no nonlinearity between them
        values = layer.weight @ values + layer.bias
    return values


@pytest.mark.parametrize(
    ("features", "shapes"),
    [
        pytest.param("infersent", [(7, 24), (7, 7), (3, 7)], id="infersent"),
        pytest.param("sentence_bert", [(3, 18)], id="sentence_bert"),
    ],
)
def test_loss_and_gradient_equal_the_equations(features: str, shapes: list[tuple[int, int]]) -> None:
    objective, encoder = build(features)
    task, units = objective.tasks["nli"], nli_pairs()
    assert [tuple(w.shape) for w in task.classifier.parameters() if w.ndim == 2] == shapes
    batch = task.collate([task.sample(unit, FORMAT, generator(0)) for unit in units], FORMAT)
    loss = objective.train().loss(encoder, batch)
    terms, correct = [], []
    for unit in units:
        u, v = (encoder(Tokens.pad([np.concatenate([[0], ids, [2]])], 1)).sentence[0] for ids in unit.sources)
        logits = scores(task.classifier, u, v, features)
        terms.append(-logits.log_softmax(0)[int(unit.target[0])])
        correct.append(int(logits.argmax()) == int(unit.target[0]))
    expected = torch.stack(terms).mean()
    torch.testing.assert_close(loss.total, expected)
    assert float(loss.parts["nli_accuracy"]) == pytest.approx(np.mean(correct))
    weights = [*encoder.parameters(), *objective.parameters()]
    gradients, expected_gradients = (
        torch.autograd.grad(total, weights, retain_graph=True) for total in (loss.total, expected)
    )
    for gradient, expected_gradient in zip(gradients, expected_gradients, strict=True):
        torch.testing.assert_close(gradient, expected_gradient)


def test_it_trains_gensens_nli_task_only() -> None:
    objective = NLI(batch_size=5, synthetic_pairs=30)
    assert {*objective.tasks} == {"nli"} and objective.tasks["nli"].batch_size == 5
    assert [*objective.texts()] == [*GenSen(tasks=["nli"], synthetic_pairs=30).texts()]
    assert objective.part_names == ("nli", "nli_accuracy")
    facts = {"tasks": "nli", "synthetic": "nli", "features": "infersent"}
    assert objective.facts() == facts and objective.own_data()["nli"]["synthetic"]


def test_the_citation_follows_the_form() -> None:
    authors = {"infersent": "Conneau, Alexis", "sentence_bert": "Reimers, Nils"}
    for features in get_args(Features):
        assert f"author = {{{authors[features]}" in NLI(features=features, synthetic_pairs=3).citation


def test_pairs_are_read_from_a_file(tmp_path: Path) -> None:
    lines = [{"gold_label": "neutral", "sentence1": f"a {i}", "sentence2": f"b {i}"} for i in range(20)]
    (tmp_path / "pairs.jsonl").write_text("\n".join(map(json.dumps, lines)))
    objective = NLI(nli={"path": str(tmp_path / "pairs.jsonl"), "dev_fraction": 0.0})
    assert {*objective.texts()} == {f"{side} {i}" for side in "ab" for i in range(20)}
    assert "synthetic" not in objective.facts()
