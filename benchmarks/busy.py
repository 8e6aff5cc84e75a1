"""Measures training on an idle CPU and beside a program that keeps one core busy.

    python benchmarks/busy.py [--seconds S] [--rounds R] [KEY=VALUE ...]

Each figure comes from a process of its own: ``experiments/run.py`` with its defaults in float32 (and KEY=VALUE),
stopped S seconds after its first step. The rounds alternate. Prints tokens a second, medians, for each way of
using the cores, and ratios to one process with a thread for each core on an idle CPU.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run directly, from anywhere

from analysis.runs import read_lines
from benchmarks import harness

ROOT = Path(__file__).resolve().parents[1]
WAYS = {  # overrides of run.py
    "one process, a thread a core": ["processes=1"],
    "one process of one thread": ["processes=1", "threads=1"],
    "the default": [],
}
FOREVER = ["budget.steps=100000", "evaluation=none", "log_every=1", "dev_every=100000", "checkpoint.every=100000"]


def training(seconds: float, overrides: list[str]) -> float:
    """Returns the tokens a second of a run between its first step and ``seconds`` later."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        command = [sys.executable, "experiments/run.py", "precision=fp32", "device=cpu", *FOREVER, *overrides]
        process = subprocess.Popen(
            [*command, f"run_dir={run}"], cwd=ROOT, stdout=subprocess.DEVNULL, start_new_session=True
        )
        try:
            wait_for_rows(process, run, 1)
            time.sleep(seconds)
            wait_for_rows(process, run, 2)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        first, *_, last = read_lines(run / "timings.jsonl")
        tokens = {row["step"]: row["tokens"] for row in read_lines(run / "metrics.jsonl") if "tokens" in row}
        return (tokens[last["step"]] - tokens[first["step"]]) / (last["seconds"] - first["seconds"])


def wait_for_rows(process: subprocess.Popen[bytes], run: Path, count: int) -> None:
    """Waits for ``count`` lines of timings; exits if the run ends before."""
    while len(read_lines(run / "timings.jsonl")) < count:
        if process.poll() is not None:
            sys.exit("The run ended early.")
        time.sleep(0.1)


@contextmanager
def busy_cores(count: int) -> Iterator[None]:
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
    parser = harness.make_parser(__doc__, rounds=1)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE")
    options = parser.parse_args()
    rates: dict[tuple[str, int], list[float]] = {}
    for _ in range(options.rounds):
        for count in (0, 1):
            for name, overrides in WAYS.items():
                with busy_cores(count):
                    rate = training(options.seconds, [*overrides, *options.overrides])
                rates.setdefault((name, count), []).append(rate)
                print(f"{name}, {count} busy: {rate:,.0f}", file=sys.stderr, flush=True)
    medians = {key: median(values) for key, values in rates.items()}
    base, *_ = medians.values()
    print(f"{os.cpu_count()} cores, {options.seconds:g} s a figure, medians of {options.rounds}\n")
    print("| tokens/s | quiet | one core busy |\n| --- | --: | --: |")
    for name in WAYS:
        cells = (f"{medians[name, count]:,.0f} ({medians[name, count] / base:.2f})" for count in (0, 1))
        print(f"| {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
