"""The runs that the certificate of a sparse study still takes."""

import math
from collections.abc import Sequence
from typing import TypeAlias

from levers.core.certificates.sums import stakes_bound

Configuration: TypeAlias = tuple[tuple[int, float], ...]
"""For each factor that may lose something: its levels in play, and the standard error of their means."""


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
        return math.log(max(stakes_bound(later, tolerance), 1e-300) / failure_prob)

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
