"""Compiled training of softmax regressions that share their batches: each row is loaded once for all of them.

Scores of four weight rows and two examples are summed at a time, always by the same machine code (weight rows are
padded to a multiple of four, examples to a multiple of two). So a regression is the same to the last bit, whatever
is trained beside it. For two classes one row of differences is enough: the gradient of class 0 is the negative of
class 1's. Adam's state is still kept for both.
"""

# mypy: allow-untyped-defs
from __future__ import annotations

import os

import numba
import numpy as np
from numpy import float32

ROWS = 4  # weight rows at a time
TILE = 1 << 16  # numbers of a batch's features at a time: fits in a core's cache
FAST = {"reassoc", "contract", "arcp", "afn", "nsz"}  # sums may be reordered; nan and inf are kept

ONE, HALF, ZERO = float32(1), float32(0.5), float32(0)
LOWEST = float32(-87)  # exp of a smaller value is not a normal float32
LOG2_E, LN_2 = float32(1.4426950408889634), float32(0.6931471805599453)
A6, A5, A4, A3, A2, A1, A0 = (float32(1 / k) for k in (720, 120, 24, 6, 2, 1, 1))  # exp's Taylor series

ADAM_RATE, ADAM_FIRST, ADAM_SECOND = 1e-3, 0.9, 0.999
RMSPROP_RATE, RMSPROP_DECAY = float32(1e-2), float32(0.99)
EPSILON = float32(1e-8)  # of both optimizers


# The machine code is cached beside this file.
_compiled = numba.njit(cache=os.access(__file__, os.W_OK), nogil=True, fastmath=FAST, error_model="numpy")


@_compiled
def _score(features, rows, weights, scores):
    """scores[r, t] = features[rows[t]] . weights[r, :D] + weights[r, D]; the last of odd rows is scored twice."""
    width, last = features.shape[1], len(rows) - 1
    for r in range(0, len(weights), ROWS):
        w0, w1, w2, w3 = weights[r], weights[r + 1], weights[r + 2], weights[r + 3]
        for t in range(0, len(rows), 2):
            x, y = features[rows[t]], features[rows[min(t + 1, last)]]
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
            for k, (first, second) in enumerate(((x0, y0), (x1, y1), (x2, y2), (x3, y3))):
                bias = weights[r + k, width]
                scores[r + k, t], scores[r + k, t + 1] = first + bias, second + bias


@_compiled
def _accumulate(features, rows, errors, gradient):
    """gradient[r, :D] += sum over t of errors[r, t] * features[rows[t]]; gradient[r, D] += their sum."""
    width, last = features.shape[1], len(rows) - 1
    for r in range(0, len(gradient), ROWS):
        g0, g1, g2, g3 = gradient[r], gradient[r + 1], gradient[r + 2], gradient[r + 3]
        for t in range(0, len(rows), 2):
            x, y = features[rows[t]], features[rows[min(t + 1, last)]]
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
def _exp(values, exponents):
    """Computes exp in place of values <= 0, (n,), as 2^k e^f with |f| <= ln(2) / 2; vectorised, unlike libm's."""
    for i in range(len(values)):
        power = max(values[i], LOWEST) * LOG2_E
        whole = np.int32(power - HALF)  # truncates towards zero: the nearest integer, as power <= 0
        f = (power - float32(whole)) * LN_2
        values[i] = A0 + f * (A1 + f * (A2 + f * (A3 + f * (A4 + f * (A5 + f * A6)))))
        exponents[i] = (whole + 127) << 23
    powers = exponents.view(float32)
    for i in range(len(values)):
        values[i] *= powers[i]


@_compiled
def _binary_errors(scores, labels, share, buffer, exponents):
    """Replaces differences of two classes' scores, one row each, by (probability of class 1 - label) * share."""
    for row in scores:
        for t in range(len(buffer)):
            buffer[t] = -abs(row[t])
        _exp(buffer, exponents)
        for t in range(len(buffer)):
            nearer = ONE / (ONE + buffer[t])
            probability = nearer if row[t] >= ZERO else ONE - nearer
            row[t] = (probability - float32(labels[t])) * share


@_compiled
def _softmax(scores, share, buffer, exponents):
    """Replaces the scores of one regression, a row per class, by probability * share."""
    count = len(buffer)
    buffer[:] = scores[0, :count]
    for row in scores:
        for t in range(count):
            buffer[t] = max(buffer[t], row[t])
    for row in scores:
        for t in range(count):
            row[t] -= buffer[t]
        _exp(row[:count], exponents)
    buffer[:] = ZERO
    for row in scores:
        for t in range(count):
            buffer[t] += row[t]
    for row in scores:
        for t in range(count):
            row[t] = row[t] / buffer[t] * share


@_compiled
def _squared_errors(scores, targets, share):
    """Replaces probabilities, a row per class, by the gradient of their mean squared distance from ``targets``."""
    classes = len(scores)
    for t in range(len(targets)):
        mean = ZERO
        for c in range(classes):
            mean += (scores[c, t] - targets[t, c]) * scores[c, t]
        for c in range(classes):
            scores[c, t] *= (scores[c, t] - targets[t, c] - mean) * share * float32(2 / classes)


@_compiled
def _update(weight, first, second, gradient, sign, l2, rate, scale, adam):
    """Update of torch.optim.Adam, or RMSprop with L2 in the gradient; ``scale`` corrects the second moment."""
    decay = float32(1 - ADAM_SECOND) if adam else ONE - RMSPROP_DECAY
    for i in range(len(weight)):
        g = sign * gradient[i] + l2 * weight[i]
        second[i] += (g * g - second[i]) * decay
        if adam:
            first[i] += (g - first[i]) * float32(1 - ADAM_FIRST)
            g = first[i]
        weight[i] -= rate * g / (np.sqrt(second[i]) * scale + EPSILON)


@_compiled
def _effective(weights, classes):
    """Returns the rows to multiply, padded with zeros: (class 1 - class 0) for two classes, otherwise all."""
    count = len(weights) // 2 if classes == 2 else len(weights)
    rows = np.zeros((-(-count // ROWS) * ROWS, weights.shape[1]), float32)
    _refresh(rows, weights, classes)
    return rows


@_compiled
def _refresh(rows, weights, classes):
    """Writes the rows of new weights over those that ``_effective`` returned, which is faster than a new array."""
    if classes == 2:
        for k in range(len(weights) // 2):
            for d in range(weights.shape[1]):
                rows[k, d] = weights[2 * k + 1, d] - weights[2 * k, d]
    else:
        rows[: len(weights)] = weights


@_compiled
def train(features, targets, rows, weights, first, second, steps, l2, classes, batch, adam):
    """Trains L regressions at once, with one pass over ``rows`` in their order.

    Args:
        features: float32 of shape (n, D).
        targets: classes, int64 of shape (n,), for cross-entropy; or probabilities of the classes, float32 of shape
            (n, C), C > 2, for the mean squared error of softmax.
        rows: row numbers of both, int64 of shape (m,).
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
    gradient, tile = np.empty_like(effective), min(batch, max(TILE // features.shape[1], 2))
    tile += tile % 2
    scores = np.zeros((len(effective), tile), float32)
    errors, exponents = np.empty(tile, float32), np.empty(tile, np.int32)
    real = scores[: len(l2) if classes == 2 else len(weights)]
    for start in range(0, len(rows), batch):
        stop = min(start + batch, len(rows))
        share = ONE / float32(stop - start)
        gradient[:] = ZERO
        for low in range(start, stop, tile):
            tile_rows = rows[low:stop][:tile]
            count = len(tile_rows)
            labels, buffer, powers = targets[tile_rows], errors[:count], exponents[:count]
            _score(features, tile_rows, effective, scores)
            if targets.ndim == 1 and classes == 2:
                _binary_errors(real, labels, share, buffer, powers)
            else:
                for k in range(0, len(real), classes):
                    part = real[k : k + classes]
                    if targets.ndim == 1:
                        _softmax(part, share, buffer, powers)
                        for t in range(count):
                            part[labels[t], t] -= share
                    else:
                        _softmax(part, ONE, buffer, powers)
                        _squared_errors(part, labels, share)
            scores[:, count:] = ZERO
            _accumulate(features, tile_rows, scores, gradient)
        steps += 1
        rate, scale = RMSPROP_RATE, ONE
        if adam:
            rate = float32(ADAM_RATE / (1 - ADAM_FIRST**steps))
            scale = float32(1 / np.sqrt(1 - ADAM_SECOND**steps))
        for k in range(len(weights)):
            row = gradient[k // 2] if classes == 2 else gradient[k]
            sign = -ONE if classes == 2 and k % 2 == 0 else ONE
            _update(weights[k], first[k], second[k], row, sign, l2[k // classes], rate, scale, adam)
        _refresh(effective, weights, classes)
    return steps


@_compiled
def score(features, rows, weights, classes):
    """Computes scores of ``rows``, (L * C, m); for two classes those of class 1 less those of class 0, (L, m)."""
    effective = _effective(weights, classes)
    scores = np.empty((len(effective), len(rows) + 1), float32)
    _score(features, rows, effective, scores)
    return scores[: len(weights) // (2 if classes == 2 else 1), :-1]
