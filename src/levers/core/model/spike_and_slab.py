"""What effects are to be expected once levels were chosen by them: factors that may not matter at all are drawn to 0.

The best of several estimates is too good on average (the winner's curse), and where many factors do nothing, the sum of
their best estimates is so by more than the noise. Here each factor either has no effect, or effects of a variance that
the runs suggest (spike and slab; Mitchell and Beauchamp, JASA 1988), and what is expected of a level is averaged over
both. No choice and no guarantee rests on it (docs/decisions/0054).
"""

import math

import numpy as np
from numpy.typing import NDArray

from levers.core.model.level_index import Numbers
from levers.core.model.moments import Moments
from levers.core.model.pooled import PooledSums

_LEAST, _MOST, _STEP = 0.02, 20.0, 1000.0 ** (1 / 6)
"""Variances of a factor's effects that are considered, in those of the noise: from the least to the most, or further
where estimates are larger, each so many times the one before."""
_NONE = 0.5
"""How likely it is before the first run that a factor has no effect."""
_PRIOR_FACTORS = 2.0
"""How many factors that probability is worth, and those of the variances: the others are learned from these runs."""
_SWEEPS = 60
_SETTLED = 1e-4
"""The share of a standard deviation of the noise by which no effect changes any more."""


def spike_and_slab(moments: Moments | PooledSums, noise_sd: float) -> Numbers:
    """E[theta | y] of all levels, theta_k being 0 or N(0, t_k sigma^2 I), with t_k and its probabilities learned.

    With A the information, z the sums of centred outcomes, and r_k = z_k - sum_{l != k} A_kl E[theta_l]:

        p(t_k | y) ~ w(t_k) |I + t_k A_kk|^(-1/2) exp(r_k' S_k r_k / (2 sigma^2)),   S_k = (A_kk + I / t_k)^-1
        E[theta_k] = sum_t p(t | y) S_k r_k,   w(t) = (2 w_0(t) + sum_k p(t_k = t | y)) / (2 + K)

    one factor after the other, until nothing changes (a variational fit: exact for the factors of an orthogonal design,
    given w). w_0 has 1/2 at t = 0 and the same everywhere else.

    >>> rows = [[i, j] for i in range(2) for j in range(3)] * 10
    >>> y = [3.0 * i + 0.05 * j for i, j in rows]
    >>> effects = spike_and_slab(Moments.empty([2, 3]).add(rows, y), 1.0)
    >>> bool(2.8 < effects[1] - effects[0] < 3.0), bool(0 < effects[4] - effects[2] < 0.02)
    (True, True)
    """
    d = int(moments.offsets[-1])
    information, variance = moments.centred(np.arange(d)), noise_sd**2
    factors = [np.arange(begin, end) for begin, end in zip(moments.offsets, moments.offsets[1:], strict=False)]
    spectra = [np.linalg.eigh(information[np.ix_(at, at)]) for at in factors]
    ratios = _ratios(moments, variance)
    prior = np.where(ratios == 0, _NONE, (1 - _NONE) / (len(ratios) - 1))
    weights, mean = prior, np.zeros(d)
    for _ in range(_SWEEPS):
        before, likely = mean.copy(), np.zeros(len(ratios))
        for at, (values, vectors) in zip(factors, spectra, strict=True):
            rest = moments.sums[at] - information[at] @ mean + information[np.ix_(at, at)] @ mean[at]
            turned, grown = vectors.T @ rest, 1 + np.outer(ratios, np.maximum(values, 0.0))
            shrunken = (ratios[:, None] / grown) * turned
            fit = np.log(weights) - 0.5 * np.log(grown).sum(axis=1) + (shrunken @ turned) / (2 * variance)
            found = np.exp(fit - fit.max())
            found /= found.sum()
            likely += found
            mean[at] = vectors @ (found @ shrunken)
        weights = (_PRIOR_FACTORS * prior + likely) / (_PRIOR_FACTORS + len(factors))
        if float(np.abs(mean - before).max(initial=0.0)) <= _SETTLED * noise_sd:
            break
    return mean


def _ratios(moments: Moments | PooledSums, variance: float) -> NDArray[np.float64]:
    """0, and the variances that are considered: up to one with which the largest level mean is no surprise."""
    counts = np.maximum(moments.level_counts, 1)
    largest = max(_MOST, float(np.max((moments.sums / counts) ** 2, initial=0.0)) / variance)
    steps = math.ceil(math.log(largest / _LEAST) / math.log(_STEP) - 1e-9)
    return np.concatenate([[0.0], _LEAST * _STEP ** np.arange(steps + 1)])
