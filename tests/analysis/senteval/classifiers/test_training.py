from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from analysis.senteval.classifiers import training
from analysis.senteval.classifiers.training import Patience, Recorded, Stream, Table, toolkit_stream


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


class OnGpu(Tensor):
    """A tensor on the CPU that says that it is on a GPU."""

    is_cuda = True


class FakeGraph:
    """Stands in for a graph of a GPU; ``replays`` has the inputs of each replay."""

    def __init__(self, replays: list[list[float]], recorded: Recorded) -> None:
        self._replays, self._recorded = replays, recorded

    def replay(self) -> None:
        self._replays.append([float(one.sum()) for one in self._recorded._inputs])


def test_updates_of_one_shape_are_recorded_once_and_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[list[float]] = []
    replays: list[list[float]] = []
    recorded = Recorded()

    def update(*inputs: Tensor) -> None:
        made.append([float(one.sum()) for one in inputs])

    def inputs(value: float, rows: int = 4) -> list[Any]:
        return [torch.full((rows,), value).as_subclass(OnGpu), torch.ones(2)]

    monkeypatch.setattr(torch.cuda, "CUDAGraph", lambda: FakeGraph(replays, recorded))
    for module, name in ((torch.cuda, "device"), (torch.cuda, "graph"), (training, "_stream")):
        monkeypatch.setattr(module, name, lambda *_, **__: nullcontext())
    for value in (1.0, 2.0, 3.0):
        recorded(update, *inputs(value))
    recorded(update, *inputs(4.0, rows=3))
    recorded(update, *inputs(5.0))
    assert made == [[4, 2], [8, 2], [12, 2]]  # made, recorded, and made as its shape is another
    assert replays == [[8, 2], [12, 2], [20, 2]]
    made.clear()
    recorded(update, torch.ones(4), torch.ones(2))  # on a CPU
    assert made == [[4, 2]]
