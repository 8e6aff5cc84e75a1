"""Folders of memory-mapped columns: complete or absent, made once, and read as they were written."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import threading
from collections.abc import Mapping
from concurrent.futures.process import BrokenProcessPool
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data import mapped
from data.errors import UserError
from data.files import write_json
from data.mapped import META, Column, ColumnWriter, MappedStore, cached, entry
from data.sources.base import Part, part_of

ENTRY = entry(2, ("part", "u1"))
NAMES: dict[str, np.dtype] = {"one.bin": np.dtype("<u2"), "two.bin": np.dtype("u1")}
PARTS: tuple[Part, ...] = ("train", "dev")


class TwoColumns(MappedStore):
    def __init__(self, folder: Path, *, dev_fraction: float = 0.3) -> None:
        super().__init__(folder, dev_fraction=dev_fraction)

    def _layout(self, meta: Mapping[str, Any]) -> tuple[int, np.dtype, Mapping[str, np.dtype]]:
        return meta["units"], ENTRY, NAMES


def write(folder: Path, units: list[tuple[list[int], list[int]]], chunk: int = 3) -> None:
    def column(cells: list[list[int]], dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
        return np.array([*chain.from_iterable(cells)], dtype), np.array(list(map(len, cells)))

    with ColumnWriter(folder, [*NAMES]) as writer:
        for first in range(writer.count, len(units), chunk):
            some = units[first : first + chunk]
            entries = np.zeros(len(some), ENTRY)
            entries["split"] = [(first + i) * 2**60 for i in range(len(some))]
            entries["part"] = [(first + i) % 3 for i in range(len(some))]
            cells = [column([unit[i] for unit in some], dtype) for i, dtype in enumerate(NAMES.values())]
            writer.write(entries, cells)
    assert writer.count == len(units) and writer.ends == [sum(len(unit[i]) for unit in units) for i in range(2)]
    write_json(folder / META, {"fingerprint": folder.name, "units": writer.count})


UNITS = [([i, i + 1][: i % 3], [7] * (i % 4)) for i in range(16)]


@settings(max_examples=20)  # few, as each example syncs files to disk
@given(
    st.lists(st.tuples(st.lists(st.integers(0, 2**16 - 1)), st.lists(st.integers(0, 255))), max_size=9),
    st.integers(1, 4),
)
def test_columns_are_read_as_they_were_written(
    tmp_path_factory: pytest.TempPathFactory, units: list[tuple[list[int], list[int]]], chunk: int
) -> None:
    folder = tmp_path_factory.mktemp("store")
    units = [*units, ([1], [2])]  # each column needs a value, as an empty file cannot be mapped
    write(folder, units, chunk)
    store = TwoColumns(folder)
    assert len(store) == len(units) and store.fingerprint == folder.name
    assert [tuple(cell.tolist() for cell in store.cells(i)) for i in range(len(store))] == units
    assert not store.cells(0)[0].flags.writeable


@pytest.mark.parametrize("written", [0, 1, 2, 3, 5])
def test_an_interrupted_writer_is_continued_after_its_last_shard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: int
) -> None:
    monkeypatch.setattr(mapped, "SHARD_WRITES", 2)
    calls: list[int] = []

    def make(folder: Path, stop: int | None) -> None:
        with ColumnWriter(folder, ["one.bin"]) as writer:
            assert writer.state == (None if writer.count == 0 else {"after": writer.count})
            for i in range(writer.count, 6):
                if i == stop:
                    raise KeyboardInterrupt
                calls.append(i)
                ids = np.arange(i, dtype="<u2")
                writer.write(np.zeros(1, entry(1)), [(ids, np.array([i]))], {"after": i + 1})
        write_json(folder / META, {})

    uninterrupted = cached(tmp_path / "whole", "key", lambda folder: make(folder, None))
    calls.clear()
    with pytest.raises(KeyboardInterrupt):
        cached(tmp_path, "key", lambda folder: make(folder, written))
    assert (tmp_path / "key.part").exists() == (written >= 2)
    continued = cached(tmp_path, "key", lambda folder: make(folder, None))
    assert calls == [*range(written), *range(written // 2 * 2, 6)]
    assert not continued.with_suffix(".part").exists()
    names = {path.name for path in uninterrupted.iterdir()}
    assert names == {path.name for path in continued.iterdir()} == {META, "index.bin", "one.bin"}
    assert all((uninterrupted / name).read_bytes() == (continued / name).read_bytes() for name in names)


@pytest.mark.parametrize("dev_fraction", [0.0, 0.3])
def test_the_hash_decides_the_part_of_a_unit_without_its_own(tmp_path: Path, dev_fraction: float) -> None:
    write(tmp_path, UNITS)
    store = TwoColumns(tmp_path, dev_fraction=dev_fraction)
    own_parts: list[Part | None] = [None, *PARTS]
    expected = [part_of(own_parts[i % 3], i * 2**60, dev_fraction) for i in range(len(UNITS))]
    for part in PARTS:
        assert store.in_part(part).tolist() == [each == part for each in expected]


def test_a_copy_for_a_worker_maps_the_same_files(tmp_path: Path) -> None:
    write(tmp_path, UNITS)
    store = TwoColumns(tmp_path, dev_fraction=0.9)
    copy = pickle.loads(payload := pickle.dumps(store))
    assert len(payload) < 500 and copy.dev_fraction == 0.9
    assert [cell.tolist() for cell in copy.cells(5)] == [cell.tolist() for cell in store.cells(5)]


@pytest.mark.parametrize("name", [META, "index.bin", *NAMES])
@pytest.mark.parametrize(
    "change",
    [lambda content: content[:-2], lambda content: content + content, None],
    ids=["truncated", "doubled", "missing"],
)
def test_damaged_files_are_refused(tmp_path: Path, name: str, change: Any) -> None:
    write(tmp_path, UNITS)
    if change is None:
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_bytes(change((tmp_path / name).read_bytes()))
    with pytest.raises(UserError):
        TwoColumns(tmp_path)


def test_a_folder_is_made_once_and_by_one_process(tmp_path: Path) -> None:
    made: list[Path] = []

    def make(folder: Path) -> None:
        made.append(folder)
        write(folder, UNITS)

    (tmp_path / "key").mkdir()  # left by a killed process
    (tmp_path / "key.part").mkdir()
    threads = [threading.Thread(target=cached, args=(tmp_path, "key", make)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1 and not made[0].exists() and len(TwoColumns(cached(tmp_path, "key", make))) == len(UNITS)


def test_a_failure_leaves_no_files(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        (folder / "one.bin").write_bytes(b"some")
        raise UserError("line 7 is bad")

    with pytest.raises(UserError):
        cached(tmp_path, "key", fail)
    assert [path.suffix for path in tmp_path.iterdir()] == [".lock"]


def test_a_killed_worker_leaves_the_finished_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapped, "SHARD_WRITES", 1)

    def make(folder: Path) -> None:
        write(folder, UNITS)
        raise BrokenProcessPool

    with pytest.raises(UserError):
        cached(tmp_path, "key", make)
    assert (tmp_path / "key.part" / "shards.json").exists()


@pytest.mark.parametrize("moment", ["before the rename", "after the rename"])
def test_a_kill_at_the_end_loses_no_finished_shard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    monkeypatch.setattr(mapped, "SHARD_WRITES", 1)

    def make_and_exit() -> None:
        rename = Path.rename

        def exit_at_rename(path: Path, target: Path) -> Path:
            if moment == "after the rename":
                rename(path, target)
            os._exit(7)  # without any clean-up, like SIGKILL

        monkeypatch.setattr(Path, "rename", exit_at_rename)
        cached(tmp_path, "key", lambda folder: write(folder, UNITS))

    process = multiprocessing.get_context("fork").Process(target=make_and_exit)
    process.start()
    process.join()
    assert process.exitcode == 7
    kept: list[int] = []

    def make(folder: Path) -> None:
        with ColumnWriter(folder, [*NAMES]) as writer:
            kept.append(writer.count)
        write(folder, UNITS)

    folder = cached(tmp_path, "key", make)
    assert kept == ([len(UNITS)] if moment == "before the rename" else [])
    assert [cell.tolist() for cell in TwoColumns(folder).cells(5)] == [*map(list, UNITS[5])]


def test_a_truncated_column_is_an_error_and_no_shorter_unit(tmp_path: Path) -> None:
    write(tmp_path, UNITS)
    store = TwoColumns(tmp_path)
    os.truncate(tmp_path / "one.bin", 2)
    with pytest.raises(UserError):
        store.cells(14)


def test_a_slice_of_a_column_is_read_completely(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``os.pread`` may return fewer bytes than requested."""
    np.arange(9, dtype=np.uint16).tofile(tmp_path / "column.bin")
    column, values, pread = Column(tmp_path / "column.bin", np.dtype(np.uint16)), list(range(9)), os.pread
    for limit in (100, 3):
        monkeypatch.setattr(
            "os.pread", lambda file, size, offset, limit=limit: pread(file, min(size, limit), offset)
        )
        for span in (slice(2, 7), slice(None), slice(5, 3), slice(-3, None), slice(9, 20)):
            assert column[span].tolist() == values[span]
