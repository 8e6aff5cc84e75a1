from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import nn

from analysis.senteval.classifiers.training import Patience, Stream, Table, toolkit_stream


def test_random_streams_equal_numpys_legacy_generator() -> None:
    random = np.random.RandomState(1111)
    stream = Stream(50, split=False)
    np.testing.assert_array_equal(stream.epochs(0, 3), [random.permutation(50) for _ in range(3)])
    np.testing.assert_array_equal(stream.epochs(1, 4)[2], random.permutation(50))
    random = np.random.RandomState(1111)
    split_stream, order = Stream(59, split=True), random.permutation(59)
    assert split_stream.parts is not None
    np.testing.assert_array_equal(np.concatenate(split_stream.parts), order)
    assert len(split_stream.parts[0]) == 2  # int(0.05 * 59)
    np.testing.assert_array_equal(split_stream.epochs(0, 1)[0], random.permutation(57))


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


def test_a_table_reads_rows_of_a_mapped_matrix(tmp_path: Path) -> None:
    matrix = np.arange(12, dtype=np.float32).reshape(4, 3)
    np.save(tmp_path / "m.npy", matrix)
    table = Table(np.load(tmp_path / "m.npy", mmap_mode="r"), "cpu")
    rows = np.array([3, 0, 3])
    np.testing.assert_array_equal(table[torch.from_numpy(rows)].numpy(), matrix[rows])
    assert table.width == 3
