"""How often a factor without effect is kept, and one with an effect is dismissed together with a wrong leader.

All gaps, margins and spreads are in standard errors of a level mean. The argument is in docs/theory, section 6.
"""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import cumulative_simpson
from scipy.special import ndtr

GAP_STEP, N_GAPS = 0.05, 180
"""Cells of gaps: from 0 to 9 standard errors, the last one for all beyond."""
Tail = NDArray[np.float64]
_GAPS = GAP_STEP * np.arange(N_GAPS + 1)
_Y = np.linspace(-9.0, 9.0, 361)
_DENSITY = np.exp(-_Y * _Y / 2) / math.sqrt(2 * math.pi)
_STEP = float(_Y[1] - _Y[0])
_MOST_TIED = 8  # rivals with one gap that are counted exactly; more are bounded by a sum
_ROUNDING = 2e-7  # more than what the integrals are off by


@lru_cache(maxsize=256)
def null_spread(m: int, left: float) -> float:
    """The spread from the second best to the worst of m equal levels that is exceeded with probability `left`.

    P(spread < s) = m E[D^(m-1) + (m-1) (1 - Phi(Y+s)) D^(m-2)], D = Phi(Y+s) - Phi(Y), Y the worst level's error.

    >>> round(null_spread(4, 0.05), 2)
    2.68
    """
    if m == 2:
        return 0.05  # the second best is the worst: any threshold above 0
    low, high = 0.0, 12.0
    for _ in range(40):
        middle = (low + high) / 2
        inside = ndtr(_Y + middle) - ndtr(_Y)
        below = inside ** (m - 1) + (m - 1) * ndtr(-_Y - middle) * inside ** (m - 2)
        low, high = (middle, high) if m * float(_DENSITY @ below) * _STEP < 1 - left else (low, middle)
    return high


@lru_cache(maxsize=_MOST_TIED)
def _tied_rivals(k: int) -> Tail:
    """[gap, y]: of k rivals a gap behind the best, whose error is u < y, some are above u and at most one above y."""
    high = ndtr(_Y + _GAPS[1:, None])
    at_most_one = high**k + k * high ** (k - 1) * (1 - high)
    none_above = cumulative_simpson(_DENSITY * ndtr(_Y + _GAPS[:-1, None]) ** k, x=_Y, initial=0)
    table: Tail = at_most_one * ndtr(_Y) - none_above
    return table


def wrongly_dismissed(m: int, margin: float, tied: bool = True) -> Tail:
    """P(dismissed and the leader is at least a gap behind the best), by cells of the gap; all in standard errors.

    A parent's best level has error u, its worst one, min_effect below, v. Unless the best level leads it is at most
    second, so the factor is dismissed only if u < v - margin; some rival, error x and gap g, must lead: x - g > u.
    Rivals other than the leader must not exceed v - margin either. `tied` counts k <= m - 2 rivals with one gap
    exactly, for every k; otherwise the sum over rivals bounds all gaps. Each cell holds the largest value from it on.

    >>> bool((np.diff(wrongly_dismissed(5, 3.0)) <= 0).all()), bool(wrongly_dismissed(2, 3.0).max() < 1e-6)
    (True, True)
    """
    weight = np.exp(-((_Y + margin) ** 2) / 2) / math.sqrt(2 * math.pi) * _STEP
    values = np.zeros(len(_GAPS) - 1)
    if m > 2:
        one = _tied_rivals(1) @ weight + _ROUNDING
        if tied:
            values = np.max([_tied_rivals(k) @ weight for k in range(1, min(m - 2, _MOST_TIED) + 1)], axis=0)
        if not tied or m - 2 > _MOST_TIED:
            values = np.minimum((m - 2) * one, ndtr(-margin / math.sqrt(2)))  # never more than being dismissed at all
    from_here: Tail = np.maximum.accumulate(np.maximum(values, 0.0)[::-1])[::-1] + _ROUNDING
    return from_here
