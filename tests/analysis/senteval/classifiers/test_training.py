from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from analysis.senteval.classifiers.training import Patience, Table, adam, toolkit_stream


def test_the_random_state_is_the_toolkits_inside_and_restored_after() -> None:
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(1111)
    layer = nn.Linear(4, 2)
    torch.manual_seed(3)
    with toolkit_stream("cpu"):
        assert torch.equal(nn.Linear(4, 2).weight, layer.weight)
    assert torch.equal(torch.rand(2), expected)


def test_patience_counts_all_failed_evaluations() -> None:
    patience = Patience(2)
    assert [patience.rises(score) for score in (0.5, 0.5, 0.6, 0.1)] == [True, False, True, False]
    assert not patience.spent
    assert not patience.rises(0.6)  # the third failure
    assert patience.spent
    assert patience.best == 0.6


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


def test_a_table_reads_rows_of_a_mapped_matrix(tmp_path: Path) -> None:
    matrix = np.arange(12, dtype=np.float32).reshape(4, 3)
    np.save(tmp_path / "m.npy", matrix)
    table = Table(np.load(tmp_path / "m.npy", mmap_mode="r"), "cpu")
    rows = np.array([3, 0, 3])
    np.testing.assert_array_equal(table[rows].numpy(), matrix[rows])
    assert table.width == 3
