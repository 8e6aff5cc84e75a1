"""Commands: parse the command line, call a function with its checked configuration, render errors."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import hydra
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from data.display import printable
from data.errors import UserError, UserErrors, reason
from experiments.config import (
    BASES,
    choices,
    compose,
    config_folder,
    override_key,
    parse,
    prepare,
    resolve,
    schema,
)
from experiments.interrupts import terminations

FLAGS, VALUED = ("--multirun", "-m", "--resolve"), ("--cfg", "-c")  # Hydra's, passed on
HELP = ("--help", "-h")


def call_command(function: Callable[..., Any], name: str) -> None:
    """Calls a function with the values of its keys; other keys are those of runs, in its argument ``overrides``.

    Args:
        function: its annotations have types and ranges.
        name: its YAML in ``configs/commands``.
    """
    with rendered_errors():
        flags, arguments = read_arguments(name)
        if flags:
            raise UserError("not an option of this command", key=" ".join(flags))
        keys = schema(function).model_fields.keys() - {"overrides"}
        own, overrides = list[str](), list[str]()
        for text in arguments:
            group, dot, _ = override_key(text).partition(".")  # budget.flops= is of the runs
            (own if group in (keys - BASES.keys() if dot else keys) else overrides).append(text)
        function(**parse(function, compose(own, name) | {"overrides": overrides}))


def call_with_hydra(
    job: Callable[[dict[str, Any]], Any], name: str, report: Callable[[list[Any]], None] | None = None
) -> None:
    """Calls ``job`` with the composed configuration: once, or for each job of a sweep by Hydra's launcher.

    A job that fails does not end the others. ``report`` gets what the jobs of this process returned.
    """
    values, errors, process = list[Any](), list[UserError](), os.getpid()

    def call(config: DictConfig) -> None:
        try:
            values.append(job(resolve(config, HydraConfig.get())))
        except Exception as error:
            if (answer := exit_answer(error)) is None:
                raise
            if os.getpid() != process:
                print(answer[1], file=sys.stderr)  # Hydra prints that of one job only
                raise
            errors.append(UserError(answer[1]))  # raised below, as Hydra would print more than a line

    with rendered_errors():
        flags, overrides = read_arguments(name)
        sys.argv[1:] = [*flags, *prepare(overrides, name)]
        os.environ["HYDRA_FULL_ERROR"] = "1"
        hydra.main(config_path=str(config_folder(name)), config_name=name, version_base="1.3")(call)()
        if report is not None and len(values) > 1:
            report(values)
        if errors:
            raise UserErrors(errors)


def read_arguments(name: str | None = None) -> tuple[list[str], list[str]]:
    """Splits the command line into flags of Hydra and overrides; ``--key value`` is ``key=value``.

    With the ``name`` of a command, --help prints its YAML files and exits.
    """
    flags, overrides, rest = list[str](), list[str](), sys.argv[1:]
    while rest:
        text = rest.pop(0)
        key, equals, value = text.partition("=")
        if not text.startswith("-"):
            overrides.append(text)
        elif key in (*FLAGS, *HELP):
            flags.append(text)
        else:
            if not equals:
                value = rest.pop(0) if rest and not rest[0].startswith("-") and "=" not in rest[0] else "true"
            if key in VALUED:
                flags += [key, value]
            elif key == "--config-dir":
                overrides.append(f"hydra.searchpath=['file://{Path(value).expanduser().resolve()}']")
            else:
                overrides.append(f"{key.lstrip('-').replace('-', '_')}={value}")
    if name is not None and {*flags} & {*HELP}:
        print(help_text(overrides, name))
        sys.exit()
    return flags, overrides


def help_text(overrides: Sequence[str], name: str) -> str:
    """Returns the YAML files of a command's configuration as they are, and the choices of each group."""
    prepared, folder = prepare(overrides, name), config_folder(name)
    with hydra.initialize_config_dir(str(folder), version_base="1.3"):
        loader = GlobalHydra.instance().config_loader()
        defaults = loader.compute_defaults_list(name, prepared, RunMode.RUN).defaults
    files = [path for each in defaults if (path := folder / f"{each.config_path}.yaml").is_file()]
    texts = [f"# {path.relative_to(folder)}\n{path.read_text(encoding='utf-8')}" for path in files]
    groups = choices() if name == "run" else {}
    return "\n".join([*texts, *(f"# {group}: {' '.join(names)}" for group, names in groups.items())])


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
        if (answer := exit_answer(error)) is None:
            raise
        with suppress(OSError):  # the terminal is closed
            print(answer[1], file=sys.stderr)
        sys.exit(answer[0])
    finally:
        gc.freeze()  # collecting torch's objects at the exit takes 0.4 s


def exit_answer(error: BaseException) -> tuple[int, str] | None:
    """Returns exit status and message of an error that the user can fix, None for others."""
    status, text = UserError.status, str(error)
    if isinstance(error, KeyboardInterrupt):
        status, text = 130, text or "Interrupted."
    elif isinstance(error, (HydraException, OmegaConfBaseException)):
        key = getattr(error, "override", None) or getattr(error, "full_key", None) or "configuration"
        text = f"{key.lstrip('+')}: {reason(error)}."
    elif isinstance(error, MemoryError) or "CUDA out of memory" in text or "allocate memory" in text:
        text = "device: out of memory. objective.cache_chunk=8192 or a smaller batch_size needs less."
    elif isinstance(error, OSError):
        text = f"{error.filename or 'file'}: {reason(error)}."
    elif not isinstance(error, UserError):
        return None
    return status, "\n".join(map(printable, text.split("\n")))
