"""Measures how many of a corpus' words have a vector, for three ways to split text into words.

    python benchmarks/word_coverage.py glove.txt.gz books.jsonl.gz news.txt.gz [--lines 60000]

Prints for each text the share of its running words (lower-cased) that are among the words of the first file, and
how many of these occur.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tokenizers import Regex, pre_tokenizers

from data.sources.text import Text
from data.vectors import WordVectors
from data.vocabulary import WORDS


def word_splitter(pre_tokenizer: pre_tokenizers.PreTokenizer) -> Callable[[str], list[str]]:
    return lambda text: [word for word, _ in pre_tokenizer.pre_tokenize_str(text)]


WAYS: dict[str, Callable[[str], list[str]]] = {
    "WORDS": word_splitter(pre_tokenizers.Split(Regex(WORDS), behavior="removed", invert=True)),
    "white space": str.split,
    "BertPreTokenizer": word_splitter(pre_tokenizers.BertPreTokenizer()),
}


def texts(path: str, lines: int) -> Iterator[str]:
    for document in islice(Text(path=path).documents(), lines):
        yield " ".join(document.text.replace("’", "'").split()).lower()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vectors", help="file of word vectors")
    parser.add_argument("texts", nargs="+", help="files as corpus=text reads them")
    parser.add_argument("--lines", type=int, default=60_000, help="documents of each that are read")
    arguments = parser.parse_args()
    known = set(WordVectors(arguments.vectors).words)
    print(f"{'':40}" + "".join(f"{way:>24}" for way in WAYS))
    whole = {way: sum(split(word) == [word] for word in known) for way, split in WAYS.items()}
    print(f"{'words of the file that stay whole':40}" + "".join(f"{count:>24,}" for count in whole.values()))
    for path in arguments.texts:
        cells = []
        for split in WAYS.values():
            counts = Counter(word for text in texts(path, arguments.lines) for word in split(text))
            found = {word: count for word, count in counts.items() if word in known}
            cells.append(f"{100 * sum(found.values()) / counts.total():.1f} %, {len(found):,}")
        print(f"{Path(path).name:40}" + "".join(f"{cell:>24}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
