"""How far a sum over randomly chosen rows can be from zero: exact and proven, whatever the numbers in the rows are.

A factor without effect has a column that was shuffled independently of all outcomes. Given the residuals of a fit, the
sum of those in rows with one of its levels is a sum over a uniformly random subset of each block. The argument is in
docs/theory/sparse.md, section 2.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from levers.core.model.level_index import Numbers

_EXACT_RUNS = 6000
"""Runs of the longest block whose generating function is computed exactly; beyond, it is bounded."""
_TILT_STEPS = 30  # Newton steps for the tilt of the bound; any tilt is valid


def subset_variance(square: float, n_rows: int, n_chosen: int) -> float:
    """Variance of the sum over a random subset of s of n numbers with mean zero:  s (n - s) / (n (n - 1)) sum e^2.

    >>> round(subset_variance(4.0, 4, 2), 4)  # of -1, -1, 1, 1
    1.3333
    """
    return n_chosen * (n_rows - n_chosen) / (n_rows * (n_rows - 1)) * square if n_rows > 1 else 0.0


def log_subset_mgf(exponents: Sequence[Numbers], n_chosen: Sequence[int]) -> Numbers:
    """log E exp(sum of x over a random subset of s of its n numbers), for each pair of x and s; never too small.

    The expectation is the mean M_s of the products of all subsets of s of the w = exp(x), and with one more number

        M_s(w_1 ... w_r) = (1 - s/r) M_s(w_1 ... w_{r-1}) + s/r w_r M_{s-1}(w_1 ... w_{r-1}).

    >>> x = np.array([-1.0, -1.0, 1.0, 1.0])
    >>> [mgf] = log_subset_mgf([x], [2])
    >>> round(math.exp(mgf), 6) == round((math.exp(2) + math.exp(-2) + 4) / 6, 6)
    True
    """
    result = np.zeros(len(exponents))
    exact = [g for g, x in enumerate(exponents) if len(x) <= _EXACT_RUNS]
    for g, x in enumerate(exponents):
        if len(x) > _EXACT_RUNS:
            result[g] = _subset_mgf_bound(x, n_chosen[g])
    exact.sort(key=lambda g: -len(exponents[g]))  # so that those still under way come first
    if not exact:
        return result
    lengths = np.array([len(exponents[g]) for g in exact])
    weights = np.zeros((lengths[0], len(exact)))
    for place, g in enumerate(exact):
        weights[: lengths[place], place] = np.exp(exponents[g])
    most = max(n_chosen[g] for g in exact)
    share = np.arange(1, most + 1, dtype=np.float64)
    mean = np.zeros((len(exact), most + 1))
    mean[:, 0] = 1.0
    under_way = np.searchsorted(-lengths, -np.arange(1, lengths[0] + 1), side="right")
    for r in range(1, lengths[0] + 1):
        now = mean[: under_way[r - 1]]
        top = min(r, most)
        chosen = share[:top] / r
        added = now[:, :top] * (weights[r - 1, : len(now), None] * chosen)
        now[:, 1 : top + 1] *= 1.0 - chosen
        now[:, 1 : top + 1] += added
    for place, g in enumerate(exact):
        result[g] = math.log(mean[place, n_chosen[g]])
    return result


def _subset_mgf_bound(x: Numbers, n_chosen: int) -> float:
    """The smaller of two bounds for long blocks.

    Drawing with replacement, (mean of w)^s (Hoeffding 1963, theorem 4); and prod(1 + z w) / (z^s binomial(n, s)) for
    any z > 0, because the product has no negative term.
    """
    n, s = len(x), n_chosen
    if not 0 < s < n:
        return float(x.sum()) if s else 0.0
    w = np.exp(x)
    replaced = s * math.log(float(w.mean()))
    tilt = math.log(s / (n - s))
    for _ in range(_TILT_STEPS):
        p = 1 / (1 + np.exp(-(tilt + x)))
        tilt -= float(p.sum() - s) / float((p * (1 - p)).sum())
    log_binomial = float(gammaln(n + 1) - gammaln(s + 1) - gammaln(n - s + 1))
    tilted = float(np.logaddexp(0.0, tilt + x).sum()) - s * tilt - log_binomial
    return min(replaced, tilted) if math.isfinite(tilted) else replaced


def subset_sum_limits(
    residuals: Sequence[Numbers], counts: Sequence[Sequence[int]], error: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """How low and how high the sum over a level's rows goes, each side except with probability `error`.

    `residuals` has the rows of each block, `counts` for each kind of level how often it is used in each block; a column
    is shuffled in each block by itself. For any lambda > 0, P(S >= t) <= exp(-lambda t) prod_b M_b(lambda), so
    t = (log(1/error) + sum_b log M_b(lambda)) / lambda; lambda is the best one for a normal sum.

    >>> [low], [high] = subset_sum_limits([np.tile([-1.0, 1.0], 100)], [[40]], 1e-6)
    >>> [round(float(limit) / math.sqrt(subset_variance(200.0, 200, 40)), 2) for limit in (low, high)]
    [-5.07, 5.07]
    """
    centred = [e - e.mean() for e in residuals]
    squares = [float(e @ e) for e in centred]
    low, high = np.full(len(counts), -np.inf), np.full(len(counts), np.inf)
    slopes = np.zeros(len(counts))
    exponents: list[Numbers] = []
    chosen: list[int] = []
    owner: list[int] = []
    for kind, of_block in enumerate(counts):
        spread = sum(subset_variance(q, len(e), s) for q, e, s in zip(squares, centred, of_block, strict=True))
        if not spread > 0:
            continue
        slopes[kind] = math.sqrt(2 * math.log(1 / error) / spread)
        for sign in (1.0, -1.0):
            exponents += [sign * slopes[kind] * e for e in centred]
            chosen += list(of_block)
            owner += [2 * kind + (sign < 0)] * len(centred)
    logs = np.maximum(log_subset_mgf(exponents, chosen), 0.0)  # no less, by Jensen's inequality: rounding apart
    totals = np.bincount(owner, logs, 2 * len(counts)) if owner else np.zeros(0)
    for kind in np.flatnonzero(slopes > 0).tolist():
        high[kind] = (math.log(1 / error) + totals[2 * kind]) / slopes[kind]
        low[kind] = -(math.log(1 / error) + totals[2 * kind + 1]) / slopes[kind]
    means = [e.mean() for e in residuals]
    shift = np.array([sum(mu * s for mu, s in zip(means, of_block, strict=True)) for of_block in counts])
    return low + shift, high + shift
