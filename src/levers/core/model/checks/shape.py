"""Noise that is skewed or has heavy tails, and when that matters for a certificate."""

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri

from levers.core.model.checks.check import SHAPE, Check, Residual, Runs
from levers.core.model.level_index import Numbers

ADDED_FAILURES = 0.1
"""The share by which skewed or heavy tails must raise a certificate's failures to matter."""
_LEAST_RUNS = 20  # for which both laws are good
_ROOM = 1e-3


def shape(runs: Runs, left: Residual, failure_prob: float, noise_is_known: bool) -> Check | None:
    """Skewness or kurtosis of the standardised residuals, whichever is less likely (Bonferroni over the two).

    The laws are D'Agostino's (1970) and Anscombe and Glynn's (1983) for independent normal values; residuals of a fit
    with many parameters are closer to normal than the noise, so that the test errs on the safe side. `size` is the
    share by which it may raise the certificate's failures (`added_failures`); the check matters from a tenth on.
    """
    room = 1 - left.leverages
    free = room > _ROOM
    n = int(free.sum())
    if n < _LEAST_RUNS or left.dof < _LEAST_RUNS or left.is_exact:
        return None
    e = left.values[free] / np.sqrt(room[free])
    skewness, kurtosis = sample_shape(e)
    z_values = skewness_z(skewness, n), kurtosis_z(kurtosis, n)
    p_values = 2 * float(ndtr(-abs(z_values[0]))), float(ndtr(-z_values[1]))  # light tails are no harm
    statistic = z_values[int(p_values[1] < p_values[0])]
    added = added_failures(skewness, kurtosis - 3, _level_counts(runs), failure_prob, noise_is_known)
    return Check(SHAPE, statistic, min(1.0, 2 * min(p_values)), added, is_harmful=added > ADDED_FAILURES)


def sample_shape(values: Numbers) -> tuple[float, float]:
    """Skewness m_3 / m_2^1.5 and kurtosis m_4 / m_2^2 about the mean.

    >>> [round(x, 6) for x in sample_shape(np.array([0.0, 0.0, 0.0, 1.0]))]
    [1.154701, 2.333333]
    """
    away = values - values.mean()
    away = away / np.abs(away).max()  # powers of outcomes as large or as small as 1e90 are no numbers
    square = float((away**2).mean())
    return float((away**3).mean()) / square**1.5, float((away**4).mean()) / square**2


def skewness_z(skewness: float, n: int) -> float:
    """D'Agostino's (1970) transform of the skewness of n normal values to a standard normal.

    >>> round(skewness_z(0.5, 50), 6)
    1.548486
    """
    y = skewness * math.sqrt((n + 1) * (n + 3) / (6.0 * (n - 2)))
    beta = 3.0 * (n**2 + 27 * n - 70) * (n + 1) * (n + 3) / ((n - 2.0) * (n + 5) * (n + 7) * (n + 9))
    w2 = -1 + math.sqrt(2 * (beta - 1))
    scale = math.sqrt(2.0 / (w2 - 1))
    return math.asinh(y / scale) / math.sqrt(0.5 * math.log(w2))


def kurtosis_z(kurtosis: float, n: int) -> float:
    """Anscombe and Glynn's (1983) transform of the kurtosis of n normal values to a standard normal.

    >>> round(kurtosis_z(4.0, 50), 6)
    1.647796
    """
    mean = 3.0 * (n - 1) / (n + 1)
    variance = 24.0 * n * (n - 2) * (n - 3) / ((n + 1) ** 2 * (n + 3.0) * (n + 5))
    x = (kurtosis - mean) / math.sqrt(variance)
    skew = (
        6.0 * (n * n - 5 * n + 2) / ((n + 7) * (n + 9)) * math.sqrt(6.0 * (n + 3) * (n + 5) / (n * (n - 2.0) * (n - 3)))
    )
    a = 6.0 + 8.0 / skew * (2.0 / skew + math.sqrt(1 + 4.0 / skew**2))
    below = 1 + x * math.sqrt(2 / (a - 4.0))
    third = math.copysign(abs((1 - 2.0 / a) / below) ** (1 / 3), below) if below else -math.inf
    return float((1 - 2 / (9.0 * a) - third) / math.sqrt(2 / (9.0 * a)))


def added_failures(
    skewness: float, excess: float, counts: Sequence[Sequence[int]], failure_prob: float, noise_is_known: bool
) -> float:
    """The share by which skewness and excess kurtosis raise the failures of the difference that suffers most.

    The error of a difference between levels with n_a and n_b runs has the cumulants

        g = skewness (1 / n_a^2 - 1 / n_b^2) / v^1.5,  k = excess (1 / n_a^3 + 1 / n_b^3) / v^2,  v = 1 / n_a + 1 / n_b,

    so that skewness cancels where levels are equally often. At z = the quantile of the failure probability over all
    differences, Edgeworth's expansion adds f(z) (g (z^2 - 1) / 6 + k (z^3 - 3 z) / 24) to the tail, f being the normal
    density. A noise that is estimated from n runs has a variance of its own that is larger by excess / n, which adds
    f(z) (z^3 + z) excess / (8 n). The sum is divided by the tail itself.

    >>> added_failures(2.0, 0.0, [[20, 20]], 0.1, True)
    0.0
    >>> cases = ([5, 40], True), ([20, 20], False)
    >>> [round(added_failures(2.0, 6.0, [counts], 0.1, known), 3) for counts, known in cases]
    [0.018, 0.092]
    """
    n_differences = max(sum(sum(c > 0 for c in row) - 1 for row in counts), 1)
    z = -float(ndtri(failure_prob / n_differences))
    hazard = math.exp(-(z**2) / 2 - 0.5 * math.log(2 * math.pi) - float(log_ndtr(-z)))
    worst = 0.0
    for row in counts:
        used = sorted(c for c in row if c > 0)
        if len(used) < 2:
            continue
        for few, many in {(used[0], used[-1]), (used[0], used[1])}:
            v = 1 / few + 1 / many
            g = abs(skewness) * abs(1 / few**2 - 1 / many**2) / v**1.5
            k = excess * (1 / few**3 + 1 / many**3) / v**2
            added = g * (z**2 - 1) / 6 + k * (z**3 - 3 * z) / 24
            if not noise_is_known:
                added += (z**3 + z) * excess / (8 * sum(used))
            worst = max(worst, added)
    return hazard * worst


def _level_counts(runs: Runs) -> list[list[int]]:
    return [np.bincount(runs.codes[:, k], minlength=m).tolist() for k, m in enumerate(runs.n_levels)]
