"""Ordinary inference from an additive fit: one interval and one test at a time, as any regression program gives them.

What a study promises holds for all levels at once and whenever one looks, so it is wide. Beside it people want the
numbers that they know: the t interval of a difference, and the F test of a factor. They hold one by one, for runs that
were planned before their outcomes were seen. Nothing here decides anything.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc, fdtrc, fdtri, gammaincinv, ndtri, stdtrit

from levers.core.model.fit import Fit
from levers.core.model.interaction_fit import InteractionFit
from levers.core.model.level_index import Numbers

LEVEL = 0.95
"""The probability with which each ordinary interval holds."""
DRAWS = 4_000
"""Draws of estimation errors: the quantile they give is off by about a fiftieth of a standard error."""
_NO_NOISE = 1e-13  # residual squares that are a smaller share of all squares are rounding


@dataclass(frozen=True, eq=False)
class Fitted:
    """The additive fit that a choice was made by, and the effects it compared where they are not least squares.

    `shrunken` are effects of all levels in a row, drawn towards 0 where runs are few. `chosen_rows` says that later
    runs were chosen by earlier outcomes, so that errors are not quite those of rows planned in advance. Where levers
    may work together, `steps` is what changing one lever of the setting chosen would add; where they do, the choice was
    made by the fit `together`, and not by this one.
    """

    fit: Fit
    shrunken: Numbers | None = None
    chosen_rows: bool = False
    together: InteractionFit | None = None
    steps: Numbers | None = None

    @property
    def effects(self) -> Numbers:
        """The effects that add up to what is expected of a setting; nan for a level that was never run."""
        return self.fit.theta if self.shrunken is None else self._of_levels_run(self.shrunken)

    @property
    def compared(self) -> Numbers:
        """What levels were compared by, the other levers set as chosen; nan for a level that was never run."""
        return self.effects if self.steps is None else self._of_levels_run(self.steps)

    def _of_levels_run(self, numbers: Numbers) -> Numbers:
        return np.where(self.fit.moments.level_counts > 0, numbers, np.nan)


class Noise(NamedTuple):
    """What the noise is taken for: its standard deviation, and the degrees of freedom (None when it was stated)."""

    sd: float
    dof: int | None

    @classmethod
    def of(cls, fit: Fit, stated: float | None) -> "Noise | None":
        """The stated noise, or that of the residuals; None where they do not tell it."""
        if stated is not None:
            return cls(stated, None)
        square, dof = fit.residual_square, fit.residual_dof
        if dof < 1 or square <= _NO_NOISE * fit.moments.square:
            return None
        return cls(math.sqrt(square / dof), dof)

    def half_width(self, variance: float) -> float:
        """Half of the interval of one contrast whose variance is `variance` sigma^2: t s sqrt(v), or z sigma sqrt(v).

        >>> round(Noise(1.0, None).half_width(0.25), 4), round(Noise(1.0, 5).half_width(0.25), 4)
        (0.98, 1.2853)
        """
        tail = (1 + LEVEL) / 2
        quantile = float(ndtri(tail)) if self.dof is None else float(stdtrit(self.dof, tail))
        return quantile * self.sd * math.sqrt(variance)

    def scheffe_half_width(self, variance: float, dimension: int) -> float:
        """The same for all contrasts of a space of so many dimensions at once: S = sqrt(p F), or sqrt(chi2).

        So it holds for one that was picked because of its estimate, too   (Scheffe, Biometrika 1953).

        >>> round(Noise(1.0, None).scheffe_half_width(1.0, 1), 4)
        1.96
        """
        if self.dof is None:
            quantile = math.sqrt(2 * float(gammaincinv(dimension / 2, LEVEL)))
        else:
            quantile = math.sqrt(dimension * float(fdtri(dimension, self.dof, LEVEL)))
        return quantile * self.sd * math.sqrt(variance)


class FactorTest(NamedTuple):
    """The test that all levels of a factor are equal: F on `dof` and `residual_dof`, or chi-squared (None) over dof."""

    dof: int
    residual_dof: int | None
    statistic: float
    p_value: float


def factor_test(fit: Fit, levels: NDArray[np.int64], noise: Noise) -> FactorTest | None:
    """Whether the levels at these places, of one factor or of several, differ at all, the others allowed for.

    F = theta' C^-1 theta / (q s^2) on q and the residual degrees of freedom, C s^2 being the covariance of the q free
    contrasts theta: the partial F test of analysis of variance (type II), block constants included. With a stated noise
    q F is chi-squared on q. None where the runs do not determine the contrasts.

    >>> from levers.core.model.moments import Moments
    >>> fit = Fit(Moments.empty([2, 2]).add([[0, 0], [0, 1], [1, 0], [1, 1]], [0.0, 1.0, 5.0, 6.5]))
    >>> found = factor_test(fit, np.array([0, 1]), Noise.of(fit, None))
    >>> found.dof, found.residual_dof, round(found.statistic, 6), round(found.p_value, 4)
    (1, 1, 441.0, 0.0303)
    """
    if not fit.determined:
        return None
    free = levels[np.isin(levels, fit.free_levels)]
    if not len(free):
        return None  # a single level was run: there is nothing to compare
    theta, covariance = fit.theta[free], fit.inverse[np.ix_(free, free)]
    statistic = float(theta @ np.linalg.solve(covariance, theta)) / (len(free) * noise.sd**2)
    if noise.dof is None:
        return FactorTest(len(free), None, statistic, float(chdtrc(len(free), len(free) * statistic)))
    return FactorTest(len(free), noise.dof, statistic, float(fdtrc(len(free), noise.dof, statistic)))


def error_draws(fit: Fit, noise: Noise, rng: np.random.Generator) -> tuple[Numbers, Numbers]:
    """Draws of the errors of all levels' effects, a row each, and of the noise of one more run.

    Normal with the covariance s^2 V^+ and the variance s^2, over one sqrt(chi2 / dof) where the noise is estimated.

    >>> from levers.core.model.moments import Moments
    >>> fit = Fit(Moments.empty([2]).add([[0], [1]] * 50, [0.0, 1.0] * 50))
    >>> errors, run = error_draws(fit, Noise(1.0, None), np.random.default_rng(0))
    >>> errors.shape, round(float(errors[:, 1].std()), 1), round(float(run.std()), 1)
    ((4000, 2), 0.2, 1.0)
    """
    free, n_levels = fit.free_levels, len(fit.moments.level_counts)
    errors = np.zeros((DRAWS, n_levels))
    if len(free):
        root = np.linalg.cholesky(fit.inverse[np.ix_(free, free)])
        errors[:, free] = noise.sd * rng.standard_normal((DRAWS, len(free))) @ root.T
    scale = np.ones(DRAWS) if noise.dof is None else np.sqrt(rng.chisquare(noise.dof, DRAWS) / noise.dof)
    return errors / scale[:, None], noise.sd * rng.standard_normal(DRAWS) / scale


def gain_margin(
    fit: Fit,
    places: Sequence[NDArray[np.int64]],
    fixed: Sequence[int],
    noise: Noise,
    rng: np.random.Generator,
    tail: float = (1 - LEVEL) / 2,
) -> float:
    """By how much the gain over a fixed setting may be overestimated for a setting that was chosen by its estimate.

    For all settings x at once the error of the gain is at most sum_k max_j (e_kj - e_kb), with e_kj the error of level
    j of factor k and b the fixed level: normal with the fit's covariance, over sqrt(chi2 / dof) where the noise is
    estimated. The margin is that sum's quantile for this tail, from draws. `places` are each factor's levels among all
    levels of the fit, a row for every choice, as `Choices.places` has them.

    >>> from levers.core.model.moments import Moments
    >>> fit = Fit(Moments.empty([2]).add([[0], [1]] * 50, [0.0, 1.0] * 50))
    >>> margin = gain_margin(fit, [np.array([[0], [1]])], [0], Noise(1.0, None), np.random.default_rng(0))
    >>> abs(margin - Noise(1.0, None).half_width(0.04)) < 0.02
    True
    """
    counts = fit.moments.level_counts
    errors, _ = error_draws(fit, noise, rng)
    total = np.zeros(DRAWS)
    for rows, level in zip(places, fixed, strict=True):
        used = rows[(counts[rows] > 0).all(axis=1)]
        total += errors[:, used].sum(axis=2).max(axis=1) - errors[:, rows[level]].sum(axis=1)
    return float(np.quantile(total, 1 - tail))
