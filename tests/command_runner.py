"""Runs the suite's commands inside the test process and takes snapshots of folders."""

from __future__ import annotations

import hashlib
import importlib
import io
import os
import sys
import traceback
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple


class Outcome(NamedTuple):
    """Exit status and output of a command.

    Attributes:
        status: its exit status; None if it ended in an exception, whose traceback is at the end of ``error``.
        output: what it wrote to the output stream.
        error: what it wrote to the error stream.
    """

    status: int | None
    output: str
    error: str

    def refused(self, *parts: str) -> bool:
        """Returns whether it ended with status 2 and one line on the error stream that contains all ``parts``."""
        lines = self.error.strip().splitlines()
        return self.status == 2 and len(lines) == 1 and all(part in lines[0] for part in parts)


def run_command(module: str, *arguments: str, folder: Path) -> Outcome:
    """Runs the command in ``module`` ("experiments.run") from within ``folder``.

    Args:
        module: dotted name of a module with a function ``main`` that reads ``sys.argv``.
        arguments: of the command line.
        folder: working directory.
    """
    return run_main(importlib.import_module(module).main, *arguments, folder=folder)


def run_main(main: Callable[[], int | None], *arguments: str, folder: Path) -> Outcome:
    """Runs a function that reads ``sys.argv`` from within ``folder``."""
    out, err = io.StringIO(), io.StringIO()
    old_arguments, old_folder = sys.argv, Path.cwd()
    sys.argv = ["command.py", *arguments]
    os.chdir(folder)
    status: int | None = 0
    try:
        with redirect_stdout(out), redirect_stderr(err):
            status = main() or 0
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=err)
        status = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException:
        status = None
        traceback.print_exc(file=err)
    finally:
        sys.argv = old_arguments
        os.chdir(old_folder)
    return Outcome(status, out.getvalue(), err.getvalue())


def snapshot(root: Path, *, without: Path | None = None) -> dict[str, str]:
    """Returns, by path, the digest of each file and the target of each link in ``root`` outside ``without``."""
    entries = {}
    for path in sorted(root.rglob("*")):
        if without is not None and path.is_relative_to(without):
            continue
        if path.is_symlink():
            entries[str(path)] = f"-> {path.readlink()}"
        elif path.is_file():
            entries[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest()
        else:
            entries[str(path)] = "folder"
    return entries
