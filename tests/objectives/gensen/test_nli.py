"""GenSen's NLI task: cutting, features, and the loss against a loop."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from data.batch import Tokens
from data.pairs import PairUnit
from data.randomness import generator
from tests.objectives.gensen.small_tasks import built, collated, inference, pairs
from tests.tiny_encoder import FORMAT


def test_premise_and_hypothesis_are_not_cut() -> None:
    long = np.resize(np.arange(5, 12), 300)
    wide = replace(FORMAT, max_length=500)
    example = inference().sample(PairUnit((long, long[:4]), np.array([2])), wide, generator(0))
    assert (len(example.premise), len(example.hypothesis), example.label) == (302, 6, 2)


def test_loss_and_accuracy_equal_a_loop() -> None:
    task, encoder = built(inference())
    units = pairs()
    loss = task.loss(encoder, collated(task, units))
    terms, right = [], []
    _, first, _, second = task.classifier
    for unit in units:
        u, v = (encoder(Tokens.pad([np.concatenate([[0], side, [2]])], 1)).sentence[0] for side in unit.sources)
        seen = torch.cat([u, v, (u - v).abs(), u * v])
        scores = second.weight @ torch.relu(first.weight @ seen + first.bias) + second.bias
        terms.append(-scores.log_softmax(0)[int(unit.target[0])])
        right.append(float(int(scores.argmax()) == int(unit.target[0])))
    torch.testing.assert_close(loss.total, torch.stack(terms).mean())
    torch.testing.assert_close(loss.parts["nli"], loss.total.detach())
    assert float(loss.parts["nli_accuracy"]) == pytest.approx(np.mean(right))
    assert first.weight.shape == (7, 4 * encoder.dimension)


def test_features_are_both_vectors_their_difference_and_product() -> None:
    u, v = torch.tensor([[1.0, -2.0]]), torch.tensor([[3.0, 4.0]])
    assert inference().features(u, v).tolist() == [[1.0, -2.0, 3.0, 4.0, 2.0, 6.0, 3.0, -8.0]]
