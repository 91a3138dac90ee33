"""Whether the additive model fits: its residuals, lack of fit, and confirmation runs.

The certificate assumes that effects add up. Residuals of the additive fit can contradict that; they can never prove it.
docs/theory/additivity.md says what is exact here and what is approximate.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import chdtrc, fdtrc

from levers.core.model.fit import Fit
from levers.core.model.level_index import Numbers
from levers.core.model.moments import Moments
from levers.core.space import Codes

MOST_RUNS = 20_000
"""The most runs that a check looks at; of more, an even sample is taken. Time grows with the runs, power is ample."""
LEAST_DOF = 5
"""The fewest degrees of freedom for the noise with which an F test is made."""
NO_NOISE = 1e-12
"""Residuals that are smaller than this share of the outcomes are rounding errors."""
_NO_PURE_ERROR = 1e-14  # a sum of squares that is a smaller share of both sums of an F ratio is rounding error
_GOLDEN = (math.sqrt(5) - 1) / 2  # the golden ratio less 1: steps of it, modulo 1, fall evenly and never in a rhythm
_LEVERAGE_CELLS = 4_000_000  # cells of the one-hot rows whose leverages are worked out at once


@dataclass(frozen=True, slots=True)
class LackOfFit:
    """The additive model against replicated runs: `pure_dof` is None when the noise was known."""

    dof: int
    pure_dof: int | None
    statistic: float
    p_value: float


@dataclass(frozen=True, eq=False)
class Additive:
    """The additive fit of some runs, with its residuals.

    >>> rows = [[0, 0], [0, 1], [1, 0], [1, 1]]
    >>> model = Additive.of(rows, [0.0, 1.0, 5.0, 8.0], [2, 2])
    >>> model.residuals.round(6).tolist(), round(model.square, 6), model.dof
    ([0.5, -0.5, -0.5, 0.5], 1.0, 1)
    """

    codes: Codes
    outcomes: Numbers
    fit: Fit

    @classmethod
    def of(cls, codes: ArrayLike, outcomes: ArrayLike, n_levels: Sequence[int], most_runs: int = MOST_RUNS) -> Self:
        """Fit the runs, or an even sample of `most_runs`. Shifts between blocks are allowed for by one more factor."""
        rows, y = np.atleast_2d(np.asarray(codes, dtype=np.int16)), np.asarray(outcomes, dtype=np.float64)
        if len(rows) > most_runs:
            at = even_sample(len(rows), most_runs)
            rows, y = rows[at], y[at]
        return cls(rows, y, Fit(Moments.empty(n_levels).add(rows, y)))

    @cached_property
    def fitted(self) -> Numbers:
        """What the model expects of each run."""
        moments, theta = self.fit.moments, np.nan_to_num(self.fit.theta)
        middle = moments.mean - float(moments.level_counts @ theta) / moments.n_runs
        total = np.full(len(self.codes), middle)
        for k, start in enumerate(moments.offsets[:-1]):
            total += theta[start + self.codes[:, k]]
        return total

    @cached_property
    def residuals(self) -> Numbers:
        """Outcomes less what the model expects."""
        return self.outcomes - self.fitted

    @cached_property
    def square(self) -> float:
        """The sum of squared residuals, from the residuals: small ones keep their digits."""
        return float(self.residuals @ self.residuals)

    @property
    def dof(self) -> int:
        """Runs less free parameters."""
        return self.fit.residual_dof

    @property
    def is_exact(self) -> bool:
        """Whether the model leaves nothing but rounding, so that there is no noise to compare with."""
        largest = float(np.abs(self.outcomes).max(initial=0.0))
        return self.square <= len(self.outcomes) * (NO_NOISE * largest) ** 2

    def leverages(self) -> Numbers:
        """Each run's pull on its own fit: h = 1/n + (x - x_mean)^T V^+ (x - x_mean). They add up to the rank.

        >>> Additive.of([[0], [0], [1]], [1.0, 2.0, 4.0], [2]).leverages().round(6).tolist()
        [0.5, 0.5, 1.0]
        """
        moments, inverse = self.fit.moments, self.fit.inverse
        shares = moments.level_counts / moments.n_runs
        found, step = np.empty(len(self.codes)), max(1, _LEVERAGE_CELLS // len(shares))
        for begin in range(0, len(found), step):
            places = self.codes[begin : begin + step] + moments.offsets[:-1]
            away = np.tile(-shares, (len(places), 1))
            away[np.arange(len(places))[:, None], places] += 1.0
            found[begin : begin + step] = 1 / moments.n_runs + ((away @ inverse) * away).sum(axis=1)
        return found


def even_sample(n: int, most: int) -> NDArray[np.int64]:
    """At most `most` of n positions: one in each stretch, at a changing place, so never in step with a design.

    >>> even_sample(3, 5).tolist(), even_sample(100, 5).tolist()
    ([0, 1, 2], [0, 32, 44, 77, 89])
    """
    if n <= most:
        return np.arange(n)
    stretch = np.arange(most)
    return np.unique(((stretch + stretch * _GOLDEN % 1.0) * n / most).astype(np.int64))


def lack_of_fit(model: Additive, noise_sd: float | None = None) -> LackOfFit | None:
    """Compare what the additive model leaves over with what runs of one and the same assignment differ by.

    F = [(RSS - PE) / (c - r)] / [PE / (n - c)], PE the squares about the means of the c distinct rows, r the model's
    rank. With a known noise (RSS - PE) / sigma^2 is chi-squared on c - r. None when there are too few replicates.

    >>> rows, y = [[0, 0], [0, 1], [1, 0], [1, 1]] * 3, [0.1, 1, 1, 3, 0, 1.1, 1, 3, 0, 1, 1.2, 3.1]
    >>> found = lack_of_fit(Additive.of(rows, y, [2, 2]))
    >>> found.dof, found.pure_dof, found.p_value < 1e-5
    (1, 8, True)
    """
    _, which, counts = np.unique(model.codes, axis=0, return_inverse=True, return_counts=True)
    which = which.ravel()
    dof, pure_dof = len(counts) - model.fit.rank, len(model.codes) - len(counts)
    if dof < 1 or (noise_sd is None and (pure_dof < LEAST_DOF or model.is_exact)):
        return None
    means = np.bincount(which, model.residuals) / counts
    between = float((counts * means**2).sum())  # RSS - PE: runs of one row have one fitted value
    if noise_sd is not None:
        return LackOfFit(dof, None, between / noise_sd**2, float(chdtrc(dof, between / noise_sd**2)))
    pure = float(((model.residuals - means[which]) ** 2).sum())
    statistic = f_ratio(between, dof, pure, pure_dof)
    return LackOfFit(dof, pure_dof, statistic, float(fdtrc(dof, pure_dof, statistic)))


def confirmation(mean: float, predicted: float, noise_sd: float, n_runs: int, leverage: float) -> float:
    """Fresh runs at the chosen assignment against what the additive fit expects there.

    z = (mean - predicted) / (sigma sqrt(1/n_c + leverage)), leverage = 1/n + w^T V^+ w being the prediction's variance
    over sigma^2. Standard normal if the model holds and the assignment was fixed before. One that was chosen for its
    estimates is predicted on the high side, so z is then somewhat below 0 on average.

    >>> confirmation(mean=9.0, predicted=10.0, noise_sd=1.0, n_runs=10, leverage=0.15)
    -2.0
    """
    return (mean - predicted) / (noise_sd * math.sqrt(1 / n_runs + leverage))


def f_ratio(upper: float, upper_dof: int, lower: float, lower_dof: int) -> float:
    """The F statistic; infinite when the larger model leaves nothing but rounding."""
    if lower <= _NO_PURE_ERROR * (upper + lower):
        return math.inf
    return (upper / upper_dof) / (lower / lower_dof)
