"""DeCLUTR's figure 1C: lengths of sampled anchors and positives over their beta densities.

    density of a length l:  Beta(a, b) at (l - lmin) / (lmax - lmin),  divided by lmax - lmin

Giorgi et al. 2021, section 3.2. The lengths come from the sampler that training uses, placements included.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

import numpy as np
from matplotlib.figure import Figure as Picture
from scipy.special import beta as beta_function

from analysis.figures import drawing, style
from analysis.figures.exhibits import Figure
from analysis.figures.scores import Point
from data.randomness import EVALUATED_SPLIT, generator
from data.views.spans import SpanSampler

DOCUMENTS, SEED = 2000, 0
BINS = 40
ANCHOR, POSITIVE = "anchor", "positive"


def lengths(spans: SpanSampler, documents: int = DOCUMENTS) -> list[Point]:
    """Samples lengths in tokens of the spans of ``documents`` documents; a point's seed is its document."""
    rng = generator(EVALUATED_SPLIT, SEED)
    found = []
    for document in range(documents):
        anchors, positives = spans.draw(2 * spans.min_tokens, rng)
        for group, drawn in ((ANCHOR, anchors), (POSITIVE, [span for few in positives for span in few])):
            found += [Point("", group, "", document, float(span.end - span.start)) for span in drawn]
    return found


def density(x: np.ndarray, low: float, high: float, a: float, b: float) -> np.ndarray:
    """Returns the density of Beta(a, b) stretched over low .. high, at ``x`` of shape (n,) inside."""
    share = (x - low) / (high - low)
    return share ** (a - 1) * (1 - share) ** (b - 1) / beta_function(a, b) / (high - low)


def picture(figure: Figure, spans: SpanSampler, points: Sequence[Point], note: str) -> Picture:
    """Draws histograms of the lengths under the densities of ``spans``; within ``style.look()``."""
    low, high = spans.min_length, spans.max_length
    whole, body = drawing.framed(
        figure, note, drawing.TALL, ["Filled: sampled lengths; line: the density; |: means."]
    )
    axes = body.subplots()
    x = np.linspace(low, high, 400)
    edges = np.arange(low, high + (width := max(1, (high - low) // BINS)) + 1, width)  # whole lengths: even bars
    groups = {
        ANCHOR: (spans.anchor_beta, spans.mean_lengths()[0], "-", style.colour("declutr")),
        POSITIVE: (spans.positive_beta, spans.mean_lengths()[1], style.DASHES[1], style.INK),
    }
    for group, ((a, b), mean, dash, colour) in groups.items():
        drawn = [point.score for point in points if point.group == group]
        label = f"{group}: Beta({a:g}, {b:g})\n{len(drawn):,} drawn, mean {fmean(drawn):.1f}\nexpected {mean:.1f}"
        axes.hist(
            drawn, bins=edges.tolist(), density=True, color=colour, alpha=0.35, edgecolor="white", linewidth=0.3
        )
        axes.plot(x, density(x, low, high, a, b), color=colour, linestyle=dash, label=label)
        axes.plot(
            [fmean(drawn)], [0], "|", color=colour, markersize=12, markeredgewidth=2, clip_on=False, zorder=4
        )
    axes.set(xlabel=figure.x, ylabel=figure.y, xlim=(low, high))
    axes.set_ylim(bottom=0)
    body.legend(loc="outside right upper", labelspacing=1.2)
    return whole
