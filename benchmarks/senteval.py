"""Compares SentEval's scores and CPU seconds of two checkouts, task by task, on one core.

    python benchmarks/senteval.py --against CHECKOUT [--data FOLDER] [--vectors FILE] [--tasks ..] [--rounds N]

Both checkouts run their own ``evaluate.py`` in turn, on one thread, with random_vectors or a bag of words. Prints
each task's seconds without embedding, as senteval.json has them: here CPU seconds, which other processes disturb
least, the least of all rounds. FOLDER is SUITE_DATA's senteval by default. All scores must be equal: the exit
status is 1 if one differs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run directly, from anywhere

from benchmarks import harness

HERE = Path(__file__).resolve().parents[1]
TASKS = ["CR", "TREC", "MRPC", "STSBenchmark", "SICKRelatedness"]
TOLERANCE = 5e-4  # of scores: relatedness is trained in single precision
TIMES = ("seconds", "embed_seconds", "sentences", "sentences_per_second")
# Runs a script whose clock is the process's CPU.
ON_CPU_TIME = (
    "import runpy, sys, time; time.perf_counter = time.process_time; sys.argv.pop(0); sys.path.insert(0, ''); "
    "runpy.run_path(sys.argv[0], run_name='__main__')"
)


def evaluate(tree: Path, options: argparse.Namespace, out: Path) -> dict[str, dict[str, Any]]:
    """Runs ``evaluate.py`` of the checkout ``tree``; returns the records by task."""
    model = ["model=random_vectors"]
    if options.vectors:
        model = ["model=bag_of_words", f"encoder.vectors={options.vectors.resolve()}"]
    keys = [f"data={options.data.resolve()}", f"tasks=[{','.join(options.tasks)}]", f"out={out}"]
    script = str(tree / "experiments" / "evaluate.py")
    command = [sys.executable, "-P", "-c", ON_CPU_TIME, script, *model, *keys, "device=cpu", "threads=1"]
    environment = os.environ | {"PYTHONPATH": str(tree), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    subprocess.run([*command, f"cache={out.parent / 'cache'}"], check=True, env=environment, capture_output=True)
    tasks: dict[str, dict[str, Any]] = json.loads((out / "senteval.json").read_text())["tasks"]
    return tasks


def list_scores(value: Any) -> list[float]:
    """Returns the numbers of a record except its times, in an order that does not depend on the checkout."""
    if isinstance(value, dict):
        return [score for key in sorted(value) if key not in TIMES for score in list_scores(value[key])]
    if isinstance(value, list):
        return [score for part in value for score in list_scores(part)]
    return [value] if isinstance(value, int | float) and not isinstance(value, bool) else []


def main() -> int:
    parser = harness.make_parser(__doc__, rounds=2)
    parser.add_argument("--against", type=Path, required=True, metavar="CHECKOUT")
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("SUITE_DATA", "")) / "senteval")
    parser.add_argument("--tasks", nargs="+", default=TASKS)
    parser.add_argument("--vectors", type=Path, metavar="FILE", help="word vectors; default: random_vectors")
    options = parser.parse_args()
    sides = {"here": HERE, "there": options.against.resolve()}
    records: dict[str, list[dict[str, dict[str, Any]]]] = {side: [] for side in sides}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.rounds + 1):  # in the first one kernels are compiled and vectors computed
            for side in list(sides) if number % 2 else list(sides)[::-1]:
                records[side].append(evaluate(sides[side], options, Path(folder) / side / str(number)))
    print(f"{'':<20} {'here':>8} {'there':>8} {'ratio':>6}")
    differing, totals = 0, dict.fromkeys(sides, 0.0)
    for task in options.tasks:
        least = {side: min(each[task]["seconds"] for each in rounds[1:]) for side, rounds in records.items()}
        ours, theirs = (list_scores(rounds[-1][task]) for rounds in records.values())
        same = len(ours) == len(theirs) and np.allclose(ours, theirs, rtol=0, atol=TOLERANCE)
        differing += not same
        totals = {side: totals[side] + least[side] for side in sides}
        ratio = least["here"] / max(least["there"], 0.01)
        remark = "" if same else "OTHER SCORES"
        print(f"{task:<20} {least['here']:7.2f}s {least['there']:7.2f}s {ratio:6.2f}  {remark}")
    print(f"{'in all':<20} {totals['here']:7.2f}s {totals['there']:7.2f}s {totals['here'] / totals['there']:6.2f}")
    return int(differing > 0)


if __name__ == "__main__":
    sys.exit(main())
