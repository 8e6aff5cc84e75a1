"""Compiled training of linear classifiers that share their batches: each row is loaded once for all of them.

Scores of four weight rows and two examples are summed at a time, always by the same machine code (weight rows are
padded to a multiple of four, examples to a multiple of two). So a classifier is the same to the last bit, whatever
is trained beside it. For two classes one row of differences is enough: the gradient of class 0 is the negative of
class 1's. Adam's state is still kept for both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np

ROWS = 4  # weight rows at a time
TILE = 1 << 16  # numbers of a batch's features at a time: fits in a core's cache
FAST = {"reassoc", "contract", "arcp", "afn", "nsz"}  # sums may be reordered; nan and inf are kept

ONE, HALF, ZERO = np.float32(1), np.float32(0.5), np.float32(0)
LOWEST = np.float32(-87)  # exp of a smaller value is not a normal float32
LOG2_E, LN_2 = np.float32(1.4426950408889634), np.float32(0.6931471805599453)
EXP = tuple(np.float32(1 / k) for k in (720, 120, 24, 6, 2, 1, 1))  # Taylor; 1e-7 within ln(2) / 2

ADAM_RATE, ADAM_FIRST, ADAM_SECOND = 1e-3, 0.9, 0.999
RMSPROP_RATE, RMSPROP_DECAY = np.float32(1e-2), np.float32(0.99)
EPSILON = np.float32(1e-8)  # of both optimizers


def _compiled(function: Callable[..., Any]) -> Any:
    """Compiles at the first call; caches the machine code on disk if a cache folder is writable."""
    options: dict[str, Any] = {"nogil": True, "fastmath": FAST, "error_model": "numpy"}
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:  # neither __pycache__ nor the user's cache folder is writable
        return numba.njit(**options)(function)


@_compiled
def _score(features: np.ndarray, rows: np.ndarray, weights: np.ndarray, scores: np.ndarray) -> None:
    """scores[r, t] = features[rows[t]] . weights[r, :D] + weights[r, D]."""
    width = features.shape[1]
    for r in range(0, len(weights), ROWS):
        w0, w1, w2, w3 = weights[r], weights[r + 1], weights[r + 2], weights[r + 3]
        for t in range(0, len(rows), 2):
            x, y = features[rows[t]], features[rows[t + 1]]
            x0 = x1 = x2 = x3 = y0 = y1 = y2 = y3 = ZERO
            for d in range(width):
                x0 += x[d] * w0[d]
                x1 += x[d] * w1[d]
                x2 += x[d] * w2[d]
                x3 += x[d] * w3[d]
                y0 += y[d] * w0[d]
                y1 += y[d] * w1[d]
                y2 += y[d] * w2[d]
                y3 += y[d] * w3[d]
            scores[r, t], scores[r, t + 1] = x0 + w0[width], y0 + w0[width]
            scores[r + 1, t], scores[r + 1, t + 1] = x1 + w1[width], y1 + w1[width]
            scores[r + 2, t], scores[r + 2, t + 1] = x2 + w2[width], y2 + w2[width]
            scores[r + 3, t], scores[r + 3, t + 1] = x3 + w3[width], y3 + w3[width]


@_compiled
def _accumulate(features: np.ndarray, rows: np.ndarray, errors: np.ndarray, gradient: np.ndarray) -> None:
    """gradient[r, :D] += sum over t of errors[r, t] * features[rows[t]]; gradient[r, D] += their sum."""
    width = features.shape[1]
    for r in range(0, len(gradient), ROWS):
        g0, g1, g2, g3 = gradient[r], gradient[r + 1], gradient[r + 2], gradient[r + 3]
        for t in range(0, len(rows), 2):
            x, y = features[rows[t]], features[rows[t + 1]]
            x0, x1, x2, x3 = errors[r, t], errors[r + 1, t], errors[r + 2, t], errors[r + 3, t]
            y0, y1, y2, y3 = errors[r, t + 1], errors[r + 1, t + 1], errors[r + 2, t + 1], errors[r + 3, t + 1]
            for d in range(width):
                g0[d] += x0 * x[d] + y0 * y[d]
                g1[d] += x1 * x[d] + y1 * y[d]
                g2[d] += x2 * x[d] + y2 * y[d]
                g3[d] += x3 * x[d] + y3 * y[d]
            g0[width] += x0 + y0
            g1[width] += x1 + y1
            g2[width] += x2 + y2
            g3[width] += x3 + y3


@_compiled
def _exp(values: np.ndarray, exponents: np.ndarray) -> None:
    """Computes exp in place of values <= 0, (n,), as 2^k e^f with |f| <= ln(2) / 2; vectorised, unlike libm's."""
    a6, a5, a4, a3, a2, a1, a0 = EXP
    for i in range(len(values)):
        power = max(values[i], LOWEST) * LOG2_E
        whole = np.int32(power - HALF)  # truncates towards zero: the nearest integer, as power <= 0
        f = (power - np.float32(whole)) * LN_2
        values[i] = a0 + f * (a1 + f * (a2 + f * (a3 + f * (a4 + f * (a5 + f * a6)))))
        exponents[i] = (whole + 127) << 23
    powers = exponents.view(np.float32)
    for i in range(len(values)):
        values[i] *= powers[i]


@_compiled
def _binary_errors(
    scores: np.ndarray,
    labels: np.ndarray,
    count: int,
    share: np.float32,
    buffer: np.ndarray,
    exponents: np.ndarray,
) -> None:
    """Replaces the differences of two classes' scores by (probability of class 1 - label) * share."""
    for row in scores:
        for t in range(count):
            buffer[t] = -abs(row[t])
        _exp(buffer[:count], exponents[:count])
        for t in range(count):
            nearer = ONE / (ONE + buffer[t])
            probability = nearer if row[t] >= ZERO else ONE - nearer
            row[t] = (probability - np.float32(labels[t])) * share
        row[count:] = ZERO


@_compiled
def _softmax_errors(
    scores: np.ndarray,
    labels: np.ndarray,
    count: int,
    share: np.float32,
    buffer: np.ndarray,
    exponents: np.ndarray,
) -> None:
    """Replaces one classifier's scores, of shape (C, T), by (probability - [class is label]) * share."""
    buffer[:] = scores[0]
    for row in scores:
        for t in range(count):
            buffer[t] = max(buffer[t], row[t])
    for row in scores:
        for t in range(count):
            row[t] -= buffer[t]
        _exp(row[:count], exponents[:count])
    buffer[:] = ZERO
    for row in scores:
        for t in range(count):
            buffer[t] += row[t]
    for row in scores:
        for t in range(count):
            row[t] = row[t] / buffer[t] * share
        row[count:] = ZERO
    for t in range(count):
        scores[labels[t], t] -= share


@_compiled
def _adam(
    weight: np.ndarray,
    first: np.ndarray,
    second: np.ndarray,
    gradient: np.ndarray,
    sign: np.float32,
    l2: np.float32,
    rate: np.float32,
    scale: np.float32,
) -> None:
    """Update of torch.optim.Adam with L2 in the gradient; rate and scale include the bias corrections."""
    for i in range(len(weight)):
        g = sign * gradient[i] + l2 * weight[i]
        first[i] += (g - first[i]) * np.float32(1 - ADAM_FIRST)
        second[i] += (g * g - second[i]) * np.float32(1 - ADAM_SECOND)
        weight[i] -= rate * first[i] / (np.sqrt(second[i]) * scale + EPSILON)


@_compiled
def _rmsprop(
    weight: np.ndarray, second: np.ndarray, gradient: np.ndarray, sign: np.float32, l2: np.float32
) -> None:
    """Update of torch.optim.RMSprop with L2 in the gradient."""
    for i in range(len(weight)):
        g = sign * gradient[i] + l2 * weight[i]
        second[i] += (g * g - second[i]) * (ONE - RMSPROP_DECAY)
        weight[i] -= RMSPROP_RATE * g / (np.sqrt(second[i]) + EPSILON)


@_compiled
def _padded(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


@_compiled
def _effective(weights: np.ndarray, classes: int) -> np.ndarray:
    """Returns the rows to multiply, zero-padded: (class 1 - class 0) for two classes, otherwise all."""
    count = len(weights) // 2 if classes == 2 else len(weights)
    rows = np.zeros((_padded(count, ROWS), weights.shape[1]), np.float32)
    _refresh(weights, classes, rows)
    return rows


@_compiled
def _refresh(weights: np.ndarray, classes: int, rows: np.ndarray) -> None:
    if classes == 2:
        for k in range(len(weights) // 2):
            for d in range(weights.shape[1]):
                rows[k, d] = weights[2 * k + 1, d] - weights[2 * k, d]
    else:
        for k in range(len(weights)):
            for d in range(weights.shape[1]):
                rows[k, d] = weights[k, d]


@_compiled
def _tile(features: np.ndarray, batch: int) -> int:
    """Returns the number of examples at a time, which is even."""
    return _padded(min(batch, max(TILE // features.shape[1], 2)), 2)


@_compiled
def _take(rows: np.ndarray, chosen: np.ndarray, tile: np.ndarray) -> np.ndarray:
    """Copies rows[chosen] into tile, the last one twice if their number is odd; returns the filled part."""
    for t in range(len(chosen)):
        tile[t] = rows[chosen[t]]
    count = _padded(len(chosen), 2)
    tile[count - 1] = rows[chosen[-1]]
    return tile[:count]


@_compiled
def train(
    features: np.ndarray,
    labels: np.ndarray,
    rows: np.ndarray,
    orders: np.ndarray,
    weights: np.ndarray,
    first: np.ndarray,
    second: np.ndarray,
    steps: int,
    l2: np.ndarray,
    classes: int,
    batch: int,
    adam: bool,
) -> int:
    """Trains L classifiers at once, with one pass over ``rows`` per permutation.

    Args:
        features: float32 of shape (n, D).
        labels: int64 of shape (n,).
        rows: row numbers of the features, int64 of shape (m,).
        orders: permutations of 0 .. m-1, int32 of shape (passes, m).
        weights: float32 of shape (L * C, D + 1), the bias last; changed in place.
        first, second: the optimizer's moments, shaped as the weights; changed in place.
        steps: number of updates made before.
        l2: float32 of shape (L,).
        classes: C.
        batch: examples per update.
        adam: true for Adam, false for RMSprop.

    Returns:
        The total number of updates.
    """
    effective = _effective(weights, classes)
    gradient = np.empty_like(effective)
    tile = np.empty(_tile(features, batch), np.int64)
    scores = np.zeros((len(effective), len(tile)), np.float32)
    buffer, exponents = np.empty(len(tile), np.float32), np.empty(len(tile), np.int32)
    targets = np.empty(len(tile), np.int64)
    real = scores[: len(l2) if classes == 2 else len(weights)]
    for order in orders:
        for start in range(0, len(order), batch):
            stop = min(start + batch, len(order))
            share = ONE / np.float32(stop - start)
            gradient[:] = ZERO
            for low in range(start, stop, len(tile)):
                count = min(len(tile), stop - low)
                taken = _take(rows, order[low : low + count], tile)
                for t in range(count):
                    targets[t] = labels[taken[t]]
                _score(features, taken, effective, scores)
                if classes == 2:
                    _binary_errors(real, targets, count, share, buffer, exponents)
                else:
                    for k in range(0, len(real), classes):
                        _softmax_errors(real[k : k + classes], targets, count, share, buffer, exponents)
                _accumulate(features, taken, scores, gradient)
            steps += 1
            rate = np.float32(ADAM_RATE / (1 - ADAM_FIRST**steps))
            scale = np.float32(1 / np.sqrt(1 - ADAM_SECOND**steps))
            for k in range(len(weights)):
                row = gradient[k // 2] if classes == 2 else gradient[k]
                sign = -ONE if classes == 2 and k % 2 == 0 else ONE
                if adam:
                    _adam(weights[k], first[k], second[k], row, sign, l2[k // classes], rate, scale)
                else:
                    _rmsprop(weights[k], second[k], row, sign, l2[k // classes])
            _refresh(weights, classes, effective)
    return steps


@_compiled
def correct(
    features: np.ndarray, labels: np.ndarray, rows: np.ndarray, weights: np.ndarray, classes: int
) -> np.ndarray:
    """Counts the correct ``rows`` of each of L classifiers, int64 of shape (L,); ties go to the first class."""
    effective = _effective(weights, classes)
    tile = np.empty(_tile(features, len(rows)), np.int64)
    scores = np.empty((len(effective), len(tile)), np.float32)
    everyone = np.arange(len(rows))
    right = np.zeros(len(weights) // classes, np.int64)
    for low in range(0, len(rows), len(tile)):
        chosen = everyone[low : low + len(tile)]
        taken = _take(rows, chosen, tile)
        _score(features, taken, effective, scores)
        for k in range(len(right)):
            for t in range(len(chosen)):
                best = 0
                if classes == 2:
                    best = 1 if scores[k, t] > ZERO else 0
                else:
                    for c in range(1, classes):
                        if scores[k * classes + c, t] > scores[k * classes + best, t]:
                            best = c
                right[k] += best == labels[taken[t]]
    return right
