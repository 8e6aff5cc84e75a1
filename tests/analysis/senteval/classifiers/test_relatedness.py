from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor, nn

import encoders
from analysis.senteval.classifiers import relatedness as module
from analysis.senteval.classifiers.relatedness import Relatedness, Scored, adam, relatedness, two_point
from analysis.senteval.features import embed
from analysis.senteval.scores import relatedness as relatedness_scores
from analysis.senteval.tasks import TASKS
from tests.encoders.models import minilm
from tests.real_data import suite_data


def problem(n: int = 150, noise: float = 0.3, low: float = 0.0) -> list[Scored]:
    random = np.random.default_rng(0)
    splits = []
    for size in (n, 60, 70):
        features = random.standard_normal((size, 6)).astype(np.float32)
        gold = 2.5 + features[:, 0] - 0.5 * features[:, 1] + noise * random.standard_normal(size)
        splits.append(Scored(features, np.clip(gold, low, 5)))
    return splits


def train_and_test(train: Scored, dev: Scored, test: Scored, **options: Any) -> Relatedness:
    return relatedness(train, dev, test.features, **options)


def toolkit_targets(scores: np.ndarray) -> np.ndarray:
    """Returns the targets of Tai et al. (2015), case by case."""
    rows = np.zeros((len(scores), 5), np.float32)
    for row, score in zip(rows, scores, strict=True):
        floor = int(np.floor(score))
        if floor < 5:
            row[floor] = score - floor
        if floor > 0:
            row[floor - 1] = floor - score + 1
    return rows


def plain_training(train: Scored, dev: Scored, test: Scored) -> tuple[float, np.ndarray, int]:
    """The toolkit's training: nn.Sequential, nn.MSELoss, torch.optim.Adam."""
    random = np.random.RandomState(1111)
    x, y = torch.from_numpy(train.features), torch.from_numpy(toolkit_targets(train.gold))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1111)
        model = nn.Sequential(nn.Linear(x.shape[1], 5), nn.Softmax(dim=1))
    optimizer = torch.optim.Adam(model.parameters())

    def expected(features: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return model(torch.from_numpy(features)).numpy() @ np.arange(1, 6)

    best, best_state, failures, epochs = -1.0, {}, 0, 0
    while epochs <= 1000:
        for _ in range(50):
            for batch in torch.from_numpy(random.permutation(len(x))).split(64):
                optimizer.zero_grad()
                nn.MSELoss()(model(x[batch]), y[batch]).backward()
                optimizer.step()
        epochs += 50
        pearson = stats.pearsonr(expected(dev.features), dev.gold)[0]
        if pearson > best:
            best, best_state = pearson, {name: tensor.clone() for name, tensor in model.state_dict().items()}
        else:
            failures += 1
            if failures > 3:
                break
    model.load_state_dict(best_state)
    return best, expected(test.features), epochs


@pytest.mark.parametrize(("noise", "low"), [(0.3, 0.0), (2.0, 1.0)])
def test_scores_equal_those_of_the_toolkits_program(noise: float, low: float) -> None:
    splits = problem(noise=noise, low=low)
    best, predicted, epochs = plain_training(*splits)
    found = train_and_test(*splits)
    assert found.epochs == epochs
    assert found.dev == pytest.approx(best, abs=1e-6)
    np.testing.assert_allclose(found.predictions, predicted, atol=1e-5)
    gold = splits[2].gold
    scores = relatedness_scores(gold, found.predictions, trained=True)
    assert scores["pearson"] == pytest.approx(100 * stats.pearsonr(predicted, gold)[0], abs=1e-4)
    assert scores["spearman"] == pytest.approx(100 * stats.spearmanr(predicted, gold)[0], abs=0.1)
    assert scores["mse"] == pytest.approx(np.mean((predicted - gold) ** 2), abs=1e-5)


def test_training_takes_at_most_1050_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE", 99)
    shares: list[float] = []
    found = train_and_test(*problem(20), progress=shares.append)
    assert found.epochs == 1050
    assert len(shares) == 21
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def test_training_stops_at_the_fourth_dev_score_without_improvement(monkeypatch: pytest.MonkeyPatch) -> None:
    dev = iter([0.1, 0.3, 0.3, 0.2, 0.4, 0.0, 0.4, 0.9])
    correlation = module.correlation
    monkeypatch.setattr(
        module, "correlation", lambda predicted, gold: correlation(predicted, gold)._replace(pearson=next(dev))
    )
    shares: list[float] = []
    found = train_and_test(*problem(20), progress=shares.append)
    assert (found.dev, found.epochs) == (0.4, 350)
    assert shares[-1] == 1.0


def test_equal_vectors_have_no_correlation() -> None:
    splits = [split._replace(features=np.zeros_like(split.features)) for split in problem(40)]
    found = train_and_test(*splits)
    assert np.isnan(found.dev)
    assert found.epochs == 250
    assert np.isfinite(found.predictions).all()


def test_the_global_random_state_is_unchanged() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    train_and_test(*problem(10))
    assert torch.equal(torch.rand(3), expected)


def test_targets_solved_by_hand() -> None:
    scores = np.array([0, 0.25, 1, 2.75, 4.5, 5])
    rows = [
        [0, 0, 0, 0, 0],
        [0.25, 0, 0, 0, 0],
        [1, 0, 0, 0, 0],
        [0, 0.25, 0.75, 0, 0],
        [0, 0, 0, 0.5, 0.5],
        [0, 0, 0, 0, 1],
    ]
    np.testing.assert_array_equal(two_point(scores), np.array(rows, np.float32))


@given(st.lists(st.floats(0, 5), min_size=1, max_size=20))
def test_targets_equal_those_of_the_paper(scores: list[float]) -> None:
    gold = np.array(scores)
    np.testing.assert_allclose(two_point(gold), toolkit_targets(gold), atol=1e-7)
    from_one = gold >= 1
    np.testing.assert_allclose(two_point(gold)[from_one] @ np.arange(1, 6), gold[from_one], atol=1e-5)


def test_updates_equal_torchs_adam() -> None:
    random = torch.Generator().manual_seed(0)
    weights = torch.randn(3, 4, generator=random)
    torch_weights = nn.Parameter(weights.clone())
    optimizer = torch.optim.Adam([torch_weights])
    moments: list[Tensor] = [torch.zeros_like(weights) for _ in range(2)]
    for step in range(1, 30):
        gradient = torch.randn(3, 4, generator=random)
        torch_weights.grad = gradient.clone()
        optimizer.step()
        adam(weights, gradient, moments[0], moments[1], step)
        torch.testing.assert_close(weights, torch_weights.detach(), rtol=1e-6, atol=1e-7)


@pytest.mark.slow
def test_scores_on_real_data_equal_the_toolkits() -> None:
    """Expected scores are the published toolkit's for STS-B with all-MiniLM-L6-v2."""
    parts: Any = TASKS["STSBenchmark"].load(suite_data("senteval/downstream"))
    sentences = [sentence for part in parts.values() for sentence in (*part.first, *part.second)]
    vectors = embed(encoders.load(str(minilm())), sentences, cache=None, key="minilm")
    splits = []
    for name in ("train", "dev", "test"):
        u, v = vectors.rows(parts[name].first), vectors.rows(parts[name].second)
        splits.append(Scored(np.hstack([np.abs(u - v), u * v]), parts[name].targets))
    found = train_and_test(*splits)
    scores = relatedness_scores(splits[2].gold, found.predictions, trained=True)
    assert found.dev == pytest.approx(0.8575836, abs=1e-5)
    assert (scores["pearson"], scores["spearman"]) == pytest.approx((82.09868, 82.44551), abs=1e-3)
    assert scores["mse"] == pytest.approx(1.0223146, abs=1e-4)
