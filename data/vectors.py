"""Word vectors from a text file, a word and its numbers a line, as GloVe, word2vec and fastText write them.

The latter two begin with a line "words dimension" (Pennington et al. 2014; Mikolov et al. 2013; Bojanowski et al.
2017).
"""

from __future__ import annotations

import codecs
from array import array
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torchtext import vocab

from data.errors import UserError, reading
from data.sources.reading import raw_lines


class WordVectors(vocab.Vectors):
    """n words and their vectors of D numbers: torchtext's ``Vectors`` with a reader of this class.

    The look-up is that of torchtext 0.6.0 (``stoi``, ``get_vecs_by_tokens``; an unknown word is a zero vector).
    torchtext's own reader is not used: it writes what it read to a pickle and opens any that it finds, switches
    off the check of TLS certificates for the whole process, and converts number by number.

    Args:
        path: text file, or one packed as .gz or .zip.

    Attributes:
        words: n words, in the file's order. Only the first line of a repeated word counts; lines whose word is
            empty or not UTF-8 are left out.
        vectors: float32 of shape (n, D).
        dim: D.

    Raises:
        UserError: if the file is absent, cut short, empty or ragged, or a value is not finite.
    """

    words: list[str]
    vectors: torch.Tensor
    dim: int

    def __init__(self, path: Path | str) -> None:
        super().__init__(str(path))

    def cache(self, name: str, cache: Any, url: Any = None, max_vectors: Any = None) -> None:
        """Reads the file ``name``; called by torchtext's constructor, whose further arguments are not used."""
        path = Path(name)
        places: dict[str, int] = {}
        numbers = array("f")  # of all words, in one row
        promised: int | None = None
        lines = dimension = 0
        for number, line in raw_lines(path):
            if number == 1:
                line = line.removeprefix(codecs.BOM_UTF8)
                if (header := _header(line)) is not None:
                    promised, dimension = header
                    continue
            if not line.strip():
                continue
            lines += 1
            start, _, rest = line.partition(b" ")
            word = _decoded(start)
            row = _numbers(rest, f"{path}:{number}")
            dimension = dimension or len(row)
            if len(row) != dimension or dimension == 0:
                raise UserError(f"{len(row)} numbers instead of {dimension or 'any'}", key=f"{path}:{number}")
            if word and word not in places:
                places[word] = len(places)
                numbers.frombytes(row.tobytes())
        if promised is not None and lines != promised:
            hint = "Fetch it again, or correct the first line if the file was shortened on purpose."
            raise UserError(
                f"{lines:,} words instead of {promised:,}, as its first line says", key=str(path), hint=hint
            )
        if not places:
            raise UserError("no word vectors", key=str(path))
        self.words = self.itos = list(places)
        self.stoi = places
        self.vectors = torch.frombuffer(numbers, dtype=torch.float32).view(len(places), dimension)
        self.dim = dimension


def _header(line: bytes) -> tuple[int, int] | None:
    """Returns words and dimension if ``line`` is the first one of word2vec's form."""
    fields = line.split()
    if len(fields) != 2 or not all(field.isdigit() and len(field) < 19 for field in fields) or int(fields[1]) == 0:
        return None
    return int(fields[0]), int(fields[1])


def _decoded(word: bytes) -> str | None:
    try:
        return word.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _numbers(text: bytes, where: str) -> np.ndarray:
    with reading("line of a word and numbers, separated by blanks", where):
        row = np.fromstring(text, dtype=np.float32, sep=" ") if text.strip() else np.empty(0, dtype=np.float32)
        if not np.isfinite(row).all():
            raise ValueError("a number is not finite")
        return row
