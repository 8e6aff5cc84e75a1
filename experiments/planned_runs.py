"""Runs of a figure or comparison: their names, their states, their training and their evaluation."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal

from analysis import runs
from analysis.senteval.evaluation import digest_files
from analysis.senteval.results import FILE, read_results
from analysis.senteval.tasks import available, roots
from data.display import duration
from data.errors import UserError
from data.files import refuse_links_out
from data.sources import reading
from encoders.folder import BUNDLED
from encoders.starts import CHECKPOINTS, bundled
from experiments import compose
from experiments.continuation import RESUME_KEYS
from experiments.evaluation import DOWNLOADED
from experiments.jobs import Job, run_jobs, trained_share, watched
from experiments.overrides import key_of, override
from experiments.progress import Display
from experiments.run_folder import LEARNS, ROOT

TRAIN, EVALUATE = (str(ROOT / "experiments" / name) for name in ("run.py", "evaluate.py"))

_file_digest = cache(reading.digest)
_digest = cache(digest_files)  # all runs of a command are evaluated on the same files, some of them large
State = Literal["finished", "begun", "missing", "broken"]


def name_of(config: Mapping[str, Any]) -> str:
    """Returns the name of a run's folder: what it trains, and a digest of all that decides what it computes.

    That is the configuration, the version of the objective, and the bundled weights that training may start from.
    """
    version = compose.locate(config["objective"]["_target_"], "objective").version
    decisive = [runs.comparable(config), version, _bundled_weights(config["encoder"])]
    chosen = (config["names"][key] for key in ("objective", "encoder", "corpus"))
    return "-".join(map(str, (*chosen, config["seed"], _digits(decisive))))


def _bundled_weights(encoder: Mapping[str, Any]) -> str | None:
    """Returns a digest of the bundled weights that ``encoder`` may start from; None if it cannot."""
    name = encoder.get("name")
    if name is None or encoder.get("path") is not None or encoder.get("weights") != "auto":
        return None
    folder = CHECKPOINTS / (name if name in bundled() else BUNDLED)
    weights = folder / "model.safetensors"
    return _file_digest(weights) if weights.is_file() else None


def joined_name(members: Sequence[str]) -> str:
    """Returns the name of the folder with the joined encoders of the runs ``members``, in this order."""
    return f"joined-{members[0].rpartition('-')[0]}-{_digits(members)}"


def _digits(value: Any) -> str:
    """Returns the first ten hexadecimal digits of a digest of ``value``."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:10]


def state(folder: Path) -> State:
    """Returns the state of the run in ``folder``."""
    if not (folder / "config.yaml").exists():
        return "missing"
    found = runs.read(folder)["state"]
    return "begun" if found == "unfinished" else found


def count_states(states: Sequence[str], folder: str | Path, at_once: int) -> str:
    """Counts the runs in ``folder`` by state, in a line."""
    counts = ", ".join(f"{states.count(kind)} {kind}" for kind in dict.fromkeys(states))
    return f"{len(states)} in {folder}: {counts}; {at_once} at a time"


def evaluation_of(run: str, pooling: str = "") -> str:
    """Returns the name of the job that evaluates the run of this name."""
    return " ".join(filter(None, ("SentEval", pooling, run)))


@dataclass(frozen=True)
class Evaluation:
    """The evaluation of runs on SentEval.

    Attributes:
        data: SentEval's folder.
        protocol: of all tasks.
        tasks: None for all that have files.
        probing: the folder of the probing files, where they are not below ``data``.
        threads: of one run's evaluation on a CPU.
        at_once: number of runs that are evaluated at a time; with 1 a GPU has several tasks at a time.
        passed: the user's overrides for runs, of which an evaluation takes the device and the cache.
    """

    data: Path
    protocol: str
    tasks: Sequence[str] | None = None
    probing: str | None = None
    threads: int = 1
    at_once: int = 1
    passed: Sequence[str] = ()

    def job(self, folder: Path, pooling: str = "", weight: float = 1.0) -> Job:
        """Returns the job that evaluates the run in ``folder`` after its training."""
        name, arguments = evaluation_of(folder.name, pooling), partial(self.arguments, folder, pooling)
        log = log_of(folder.with_name("-".join(filter(None, (folder.name, "senteval", pooling)))))
        progress = partial(self.share, results_folder(folder, self.protocol, pooling))
        return Job(name, arguments, log, progress, weight, needs=(folder.name,))

    def arguments(self, folder: Path, pooling: str = "") -> list[str] | None:
        """Returns Python's arguments that evaluate the run in ``folder``.

        None if all results exist, or the run is not finished.
        """
        out = results_folder(folder, self.protocol, pooling)
        if state(folder) != "finished" or self.complete(out):
            return None
        given: dict[str, Any] = {"model": folder, "out": out, "pooling": pooling or None, "data": self.data}
        given |= {"probing": self.probing, "tasks": self.tasks, "protocol": self.protocol}
        given |= {"threads": self.threads, "processes": 1 if self.at_once > 1 else None}
        overrides = [text for text in self.passed if key_of(text) in ("device", "cache")]
        return [EVALUATE, *overrides, *(override(key, value) for key, value in given.items())]

    def share(self, out: Path) -> float:
        """Returns the share of the evaluation that is done; 0 if the results or the data cannot be read."""
        with suppress(UserError, OSError):
            evaluated = self._evaluated(out)
            return sum(evaluated) / len(evaluated)
        return 0.0

    def complete(self, out: Path) -> bool:
        """Returns whether ``out`` has results of all tasks that have files."""
        return (out / FILE).exists() and all(self._evaluated(out))

    def _evaluated(self, out: Path) -> list[bool]:
        """Returns for each task that has files whether ``out`` has its result on these files."""
        root = Path(self.probing) if self.probing else None
        done, places = read_results(out).tasks, roots(self.data, root)
        there, _ = available(self.tasks, self.data, root)
        return [
            task.name in done and done[task.name].get("files") == _digest(task, places[task.group])
            for task in there
        ]


def senteval_folder(
    data: str | None, tasks: Sequence[str] | None, probing: str | None = None, keys: Sequence[str] = ("data",)
) -> Path | None:
    """Returns SentEval's folder: ``data``, else where it is downloaded to; None if it is not there.

    Raises:
        UserError: if it has no file of the ``tasks``; ``keys`` are those of the command that name folders.
    """
    folder = ROOT / DOWNLOADED if data is None else Path(data)
    if data is None and not folder.is_dir():
        return None
    available(tasks, folder, Path(probing) if probing else None, keys=tuple(keys))
    return folder


def results_folder(folder: Path, protocol: str, pooling: str = "") -> Path:
    """Returns the folder of the run's SentEval results, with another ``pooling`` than the encoder's own."""
    own = protocol == "default" and not pooling
    return folder if own else folder / "-".join(filter(None, ("senteval", protocol, pooling)))


def training(
    folder: Path, overrides: Sequence[str], passed: Sequence[str], evaluation: str = "quick"
) -> list[str] | None:
    """Returns Python's arguments that begin or resume the run in ``folder``; None if it is finished.

    Args:
        folder: of the run.
        overrides: of a new run.
        passed: the user's overrides for all runs; a resumed run gets those that it may be given.
        evaluation: of a new run, at its end.

    Raises:
        UserError: if the files in ``folder`` cannot be read.
    """
    if folder.is_symlink():
        raise UserError(f"{folder} is a symbolic link: replace it with the folder that it points to.")
    match state(folder):
        case "finished":
            return None
        case "broken":
            problem = runs.read(folder)["problem"]
            raise UserError(
                f"{folder} cannot be read ({problem}): delete it, and the same command trains it again."
            )
        case "begun":
            kept = [text for text in passed if key_of(text) in RESUME_KEYS]
            return [TRAIN, override("resume", folder), *kept]
    return [TRAIN, *overrides, override("evaluation", evaluation), override("run_dir", folder)]


def job(
    folder: Path, arguments: Callable[[], list[str] | None], weight: float = 1.0, after: Sequence[str] = ()
) -> Job:
    """Returns the job that trains the run in ``folder`` by Python's ``arguments``."""
    return Job(folder.name, arguments, log_of(folder), partial(trained_share, folder), weight, after)


def differences(folders: Sequence[Path]) -> list[str]:
    """Returns a line for each difference between finished runs that their names do not show: code and weights.

    A run is named by its configuration. With weights=auto it has other weights once the hub can be reached.
    """
    commits: dict[str, None] = {}
    starts: dict[tuple[str, str], dict[str, None]] = {}
    for folder in folders:
        if (row := runs.read(folder))["state"] != "finished":
            continue
        if about := row.get("environment"):
            commits[about.get("commit") or "no commit"] = None
        same = json.dumps([row["config"].get(key) for key in ("encoder", "weights", "corpus")], sort_keys=True)
        pair = f"{row['objective']} with {row['encoder']}"
        origin = str(row["origin"]).split(LEARNS)[0]  # without the tasks learned from synthetic pairs
        starts.setdefault((pair, same), {})[origin] = None
    found = [f"the runs were made by different commits: {', '.join(commits)}"] if len(commits) > 1 else []
    for (pair, _), origins in starts.items():
        if len(origins) > 1:
            found.append(f"runs of {pair} started from {' and from '.join(origins)}")
    return found


def log_of(folder: Path) -> Path:
    """Returns the log of the commands of the run in ``folder``."""
    return folder.parent / "logs" / f"{folder.name}.log"


def train_and_evaluate(jobs: Sequence[Job], *, at_once: int, threads: int, display: Display) -> dict[str, str]:
    """Trains and evaluates runs side by side; shows the progress, and at the end the time.

    Returns:
        Why jobs failed, each in a line, by the name of the job: that of the run, or ``evaluation_of`` it.

    Raises:
        UserError: if the folder of the logs is a link or has one that leaves it.
        KeyboardInterrupt: with a message, after all runs have stopped.
    """
    for logs in {job.log.parent for job in jobs}:
        if logs.is_symlink():
            raise UserError(f"{logs} is a symbolic link: replace it with the folder that it points to.")
        refuse_links_out(logs)
    started = time.monotonic()
    try:
        with watched(display) as watch:
            failed = run_jobs(jobs, at_once=at_once, threads=threads, watch=watch)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("Stopped. Finished work is kept; the same command resumes.") from None
    if (seconds := time.monotonic() - started) >= 1:  # else all runs were finished
        display.fact("took", f"{duration(seconds)}, {at_once} at a time")
    return failed
