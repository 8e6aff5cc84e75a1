"""From the command line to a checked configuration: every fault is named at once, a line each, status 2."""

from __future__ import annotations

import errno
import functools
import math
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import hydra
from hydra._internal.utils import get_args_parser
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from data.display import printable
from data.errors import UserError
from data.files import read_json, read_yaml
from experiments import signatures
from experiments.interrupts import terminations
from experiments.overrides import CONFIGS, choice_of, compose, first_line, guess, key_of, ours, sieve, typed
from experiments.pool import BEGUN_HERE
from experiments.settings import EvaluationSettings, Settings
from experiments.sweeps import Failure, run_sweep, told_elsewhere

NAMED = ("objective", "encoder", "corpus", "budget")  # the choices that a run's name and tables carry
COMPONENTS = ("objective", "encoder", "corpus", "budget", "optimizer", "schedule")
ALONE_SECONDS = 5.0
SEVERAL = "encoders.concatenated.Concatenated"  # of objectives that train several encoders, of any class
# The keys of a configuration that have no default where a run reads them.
NEEDED = {*COMPONENTS, "names", "checkpoint", "accumulation", "gradient_norm", "seed"}
UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM)
LATE = ("encoder", "evaluation")  # not built for the check: it takes a model
Schema = type[EvaluationSettings]
# What may differ when a run goes on; the cache is never that of its folder, which may come from a stranger.
RESUME_KEYS = ("resume", "cache", "device", "processes", "threads", "workers", "trackers")


def command(
    name: str = "run", schema: Schema | None = None
) -> Callable[[Callable[[dict[str, Any]], None]], Callable[[], None]]:
    """Makes a Hydra command of a function, which gets the resolved configuration as a plain dictionary.

    In a sweep, what the user can mend ends one job alone: the others still run, and the status is 2 at the end.

    Args:
        name: of its YAML in ``configs``.
        schema: the dataclass of its keys, with a method ``of``; None: those of a training run.
    """

    def decorate(task: Callable[[dict[str, Any]], None]) -> Callable[[], None]:
        @functools.wraps(task)
        def job(config: DictConfig) -> Failure | None:
            hydra_config = HydraConfig.get()
            overrides = list(hydra_config.overrides.task)
            try:
                with one_line_errors():
                    task(_checked(config, dict(hydra_config.runtime.choices), overrides, schema))
            except Ended as end:
                if end.code != UserError.status or hydra_config.mode != RunMode.MULTIRUN:
                    raise
                return Failure(os.getpid(), end.line)
            return None

        def main() -> None:
            arguments = get_args_parser().parse_args()
            told = arguments.help or arguments.hydra_help or arguments.info or arguments.shell_completion
            with one_line_errors():
                if not told:
                    check_all(_jobs(arguments.overrides, arguments.multirun), name, schema)
            if told or not arguments.multirun:
                hydra.main(config_path=str(CONFIGS), config_name=name, version_base="1.3")(job)()
                return
            done = run_sweep(CONFIGS, name, job, arguments.overrides)
            for line in told_elsewhere(done):
                print(line, file=sys.stderr)
            if any(one.failure for one in done):
                sys.exit(2)

        return main

    return decorate


class Ended(SystemExit):
    """The end of a command that has told its ``line``."""

    def __init__(self, status: int, line: str = "") -> None:
        super().__init__(status)
        self.line = line


def check(overrides: list[str], name: str = "run", schema: Schema | None = None) -> dict[str, Any]:
    """The configuration that ``overrides`` (as on the command line) make; ``name`` and ``schema`` as above.

    Raises:
        UserError: with one line for each fault.
    """
    try:
        config = compose(overrides, name)
    except (HydraException, OmegaConfBaseException):
        for text in overrides:
            if text.startswith("resume=") and text != "resume=null":  # its objective may have other keys
                _only_beside_resume(Path(text.partition("=")[2]), overrides)
        good, found = sieve(overrides, name)
        if any(text.lstrip("+~").startswith("encoder") for text in {*overrides} - {*good}):
            good = [text for text in good if not text.startswith("warm_start=")]  # of a kind that is not known
        config = compose(good, name)
        refused = {key_of(text) for text in {*overrides} - {*good}}
        try:
            _checked(config, dict(config.hydra.runtime.choices), good, schema)
        except UserError as error:
            found += [line for line in str(error).split("\n") if line.removesuffix(" is not set.") not in refused]
        raise UserError(*found) from None
    choices = dict(config.hydra.runtime.choices)
    return _checked(config, choices, overrides, schema)


def check_all(jobs: Iterable[list[str]], name: str = "run", schema: Schema | None = None) -> None:
    """Checks several lists of overrides, and tells the faults of all of them, each once."""
    found: dict[str, None] = {}
    for overrides in jobs:
        try:
            check(overrides, name, schema)
        except UserError as error:
            found |= dict.fromkeys(str(error).split("\n"))
    if found:
        raise UserError(*found)


def _checked(
    config: DictConfig, choices: Mapping[str, Any], overrides: list[str], schema: Schema | None
) -> dict[str, Any]:
    """``config`` resolved, held against all constructors; of a run that is resumed, what it was started with.

    Raises:
        UserError: with one line for each fault.
    """
    try:
        values: dict[str, Any] = OmegaConf.to_container(ours(config), resolve=True)  # type: ignore[assignment]
    except OmegaConfBaseException as error:
        raise UserError(first_line(error)) from None
    if schema is not None:
        found = list(signatures.faults(schema, values))
        if found := found or list(_trial(lambda: schema.of(values))):
            raise UserError(*found)
        return values
    if resume := _text(values, "resume"):
        values = _resumed(Path(resume), values, overrides)
    else:
        values["names"] = {key: choices.get(key) for key in NAMED}
        own = values["encoder"] if isinstance(values.get("encoder"), Mapping) else {}
        if path := _text(own, "path") or _text(own, "name"):  # another model: what is trained gives the name
            values["names"]["encoder"] = Path(path).name
        if folder := _text(values, "warm_start"):
            values["names"]["encoder"] = _started_from(Path(folder), own, values["names"]["encoder"])
    found = list(_faults(values))
    if found:
        raise UserError(*[f"resume={resume}: {found[0]}"] if resume else found)
    return values


def _text(values: Mapping[str, Any], key: str) -> str:
    """The value of ``key`` if it is text, else ""; other types are named as faults later."""
    value = values.get(key)
    return value if isinstance(value, str) else ""


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Turns what a user can mend into its line and exit status 2, and an interrupt into 130; no traceback."""
    first = os.environ.get("RANK", "0") == "0"
    try:
        with terminations():
            yield
    except UserError as error:
        message, status = str(error), error.status if BEGUN_HERE in os.environ else UserError.status
    except KeyboardInterrupt as error:
        status, message = 130, str(error) or "Interrupted."
    except (MemoryError, RuntimeError) as error:
        if not _out_of_memory(error):
            raise
        status = 2
        message = (
            "Out of memory. In training objective.cache_chunk=<tokens embedded at a time, 8192 say> bounds it and "
            "gives the same gradient; budget.documents= and budget.max_span= make smaller batches. device=cpu "
            "needs no GPU."
        )
    except OSError as error:
        if error.filename is None and error.errno not in UNWRITABLE:
            raise
        status = 2
        message = printable(f"Cannot read or write {error.filename or 'a file'}: {error.strerror}.")
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


def _jobs(overrides: list[str], multirun: bool) -> Iterator[list[str]]:
    """What to check of a sweep: each value of each swept key, beside the first values of the others."""
    if not multirun:
        yield overrides
        return
    try:
        parsed = OverridesParser.create().parse_overrides(overrides)
        swept = [
            [f"{override.get_key_element()}={value}" for value in override.sweep_string_iterator()]
            if override.is_sweep_override()
            and not isinstance(override.value(), str)
            and override.is_discrete_sweep()
            else [text]
            for override, text in zip(parsed, overrides, strict=True)
        ]
    except HydraException as error:
        raise UserError(first_line(error)) from None
    jobs = math.prod(map(len, swept))
    for override, text, values in zip(parsed, overrides, swept, strict=True):
        shared = override.key_or_group == "run_dir" and override.value() is not None and "${" not in text
        if shared and len(values) < jobs:
            hint = "leave it out, or name the folders by a key, as in 'run_dir=runs/${seed}'"
            raise UserError(f"{text}: the runs of a sweep cannot share a folder: {hint}.")
    first = [values[0] for values in swept]
    yield first
    for place, values in enumerate(swept):
        for value in values[1:]:
            yield [*first[:place], value, *first[place + 1 :]]


def _faults(config: dict[str, Any]) -> Iterator[str]:
    """One line for each key, type and value in ``config`` that its constructor would not take."""
    known = {*Settings.__dataclass_fields__, *COMPONENTS, "evaluation", "names"}
    for key in config.keys() - known:
        yield f"{key}: no such key.{guess(key, known)}"
    settings = {key: config[key] for key in Settings.__dataclass_fields__ if key in config}
    found = list(signatures.faults(Settings, settings))
    yield from found or _trial(lambda: Settings.of(config))
    for name in (*COMPONENTS, "evaluation"):
        node = config.get(name)
        if not node:
            if name != "evaluation":
                yield f"{name} is not set."
            continue
        if not isinstance(node, Mapping):
            yield f"{name} must be a mapping, as {{key: value}}. Got {node!r} instead."
            continue
        try:
            target = signatures.locate(node.get("_target_"), name)
        except UserError as error:
            yield f"{name}: {error}"
            continue
        found = list(signatures.faults(target, signatures.arguments(node), name))
        yield from found
        if not found and name not in LATE:
            checkpoint = config.get("checkpoint") if name == "objective" else None
            metric = checkpoint.get("metric") if isinstance(checkpoint, Mapping) else None
            yield from _trial(functools.partial(_build, node, name, metric))


def _build(node: Mapping[str, Any], name: str, metric: str | None) -> None:
    built = signatures.build(node, name)
    measured = [f"dev_{part}" for part in built.part_names] if metric else []
    if metric and metric not in measured:
        raise ValueError(f"checkpoint.metric={metric}: this run measures {', '.join(measured)}.")


def _trial(build: Callable[[], Any]) -> Iterator[str]:
    try:
        build()
    except (ValueError, UserError) as error:
        yield first_line(error)


def _resumed(folder: Path, values: Mapping[str, Any], overrides: list[str]) -> dict[str, Any]:
    """The configuration of the run to resume, with those keys of this command that may differ."""
    if not (folder / "config.yaml").is_file():
        raise UserError(f"resume={folder}: not a run folder (it has no config.yaml).")
    given = _only_beside_resume(folder, overrides)
    broken = UserError(f"resume={folder}: its config.yaml is broken. Only a folder that run.py wrote can go on.")
    try:
        stored = read_yaml(folder / "config.yaml")
    except (OSError, ValueError) as error:
        raise broken from error
    if isinstance(stored, dict) and "joins" in stored:
        raise UserError(f"resume={folder}: it joins the encoders of finished runs, and was not trained itself.")
    if not isinstance(stored, dict) or not stored.keys() >= NEEDED:
        raise broken
    from analysis import runs  # late: its tables take a while to import

    if problem := runs.read(folder)["problem"]:
        raise UserError(f"resume={folder}: its files are damaged ({problem}).")
    if not (stored["names"] or {}).keys() >= {*NAMED}:
        raise broken
    # (A run of version 0.1 had one process.)
    return {"processes": 1} | stored | {key: values[key] for key in {*given, "cache"}} | {"run_dir": str(folder)}


def _started_from(folder: Path, encoder: Mapping[str, Any], name: str) -> str:
    """The name of the encoder that a run with ``warm_start`` trains: that in ``folder``, or ``name`` if unknown.

    Raises:
        UserError: if what is there is of another class than ``encoder``.
    """
    from analysis import runs  # late, as above

    there = runs.read(folder).get("encoder")
    try:
        kind = str(read_json(folder / "encoder" / "encoder.json")["class"])
    except (OSError, ValueError, KeyError, TypeError):
        there = None
    if there is None:
        return name  # what is missing is told where it is opened
    if kind not in (encoder.get("_target_"), SEVERAL):
        raise UserError(f"warm_start={folder} holds {there}: add encoder={choice_of(kind, there)}.")
    return str(there)


def _only_beside_resume(folder: Path, overrides: list[str]) -> set[str]:
    """The keys of ``overrides``, all of which may differ when the run in ``folder`` goes on."""
    given = set(map(key_of, overrides))
    if refused := sorted(given - set(RESUME_KEYS)):
        raise UserError(
            f"{', '.join(refused)}: a resumed run keeps its settings; beside resume= only "
            f"{', '.join(RESUME_KEYS[1:])} may be given. {typed('warm_start', folder)} begins a changed one."
        )
    return given


def _out_of_memory(error: BaseException) -> bool:
    text = str(error)
    return isinstance(error, MemoryError) or "out of memory" in text or "can't allocate memory" in text
