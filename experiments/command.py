"""Commands: parse the command line, call a function with its checked configuration, render errors."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import hydra
import yaml
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from data.display import printable
from data.errors import UserError, reason
from experiments.config import (
    BASES,
    CONFIGS,
    check,
    choices,
    compose,
    compose_with_hydra,
    override_key,
    parse,
    prepare,
    resolve,
    yaml_path,
)
from experiments.interrupts import terminations

FLAGS, VALUED = ("--multirun", "-m", "--resolve"), ("--cfg", "-c")  # Hydra's, passed on
HELP = ("--help", "-h")
OUT_OF_MEMORY = "out of memory. objective.cache_chunk=8192 or a smaller batch_size needs less"


def run_command(task: Callable[[dict[str, Any]], Any], report: Callable[[list[Any]], None]) -> None:
    """Calls a function with the checked configuration of a run, or of each run of a sweep.

    Args:
        task: the function.
        report: called after a sweep with what its runs returned.
    """

    def job(config: dict[str, Any]) -> Any:
        check(config, {*map(override_key, HydraConfig.get().overrides.task)})  # before imports that take seconds
        check(config)
        return task(config)

    call_with_hydra(job, "run", report)


def call_command(function: Callable[..., Any], name: str, *, runs: bool = False) -> None:
    """Calls a function with the command line's values; its keyword-only arguments are the keys.

    Args:
        function: its annotations have types and ranges.
        name: its YAML in ``configs/commands``, with defaults and comments.
        runs: keys that are not in the YAML are those of the runs that it starts, in its argument ``overrides``.
    """
    if not runs:
        call_with_hydra(lambda config: function(**parse(function, config)), name)
        return
    with rendered_errors():
        flags, arguments = read_arguments(name)
        if flags:
            raise UserError("not an option of this command", key=" ".join(flags))
        keys = compose([], name).keys()
        groups = keys - BASES  # budget.flops= is of the runs
        overrides = [
            text
            for text in arguments
            if override_key(text) not in keys and override_key(text).partition(".")[0] not in groups
        ]
        values = compose([text for text in arguments if text not in overrides], name)
        function(**parse(function, values | {"overrides": overrides}))


def call_with_hydra(
    job: Callable[[dict[str, Any]], Any], name: str, report: Callable[[list[Any]], None] | None = None
) -> None:
    """Calls ``job`` with the composed configuration: once, or for each job of a sweep by Hydra's launcher.

    A job of a sweep that fails with an error of the user's ends only itself; the status is then 2 at the end.
    """
    values, failures, process = list[Any](), list[BaseException](), os.getpid()

    def call(config: DictConfig) -> None:
        try:
            values.append(job(resolve(config, HydraConfig.get())))
        except Exception as error:
            # Raised below, as Hydra would print more than a line; defects, which have a traceback, come first.
            if HydraConfig.get().mode == RunMode.MULTIRUN and (answer := exit_answer(error)):
                print(answer[1], file=sys.stderr)
                failures.append(SystemExit(answer[0]))
            else:
                failures.insert(0, error)
            if os.getpid() != process:
                raise

    with rendered_errors():
        flags, overrides = read_arguments(name)
        sys.argv[1:] = [*flags, *prepare(overrides, name)]
        os.environ["HYDRA_FULL_ERROR"] = "1"
        try:
            hydra.main(config_path=str(yaml_path(name).parent), config_name=name, version_base="1.3")(call)()
        finally:
            if report is not None and len(values) > 1:
                report(values)
        if failures:
            raise failures[0]


def read_arguments(name: str) -> tuple[list[str], list[str]]:
    """Returns flags of Hydra and overrides of the command line; prints the help and exits if one is --help."""
    flags, overrides = split(sys.argv[1:])
    if {*flags} & {*HELP}:
        print(help_text(overrides, name))
        sys.exit()
    return flags, overrides


def split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Splits a command line into flags of Hydra and overrides; ``--key value`` is ``key=value``."""
    flags, overrides, rest = list[str](), list[str](), [*arguments]
    while rest:
        text = rest.pop(0)
        name, equals, value = text.partition("=")
        if not text.startswith("-"):
            overrides.append(text)
        elif name in (*FLAGS, *HELP):
            flags.append(text)
        else:
            if not equals:
                value = rest.pop(0) if rest and not rest[0].startswith("-") and "=" not in rest[0] else "true"
            if name in VALUED:
                flags += [name, value]
            elif name == "--config-dir":
                overrides.append(f"hydra.searchpath=['file://{Path(value).expanduser().resolve()}']")
            else:
                overrides.append(f"{name.lstrip('-').replace('-', '_')}={value}")
    return flags, overrides


def help_text(overrides: Sequence[str], name: str) -> str:
    """Returns the YAML files of a command as they are, and the choices of each group."""
    parts = yaml_texts(yaml_path(name))
    if name == "run":
        chosen = compose_with_hydra(prepare(overrides), name).hydra.runtime.choices
        for group, choice in chosen.items():
            path = CONFIGS / group / f"{choice}.yaml"
            parts += [f"# {group}={choice}\n{text}" for text in yaml_texts(path)] if path.is_file() else []
        parts += [f"# {group}: {' '.join(names)}" for group, names in choices().items()]
    return "\n".join(parts)


def yaml_texts(path: Path) -> list[str]:
    """Returns the text of a YAML file, after those that it extends."""
    text = path.read_text(encoding="utf-8")
    names = (yaml.safe_load(text) or {}).get("defaults", ())
    extended = [name for name in names if isinstance(name, str) and name not in ("_self_", "_hydra")]
    return [*(part for name in extended for part in yaml_texts(path.with_name(f"{name}.yaml"))), text]


@contextmanager
def rendered_errors() -> Iterator[None]:
    """Prints errors of the user's, a line each, and exits with their status; others pass as tracebacks."""
    try:
        with terminations():
            yield
            sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else the exit flushes into it again
        sys.exit(141)
    except BaseException as error:
        answer = exit_answer(error)
        if answer is None:
            raise
        print(answer[1], file=sys.stderr)
        sys.exit(answer[0])


def exit_answer(error: BaseException) -> tuple[int, str] | None:
    """Returns exit status and message of an error that the user can fix, None for others."""
    status, text = UserError.status, str(error)
    if isinstance(error, KeyboardInterrupt):
        status, text = 130, text or "Interrupted."
    elif isinstance(error, (HydraException, OmegaConfBaseException)):
        key = getattr(error, "override", None) or getattr(error, "full_key", None) or "configuration"
        text = f"{key.lstrip('+')}: {reason(error)}."
    elif isinstance(error, MemoryError) or "CUDA out of memory" in text or "allocate memory" in text:
        text = f"device: {OUT_OF_MEMORY}."
    elif isinstance(error, OSError):
        text = f"{error.filename or 'file'}: {reason(error)}."
    elif not isinstance(error, UserError):
        return None
    return status, "\n".join(map(printable, text.split("\n")))
