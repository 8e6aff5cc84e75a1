"""Sweeps: runs that differ in overrides, trained and evaluated side by side, and one table of their scores.

    runs = sweep(["objective=simcse"], {"tau": {tau: [f"objective.temperature={tau}"] for tau in ("0.05", "0.1")}})
    frame = complete(runs, Path("runs/tau"), senteval=find_senteval("senteval", "default", ["CR"]), jobs=2)

A run's folder is named by a digest of all that decides its result: sweeps share runs, and a repeated command
continues.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import pandas as pd
from joblib import cpu_count

from analysis.model_names import CONFIG, EXPORT, split_members
from analysis.papers.base import Run
from analysis.papers.base import sweep as sweep
from analysis.runs import comparable, read_run
from analysis.senteval.records import FILE, flat_scores, read_results
from analysis.senteval.tasks import available
from data.errors import UserError, UserErrors
from experiments.config import check, compose, override_key, quote
from experiments.progress import Display
from experiments.run_folder import ROOT

SCRIPTS = ROOT / "experiments"
LONGEST_NAME = 40
POLL_SECONDS = 0.3
FLOPS = "budget.flops"
UNITS = ("steps", "tokens", "epochs", "flops")  # of a run's length: the first that is set counts
RESERVED = ("seed", "run_dir", "resume", "evaluation")  # keys of run.py that a command with sweeps sets


@dataclass(frozen=True)
class Evaluation:
    """The evaluation of runs on SentEval.

    Attributes:
        data: SentEval's folder.
        protocol: of all tasks.
        tasks: names.
    """

    data: Path
    protocol: str
    tasks: Sequence[str]


def find_senteval(data: str | None, protocol: str, tasks: Sequence[str] | None) -> Evaluation | None:
    """Returns the evaluation on SentEval's folder ``data``; None if that is None and nothing is downloaded.

    Its tasks are those that have files, of ``tasks`` or of all.

    Raises:
        UserError: for an unknown task, or if no task has files.
    """
    folder = Path(data or ROOT / "senteval")
    if data is None and not folder.is_dir():
        return None
    names = [task.name for task in available(tasks, folder)[0]]
    return Evaluation(folder, protocol, names)


def run_name(run: Run) -> str:
    """Returns the name of a run's folder: what is trained, its seed, and a digest of all that decides its result.

    That is the configuration, the version of the objective, and the weights that training may start from; files
    of text are not read for it.
    """
    if run.members:
        return _name("joined", [run_name(member) for member in run.members])
    if run.model:
        return _name(Path(run.model).name, [run.model, *map(_digest_weights, split_members(run.model))])
    config = configuration(run)
    names, encoder = config["names"], config["encoder"]
    decisive = [comparable(config), _version(config["objective"]["_target_"])]
    named = encoder.get("path") or (encoder.get("weights") == "auto" and encoder.get("name"))
    paths = encoder.get("paths") if isinstance(encoder.get("paths"), list) else []
    decisive += map(_digest_weights, filter(None, [named, config["warm_start"], *paths]))
    return _name(f"{names['objective']}-{names['encoder']}", decisive, f"{run.seed}-")


def configuration(run: Run) -> dict[str, Any]:
    """Returns the composed configuration of a run, which is composed once for all seeds."""
    return _compose(tuple(text for text in run.overrides if override_key(text) != "seed")) | {"seed": run.seed}


def override(runs: Sequence[Run], overrides: Sequence[str], reserved: Collection[str] = ()) -> list[Run]:
    """Returns ``runs`` with ``overrides``, each once; ``encoder=`` also replaces their labels of the axis "model".

    A choice of a group, but for ``encoder``, keeps the keys below it in which runs differ.
    A length of runs replaces all others, but ``budget.flops`` is scaled by a figure, and none trains what is not.

    Raises:
        UserErrors: for keys that this command sets, those in ``reserved``, and those in which the runs differ.
    """
    values = {override_key(text): text.partition("=")[2] for text in overrides}
    lengths = {f"budget.{unit}" for unit in UNITS}
    singles = [{*single.overrides} for run in runs for single in (run, *run.members) if single.overrides]
    distinct = set[str]().union(*singles)
    varied = {key for key, count in Counter(map(override_key, distinct)).items() if count > 1}
    kept = {*RESERVED, *reserved, *(varied - {"encoder", *lengths})}
    if errors := [UserError("set by this command", key=key) for key in values.keys() & kept]:
        raise UserErrors(errors)
    unset = [f"{key}=null" for key in sorted(lengths - values.keys())] if lengths & values.keys() else []
    keys = {text: override_key(text) for text in distinct - distinct.intersection(*singles)}
    chosen = values.keys() - {"encoder"}
    differences = {text for text, key in keys.items() if key not in values and key.partition(".")[0] in chosen}

    def change(run: Run) -> Run:
        scaled = FLOPS if FLOPS in values else ""
        stay = [
            text
            for text in run.overrides
            if text in differences or override_key(text) == scaled or text == "budget.steps=0"
        ]
        texts = merge(merge(run.overrides, [*unset, *overrides]), stay) if run.overrides else ()
        model = values.get("encoder") or run.labels.get("model", "")
        labels = {axis: model if axis == "model" else label for axis, label in run.labels.items()}
        return replace(run, labels=labels, overrides=tuple(texts), members=tuple(map(change, run.members)))

    changed = [change(run) for run in runs]
    return [run for number, run in enumerate(changed) if run not in changed[:number]]


def merge(overrides: Iterable[str], more: Sequence[str]) -> list[str]:
    """Returns ``overrides`` followed by ``more``, without those that ``more`` replaces.

    A choice of a group in ``more`` (encoder=...) also replaces earlier keys below it (encoder.hidden=...).
    """
    keys = {override_key(text) for text in more}
    kept = [(text, override_key(text)) for text in overrides]
    return [*(text for text, key in kept if keys.isdisjoint([key, key.partition(".")[0]])), *more]


def print_runs(runs: Sequence[Run]) -> None:
    """Prints a line for each run: name, length and overrides; models by name. The first run's keys are checked."""
    singles = {run_name(run): run for joined in runs for run in joined.members or (joined,)}
    for run in [run for run in singles.values() if not run.model][:1]:
        check(configuration(run))
    for name, run in singles.items():
        budget = {} if run.model else configuration(run)["budget"]
        lengths = [f"{budget[unit]:,.12g} {unit}" for unit in UNITS if budget.get(unit) is not None]
        texts = [f"model={run.model}", *run.evaluation] if run.model else run.overrides
        print(f"{name:<{LONGEST_NAME}}  {[*lengths, 'evaluated only'][0]:<16}  {' '.join(texts)}")


def complete(
    runs: Sequence[Run],
    folder: Path,
    *,
    senteval: Evaluation | None = None,
    jobs: int | None = 1,
    threads: int = 1,
) -> pd.DataFrame:
    """Trains and evaluates what is missing; prints failures, while other runs go on.

    Args:
        runs: the runs, which all have the same label axes.
        folder: of the run folders, and of their logs.
        senteval: None for the scores of the quick evaluation, which only trained runs have.
        jobs: subprocesses at a time; None: one on a GPU, or as many as there are cores for.
        threads: of each subprocess on a CPU.

    Returns:
        The wide frame of ``analysis.results``, without runs that failed; ``attrs["failed"]`` has a line for each.

    Raises:
        UserError: if the configuration of the first run is wrong.
        KeyboardInterrupt: with a message, when all subprocesses have stopped.
    """
    singles = [single for run in runs for single in run.members or (run,) if not single.model]
    trained = {run_name(run): run for run in singles}
    if senteval is None:  # rows may share members
        runs = [*{run_name(run): run for run in singles if not run.evaluation}.values()]
    trainings = dict[str, list[str]]()
    for name, run in trained.items():
        path = quote(folder / name)
        if not (folder / name / EXPORT).is_dir():
            if not trainings:
                check(configuration(run))
            begun = (folder / name / CONFIG).exists()
            keys = [f"resume={path}"] if begun else [*run.overrides, "evaluation=quick", f"run_dir={path}"]
            trainings[name] = ["run.py", *keys]
    if jobs is None:
        import torch  # takes seconds

        jobs = 1 if torch.cuda.is_available() else max(1, cpu_count() // threads)
    start = partial(_run_scripts, folder=folder, limit=jobs, threads=threads)
    failed = start("training", trainings)
    device = {
        text for run in trained.values() for text in run.overrides if override_key(text) in ("device", "cache")
    }
    evaluations = dict[str, list[str]]()
    if senteval:
        for run in runs:
            members, out = [run_name(member) for member in run.members or (run,)], _results(run, folder, senteval)
            if failed.keys().isdisjoint(members) and not {*senteval.tasks} <= {*_read_scores(out)}:
                model = run.model or "+".join(str(folder / member) for member in members)
                values = {"model": model, "out": out, **vars(senteval)}
                arguments = [f"{key}={quote(value)}" for key, value in values.items()]
                name = f"SentEval {out.relative_to(folder)}"
                evaluations[name] = ["evaluate.py", *device, *run.evaluation, *arguments]
    failed |= start("evaluation", evaluations)
    frame = _collect(runs, folder, senteval)
    frame.attrs["failed"] = failed
    return frame


def _run_scripts(
    title: str, jobs: Mapping[str, Sequence[str]], *, folder: Path, limit: int, threads: int
) -> dict[str, str]:
    """Runs scripts of this folder side by side; returns the last line of the log of each job that failed.

    Args:
        title: of the progress display.
        jobs: script and arguments by name.
        folder: of the logs.
        limit: jobs at a time.
        threads: of each job.

    Raises:
        KeyboardInterrupt: with a message, when all have stopped after an interrupt.
    """
    waiting, running, failed = [*jobs], dict[str, subprocess.Popen[bytes]](), dict[str, str]()
    logs = {name: folder / "logs" / f"{name.replace('/', '-')}.log" for name in jobs}
    display = Display()
    with display.bar(title) as show:
        try:
            while waiting or running:
                while waiting and len(running) < limit:
                    name = waiting.pop(0)
                    script, *arguments = jobs[name]
                    logs[name].parent.mkdir(parents=True, exist_ok=True)
                    with logs[name].open("ab") as log:
                        running[name] = subprocess.Popen(
                            [sys.executable, str(SCRIPTS / script), *arguments],
                            stdin=subprocess.DEVNULL,
                            stdout=log,
                            stderr=log,
                            env=os.environ | {"OMP_NUM_THREADS": str(threads)},
                            process_group=0,  # a terminal's interrupt would reach it twice, and lose the step
                        )
                for name in [name for name, process in running.items() if process.poll() is not None]:
                    if status := running.pop(name).returncode:
                        line = logs[name].read_text(errors="replace").strip().rpartition("\n")[2]
                        failed[name] = f"killed by signal {-status}" if status < 0 else line
                        display.say(f"failed: {name}: {failed[name]}")
                show(1 - (len(waiting) + len(running)) / len(jobs), ", ".join(running))
                time.sleep(POLL_SECONDS)
        except KeyboardInterrupt:
            raise KeyboardInterrupt("Stopped. Finished work is kept; the same command continues.") from None
        finally:
            for process in running.values():
                process.terminate()
            for process in running.values():
                process.wait()
    return failed


def _results(run: Run, folder: Path, senteval: Evaluation) -> Path:
    """Folder of SentEval results: the run's own, or one below it for another protocol or pooling."""
    parts = [senteval.protocol, *(re.sub(r"\W+", "-", text) for text in run.evaluation)]
    return folder / run_name(run) / ("" if parts == ["default"] else "-".join(["senteval", *parts]))


def _collect(runs: Sequence[Run], folder: Path, senteval: Evaluation | None) -> pd.DataFrame:
    rows = []
    for run in runs:
        path = folder / run_name(run)
        results = _results(run, folder, senteval) if senteval else folder
        row: dict[str, Any] = {**run.labels, "seed": run.seed, "run": path.name, "results": str(results)}
        row |= {"weights": "", "tokens": 0}
        scores = flat_scores(_read_scores(results))
        if (path / EXPORT).is_dir():
            facts = read_run(path)
            row |= {key: facts[key] for key in ("weights", "tokens")}
            scores |= {} if run.evaluation else facts["trained"]
        if scores:
            rows.append(row | scores)
    return pd.DataFrame(rows)


def _read_scores(folder: Path) -> Mapping[str, Any]:
    return read_results(folder).tasks if (folder / FILE).exists() else {}


_compose = cache(compose)


@cache
def _digest_weights(name: str) -> str:
    """Digest of the weights of a bundled encoder or of a folder; of another name, that of all bundled ones."""
    bundled = ROOT / "encoders" / "checkpoints"
    folder = next((path for path in (bundled / name, Path(name).expanduser()) if path.is_dir()), bundled)
    files = sorted(folder.rglob("*.safetensors"))
    return _digest([hashlib.sha256(file.read_bytes()).hexdigest() for file in files])


def _version(target: str) -> list[str]:
    """Version of an objective, read from its source, because an import takes seconds."""
    source = ROOT / f"{target.rpartition('.')[0].replace('.', '/')}.py"
    return re.findall(r"^    version = (\d+)", source.read_text(encoding="utf-8"), re.MULTILINE)


def _name(title: str, decisive: Any, seed: str = "") -> str:
    tail = f"-{seed}{_digest(decisive)}"
    return re.sub(r"[^\w.]+", "-", title)[: LONGEST_NAME - len(tail)] + tail


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:10]
