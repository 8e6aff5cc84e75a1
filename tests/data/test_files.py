"""Files and folders are written completely or not at all; plain values are read as they were written."""

from __future__ import annotations

from pathlib import Path

import pytest

from data.errors import UserError
from data.files import atomic_folder, atomic_write, build_once, read_json, read_yaml


def test_a_file_is_replaced_atomically(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    with atomic_write(path) as file:
        file.write("né\n")
        assert path.read_text() == "old"
    assert path.read_bytes() == "né\n".encode()
    with pytest.raises(KeyboardInterrupt), atomic_write(path, "wb") as file:
        file.write(b"half")
        raise KeyboardInterrupt
    assert path.read_bytes() == "né\n".encode() and [*tmp_path.iterdir()] == [path]


def test_a_folder_is_replaced_atomically(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    for content in ("one", "two"):
        with atomic_folder(folder) as unfinished:
            (unfinished / "marker").write_text(content)
        with pytest.raises(RuntimeError), atomic_folder(folder) as unfinished:
            (unfinished / "marker").write_text("half")
            raise RuntimeError
        assert [path.name for path in tmp_path.iterdir()] == ["folder"]
        assert [path.read_text() for path in folder.iterdir()] == [content]


def test_yaml_has_plain_values(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("a: 1.0e-4\nb: [1, 2.0, ~, yes]\nc: ${d}\n")
    assert read_yaml(tmp_path / "a.yaml") == {"a": 1e-4, "b": [1, 2.0, None, True], "c": "${d}"}


@pytest.mark.parametrize("content", [b'{"width": ', b"\xff", b"[" * 9999])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a"
    path.write_bytes(content)
    with pytest.raises(UserError) as error:
        read_json(path)
    assert error.value.key == str(path)
    with pytest.raises(UserError) as error:
        read_yaml(path)
    assert error.value.key == str(path)


@pytest.mark.parametrize(("error", "left"), [(UserError("refused"), 0), (KeyboardInterrupt(), 1)])
def test_only_a_killed_build_can_be_continued(error: BaseException, left: int, tmp_path: Path) -> None:
    def build(folder: Path) -> None:
        (folder / "part").touch()
        raise error

    with pytest.raises(type(error)):
        build_once(tmp_path / "table", build)
    assert len([*tmp_path.glob("*.part")]) == left
