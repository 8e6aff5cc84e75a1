"""Memory and time of tokenising, shuffling and sampling many short documents, beside those of a training step.

    python benchmarks/corpus_memory.py [--documents 100000] [--path FILE ...] [--folder FOLDER]

The corpus repeats real text (the bundled pydocs, or ``--path``): passages of 75 words, each behind its number,
so that no two are equal. Prints a line for each phase, with the peak of resident memory in it, libraries and
mapped files included. Then prints the time of a batch beside that of a DeCLUTR step (16 documents, four layers of
width 256), which it delays if no worker makes batches ahead. The exit status is 1 if more than 2 GiB of memory or
1 % of a step were needed.

With ``--folder`` the store is kept there, and the next run continues one that was killed.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch

from benchmarks import harness
from data.loader import Loader
from data.sources.base import Example, Source
from data.sources.pydocs import Pydocs
from data.sources.text import Text
from data.store import prepare
from data.tokenizer import train_bpe
from encoders.transformer import Transformer
from objectives.declutr import Declutr

WORDS, PASSAGES = 75, 20_000  # words of a passage, and number of different passages
LIMIT = 2048  # MiB
SHARE = 0.01  # of a step


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

    def examples(self) -> Iterator[Example]:
        for i in range(self.count):
            yield Example((f"{i} {self.passages[i % len(self.passages)]}",))

    def identity(self) -> list[str]:
        return [self.source.fingerprint, str(self.count)]

    def describe(self) -> dict[str, Any]:
        return {**self.source.describe(), "name": self.name}

    def _passages(self) -> Iterator[str]:
        for example in self.source.examples():
            words = example.texts[0].split()
            for first in range(0, len(words) - WORDS + 1, WORDS):
                yield " ".join(words[first : first + WORDS])


def main() -> None:
    parser = harness.make_parser(__doc__)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--path", nargs="+", help="files of the text that is repeated")
    parser.add_argument("--folder", type=Path, help="of the store; else a temporary one")
    parser.add_argument("--batches", type=int, default=2000, help="that are sampled, each of 16 documents")
    options = parser.parse_args()

    source = Repeated(Text(path=options.path) if options.path else Pydocs(), options.documents)
    tokenizer = train_bpe(source.passages, vocab_size=20_000)
    encoder = Transformer(weights="random", shape=harness.roberta_shape(), tokenizer=tokenizer)
    objective = Declutr(anchors_per_document=1, min_length=8, max_length=32)
    objective.build(encoder)
    print(f"{options.documents:,} documents; {len(source.passages):,} different passages")
    print(f"{'phase':<28}{'seconds':>9}{'resident':>12}")
    peaks = []

    @contextmanager
    def phase(name: str) -> Iterator[None]:
        harness.reset_peak()
        began = time.perf_counter()
        yield
        peaks.append(1024 * harness.resident("VmHWM"))
        print(f"{name:<28}{time.perf_counter() - began:9.1f}{peaks[-1]:8,.0f} MiB", flush=True)

    with tempfile.TemporaryDirectory() as temporary:
        began = time.perf_counter()
        with phase("tokenise"):
            cache = options.folder or Path(temporary)
            store = prepare(source, encoder.tokenizer, cache=cache)
        seconds = time.perf_counter() - began
        with phase("select"):
            chosen = {
                part: store.select(part, min_tokens=objective.requirements.min_tokens) for part in ("train", "dev")
            }
        with phase("read held-out texts"):
            texts = store.held_out_texts()
        for lengths, name in ((None, ""), (store.lengths[chosen["train"].indices, 0], " by length")):
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
    print(f"peak of resident memory: {max(peaks):,.0f} MiB (limit {LIMIT:,} MiB)")
    sys.exit(int(max(peaks) > LIMIT or share > SHARE))


if __name__ == "__main__":
    main()
