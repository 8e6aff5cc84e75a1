"""Commands: functions of a checked configuration, called once, for each job of a sweep, or with keys of runs."""

from __future__ import annotations

import functools
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints

import hydra
from hydra import version
from hydra._internal.hydra import Hydra
from hydra._internal.utils import create_config_search_path
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.utils import JobReturn
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from data.errors import UserError
from experiments.command_line import HELP, INFORMING, Ended, one_line_errors, split
from experiments.compose import COMPONENTS, Schema, check, check_all, check_composed, kinds
from experiments.overrides import (
    NO_FORM,
    compose_accepted,
    file_of,
    guess,
    key_of,
    keys_of,
    override,
    requoted,
    unreadable,
)
from experiments.settings import Settings

OF_RUNS = {*Settings.__dataclass_fields__, *COMPONENTS, "experiment", "clipping"}  # keys that go to runs


class Failure(NamedTuple):
    """Failure of a job, which it returns: its process, and the line that it printed there."""

    process: int
    line: str


def command(
    name: str = "run", schema: Schema | None = None, report: Callable[[list[Any]], None] | None = None
) -> Callable[[Callable[[Any], Any]], Callable[[], None]]:
    """Makes a Hydra command of a function, which gets what ``compose.check`` returns.

    In a sweep, an error that the user can fix ends one job only: the others still run, and the status is 2 at the
    end.

    Args:
        name: of its YAML in ``configs``.
        schema: the dataclass of its keys, with a method ``of``; None: those of a training run.
        report: ends a sweep; it gets what the jobs returned that did not fail, if there are several.
    """

    def decorate(task: Callable[[Any], Any]) -> Callable[[], None]:
        returned: list[Any] = []  # by the jobs of a sweep

        @functools.wraps(task)
        def job(config: DictConfig) -> Any:
            try:
                with one_line_errors():
                    value = task(check_composed(config, HydraConfig.get(), schema, {}))
            except Ended as end:
                if end.code != UserError.status:
                    raise
                return Failure(os.getpid(), end.line)
            returned.append(value)
            return value

        @one_line_errors()
        def main() -> None:
            flags, overrides = split(sys.argv[1:], lambda given: keys_of(given, name))
            if HELP & {*flags}:
                print(_help(overrides, name))
                return
            overrides = [*map(requoted, overrides)]
            multirun = bool({"--multirun", "-m"} & {*flags}) or any(
                key_of(text) == "hydra.mode" and text.endswith("=MULTIRUN") for text in overrides
            )
            values: Any = None
            if multirun:
                own = "run_dir" if name in ("run", "evaluate") else "out"  # evaluate.py makes a folder of out=
                check_all(jobs_of(overrides, own), name, schema)
            elif not {*flags} & INFORMING:
                config, found = compose_accepted(overrides, name)
                values = check_composed(config, config.hydra, schema, found)
                # The user's own YAML may say so, too.
                multirun = config.hydra.mode == RunMode.MULTIRUN and not {"--cfg", "-c"} & {*flags}
            if multirun:
                done = list[JobReturn]()
                try:
                    done = run_sweep(file_of(name).parent, name, job, overrides)
                    values = [one.return_value for one in done]
                    returned[:] = [value for value in values if not isinstance(value, Failure)]  # of all processes
                    for line in failed_elsewhere(done):
                        print(line, file=sys.stderr)
                finally:  # if the sweep was interrupted, there are those before
                    if report is not None and len(returned) > 1:
                        report(returned)
                if len(returned) < len(done):
                    sys.exit(2)
                return

            @functools.wraps(task)
            @one_line_errors()
            def once(config: DictConfig) -> None:
                task(values)

            sys.argv[1:] = [*flags, *overrides]
            hydra.main(config_path=str(file_of(name).parent), config_name=name, version_base="1.3")(once)()

        return main

    return decorate


def command_of_runs(
    name: str, read: Callable[[list[str]], tuple[Any, list[str]]]
) -> Callable[[Callable[[Any, list[str]], int]], Callable[[], None]]:
    """Makes a command of a function of its settings and of the overrides for the runs that it starts.

    The function returns the exit status.

    Args:
        name: of its YAML in ``configs``.
        read: makes both from the command line, by ``settings_and_overrides``.
    """

    def decorate(task: Callable[[Any, list[str]], int]) -> Callable[[], None]:
        @functools.wraps(task)
        def main() -> None:
            with one_line_errors():
                flags, given = split(sys.argv[1:], lambda _: keys_of([], "run") | keys_of([], name), HELP)
                if flags:
                    print(_help([], name))
                    return
                sys.exit(task(*read(given)))

        return main

    return decorate


def settings_and_overrides(
    given: Iterable[str], name: str, schema: Schema, reserved: Mapping[str, str]
) -> tuple[Any, list[str]]:
    """Returns the settings of a command that starts runs, and the overrides for these.

    Args:
        given: overrides of the command's keys and of those of a run; "a.b=1" sets one value of its mapping "a".
        name: of its YAML in ``configs``.
        schema: the dataclass of its keys, with a method ``of``.
        reserved: keys of runs that the command sets itself, and what to write instead.

    Raises:
        UserError: with one line for each fault.
    """
    hints = get_type_hints(schema, include_extras=True)
    mappings = [key for key, hint in hints.items() if Mapping in kinds(hint)]
    own, passed, found = list[str](), list[str](), dict[str, str]()
    for text in map(requoted, given):
        key, value = key_of(text), text.partition("=")[2]
        first = key.partition(".")[0]
        if "=" not in text:
            found[text] = f"{text}: {NO_FORM}"
        elif key == "seeds" and value.isdigit():
            found[text] = f"{text}: seeds=[{value}] is one run with seed {value}, seeds=[1,2,3] are three."
        elif key in hints or first in mappings:
            bad = unreadable([text])
            if bad and key not in hints and not unreadable([requoted(f"{key}=[{value}]")]):
                bad = {text: f"{text}: write a list in brackets: {key}=[{value}]."}
            if bad and kinds(hints.get(key)) == {str} and value[0] not in "'\"~":
                own.append(override(key, value))  # a path, as the shell passes it
            else:
                found |= bad
                own += [text if key in hints else f"++{text.lstrip('+~')}"] * (not bad)
        elif instead := reserved.get(key, reserved.get(first)):
            found[text] = f"{key}: the command sets it for each run; {instead}."
        elif first in OF_RUNS:
            passed.append(text)
        else:
            found[text] = f"{key}: no such key.{guess(key, hints.keys() | OF_RUNS)}"
    try:
        return check(own, name, schema, found), passed
    except UserError as error:
        raise UserError(*(line.removeprefix("++") for line in str(error).split("\n"))) from None


def _help(overrides: list[str], name: str) -> str:
    from experiments.help import described  # late: most commands do without

    try:
        return described(overrides, name)
    except (HydraException, OmegaConfBaseException):
        return described([], name)


def jobs_of(overrides: list[str], own: str = "run_dir") -> Iterator[list[str]]:
    """Yields what to check of a sweep: each value of each swept key, beside the first values of the others.

    ``own`` is the key of the folder or file that a job writes, which must not be that of another job.
    """
    if bad := unreadable(overrides):
        raise UserError(*bad.values())
    parsed = OverridesParser.create().parse_overrides(overrides)
    swept = [
        [f"{one.get_key_element()}={value}" for value in one.sweep_string_iterator()]
        if one.is_sweep_override() and not isinstance(one.value(), str) and one.is_discrete_sweep()
        else [text]
        for one, text in zip(parsed, overrides, strict=True)
    ]
    jobs = math.prod(map(len, swept))
    for one, text, values in zip(parsed, overrides, swept, strict=True):
        shared = one.key_or_group == own and one.value() is not None and "${" not in text
        if shared and len(values) < jobs:
            name = "runs/${seed}" if own == "run_dir" else "${models}.json"
            hint = f"leave it out, or name each by a key, as in '{own}={name}'"
            raise UserError(f"{text}: the jobs of a sweep cannot share it: {hint}.")
    first = [values[0] for values in swept]
    yield first
    for place, values in enumerate(swept):
        for value in values[1:]:
            yield [*first[:place], value, *first[place + 1 :]]


def run_sweep(folder: Path, name: str, job: Callable[..., Any], overrides: list[str]) -> list[JobReturn]:
    """Runs ``job`` for every value that ``overrides`` sweep over, by their hydra/launcher.

    ``hydra.main`` does the same but drops the return values, and a job in another process has no other way.

    Args:
        folder: of the configurations.
        name: of the command's YAML in it.
    """
    version.setbase("1.3")
    search_path = create_config_search_path(str(folder))
    runner = Hydra.create_main_hydra2(task_name=name, config_search_path=search_path)
    try:
        multirun = [*overrides, "hydra.mode=MULTIRUN"]  # as hydra.main does, so that jobs know
        batches = runner.multirun(config_name=name, task_function=job, overrides=multirun)
    finally:
        GlobalHydra.instance().clear()
    return [one for batch in batches for one in batch]


def failed_elsewhere(done: Sequence[JobReturn]) -> list[str]:
    """Returns a line for each failure in another process, with the overrides that only that job had."""
    shared = set.intersection(*({*(one.overrides or ())} for one in done)) if done else set()
    lines = []
    for one in done:
        if isinstance(failure := one.return_value, Failure) and failure.process != os.getpid():
            own = " ".join(text for text in one.overrides or () if text not in shared)
            lines.append(f"{own}: {failure.line}")
    return lines
