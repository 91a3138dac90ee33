"""Runs that repeat the same rows, drawn by their sums: a million runs for the price of the rows.

The mean of r outcomes of one row is normal with variance sigma^2 / r, and what they vary about it is an independent
sigma^2 chi^2 with r - 1 degrees of freedom. So with Gaussian noise the sufficient statistics of r copies of n rows
are drawn exactly, from n normals and one chi-square, whatever the mean of a row depends on.
"""

import numpy as np
from numpy.typing import NDArray

from levers.core.space import Codes
from levers.errors import InvalidWorldError
from levers.simulation.outcome import AdditiveOutcome, Outcome


def can_draw_totals(outcome: Outcome) -> bool:
    """Whether sums can be drawn directly: the noise is Gaussian."""
    return isinstance(outcome, AdditiveOutcome) and outcome.noise.kind == "gaussian"


def draw_means(
    outcome: Outcome, codes: Codes, repeats: int, rng: np.random.Generator
) -> tuple[NDArray[np.float64], float]:
    """Run every row `repeats` times: the mean outcome of each row, and the sum of squares about these means.

    >>> outcome = AdditiveOutcome({0: (0.0, 1.0)})
    >>> means, within = draw_means(outcome, np.array([[0], [1]], dtype=np.int16), 1_000_000, np.random.default_rng(0))
    >>> means.round(2).tolist(), round(within / 2_000_000, 2)
    ([0.0, 1.0], 1.0)
    """
    if not can_draw_totals(outcome):
        raise InvalidWorldError("sums can be drawn directly with Gaussian noise only; sample the rows")
    if repeats == 0 or len(codes) == 0:
        return np.zeros(len(codes)), 0.0
    sd = outcome.noise_sd
    means = outcome.mean(codes) + rng.normal(0.0, sd / np.sqrt(repeats), len(codes))
    within = sd**2 * float(rng.chisquare(len(codes) * (repeats - 1))) if repeats > 1 else 0.0
    return means, within
