"""The ratio F that decides whether equal gaps are the worst case (docs/theory/slippage.md)."""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

Numbers = NDArray[np.float64]
_STEP = 0.06
_ERRORS = np.arange(-10.0, 14.0, _STEP)  # about t / 2, where integrands are largest; the trapezoid rule is exact here


def leads(gaps: Numbers) -> Numbers:
    """P_i = P(level i has the best mean), for levels t_i behind a best one; a row of gaps for each configuration.

    P_i = integral of phi(x) Phi(x - t_i) prod over l != i of Phi(x - t_i + t_l).

    >>> leads(np.zeros((1, 3))).round(6).tolist()
    [[0.25, 0.25, 0.25]]
    """
    found = np.empty_like(gaps)
    for i in range(gaps.shape[1]):
        at = _ERRORS + gaps[:, i : i + 1] / 2
        weight = np.exp(-at * at / 2) * (_STEP / math.sqrt(2 * math.pi))
        product = ndtr(at - gaps[:, i : i + 1])
        for other in range(gaps.shape[1]):
            if other != i:
                product *= ndtr(at + (gaps[:, other] - gaps[:, i])[:, None])
        found[:, i] = (weight * product).sum(axis=1)
    return found


def equal_gap_tail(n_rivals: int, gaps: Numbers) -> Numbers:
    """h_q(t) = q P(one of q levels leads, all of them t behind), with a small relative error for large t too.

    >>> equal_gap_tail(1, np.array([0.0])).round(9).tolist()
    [0.5]
    """
    at = _ERRORS + gaps[:, None] / 2
    weight = np.exp(-at * at / 2) * (_STEP / math.sqrt(2 * math.pi))
    found: Numbers = n_rivals * (weight * ndtr(at - gaps[:, None]) * ndtr(at) ** (n_rivals - 1)).sum(axis=1)
    return found


def slippage_ratio(gaps: Numbers) -> Numbers:
    """F(t) = sum_i P_i(t) / h_{m-1}(t_i), for rows of m - 1 gaps: equal gaps are the worst case if it is never above 1.

    >>> slippage_ratio(np.array([[1.0, 1.0, 1.0], [0.5, 1.0, 3.0]])).round(3).tolist()
    [1.0, 0.892]
    """
    n_rivals = gaps.shape[1]
    tails = equal_gap_tail(n_rivals, gaps.ravel()).reshape(gaps.shape)
    ratio: Numbers = (leads(gaps) / tails).sum(axis=1)
    return ratio


def random_gaps(n_rivals: int, n: int, rng: np.random.Generator) -> Numbers:
    """Gaps of every kind: near each other or not, small or large, clusters, one near the best, one or some far away."""
    size = (n, n_rivals)
    wide = rng.uniform(0, 1, size) * rng.uniform(0.1, 12, (n, 1))
    near = np.abs(rng.uniform(0, 8, (n, 1)) + rng.normal(size=size) * 10.0 ** rng.uniform(-3, 0.5, (n, 1)))
    two = np.where(rng.random(size) < rng.random((n, 1)), rng.uniform(0, 8, (n, 1)), rng.uniform(0, 8, (n, 1)))
    skewed = rng.exponential(size=size) * rng.uniform(0.05, 6, (n, 1))
    kinds = np.stack([wide, near, two, skewed])
    chosen: Numbers = kinds[rng.integers(0, 4, n), np.arange(n)]
    return np.minimum(chosen, 14.0)
