"""DeCLUTR's view of a document: anchor spans and, near each of them, positive spans.

    anchor length    floor(Beta(4, 2) * (max_length - min_length) + min_length)
    positive length  floor(Beta(2, 4) * (max_length - min_length) + min_length)

Giorgi et al. 2021, section 3.2. Choices on which the paper is silent are documented beside the function;
lengths and positions count content tokens of the encoder's own tokenizer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

Strategy = Literal["all", "adjacent", "subsuming"]
Placement = Literal["uniform", "grid"]


class Span(NamedTuple):
    """Tokens ``start`` .. ``end - 1`` of a document."""

    start: int
    end: int


@dataclass(frozen=True, kw_only=True)
class SpanSampler:
    """Samples A anchors per document and P positives per anchor.

    Attributes:
        anchors_per_document, positives_per_anchor: A and P.
        min_length, max_length: of a span, in tokens.
        anchor_beta, positive_beta: (alpha, beta) of the length distributions.
        gap: least distance in tokens between the starts of two anchors (placement "uniform").
            None: 2 * max_length, as in the final paper; its first version has max_length.
        placement: "uniform" over all placements that keep the gap, or "grid" as the published program does it.
        strategy: where positives may lie: "all" (adjacent, overlapping and subsumed all occur), "adjacent"
            or "subsuming" (the anchor contains them).
    """

    anchors_per_document: int = 2
    positives_per_anchor: int = 2
    min_length: int = 32
    max_length: int = 512
    anchor_beta: Sequence[float] = (4.0, 2.0)
    positive_beta: Sequence[float] = (2.0, 4.0)
    gap: int | None = None
    placement: Placement = "uniform"
    strategy: Strategy = "all"

    @property
    def least_gap(self) -> int:
        """``gap``, or its default."""
        return 2 * self.max_length if self.gap is None else self.gap

    @property
    def min_tokens(self) -> int:
        """Tokens that a document must have: max(2 * A * max_length, gap * (A - 1) + max_length)."""
        return max(
            2 * self.anchors_per_document * self.max_length,
            self.least_gap * (self.anchors_per_document - 1) + self.max_length,
        )

    def draw(self, n: int, rng: np.random.Generator) -> tuple[list[Span], list[list[Span]]]:
        """Draws A anchors and, for each, P positives of a document of ``n`` tokens, ``min_tokens`` or more."""
        lengths = [self._length(self.anchor_beta, self.max_length, rng) for _ in range(self.anchors_per_document)]
        if self.placement == "uniform":
            starts = uniform_starts(n, lengths, self.least_gap, rng)
        else:
            starts = grid_starts(n, lengths, self.max_length, rng)
        anchors = [Span(start, start + length) for start, length in zip(starts, lengths, strict=True)]
        return anchors, [
            [self._positive(anchor, n, rng) for _ in range(self.positives_per_anchor)] for anchor in anchors
        ]

    def _length(self, beta: Sequence[float], longest: int, rng: np.random.Generator) -> int:
        return int(rng.beta(beta[0], beta[1]) * (longest - self.min_length) + self.min_length)

    def _positive(self, anchor: Span, n: int, rng: np.random.Generator) -> Span:
        start, end = anchor
        if self.strategy == "subsuming":
            length = self._length(self.positive_beta, end - start, rng)
            first = int(rng.integers(start, end - length, endpoint=True))
        elif self.strategy == "adjacent":
            # Shortened where neither side has room; the published program draws anew below the larger side.
            length = min(self._length(self.positive_beta, self.max_length, rng), max(start, n - end))
            sides = [s for s in (start - length, end) if s >= 0 and s + length <= n]
            first = sides[int(rng.integers(len(sides)))]
        else:  # "all"
            length = self._length(self.positive_beta, self.max_length, rng)
            first = int(rng.integers(max(0, start - length), min(end, n - length), endpoint=True))
        return Span(first, first + length)


def uniform_starts(n: int, lengths: list[int], gap: int, rng: np.random.Generator) -> list[int]:
    """Draws starts of anchors of the given ``lengths``, uniform over all placements that keep ``gap``.

    Drawn without rejection: with the free room F = n - l_last - gap * (A - 1), A distinct integers
    u_1 < .. < u_A of {0 .. F + A - 1} give s_i = u_i + (i - 1)(gap - 1), a bijection onto the placements.
    """
    count = len(lengths)
    room = n - lengths[-1] - gap * (count - 1)
    drawn = np.sort(rng.choice(room + count, size=count, replace=False))
    return [int(u) + i * (gap - 1) for i, u in enumerate(drawn)]


def grid_starts(n: int, lengths: list[int], max_length: int, rng: np.random.Generator) -> list[int]:
    """Draws starts as the published program does, in the order drawn.

    Candidate blocks start at multiples of ``max_length``; a block is drawn at random (the first or the last
    of the list where few are left), the anchor uniformly inside it, and the block is struck off the list
    together with the list's two entries beside it.
    """
    blocks = list(range(0, n - max_length + 1, max_length))
    starts = []
    for i, length in enumerate(lengths):
        remaining = len(lengths) - i
        if len(blocks) // remaining < remaining:
            chosen = int(rng.integers(2)) * (len(blocks) - 1)
        else:
            chosen = int(rng.integers(len(blocks)))
        starts.append(int(rng.integers(blocks[chosen], blocks[chosen] + max_length - length, endpoint=True)))
        del blocks[max(0, chosen - 1) : chosen + 2]
    return starts
