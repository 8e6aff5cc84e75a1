"""Measures training and ``encode`` on an idle CPU and beside a program that keeps one core busy.

    python benchmarks/busy.py [--seconds S] [--rounds R] [--only NAME ...] [KEY=VALUE ...]

Each figure comes from a process of its own: ``experiments/run.py`` with its defaults in float32 (and KEY=VALUE),
stopped S seconds after its first step, or ``encode`` of the bundled encoder over the Python documentation. The
rounds alternate. Prints a table of medians for each way of using the cores, and ratios to one process with a
thread for each core on an idle CPU.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

THREADS = "one process, a thread a core"
WAYS: dict[str, tuple[list[str], dict[str, str]]] = {  # overrides of run.py, and variables of its environment
    THREADS: (["processes=1"], {}),
    "the same, OMP_WAIT_POLICY=passive": (["processes=1"], {"OMP_WAIT_POLICY": "passive"}),
    "the same, GOMP_SPINCOUNT=1000": (["processes=1"], {"GOMP_SPINCOUNT": "1000"}),
    "one process of one thread": (["processes=1", "threads=1"], {}),
    "the default": ([], {}),
}
ENCODE = "encode"
FOREVER = ["budget.steps=100000", "evaluation=none", "log_every=1", "dev_every=100000", "checkpoint.every=100000"]


def training(seconds: float, overrides: list[str], environment: dict[str, str]) -> float:
    """Returns the tokens a second of a run between its first step and ``seconds`` later."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        command = [sys.executable, "experiments/run.py", "precision=fp32", "device=cpu", *FOREVER, *overrides]
        process = subprocess.Popen(
            [*command, f"run_dir={run}"],
            cwd=ROOT,
            env=os.environ | environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            wait(process, lambda: len(rows(run / "timings.jsonl")) > 0, 300)
            begun = time.monotonic()
            wait(process, lambda: len(rows(run / "timings.jsonl")) > 1 and time.monotonic() > begun + seconds, 300)
        finally:
            kill(process)
            process.communicate()
        times = rows(run / "timings.jsonl")
        tokens = {row["step"]: row["tokens"] for row in rows(run / "metrics.jsonl") if "tokens" in row}
        first, last = times[0], times[-1]
        return (tokens[last["step"]] - tokens[first["step"]]) / (last["seconds"] - first["seconds"])


def rows(journal: Path) -> list[dict[str, float]]:
    """Returns the complete lines of a journal that is still being written."""
    if not journal.exists():
        return []
    return [json.loads(line) for line in journal.read_text().splitlines(keepends=True) if line.endswith("\n")]


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kills the process and its children."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def wait(process: subprocess.Popen[bytes], ready: Callable[[], bool], limit: float) -> None:
    """Waits until ``ready()``; exits with the process' message if it ends before, or after ``limit`` seconds."""
    end = time.monotonic() + limit
    while not ready():
        if process.poll() is not None or time.monotonic() > end:
            kill(process)
            sys.exit(f"The run ended early: {(process.communicate()[1] or b'').decode()[-2000:]}")
        time.sleep(0.1)


def encoding(seconds: float) -> float:
    """Returns the sentences a second of ``encode`` in a process of its own (``encode_here``)."""
    command = [sys.executable, __file__, "--seconds", str(seconds), "--encode-here"]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def encode_here(seconds: float) -> float:
    """Returns the sentences a second of ``encode`` after a first pass, for at least ``seconds``."""
    import encoders
    from data.sentences import split_sentences
    from data.sources.pydocs import Pydocs

    texts = split_sentences([document.text for document in Pydocs().documents()], limit=4000)
    encoder = encoders.load(encoders.BUNDLED)
    encoder.encode(texts[:500])
    start, done, passed = time.perf_counter(), 0, 0.0
    while passed < seconds:
        done += len(encoder.encode(texts))
        passed = time.perf_counter() - start
    return done / passed


@contextmanager
def busy(count: int) -> Iterator[None]:
    """Keeps ``count`` cores busy within its block."""
    spinning = [multiprocessing.Process(target=spin, daemon=True) for _ in range(count)]
    for process in spinning:
        process.start()
    try:
        yield
    finally:
        for process in spinning:
            process.kill()


def spin() -> None:
    while True:
        pass


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", nargs="+", choices=[*WAYS, ENCODE], default=[*WAYS, ENCODE])
    parser.add_argument("--encode-here", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE")
    options = parser.parse_args()
    if options.encode_here:
        print(encode_here(options.seconds))
        return
    found: dict[str, dict[int, list[float]]] = {name: {0: [], 1: []} for name in options.only}
    for _ in range(options.rounds):
        for count in (0, 1):
            for name in options.only:
                with busy(count):
                    if name == ENCODE:
                        figure = encoding(options.seconds / 2)
                    else:
                        overrides, environment = WAYS[name]
                        figure = training(options.seconds, [*overrides, *options.overrides], environment)
                found[name][count].append(figure)
                print(f"{name}, {count} busy: {figure:,.0f}", file=sys.stderr, flush=True)
    medians = {name: [statistics.median(each[count]) for count in (0, 1)] for name, each in found.items()}
    print(f"{os.cpu_count()} cores, {options.seconds:g} s a figure, medians of {options.rounds}\n")
    print("| tokens/s (encode: sentences/s) | quiet | one core busy |\n| --- | --: | --: |")
    for name, (quiet, loaded) in medians.items():
        base = medians.get(name if name == ENCODE else THREADS, [quiet])[0]
        print(f"| {name} | {quiet:,.0f} ({quiet / base:.2f}) | {loaded:,.0f} ({loaded / base:.2f}) |")


if __name__ == "__main__":
    main()
