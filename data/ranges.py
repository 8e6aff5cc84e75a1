"""Ranges of the numbers in a configuration, with bounds that keep a typo from exhausting the machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

MOST = 2**20  # of rows of a batch, tokens of a span, steps between two events: beyond what any machine holds
COUNT = 10**15  # of steps, tokens, pairs: beyond any corpus, and far below where integers overflow
THREADS = 1024  # and processes: starting a million takes a machine down

Size = Annotated[int, Field(ge=1, le=MOST)]  # of a batch, a span, a queue
AtLeast2 = Annotated[int, Field(ge=2, le=MOST)]
AtLeast8 = Annotated[int, Field(ge=8, le=MOST)]
SizeOrZero = Annotated[int, Field(ge=0, le=MOST)]
Width = Annotated[int, Field(ge=1, le=2**16)]  # units of a layer
Count = Annotated[int, Field(ge=1, le=COUNT)]
Seed = Annotated[int, Field(ge=0, le=2**32 - 1)]  # the largest that NumPy and scikit-learn take
Threads = Annotated[int, Field(ge=1, le=THREADS)]
Positive = Annotated[float, Field(gt=0)]
Weight = Annotated[float, Field(ge=0)]  # of a loss, or of a penalty
Share = Annotated[float, Field(ge=0, le=1)]
Proportion = Annotated[float, Field(gt=0, lt=1)]
Below1 = Annotated[float, Field(ge=0, lt=1)]
Factor = Annotated[float, Field(gt=0, le=1)]


def _expand(path: str) -> str:
    return str(Path(path).expanduser())


def _exists(path: str) -> str:
    if not Path(path).exists():
        raise ValueError("no such file or folder")
    return path


ExpandedPath = Annotated[str, AfterValidator(_expand)]
Existing = Annotated[ExpandedPath, AfterValidator(_exists)]  # path of a file or folder
