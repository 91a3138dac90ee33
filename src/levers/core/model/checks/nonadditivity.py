"""Effects that reinforce or weaken each other where all of them are large: Tukey's test for nonadditivity.

Tests of single pairs spend their power on every pattern that two levers could make. An outcome whose logarithm is
additive, or whose best levels are better together, bends in one direction only, and one degree of freedom shows it.
"""

import math

import numpy as np
from scipy.special import chdtrc, fdtrc

from levers.core.model.checks.additivity import LEAST_DOF, Additive, f_ratio
from levers.core.model.checks.check import NONADDITIVITY, Check, Residual
from levers.core.model.level_index import Numbers

BEND_THAT_MATTERS = 0.01
"""The share of the residuals' variance that the bend must explain to matter."""


def bend_of(model: Additive, n_factors: int) -> Numbers:
    """The square of what the effects of each run's levels add up to, about their mean."""
    theta, starts = np.nan_to_num(model.fit.theta), model.fit.moments.offsets
    total = np.zeros(len(model.codes))
    for k in range(n_factors):
        total += theta[starts[k] + model.codes[:, k]]
    return np.asarray((total - total.mean()) ** 2)


def nonadditivity(model: Additive, left: Residual, n_factors: int, noise_sd: float | None) -> Check | None:
    """Whether residuals follow the square of what the levers' effects add up to (Tukey 1949, Ramsey 1969).

    With f the sum of the estimated effects of a run's levels, blocks' constants left out, F = S / [(RSS - S) / (nu -
    1)] for the squares S that f^2 explains beside the model. f depends on the estimates alone, which residuals are
    independent of, so that F has its law exactly; S / sigma^2 is chi-squared on 1 with a stated noise. `size` is the
    correlation of residuals with the bend: above 0 if good levels are better together than they add up to.

    >>> rng = np.random.default_rng(0)
    >>> rows = rng.integers(0, 3, (60, 4))
    >>> model = Additive.of(rows, np.exp(0.5 * rows.sum(axis=1)) + rng.normal(size=60), [3] * 4)
    >>> check = nonadditivity(model, Residual.of(model), 4, None)
    >>> check.p_value < 1e-9, check.size > 0.5
    (True, True)
    """
    if n_factors < 2 or left.is_exact or left.dof <= (LEAST_DOF if noise_sd is None else 0):
        return None
    bend = bend_of(model, n_factors)
    q, square = left.explained(bend[:, None])
    if q == 0:
        return None
    if noise_sd is None:
        statistic = f_ratio(square, 1, max(left.square - square, 0.0), left.dof - 1)
        p_value = float(fdtrc(1, left.dof - 1, statistic))
    else:
        statistic = square / noise_sd**2
        p_value = float(chdtrc(1, statistic))
    share = square / left.square
    size = math.copysign(math.sqrt(min(share, 1.0)), float(bend @ left.values))
    return Check(NONADDITIVITY, statistic, p_value, size, is_harmful=share > BEND_THAT_MATTERS)
