"""A shrunken estimate of all effects from however few runs: what to recommend, and where to look next.

Effects of all levels are taken as independent normal with one variance, which the runs themselves suggest (empirical
Bayes). With many runs per parameter this is least squares; with fewer runs than parameters it is still defined, and
its leaders are much better. No guarantee rests on it.
"""

import math
from typing import NamedTuple

import numpy as np

from levers.core.model.level_index import Numbers
from levers.core.model.pooled import PooledSums

_RATIOS = np.geomspace(0.02, 30.0, 41)
"""Variances of effects that are considered, in variances of the noise."""
_USUAL_RATIO, _SPREAD = 1.0, 2.0
"""What the ratio is expected to be before any run, and the standard deviation of its logarithm."""
_PRIOR_DOF = 1.0
"""Degrees of freedom by which an unknown noise is held near the spread of the outcomes."""


class Posterior(NamedTuple):
    """Effects of all levels in a row, their covariance, and the standard deviations of noise and effects used."""

    mean: Numbers
    covariance: Numbers
    noise_sd: float
    effect_sd: float


def posterior(pooled: PooledSums, noise_sd: float | None, least_noise: float = 0.0) -> Posterior:
    """theta | y ~ N((A + l I)^-1 z, sigma^2 (A + l I)^-1) with l = sigma^2 / tau^2 of the largest marginal likelihood.

    With A = U diag(a) U^T and w = U^T z, -2 log p(y | l) = sum log(1 + a/l) + S(l)/sigma^2 + const, where
    S(l) = y^T y - sum w^2/(a + l), all about the means of blocks; an unknown sigma^2 is estimated by S / (n - blocks).

    >>> from levers.core.model.moments import Moments
    >>> rows, y = [[0, 0], [0, 1], [1, 0], [1, 1]] * 5, [0.0, 0.1, 2.0, 2.1] * 5
    >>> found = posterior(PooledSums.empty([2, 2]).add(Moments.empty([2, 2]).add(rows, y)), 0.5)
    >>> bool(1.5 < found.mean[1] - found.mean[0] < 2.0)
    True
    """
    values, vectors = np.linalg.eigh(pooled.information)
    values = np.maximum(values, 0.0)
    turned = vectors.T @ pooled.sums
    dof = max(pooled.n_runs - pooled.n_blocks, 1)
    penalties = 1.0 / _RATIOS
    left = pooled.square - (turned**2 / (values + penalties[:, None])).sum(axis=1)
    left = np.maximum(left, 1e-12 * max(pooled.square, 1e-300))
    log_det = np.log1p(values * _RATIOS[:, None]).sum(axis=1)
    prior = (np.log(_RATIOS / _USUAL_RATIO) / _SPREAD) ** 2
    if noise_sd is None:
        usual = pooled.square / dof / 2  # half of the outcomes' variance
        variances = (left + _PRIOR_DOF * usual) / (dof + _PRIOR_DOF)
        cost = log_det + (dof + _PRIOR_DOF) * np.log(np.maximum(variances, 1e-300)) + prior
    else:
        variances = np.full(len(_RATIOS), noise_sd**2)
        cost = log_det + left / noise_sd**2 + prior
    best = int(np.argmin(cost))
    variance = max(float(variances[best]), least_noise**2, 1e-300)
    inverse = 1.0 / (values + penalties[best])
    covariance = variance * (vectors * inverse) @ vectors.T
    mean = vectors @ (inverse * turned)
    return Posterior(mean, covariance, math.sqrt(variance), math.sqrt(variance * float(_RATIOS[best])))
