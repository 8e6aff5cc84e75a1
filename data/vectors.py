"""Word vectors from a text file, a word and its numbers a line, as GloVe, word2vec and fastText write them.

The latter two begin with a line "words dimension" (Pennington et al. 2014; Mikolov et al. 2013; Bojanowski et al.
2017).
"""

from __future__ import annotations

from array import array
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torchtext import vocab

from data.errors import reading
from data.sources.reading import open_unpacked


class WordVectors(vocab.Vectors):
    """n words and their vectors of D numbers: torchtext's ``Vectors`` with a reader of this class.

    The look-up is that of torchtext 0.6.0 (``stoi``, ``get_vecs_by_tokens``; an unknown word is a zero vector).
    torchtext's own reader is not used: it writes what it read to a pickle and opens any that it finds, switches
    off the check of TLS certificates for the whole process, and converts number by number.

    Args:
        path: text file, or one packed as .gz.

    Attributes:
        words: n words, in the file's order. Only the first line of a repeated word counts; lines whose word is
            empty or not UTF-8 are left out.
        vectors: float32 of shape (n, D).
        dim: D.

    Raises:
        UserError: if the file is absent, cut short, empty or ragged, or a value is not finite.
    """

    vectors: torch.Tensor
    dim: int

    def __init__(self, path: Path | str) -> None:
        super().__init__(str(Path(path).expanduser()))

    def cache(self, name: str, *unused: Any, **options: Any) -> None:
        """Reads the file ``name``; called by torchtext's constructor, whose further arguments are not used."""
        places: dict[str, int] = {}
        numbers = array("f")  # of all words, in one row
        dimension = 0
        with reading("file of word vectors", name), open_unpacked(Path(name)) as lines:
            for number, line in enumerate(lines, 1):
                word, _, rest = line.strip(b"\r\n").partition(b" ")
                row = np.fromstring(rest, dtype=np.float32, sep=" ")
                if not line.strip() or (number == 1 and word.isdigit() and len(row) == 1):  # "words dimension"
                    continue
                dimension = dimension or len(row)
                if len(row) != dimension or dimension == 0 or not np.isfinite(row).all():
                    raise ValueError(f"line {number}: not {dimension or 'any'} finite numbers")
                with suppress(UnicodeDecodeError):
                    if (text := word.decode()) and text not in places:
                        places[text] = len(places)
                        numbers.frombytes(row.tobytes())
            self.vectors = torch.frombuffer(numbers, dtype=torch.float32).view(len(places), dimension)
        self.words = self.itos = list(places)
        self.stoi = places
        self.dim = dimension
