"""What the told outcomes say about each level, whatever algorithm asked for them."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import fdtri, gammaincinv

from levers.core.model.choices import Choices
from levers.core.model.fit import Fit
from levers.core.model.moments import Moments
from levers.core.space import Codes
from levers.studies.state import StudyState


def counted_runs(state: StudyState) -> tuple[Codes, NDArray[np.float64]]:
    """The runs whose outcomes count, as level positions (of the merged space) and outcomes as told."""
    runs = [(np.zeros((0, state.spec.inner.n_factors), dtype=np.int16), np.zeros(0))]
    runs += [block.told_rows() for block in state.counted]
    runs += [(state.spec.contract(past.codes), past.values) for past in state.past]
    return np.concatenate([codes for codes, _ in runs]), np.concatenate([values for _, values in runs])


@dataclass(frozen=True)
class Estimates:
    """Least squares of the additive model on all runs so far. Outcomes have the sign that makes larger better.

    Levers that forbidden combinations tie together are fitted by their parts.
    """

    fit: Fit | None
    sign: float
    choices: Choices
    mean: float = 0.0

    @classmethod
    def of(cls, state: StudyState) -> "Estimates":
        """Fit everything that counts."""
        codes, values = counted_runs(state)
        choices = state.choices
        if not len(values):
            return cls(None, state.spec.sign, choices)
        moments = Moments.empty(choices.sizes).add(choices.rows(codes), state.spec.sign * values)
        return cls(Fit(moments), state.spec.sign, choices, moments.mean)

    @cached_property
    def leaders(self) -> tuple[int, ...]:
        """The level of each factor with the largest estimate; the first where nothing is known."""
        if self.fit is None:
            return ()
        found = self.choices.values(self.fit.theta)
        return tuple(0 if np.isnan(e).all() else int(np.nanargmax(e)) for e in found)

    @cached_property
    def _values(self) -> list[NDArray[np.float64]]:
        assert self.fit is not None  # callers have seen that there is one
        return self.choices.values(self.fit.theta)

    def losses(self, factor: int, leader: int) -> list[float | None]:
        """What each level of a factor loses against one of them; None where the runs do not tell."""
        if self.fit is None:
            return []
        effects, known = self._values[factor], self.choices.variances(self.fit, factor)[leader]
        return [float(effects[leader] - effects[j]) if math.isfinite(known[j]) else None for j in range(len(effects))]

    def counts(self, factor: int) -> list[int]:
        """How many runs each level had, or the rarest part of a combination."""
        if self.fit is None:
            return []
        return [int(n) for n in self.fit.moments.level_counts[self.choices.places[factor]].min(axis=1)]

    def prediction(
        self, levels: tuple[int, ...], noise_sd: float | None, error: float
    ) -> tuple[float, float, float] | None:
        """The mean outcome to expect at a setting, with an interval; None when the runs do not determine it.

        y = mean + w' theta with w the setting's levels less the runs' shares of each, var = (1/n + w' V^+ w) sigma^2.
        The interval is Scheffe's: it holds for all settings at once, so also for one chosen because it looks best.
        """
        fit = self.fit
        if fit is None or fit.rank < 1 + sum(m - 1 for m in fit.moments.n_levels):
            return None
        if noise_sd is None and fit.residual_dof < 1:
            return None
        at = np.zeros(len(fit.theta))
        for places, level in zip(self.choices.places, levels, strict=True):
            at[places[level]] = 1.0
        weights = at - fit.moments.level_counts / fit.moments.n_runs
        middle = self.mean + float(weights @ fit.theta)
        spread = math.sqrt(1 / fit.moments.n_runs + float(weights @ fit.inverse @ weights))
        if noise_sd is None:
            sd = math.sqrt(fit.residual_square / fit.residual_dof)
            half = math.sqrt(fit.rank * float(fdtri(fit.rank, fit.residual_dof, 1 - error))) * sd * spread
        else:
            half = math.sqrt(2 * float(gammaincinv(fit.rank / 2, 1 - error))) * noise_sd * spread
        ends = sorted((self.sign * (middle - half), self.sign * (middle + half)))
        return self.sign * middle, ends[0], ends[1]
