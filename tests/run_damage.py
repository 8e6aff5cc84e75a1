"""Functions that damage a run folder, each by changing one file, and hostile file contents."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

Damage = Callable[[Path], object]
DEEP = 10_000  # levels of nesting
# Small YAML files that expand to billions of values: by aliases, and by merge keys.
BOMB = "a: &a [1,1,1,1,1,1,1,1,1]\n" + "".join(
    f"{new}: &{new} [{','.join([f'*{old}'] * 9)}]\n" for old, new in zip("abcdefghijk", "bcdefghijkl", strict=True)
)
MERGES = "a: &a {x: 1}\n" + "".join(
    f"{new}: &{new} {{<<: [{','.join([f'*{old}'] * 9)}]}}\n"
    for old, new in zip("abcdefghijk", "bcdefghijkl", strict=True)
)


def config(key: str, value: Any) -> Damage:
    """Sets a dotted key of config.yaml; ``...`` removes it."""

    def damage(run: Path) -> None:
        content = yaml.safe_load((run / "config.yaml").read_text())
        *path, last = key.split(".")
        node = content
        for name in path:
            node = node[name]
        node.pop(last, None)
        if value is not ...:
            node[last] = value
        (run / "config.yaml").write_text(yaml.safe_dump(content))

    return damage


def text(name: str, content: str | bytes) -> Damage:
    """Replaces the content of a file."""
    data = content if isinstance(content, bytes) else content.encode()
    return lambda run: (run / name).write_bytes(data)


def first_line(name: str, line: str) -> Damage:
    """Inserts a line at the beginning of a file."""
    return lambda run: (run / name).write_text(f"{line}\n{(run / name).read_text()}")


def link(name: str, target: str) -> Damage:
    """Replaces ``name`` by a link; "../victim" is a file beside the run, "../elsewhere" a folder."""

    def damage(run: Path) -> None:
        path = run / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        path.symlink_to(os.path.relpath((run / target).absolute(), path.parent))

    return damage


def pipe(name: str) -> Damage:
    """Replaces a file by a named pipe."""

    def damage(run: Path) -> None:
        (run / name).unlink(missing_ok=True)
        os.mkfifo(run / name)

    return damage


def directory(name: str) -> Damage:
    """Replaces a file by an empty folder."""

    def damage(run: Path) -> None:
        (run / name).unlink()
        (run / name).mkdir()

    return damage
