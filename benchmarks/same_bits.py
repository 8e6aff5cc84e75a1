"""Compares the training of two checkouts bit for bit: 20 steps, stopped after 10 and resumed.

    python benchmarks/same_bits.py --against FOLDER [--pairs OBJECTIVE/ENCODER ...] [--keep FOLDER]

Guards a refactoring. Each checkout trains every objective with three encoders on the same text with its own
``run.py``, one thread each; ``metrics.jsonl`` and the vectors of the exported encoders must be equal. Without
``--against`` this checkout is compared with itself. A pair that both checkouts refuse counts as equal. Prints a
line for each pair; the exit status is 1 if anything differs. Takes about five minutes on two cores.

Each run is stopped by a SIGTERM that it receives while the checkpoint of step 9 is put in place, so that it ends
with a checkpoint after step 10. A process of each checkout imports the libraries once and forks for each
command.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import random
import runpy
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[1]
OBJECTIVES = sorted(path.stem for path in (HERE / "experiments" / "configs" / "objective").glob("*.yaml"))
SHAPE = "model_type: roberta, num_hidden_layers: 2, hidden_size: 16, num_attention_heads: 2, intermediate_size: 32"
WORDS = ["encoder.hidden=8", "encoder.word_size=8", "encoder.min_count=1", "encoder.dropout=0.1"]
ENCODERS = {
    "transformer": ["weights=random", "encoder.name=tiny", "encoder.vocab_size=320", f"encoder.shape={{{SHAPE}}}"],
    "bilstm_max": WORDS,
    "gru": [*WORDS, "encoder.layers=2"],
}
SMALL = {  # sizes of objectives that have them
    "conssent": ["objective.classifier_width=8"],
    "conssent_mt": ["objective.classifier_width=8"],
    "gensen": ["objective.word_size=8", "objective.classifier_width=8", "objective.synthetic_pairs=120"],
    "nli": ["objective.classifier_width=8", "objective.synthetic_pairs=120"],
    "pairs": ["objective.synthetic_pairs=120"],
    "tsdae": ["objective.word_size=8"],
}
CAUSAL = {"language_model/gru": ["encoder.bidirectional=false"]}  # which trains no other encoder of these
STEPS, STOP = 20, 10
COMMON = [
    f"budget.steps={STEPS}", "budget.documents=4", "budget.sentences=16", "budget.min_span=4",
    "budget.max_span=16", "budget.min_tokens=null", "corpus=text", "corpus.path=corpus.jsonl",
    "corpus.dev_fraction=0.2", "evaluation=none", f"checkpoint.every={STOP - 1}", "log_every=3", "dev_every=4",
    "dev_batches=2", "device=cpu", "threads=1",
]  # fmt: skip
SENTENCES = ["Bad bif mod.", "Ked", "A word that nobody knows, and lin."]


def write_corpus(path: Path) -> None:
    """Writes 40 documents of 12 made-up sentences each, always the same."""
    rng = random.Random(0)
    words = [first + last for first in ("ba", "ke", "li", "mo", "nu", "ra") for last in "dfgklmnrst"]
    with path.open("w") as file:
        for _ in range(40):
            sentences = [" ".join(rng.sample(words, rng.randint(6, 14))).capitalize() + "." for _ in range(12)]
            file.write(json.dumps({"text": " ".join(sentences)}) + "\n")


def fork(function: Callable[[], int | None], log: Path) -> int:
    """Calls ``function`` in a fork whose output goes to ``log``; returns the exit status, -1 for an exception."""
    if child := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    status = 255
    with log.open("a") as file, contextlib.redirect_stdout(file), contextlib.redirect_stderr(file):
        try:
            status = function() or 0
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else int(end.code is not None)
        except BaseException:
            traceback.print_exc()
        finally:
            file.flush()
            os._exit(status)


def train(tree: Path, overrides: list[str], stop: bool = False) -> None:
    """Runs ``experiments/run.py`` of ``tree``.

    Args:
        tree: a checkout.
        overrides: of the run.
        stop: whether the run receives a SIGTERM when its checkpoint of step ``STOP`` - 1 is put in place.
    """

    def terminate(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "os.rename" and os.fspath(arguments[1]).endswith(f"step-{STOP - 1:08d}"):
            os.kill(os.getpid(), signal.SIGTERM)

    script = str(tree / "experiments" / "run.py")
    sys.argv = [script, *overrides]
    sys.path.insert(0, str(Path(script).parent))  # as Python does
    if stop:
        sys.addaudithook(terminate)
    runpy.run_path(script, run_name="__main__")


def encode(run: Path) -> None:
    """Writes the exported encoder's vectors of ``SENTENCES`` beside it."""
    import torch

    import encoders

    torch.set_num_threads(1)
    (run / "vectors").write_bytes(encoders.load(run / "encoder").encode(SENTENCES).tobytes())


def train_all(tree: Path, folder: Path, pairs: list[str]) -> None:
    """Trains ``pairs`` ("objective/encoder") with ``tree`` in ``folder``; writes an outcome for each."""
    for module in ("matplotlib.pyplot", "torch._dynamo", "transformers", "experiments.experiment"):
        importlib.import_module(module)  # once, for the forks
    assert Path(str(sys.modules["experiments"].__file__)).is_relative_to(tree)
    os.chdir(folder)
    for pair in pairs:
        objective, encoder = pair.split("/")
        name = f"{objective}-{encoder}"
        run, log = folder / name, folder / f"{name}.log"
        chosen = [f"objective={objective}", *SMALL.get(objective, []), f"encoder={encoder}", *ENCODERS[encoder]]
        chosen += CAUSAL.get(pair, [])
        cache = f"cache={folder / 'cache'}"
        status = fork(partial(train, tree, [*chosen, *COMMON, cache, f"run_dir={run}"], stop=True), log)
        outcome = f"refused with status {status}"
        if status == 130:
            stopped = max((path.name for path in (run / "checkpoints").iterdir()), default="nowhere")
            status = fork(partial(train, tree, [f"resume={run}", cache]), log) or fork(partial(encode, run), log)
            outcome = f"stopped at {stopped}, resumed with status {status}"
        (folder / f"{name}.outcome").write_text(outcome)


def compare(name: str, ours: Path, theirs: Path) -> tuple[bool, str]:
    """Returns whether the runs ``name`` in the two folders agree, and what was found."""
    outcomes = [(side / f"{name}.outcome").read_text() for side in (ours, theirs)]
    if outcomes[0] != outcomes[1]:
        return False, f"here {outcomes[0]}; there {outcomes[1]}"
    if outcomes[0] == "refused with status 2" and not any((side / name).exists() for side in (ours, theirs)):
        return True, "refused by both"
    if outcomes[0] != f"stopped at step-{STOP:08d}, resumed with status 0":
        return False, f"both {outcomes[0]}"
    differing = [
        file
        for file in ("metrics.jsonl", "vectors")
        if (ours / name / file).read_bytes() != (theirs / name / file).read_bytes()
    ]
    lines = (ours / name / "metrics.jsonl").read_text().count("\n")
    what = f"different: {', '.join(differing)}" if differing else f"equal, {lines} lines and vectors"
    return not differing, what


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path, default=HERE, help="another checkout; default: this one")
    pairs = [f"{objective}/{encoder}" for objective in OBJECTIVES for encoder in ENCODERS]
    parser.add_argument("--pairs", nargs="+", default=pairs, choices=pairs, metavar="OBJECTIVE/ENCODER")
    parser.add_argument("--keep", type=Path, help="folder for runs and logs; default: a temporary one")
    parser.add_argument("--work", nargs=2, type=Path, metavar=("TREE", "FOLDER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        tree, folder = options.work
        train_all(tree, folder, options.pairs)
        return 0
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as temporary:
        folder = (options.keep or Path(temporary)).resolve()
        sides = []
        for name, tree in (("here", HERE), ("there", options.against.resolve())):
            (folder / name).mkdir(parents=True)
            write_corpus(folder / name / "corpus.jsonl")
            environment = os.environ | {"PYTHONPATH": str(tree), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
            command = [
                sys.executable,
                "-P",
                __file__,
                "--work",
                str(tree),
                str(folder / name),
                "--pairs",
                *options.pairs,
            ]
            sides.append(subprocess.Popen(command, env=environment, cwd=folder / name))
        if any([side.wait() for side in sides]):
            return 1
        outcomes = [compare(pair.replace("/", "-"), folder / "here", folder / "there") for pair in options.pairs]
    for pair, (equal, what) in zip(options.pairs, outcomes, strict=True):
        print(f"{'ok' if equal else 'DIFFERS':<8} {pair:<28} {what}")
    count = sum(equal for equal, _ in outcomes)
    print(f"{count} of {len(outcomes)} equal, {time.monotonic() - started:.0f} s")
    return int(count < len(outcomes))


if __name__ == "__main__":
    sys.exit(main())
