"""The certificate of factors whose level means have standard errors of their own, and the runs that it still takes."""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import TypeAlias

import numpy as np

from levers.core.certificates.sums import _Stage

Configuration: TypeAlias = tuple[tuple[int, float], ...]
"""For each factor that may lose something: its levels in play, and the standard error of their means."""
FINEST = 10.0
"""Standard errors are told apart down to the largest one over this."""


def configuration_bound(configuration: Configuration, tolerance: float) -> float:
    """P(all factors together lose more than the tolerance) is at most this   (docs/theory, section 3).

    Each factor has a standard error of its own. They are rounded up, and those under a tenth of the largest to that,
    which raises the bound: V increases with every standard error.

    >>> round(configuration_bound(((2, 0.1893),) * 10, 1.0), 3)
    0.098
    """
    least = max([0.0, *(error / math.sqrt(m) for m, error in configuration)]) / tolerance / FINEST
    scales = []
    for m, error in configuration:
        ratio = max(error / math.sqrt(m) / tolerance, least)
        step = 10.0 ** (math.floor(math.log10(ratio)) - 3)
        scales.append((m, 1 / (math.ceil(ratio / step - 1e-6) * step)))
    return _scales_bound(tuple(sorted(scales)))


@lru_cache(maxsize=4096)
def _scales_bound(scales: tuple[tuple[int, float], ...]) -> float:
    grid = max([120, *(int(5 * scale) for _, scale in scales)])
    value, stages = np.zeros(grid + 1), dict[tuple[int, float], _Stage]()
    for m, scale in scales:
        if (m, scale) not in stages:
            stages[m, scale] = _Stage(m, scale, grid)
        value = stages[m, scale].before(value)
    return min(1.0, float(value[0]))


def runs_to_go(configuration: Configuration, spreads: Sequence[float], tolerance: float, failure_prob: float) -> float:
    """The least further runs, nearly, after which the configuration has a bound of failure_prob, if nothing is dropped.

    n runs add n / m to the number of runs at each of m levels:  1 / s^2 -> 1 / s^2 + n / (m spread^2), the spread being
    the standard deviation of a single run.

    >>> runs_to_go(((2, 0.01),), [1.0], 0.5, 0.1)
    0.0
    """
    factors = list(zip(configuration, spreads, strict=True))

    def excess(n_runs: float) -> float:
        later = tuple((m, (s**-2 + n_runs / (m * spread**2)) ** -0.5) for (m, s), spread in factors)
        return math.log(max(configuration_bound(later, tolerance), 1e-300) / failure_prob)

    if not configuration or excess(0.0) <= 0:
        return 0.0
    least = min(m * spread**2 / s**2 for (m, s), spread in factors)
    enough = max(least, 1.0)
    low = 0.0
    while excess(enough) > 0:
        low, enough = enough, 2 * enough
    while enough - low > 0.01 * (enough + least):
        middle = (low + enough) / 2
        low, enough = (middle, enough) if excess(middle) > 0 else (low, middle)
    return enough


def certified_tolerance(configuration: Configuration, wanted: float, failure_prob: float) -> float:
    """The least tolerance, nearly, for which the configuration has a bound of failure_prob.

    >>> 0.9 < certified_tolerance(((2, 0.189),) * 10, 0.5, 0.1) < 1.0
    True
    """
    if not configuration:
        return 0.0
    high = wanted
    while configuration_bound(configuration, high) > failure_prob:
        high *= 1.5
    low = 0.0 if high == wanted else high / 1.5
    while high - low > 0.005 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if configuration_bound(configuration, middle) > failure_prob else (low, middle)
    return high
