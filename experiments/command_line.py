"""Parses a command line into flags and overrides, and reports errors in one line with an exit status."""

from __future__ import annotations

import errno
import io
import os
import re
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from data.display import printable
from data.errors import UserError
from experiments.interrupts import terminations
from experiments.overrides import guess, in_shell, key_of, override

# Hydra's flags that commands take; --config-dir becomes hydra.searchpath=.
FLAGS = {"--help", "-h", "--hydra-help", "--version", "--resolve", "--run", "-r", "--multirun", "-m"}
FLAGS |= {"--info", "-i", "--shell-completion", "-sc"}
VALUED = {"--cfg", "-c", "--package", "-p", "--config-dir", "-cd"}
NEVER = {"--config-name", "-cn", "--config-path", "-cp", "--config"}  # of Hydra, or like them
INFORMING = {"--hydra-help", "--version", "--info", "-i", "--shell-completion", "-sc"}  # no job is run
HELP = frozenset({"--help", "-h"})
INFO = ("all", "config", "defaults", "defaults-tree", "plugins", "searchpath")

ALONE_SECONDS = 5.0
OUT_OF_MEMORY = (
    "Out of memory. In training, objective.cache_chunk=8192 (tokens embedded at a time) bounds memory "
    "without changing the gradient; lower budget.documents or budget.max_span make smaller batches; "
    "device=cpu uses no GPU memory."
)
UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EFBIG)


def split(
    arguments: Sequence[str],
    keys: Callable[[list[str]], Mapping[str, Any]],
    flags_taken: Collection[str] = FLAGS | VALUED,
) -> tuple[list[str], list[str]]:
    """Splits a command line, in any order, into flags with their values and overrides.

    Args:
        arguments: of the command line.
        keys: returns the values of the command's keys under some overrides; called if a flag does not exist.
        flags_taken: by the command, of those that Hydra has.

    Raises:
        UserError: with a line for each flag that does not exist.
    """
    flags, overrides, found = list[str](), list[str](), list[str]()
    unknown = list[tuple[str, str | None]]()  # flags, and their values
    rest = deque(arguments)
    while rest:
        text = rest.popleft()
        flag, equals, value = text.partition("=")
        if not text.startswith("-"):
            pieces = _pieces(text, rest)
            if pieces > 1:
                whole = " ".join([text, *(rest.popleft() for _ in range(pieces - 1))])
                joined = re.sub(r"\s*,\s*", ",", whole)
                cure = f"{joined} without spaces" if " " not in joined else in_shell(joined)
                found.append(f"{whole}: the shell splits arguments at spaces; write {cure}")
            else:
                overrides.append(text)
        elif flag in FLAGS | VALUED and flag not in flags_taken:
            found.append(f"{flag}: only run.py and evaluate.py take this flag.")
        elif flag in VALUED:
            if not equals and not rest:
                found.append(f"{flag} needs a value.")
            else:
                value = value if equals else rest.popleft()
                if flag in ("--config-dir", "-cd"):
                    overrides.append(_searching(value, arguments))
                else:
                    flags += [flag, value]
        elif text in FLAGS:
            flags.append(text)
            if text in ("--info", "-i") and rest and rest[0] in INFO:
                flags.append(rest.popleft())
        else:
            if not equals and rest and not rest[0].startswith("-") and "=" not in rest[0]:
                equals, value = "=", rest.popleft()
            unknown.append((flag, value if equals else None))
    known = keys(overrides) if unknown else {}
    found += [_no_flag(flag, value, known, flags_taken) for flag, value in unknown]
    if {"--cfg", "-c"} & {*flags} and {"--multirun", "-m"} & {*flags}:
        found.append("--cfg shows one configuration: leave out -m.")
    if found:
        raise UserError(*found)
    return flags, overrides


def _no_flag(flag: str, value: str | None, keys: Mapping[str, Any], flags_taken: Collection[str]) -> str:
    """Returns a line on a flag that does not exist: the keys that it may be meant for, or the nearest names."""
    name = flag.lstrip("-").replace("-", "_")
    typed_in = flag if value is None or flag in NEVER else f"{flag} {value}"
    # Neither classes nor groups of keys are set by a value.
    groups = {key.rpartition(".")[0] for key in keys}
    keys = {
        key: keys[key]
        for key in keys
        if not key.endswith("_target_") and (key not in groups or f"{key}._target_" in keys)
    }
    meant = [key for key in keys if key.lstrip("+") == name] or [key for key in keys if key.endswith(f".{name}")]
    if meant and flag not in NEVER:
        if value is None:
            value = "true" if all(isinstance(keys[key], bool) for key in meant) else "<value>"
            return f"{typed_in}: write {' or '.join(f'{key}={value}' for key in meant)}."
        return f"{typed_in}: write {' or '.join(in_shell(f'{key}={value}') for key in meant)}."
    hint = guess(name, keys) if value is not None and flag not in NEVER else ""
    return f"{typed_in}: no such flag.{hint or (guess(flag, flags_taken) if flag.startswith('--') else '')}"


def _pieces(text: str, rest: Sequence[str]) -> int:
    """Returns how many arguments, of ``text`` and those after it, close the brackets that ``text`` opens."""
    depth = 0
    for count, piece in enumerate((text, *rest), start=1):
        value = piece.partition("=")[2] if count == 1 else piece
        if count == 1 and value[:1] not in ("[", "{"):
            break
        depth += sum((letter in "[{") - (letter in "]}") for letter in value)
        if depth <= 0:
            return count
    return 1


def _searching(folder: str, arguments: Sequence[str]) -> str:
    """Returns the override that makes Hydra look for YAMLs in ``folder``, too."""
    if not Path(folder).expanduser().is_dir():
        raise UserError(f"--config-dir {folder}: there is no such folder.")
    if any(key_of(text) == "hydra.searchpath" for text in arguments):
        raise UserError("--config-dir and hydra.searchpath= exclude each other: name all folders in the latter.")
    return override("hydra.searchpath", [f"file://{Path(folder).expanduser().resolve()}"])


class Ended(SystemExit):
    """Ends a command that has printed its error ``line``."""

    def __init__(self, status: int, line: str = "") -> None:
        super().__init__(status)
        self.line = line


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Turns errors that a user can fix into a line and exit status 2, an interrupt into 130; no traceback."""
    first = os.environ.get("RANK", "0") == "0"
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # not every terminal can show an arrow
    try:
        with terminations():
            yield
            if sys.stdout is not None:  # it was closed when Python started
                sys.stdout.flush()  # a closed pipe is noticed here
    except UserError as error:
        message, status = str(error), UserError.status
    except KeyboardInterrupt as error:
        status, message = 130, str(error) or "Interrupted."
    except (MemoryError, RuntimeError) as error:
        status = 2
        if str(error) == "Could not determine home directory.":  # pathlib's
            message = "There is no home folder of the user that ~name names: write the folder out."
        elif not _out_of_memory(error):
            raise
        else:
            message = OUT_OF_MEMORY
    except BrokenPipeError:
        try:
            print(flush=True)
        except BrokenPipeError:  # the reader (head, say) has closed the pipe
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise Ended(128 + signal.SIGPIPE) from None
        raise  # the pipe of another process
    except OSError as error:
        if error.filename is None and error.errno not in UNWRITABLE:
            raise
        status = 2
        message = printable(f"Cannot read or write {error.filename or 'a file'}: {error.strerror}.")
    except Exception as error:  # what tokenizers and safetensors make of the system's errors
        found = re.search(r"\(os error (\d+)\)", str(error))
        if found is None or int(found[1]) not in UNWRITABLE:
            raise
        status, message = 2, f"Cannot write a file: {os.strerror(int(found[1]))}."
    else:
        return
    if not first and status != 130:
        # Mostly all processes have the same error: the first one prints it, and the others are ended. One that is
        # still there after a while is the only one with it.
        time.sleep(ALONE_SECONDS)
        first = True
    if first:
        print(message, file=sys.stderr)
    raise Ended(status, message)


def _out_of_memory(error: BaseException) -> bool:
    text = str(error)
    return isinstance(error, MemoryError) or "out of memory" in text or "can't allocate memory" in text
