"""Memory of preparing and sampling a corpus, and what it would be for 500,000 documents of 2,500 tokens.

    python benchmarks/corpus_memory.py [--documents 2000 8000 32000] [--workers 0]

Each size runs in a process of its own. Counted is anonymous memory (RssAnon of this process and those that it
starts): pages of the mapped token file belong to the system, which takes them back when it needs them.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import psutil

from data.batch import Batch
from data.loader import Loader
from data.randomness import generator
from data.sources.base import Document, Source
from data.store import prepare
from data.token_format import TokenFormat
from data.tokenizer import train_bpe

TOKENS = 2500  # a document
TARGET = 500_000  # documents
LIMIT = 2.0  # GiB


class Synthetic(Source):
    """Documents of 2,500 words drawn from 5,000 made-up ones, each word one token."""

    name = "synthetic"

    def __init__(self, count: int) -> None:
        super().__init__()
        letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
        self.words = ["".join(row) for row in letters[generator(1).integers(26, size=(5000, 5))]]
        self.count = count

    def documents(self) -> Iterator[Document]:
        for i in range(self.count):
            yield Document(" ".join(map(self.words.__getitem__, generator(2, i).integers(5000, size=TOKENS))))

    def identity(self) -> list[str]:
        return [str(self.count)]

    def describe(self) -> dict[str, Any]:
        return {"name": self.name, "where": "made up", "licence": None}


class Span:
    """Draws 512 tokens of a document."""

    def sample(self, unit: np.ndarray, format: TokenFormat, rng: np.random.Generator) -> np.ndarray:
        start = int(rng.integers(len(unit) - 511))
        return unit[start : start + 512].astype(np.int64)

    def collate(self, examples: list[np.ndarray], format: TokenFormat) -> Batch:
        return Batch({}, size=len(examples))


def anonymous() -> float:
    """Anonymous memory of this process and its descendants in MiB."""
    total = 0
    for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
        try:
            status = Path(f"/proc/{process.pid}/status").read_text()
        except OSError:  # it has ended meanwhile
            continue
        total += sum(int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon"))
    return total / 1024


def measure(count: int, workers: int) -> dict[str, float]:
    """Peak growth in MiB and seconds of preparing ``count`` documents and drawing 1,000 batches of 16."""
    source = Synthetic(count)
    tokenizer = train_bpe((word for word in source.words for _ in range(3)), vocab_size=20_000)
    before, peak, done = anonymous(), 0.0, threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.05):
            peak = max(peak, anonymous())

    watcher = threading.Thread(target=watch)
    watcher.start()
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        store = prepare(source, tokenizer, cache=Path(folder), workers=workers)
        prepared = time.perf_counter()
        format = TokenFormat((0,), (2,), 1, 4, store.vocab_size, 512, frozenset(range(5)))
        loader = Loader(store, store.select("train").indices, Span(), format, batch_size=16, seed=0)
        for step in range(1000):
            loader.batch(step)
        sampled = time.perf_counter()
    done.set()
    watcher.join()
    return {
        "growth": peak - before,
        "tokens": float(store.lengths.mean()),
        "prepare": prepared - began,
        "sample": sampled - prepared,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--documents", type=int, nargs="+", default=[2000, 8000, 32_000])
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(measure(args.documents[0], args.workers)))
        return
    print("documents  tokens each  peak growth  prepare  1,000 batches")
    growths = []
    for count in args.documents:
        command = [sys.executable, __file__, "--one", "--documents", str(count), "--workers", str(args.workers)]
        result = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        growths.append(result["growth"])
        print(
            f"{count:9,}  {result['tokens']:11,.0f}  {result['growth']:7.0f} MiB  {result['prepare']:5.1f} s"
            f"  {result['sample']:11.2f} s",
            flush=True,
        )
    slope = (growths[-1] - growths[-2]) / (args.documents[-1] - args.documents[-2])
    needed = (growths[-1] + slope * (TARGET - args.documents[-1])) / 1024
    print(
        f"{slope * 2**20:.0f} bytes more a document (from the last two sizes); "
        f"{TARGET:,} documents: {needed:.2f} GiB (limit {LIMIT:.0f} GiB)"
    )
    sys.exit(int(needed >= LIMIT))


if __name__ == "__main__":
    main()
