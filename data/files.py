"""Atomic writing (beside, synced, then renamed), and bounded reading of untrusted files."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import yaml

from data.errors import UserError, reason

YAML_BYTES, JSON_BYTES, JOURNAL_BYTES = 2**18, 2**26, 2**30  # limits on the size of a file
DEPTH = 64  # of lists and mappings inside each other


@contextmanager
def atomic_write(path: Path | str, mode: str = "w") -> Iterator[IO[Any]]:
    """Opens a file beside ``path`` for writing ("w" or "wb") and renames it on success; on failure removes it."""
    path = Path(path)
    encoding = None if "b" in mode else "utf-8"
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(handle, mode, encoding=encoding) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        Path(name).chmod(0o666 & ~umask)  # mkstemp makes private files
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


class _PlainLoader(yaml.SafeLoader):
    """Reads YAML without aliases, a few of which can stand for billions of values; 1e-4 is a number."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise ValueError("an alias (*name) is not allowed")
        return super().compose_node(parent, index)


_PlainLoader.add_implicit_resolver(  # PyYAML wants a dot in it
    "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"), list("-+0123456789")
)


def read_json(path: Path) -> Any:
    """Returns the value in a JSON file.

    Raises:
        OSError: if it cannot be read.
        ValueError: naming the file, if it is damaged, or larger or deeper than any that the suite writes.
    """
    return _parsed(path, "JSON", json.loads, JSON_BYTES)


def read_yaml(path: Path) -> Any:
    """Returns the value in a YAML file, in JSON's types, interpolations as text. Raises as ``read_json`` does."""
    return _parsed(path, "YAML", lambda text: yaml.load(text, _PlainLoader), YAML_BYTES)


def read_text(path: Path, most: int) -> str:
    """Returns the text of a regular file of at most ``most`` bytes. Raises as ``read_json`` does."""
    if path.exists() and not path.is_file():  # reading a pipe or a device might never end
        raise ValueError(f"{path.name} is not a file")
    with path.open("rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise ValueError(f"{path.name} is larger than {most:,} bytes")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path.name} is not UTF-8 text: {reason(error)}") from None


def _parsed(path: Path, form: str, parse: Callable[[str], Any], most: int) -> Any:
    text = read_text(path, most)
    try:
        value = parse(text)
        _require_plain(value)
    except Exception as error:  # PyYAML's constructors and deep nesting raise errors of many kinds
        why = "it is nested too deeply" if isinstance(error, RecursionError) else " ".join(str(error).split())
        raise ValueError(f"{path.name} is not {form} that can be read: {why[:200]}") from None
    return value


def _require_plain(value: Any) -> None:
    """Raises ValueError for types that JSON lacks, text that is not UTF-8, and deep nesting."""
    level = [value]
    for _ in range(DEPTH):
        if not level:
            return
        inner: list[Any] = []
        for one in level:
            if isinstance(one, dict):
                if not all(isinstance(key, str) for key in one):
                    raise ValueError("a key is not text")
                inner += [*one, *one.values()]
            elif isinstance(one, list):
                inner += one
            elif isinstance(one, str):
                if "\0" in one:
                    raise ValueError("its text has a null character")
                one.encode()  # raises for half of a surrogate pair
            elif isinstance(one, int):
                float(one)  # raises for a number of thousands of digits
            elif one is not None and not isinstance(one, float):
                raise ValueError(f"a value is of type {type(one).__name__}")
        level = inner
    raise ValueError(f"it is nested more than {DEPTH} deep")


def write_json(path: Path | str, value: Any) -> None:
    """Writes ``value`` as indented JSON, atomically."""
    with atomic_write(path) as file:
        json.dump(value, file, indent=2, ensure_ascii=False)
        file.write("\n")


def refuse_links_out(folder: Path) -> None:
    """Refuses a folder with a link out of it, through which writing would change other files.

    Raises:
        UserError: naming the link.
    """
    root = Path(os.path.realpath(folder))
    for place, folders, files in os.walk(root):
        for path in (Path(place, name) for name in (*folders, *files)):
            if not path.is_symlink() or Path(os.path.realpath(path)).is_relative_to(root):
                continue
            inside = path.relative_to(root)
            if inside.parts[0] == "trackers" and path.name in files and len(inside.parts) > 1:
                continue  # wandb links its log, which the suite does not open
            raise UserError(f"{folder / inside} is a link that leaves {folder}: replace it by what it leads to.")
