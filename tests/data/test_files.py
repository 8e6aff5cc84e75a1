"""Files and folders that are written completely or not at all, and readers of untrusted files."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from data import files
from data.errors import UserError
from data.files import (
    DEPTH,
    YAML_BYTES,
    atomic_folder,
    atomic_write,
    contained,
    open_bytes,
    read_json,
    read_text,
    read_yaml,
    refuse_links_out,
    write_json,
)


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
    umask = os.umask(0)
    os.umask(umask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~umask


@pytest.mark.parametrize("in_one_step", [True, False])
def test_a_folder_is_replaced_atomically(
    in_one_step: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not in_one_step:
        monkeypatch.setattr(files, "_swapped", lambda one, other: False)
    folder = tmp_path / "folder"
    for content in ("one", "two"):
        with atomic_folder(folder) as unfinished:
            (unfinished / "marker").write_text(content)
        with pytest.raises(RuntimeError), atomic_folder(folder) as unfinished:
            (unfinished / "marker").write_text("half")
            raise RuntimeError
        assert [path.name for path in tmp_path.iterdir()] == ["folder"]
        assert [path.read_text() for path in folder.iterdir()] == [content]


@pytest.mark.parametrize("in_one_step", [True, False])
@pytest.mark.parametrize("there", [True, False], ids=["link to a folder", "dangling link"])
def test_the_folder_that_a_link_leads_to_is_replaced(
    there: bool, in_one_step: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not in_one_step:
        monkeypatch.setattr(files, "_swapped", lambda one, other: False)
    if there:
        (tmp_path / "folder").mkdir()
        (tmp_path / "folder" / "old").touch()
    (tmp_path / "link").symlink_to("folder")
    with atomic_folder(tmp_path / "link") as unfinished:
        (unfinished / "marker").touch()
    found = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")}
    assert found == {"folder", "folder/marker", "link"} and (tmp_path / "link").is_symlink()


def test_json_is_read_as_it_was_written(tmp_path: Path) -> None:
    value = {"a": [1, 2.5, None, True, "é"], "b": {}}
    write_json(tmp_path / "a.json", value)
    assert read_json(tmp_path / "a.json") == value


def test_yaml_has_json_types_and_numbers_without_a_dot(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("a: 1e-4\nb: [1, 2.0, ~, yes]\nc: ${d}\n")
    assert read_yaml(tmp_path / "a.yaml") == {"a": 1e-4, "b": [1, 2.0, None, True], "c": "${d}"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: &x [1]\nb: *x\n", "an alias"),
        ("a: 2020-01-01\n", "a value is of type date"),
        ("1: a\n", "a key is not text"),
        ('a: "\\0"\n', "a null character"),
        ('a: "\\ud800"\n', "is not YAML that can be read"),
        pytest.param(
            "[" * (DEPTH + 1) + "]" * (DEPTH + 1), rf"nested more than {DEPTH} deep", id="nested too deep"
        ),
        pytest.param("[" * 9999, "is not YAML that can be read", id="9999 open brackets"),
        ("a: [", "is not YAML that can be read"),
        pytest.param("a: " + "9" * 400, "is not YAML that can be read", id="number of 400 digits"),
        pytest.param("a" * (YAML_BYTES + 1), r"a\.yaml is larger than 262,144 bytes", id="file too large"),
    ],
)
def test_disallowed_yaml_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "a.yaml").write_text(text)
    with pytest.raises(ValueError, match=message) as error:
        read_yaml(tmp_path / "a.yaml")
    assert "a.yaml" in str(error.value) and "\n" not in str(error.value)


def test_files_that_are_not_regular_utf8_text_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match=r"^pipe is not a file$"):
        read_text(tmp_path / "pipe", 10)
    with pytest.raises(OSError, match="not a file"):
        open_bytes(tmp_path / "pipe")
    (tmp_path / "a.txt").write_bytes(b"\xff")
    with pytest.raises(ValueError, match=r"^a\.txt is not UTF-8 text: "):
        read_text(tmp_path / "a.txt", 10)
    with pytest.raises(FileNotFoundError):
        read_json(tmp_path / "missing.json")


def test_a_pipe_is_not_replaced_by_a_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    for name in ("pipe", "link"):
        with pytest.raises(OSError, match="not a file"), atomic_write(tmp_path / name):
            pass
    assert (tmp_path / "pipe").is_fifo() and (tmp_path / "link").is_symlink()
    assert len([*tmp_path.iterdir()]) == 2


def test_links_out_of_a_folder_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    (folder / "trackers" / "wandb").mkdir(parents=True)
    (tmp_path / "other").write_text("")
    (folder / "inside").symlink_to(folder / "trackers")
    (folder / "trackers" / "wandb" / "log").symlink_to(tmp_path / "other")  # allowed: wandb links its log
    refuse_links_out(folder)
    for link, target in (("a", tmp_path / "other"), ("b", tmp_path), ("c", tmp_path / "missing")):
        (folder / link).symlink_to(target)
        with pytest.raises(UserError, match=rf"run/{link} is a link that leaves .*run: replace it by"):
            refuse_links_out(folder)
        (folder / link).unlink()


@pytest.mark.parametrize("check", [contained, refuse_links_out])
def test_deeply_nested_folders_are_refused(tmp_path: Path, check: Callable[[Path], object]) -> None:
    (tmp_path / ("a/" * (DEPTH - 1))).mkdir(parents=True)
    check(tmp_path)
    (tmp_path / ("a/" * DEPTH)).mkdir()
    with pytest.raises(UserError, match=f"is one of more than {DEPTH} folders inside each other"):
        check(tmp_path)
