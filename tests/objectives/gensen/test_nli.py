"""GenSen's NLI task: no truncation, features, and the loss against a loop."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from data.batch import Tokens
from data.pairs import PairUnit
from data.randomness import generator
from tests.objectives.gensen.small_tasks import batch_of, build, nli_pairs, nli_task
from tests.tiny_encoder import FORMAT


def test_premise_and_hypothesis_are_not_cut() -> None:
    ids = np.resize(np.arange(5, 12), 300)
    format = replace(FORMAT, max_length=500)
    example = nli_task().sample(PairUnit((ids, ids[:4]), np.array([2])), format, generator(0))
    assert (len(example.premise), len(example.hypothesis), example.label) == (302, 6, 2)


def test_loss_and_accuracy_equal_a_loop() -> None:
    task, encoder = build(nli_task())
    units = nli_pairs()
    loss = task.loss(encoder, batch_of(task, units))
    terms, correct = [], []
    _, first, _, second = task.classifier
    for unit in units:
        u, v = (encoder(Tokens.pad([np.concatenate([[0], ids, [2]])], 1)).sentence[0] for ids in unit.sources)
        features = torch.cat([u, v, (u - v).abs(), u * v])
        scores = second.weight @ torch.relu(first.weight @ features + first.bias) + second.bias
        terms.append(-scores.log_softmax(0)[int(unit.target[0])])
        correct.append(float(int(scores.argmax()) == int(unit.target[0])))
    torch.testing.assert_close(loss.total, torch.stack(terms).mean())
    torch.testing.assert_close(loss.parts["nli"], loss.total.detach())
    assert float(loss.parts["nli_accuracy"]) == pytest.approx(np.mean(correct))
    assert first.weight.shape == (7, 4 * encoder.dimension)


def test_features_are_both_vectors_their_difference_and_product() -> None:
    u, v = torch.tensor([[1.0, -2.0]]), torch.tensor([[3.0, 4.0]])
    assert nli_task().features(u, v).tolist() == [[1.0, -2.0, 3.0, 4.0, 2.0, 6.0, 3.0, -8.0]]
