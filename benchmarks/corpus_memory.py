"""Memory and time of tokenising, shuffling and sampling many short documents, beside those of a training step.

    python benchmarks/corpus_memory.py [--documents 100000] [--workers N] [--path FILE ...] [--folder FOLDER]

The corpus repeats real text (the bundled pydocs, or ``--path``): passages of 75 words, each behind its number,
so that no two are equal. Prints a line for each phase, with the peaks of memory in it: anonymous memory (RssAnon
of this process and its workers), resident pages of mapped files (RssFile of this process: libraries and the
store's index), and the peak of their sum, the resident memory. Then prints the time of a batch beside that of a
DeCLUTR step (16 documents, four layers of width 256), which it delays if no worker makes batches ahead. The exit
status is 1 if more than 2 GiB of resident memory or 10 % of a step were needed.

With ``--folder`` the store is kept there, and the next run continues one that was killed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import psutil
import torch

from benchmarks.training import SHAPE
from data.loader import Loader
from data.sources.base import Document, Source
from data.sources.pydocs import Pydocs
from data.sources.text import Text
from data.store import prepare
from encoders.transformer import Transformer
from objectives.declutr import Declutr

WORDS, PASSAGES = 75, 20_000  # words of a passage, and number of different passages
LIMIT = 2048  # MiB
SHARE = 0.1  # of a step


class Repeated(Source):
    """Passages of another corpus, numbered and repeated.

    Args:
        source: the other corpus.
        count: number of documents.
    """

    name = "repeated"

    def __init__(self, source: Source, count: int) -> None:
        super().__init__()
        self.source, self.count = source, count
        self.passages = list(islice(self._passages(), PASSAGES))

    def documents(self) -> Iterator[Document]:
        for i in range(self.count):
            yield Document(f"{i} {self.passages[i % len(self.passages)]}")

    def identity(self) -> list[str]:
        return [self.source.fingerprint, str(self.count)]

    def describe(self) -> dict[str, Any]:
        return {**self.source.describe(), "name": self.name}

    @property
    def total(self) -> int:
        return self.count

    def _passages(self) -> Iterator[str]:
        for document in self.source.documents():
            words = document.text.split()
            for first in range(0, len(words) - WORDS + 1, WORDS):
                yield " ".join(words[first : first + WORDS])


class Memory:
    """Peaks of memory since ``restart``, in MiB, watched in a thread."""

    def __init__(self) -> None:
        self.restart()
        threading.Thread(target=self._watch, daemon=True).start()

    def restart(self) -> None:
        self.peaks = [0.0, 0.0, 0.0]  # anonymous, of mapped files, and of both together

    def _watch(self) -> None:
        this = psutil.Process()
        while True:
            own = _status(this.pid)
            children = (_status(child.pid) for child in this.children(recursive=True))
            anonymous = own.get("RssAnon", 0) + sum(status.get("RssAnon", 0) for status in children)
            mapped = own.get("RssFile", 0)
            sizes = (anonymous, mapped, anonymous + mapped)
            self.peaks = [max(peak, size / 1024) for peak, size in zip(self.peaks, sizes, strict=True)]
            time.sleep(0.05)


def _status(pid: int) -> dict[str, int]:
    """Returns the sizes in a process' status, in KiB; none if it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return {}
    return {line.split(":")[0]: int(line.split()[1]) for line in lines if line.startswith("Rss")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--workers", type=int, help="processes that tokenise; 0: none but this one")
    parser.add_argument("--path", nargs="+", help="files of the text that is repeated")
    parser.add_argument("--folder", type=Path, help="of the store; else a temporary one")
    parser.add_argument("--batches", type=int, default=2000, help="that are sampled, each of 16 documents")
    options = parser.parse_args()

    source = Repeated(Text(path=options.path) if options.path else Pydocs(), options.documents)
    encoder = Transformer(weights="random", shape=SHAPE, vocab_size=20_000, texts=lambda: source.passages)
    objective = Declutr(anchors_per_document=1, min_length=8, max_length=32)
    objective.build(encoder)
    print(f"{options.documents:,} documents; {len(source.passages):,} different passages")
    print(f"{'phase':<28}{'seconds':>9}{'anonymous':>12}{'mapped':>12}{'resident':>12}")
    memory, resident = Memory(), 0.0

    @contextmanager
    def phase(name: str) -> Iterator[None]:
        nonlocal resident
        memory.restart()
        began = time.perf_counter()
        yield
        seconds = time.perf_counter() - began
        time.sleep(0.1)  # for a last measurement
        resident = max(resident, memory.peaks[2])
        print(f"{name:<28}{seconds:9.1f}" + "".join(f"{peak:8,.0f} MiB" for peak in memory.peaks), flush=True)

    with tempfile.TemporaryDirectory() as temporary:
        began = time.perf_counter()
        with phase("tokenise"):
            cache = options.folder or Path(temporary)
            store = prepare(source, encoder.tokenizer, cache=cache, workers=options.workers)
        seconds = time.perf_counter() - began
        with phase("select"):
            chosen = {
                part: store.select(part, min_tokens=objective.requirements.min_tokens) for part in ("train", "dev")
            }
        with phase("read held-out texts"):
            texts = store.held_out_texts()
        for lengths, name in ((None, ""), (store.lengths[chosen["train"].indices], " by length")):
            loader = Loader(
                store,
                chosen["train"].indices,
                objective,
                encoder.format,
                batch_size=objective.batch_size,
                seed=0,
                lengths=lengths,
            )
            with phase(f"shuffle{name}, two epochs"):
                for epoch in range(2):
                    loader.batch(epoch * loader.batches_per_epoch)
        times = []
        count = min(options.batches, loader.batches_per_epoch)
        with phase(f"sample {count:,} batches"):
            for step in range(count):
                start = time.perf_counter()
                batch = loader.batch(loader.batches_per_epoch + step)
                times.append(time.perf_counter() - start)
        sampling, times = median(times), []
        with phase("train 10 steps"):
            optimizer = torch.optim.AdamW(encoder.parameters(), lr=1e-5)
            for step in range(10):
                batch = loader.batch(step)
                start = time.perf_counter()
                objective.loss(encoder, batch).total.backward()
                optimizer.step()
                optimizer.zero_grad()
                times.append(time.perf_counter() - start)
        training = median(times)
    tokens = int(store.lengths.sum())
    print(
        f"{tokens / len(store):.0f} tokens a document; tokenised {len(store) / seconds:,.0f} documents and "
        f"{tokens / seconds:,.0f} tokens a second; {len(texts):,} held-out texts"
    )
    share = sampling / training
    print(f"a batch {1000 * sampling:.1f} ms, a step {1000 * training:.0f} ms: {share:.2%} (limit {SHARE:.0%})")
    print(f"peak of resident memory: {resident:,.0f} MiB (limit {LIMIT:,} MiB)")
    sys.exit(int(resident > LIMIT or share > SHARE))


if __name__ == "__main__":
    main()
