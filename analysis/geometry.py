"""Geometry of sentence vectors: retrieval, alignment, uniformity, isotropy.

    recall@k = share of anchors whose positive is among the k most similar of all positives by cosine

    alignment = mean |a - p|^2       uniformity = log mean exp(-2 |x - y|^2)    of unit vectors

    mean cosine = mean cos(x, y)     effective rank = exp(-sum_i p_i log p_i)
    IsoScore = (1 / sum_i p_i^2 - 1) / (D - 1)

Alignment and uniformity: Wang & Isola (2020, section 4); both are better when smaller, and they trade off.

Isotropy: x and y are all pairs of vectors, p_i the shares of the covariance's D eigenvalues in their sum. The mean
cosine is 0 for vectors in all directions and 1 for vectors in one. The effective rank (Roy & Vetterli 2007) is the
number of dimensions in use, 1 to D; IsoScore (Rudman et al. 2022) is the share of dimensions that are used evenly,
0 to 1.

IsoScore's algorithm takes the isotropy defect d = |s - 1| / sqrt(2 (D - sqrt D)) of s = sqrt(D) p / |p|, and
phi = (D - d^2 (D - sqrt D))^2 / D^2, and returns (D phi - 1) / (D - 1). As |s|^2 = D, phi is 1 / (D sum_i p_i^2).
Of n vectors both measures come out too low unless n is far above D: the IsoScore of an isotropic Gaussian is about
1 / (1 + D / n), so only encoders with the same number of vectors are compared.
"""

from __future__ import annotations

import numpy as np

RANKS = (1, 5)  # k of recall@k
MIN_PAIRS, MIN_SENTENCES = 20, 500  # the effective rank of n vectors is at most n - 1


def normalise(vectors: np.ndarray) -> np.ndarray:
    """Scales ``vectors``, of shape (n, D), to length 1; a zero vector stays zero."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / (norms + (norms == 0))


def alignment(anchors: np.ndarray, positives: np.ndarray) -> float:
    """Computes the mean squared distance of the pairs of two (n, D) arrays of unit vectors."""
    return float(((anchors - positives) ** 2).sum(axis=1).mean())


def uniformity(vectors: np.ndarray) -> float:
    """Computes log mean exp(-2 |x - y|^2) over all pairs of rows of ``vectors`` (n, D), unit vectors."""
    return float(np.log(np.exp(-4.0 * (1.0 - pair_cosines(vectors)).clip(0)).mean()))


def recall(anchors: np.ndarray, positives: np.ndarray, k: int) -> float:
    """Returns the percentage of ``anchors`` (n, D) whose row of ``positives`` (n, D) is among the k nearest."""
    similarities = anchors @ positives.T
    # Ties within rounding count as misses, so that collapsed vectors score 0.
    nearer = (similarities >= similarities.diagonal()[:, None] - 1e-9).sum(axis=1) - 1
    return 100.0 * float((nearer < k).mean())


def pair_cosines(vectors: np.ndarray) -> np.ndarray:
    """Computes the cosine of each pair of rows of ``vectors`` (n, D), unit vectors, of shape (n (n - 1) / 2,)."""
    return (vectors @ vectors.T)[np.triu_indices(len(vectors), k=1)]


def variance_shares(vectors: np.ndarray) -> np.ndarray:
    """Computes each principal component's share of the variance of ``vectors`` (n, D), the largest first.

    Returns:
        Shares of shape (min(n, D),) that sum to 1. Collapsed vectors have all of it in one direction.
    """
    variances = np.linalg.svd(vectors - vectors.mean(axis=0), compute_uv=False) ** 2
    variances[0] += np.finfo(float).tiny  # collapsed vectors have none
    return variances / variances.sum()


def measure_geometry(anchors: np.ndarray, positives: np.ndarray, sentences: np.ndarray) -> dict[str, float]:
    """Computes recall@k in percent, alignment, uniformity, and isotropy, where there are enough vectors.

    Args:
        anchors, positives: vectors of pairs, of shape (n, D).
        sentences: vectors whose isotropy is measured, of shape (m, D), D >= 2.
    """
    scores = dict[str, float]()
    if len(anchors) >= MIN_PAIRS:
        anchors, positives = normalise(anchors), normalise(positives)
        scores |= {f"recall@{k}": recall(anchors, positives, k) for k in RANKS}
        scores |= {"alignment": alignment(anchors, positives), "uniformity": uniformity(anchors)}
    if len(sentences) >= MIN_SENTENCES:
        shares = variance_shares(sentences)
        scores |= {
            "mean_cosine": pair_cosines(normalise(sentences)).mean(),
            "effective_rank": np.exp(-(shares @ np.log(shares + (shares == 0)))),
            "iso_score": (1 / (shares @ shares) - 1) / (sentences.shape[1] - 1),
        }
    return scores
