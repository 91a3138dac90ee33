"""What the told outcomes say about each level, whatever algorithm asked for them: one fit for all that is shown.

It is the fit by which the algorithm chose its leaders, as of its last look, so that estimates, intervals and choice
agree. Where an algorithm has none, or not yet, it is least squares of all runs told so far.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from levers.core.model.choices import Choices
from levers.core.model.confirmation import interval_of_chosen, overestimates
from levers.core.model.fit import Fit
from levers.core.model.interaction_fit import InteractionFit
from levers.core.model.moments import Moments
from levers.core.model.ordinary import LEVEL, FactorTest, Fitted, Noise, factor_test, gain_margin
from levers.core.model.pooled import PooledSums
from levers.core.model.spike_and_slab import spike_and_slab
from levers.core.outcome_scale import OutcomeScale
from levers.core.space import FREE, Codes
from levers.studies.state import StudyState

_MOST_WITH_CONSTANTS = 2_000
"""Levels up to which blocks get constants of their own here; beyond, their matrices would take too much memory."""

_SEED = 0
"""Where the draws behind the margin of a gain begin: the same runs always show the same number."""

_MOST_DRAWN = 500
"""Free levels up to which the errors of all of them are drawn together; beyond, that would take seconds."""

_TAIL_OF_CHOSEN_ROWS = 0.5
"""What the tail is multiplied with where rows were chosen by outcomes: without it gains were shown too often
(docs/decisions/0027)."""

_NORMAL, _CHOSEN = 1.96, 2.58
"""Standard deviations of a fit with interactions that an interval has, and one for a setting that looked best by it."""

Span = tuple[float, float] | None


@dataclass(frozen=True, slots=True)
class Gain:
    """What the setting found gains over the baseline, the setting in place today: positive where it is better.

    `estimate` is what is to be expected of a setting that was chosen because it looks best, and `low` to `high` a 95 %
    interval that holds though it was; `usual_low` to `usual_high` is the ordinary one, of least squares, of a setting
    that had been fixed before. All None where the runs do not tell. A gain is `shown` when the wider interval is above
    0, and `confirmed` when that of fresh runs at both settings is; with neither, the answer is to `keep` what is in
    place. On a log scale these are shares of the baseline's outcome: 0.2 is 20 % less where less is better.
    """

    estimate: float | None = None
    low: float | None = None
    high: float | None = None
    usual_low: float | None = None
    usual_high: float | None = None
    shown: bool = False
    keep: bool = True
    confirmed: bool = False

    def on_scale(self, scale: OutcomeScale) -> "Gain":
        """The same as people read it, from differences that a solver sees: on a log scale as shares of the baseline."""
        names = ("estimate", "low", "high", "usual_low", "usual_high")
        return replace(self, **{name: scale.gain(getattr(self, name)) for name in names})


def counted_runs(state: StudyState) -> tuple[Codes, NDArray[np.float64]]:
    """The runs whose outcomes count, as level positions (of the merged space) and outcomes as told.

    Runs that left a lever alone are not among them: the additive model is about what is set.
    """
    runs = [(np.zeros((0, state.spec.inner.n_factors), dtype=np.int16), np.zeros(0)), *_by_block(state)]
    return np.concatenate([codes for codes, _ in runs]), np.concatenate([values for _, values in runs])


def _by_block(state: StudyState) -> list[tuple[Codes, NDArray[np.float64]]]:
    runs = [block.set_rows() for block in state.counted]
    return runs + [(state.spec.contract(past.codes), past.values) for past in state.past]


def at_last_look(state: StudyState) -> Any:
    """What the algorithm knows: after the last complete round, or with what was told of the open one."""
    known, block = state.known[-1], state.open_block
    if block is None:
        return known
    codes, values = block.told_rows()
    if not len(values):
        return known
    seen = state.spec.solver.look_inside(known, codes, state.spec.outcome_scale.inward(values), block.told_order)
    return known if seen is None else seen


@dataclass(frozen=True, eq=False)
class Estimates:
    """What is shown of every level. The fit, losses and errors are as the algorithm sees outcomes; `scale` leads back.

    Levers that forbidden combinations tie together are fitted by their parts. `noise_sd` is the stated noise, if any,
    and `rows` are the runs that count.
    """

    fitted: Fitted | None
    scale: OutcomeScale
    choices: Choices
    noise_sd: float | None = None
    rows: Codes | None = None

    @classmethod
    def of(cls, state: StudyState) -> "Estimates":
        """The fit by which the algorithm chose; else one of everything that counts."""
        spec, choices, runs = state.spec, state.choices, [run for run in _by_block(state) if len(run[1])]
        if not runs:
            return cls(None, spec.outcome_scale, choices, spec.noise_sd)
        seen = [(choices.rows(codes), spec.outcome_scale.inward(values)) for codes, values in runs]
        blocks = [Moments.empty(choices.sizes).add(*run) for run in seen]
        fitted = spec.solver.fitted(at_last_look(state))
        if fitted is None:
            apart = spec.solver.compares_within_blocks and sum(choices.sizes) <= _MOST_WITH_CONSTANTS
            pooled = PooledSums.empty(choices.sizes)
            for block in blocks:
                pooled = pooled.add(block, own_constant=apart)
            fitted = Fitted(Fit(pooled))
        return cls(fitted, spec.outcome_scale, choices, spec.noise_sd, np.concatenate([codes for codes, _ in runs]))

    @cached_property
    def _noise(self) -> Noise | None:
        return None if self.fitted is None else Noise.of(self.fitted.fit, self.noise_sd)

    @cached_property
    def _values(self) -> list[NDArray[np.float64]]:
        return [] if self.fitted is None else self.choices.values(self.fitted.compared)

    @cached_property
    def leaders(self) -> tuple[int, ...]:
        """The level of each factor with the largest estimate; the first where nothing is known."""
        return tuple(0 if np.isnan(found).all() else int(np.nanargmax(found)) for found in self._values)

    def losses(self, factor: int, leader: int) -> list[float | None]:
        """What each level of a factor loses against one of them; None where the runs do not tell."""
        if self.fitted is None:
            return []
        effects = self._values[factor]
        if self.fitted.shrunken is None:
            known = np.isfinite(self.choices.variances(self.fitted.fit, factor)[leader])
        else:
            known = ~np.isnan(effects[leader] - effects)
        losses = [float(effects[leader] - value) if sure else None for value, sure in zip(effects, known, strict=True)]
        losses[leader] = 0.0
        return losses

    def usual(self, factor: int, leader: int, losses: list[float | None]) -> list[Span]:
        """The ordinary 95 % intervals of these losses: least squares, t or z, each level for itself.

        One that would not hold the estimate shown, because that is shrunken, is widened to it. Where levers work
        together they are those of the fit that the setting was chosen by, of changing this lever alone.
        """
        noise = self._noise
        if self.fitted is None or noise is None:
            return [None] * len(losses)
        if self.fitted.together is not None and leader == self.leaders[factor]:
            return [None if loss is None else self._span_together(factor, j) for j, loss in enumerate(losses)]
        fit = self.fitted.fit
        effects = self.choices.values(fit.theta)[factor]
        variances = self.choices.variances(fit, factor)[leader]
        spans: list[Span] = []
        for j, shown in enumerate(losses):
            if j == leader:
                spans.append((0.0, 0.0))
            elif shown is None or not math.isfinite(variances[j]):
                spans.append(None)
            else:
                middle, half = float(effects[leader] - effects[j]), noise.half_width(float(variances[j]))
                spans.append((min(middle - half, shown), max(middle + half, shown)))
        return spans

    def _span_together(self, factor: int, level: int) -> Span:
        """The 95 % interval of what a level loses where levers work together, all others set as chosen."""
        assert self.fitted is not None  # callers have seen that there is such a fit
        assert self.fitted.together is not None
        chosen = np.array(self.leaders)
        other = chosen.copy()
        other[factor] = level
        loss, variance = self.fitted.together.difference(chosen, other)
        half = _NORMAL * math.sqrt(variance)
        return loss - half, loss + half

    def standard_errors(self, factor: int) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """What every level gains over every other, and the standard errors; None where nothing tells the noise."""
        if self.fitted is None or self._noise is None:
            return None
        effects = np.nan_to_num(self._values[factor])
        errors = self._noise.sd * np.sqrt(self.choices.variances(self.fitted.fit, factor))
        return effects[:, None] - effects[None, :], errors

    def test(self, factor: int) -> FactorTest | None:
        """The ordinary test that a factor's levels differ; None where the runs cannot tell."""
        return self._test(np.unique(self.choices.places[factor]))

    def part_tests(self) -> list[FactorTest | None]:
        """The same for every factor of the fit: where levers are tied, for each of them."""
        parts = self.of_parts
        return [parts.test(k) for k in range(len(parts.choices.sizes))]

    @cached_property
    def of_parts(self) -> "Estimates":
        """The same for every factor of the fit by itself, as if any of its levels could be chosen."""
        rows = None if self.rows is None else self.choices.rows(self.rows)
        return replace(self, choices=Choices(self.choices.sizes), rows=rows)

    def _test(self, levels: NDArray[np.int64]) -> FactorTest | None:
        if self.fitted is None or self._noise is None:
            return None
        return factor_test(self.fitted.fit, levels, self._noise)

    def counts(self, factor: int) -> list[int]:
        """How many runs each level had, or each combination of levers that were studied as one."""
        if self.rows is None:
            return []
        found = np.bincount(self.rows[:, factor], minlength=self.choices.n_levels[factor])
        return [int(n) for n in found]

    def prediction(self, levels: tuple[int, ...]) -> tuple[float, float, float] | None:
        """The mean outcome to expect at a setting, with a 95 % interval; None when the runs do not determine it.

        On a log scale it is the typical one, the median: that of which the logarithm is the mean of logarithms.
        They do not where a lever is left alone: what nature does is not in the additive model.

        y = mean + w' theta with w the setting's levels less the runs' shares of each, in a block like the average of
        those so far. The setting was chosen because it looks best, so theta is what is to be expected of effects that
        may be none (`spike_and_slab`), and the interval is that of a chosen setting (`interval_of_chosen`), which
        begins with least squares, var = (1/n + w' V^+ w) sigma^2. With very many levels it is Scheffe's.
        """
        if self.fitted is None or self._noise is None or FREE in levels:
            return None
        fit, moments, noise = self.fitted.fit, self.fitted.fit.moments, self._noise
        if self.fitted.together is not None:
            above, variance = self.fitted.together.difference(np.array(levels))
            variance += self.fitted.together.weights.noise_variance / moments.n_runs
            half = _CHOSEN * math.sqrt(variance)
            ends = sorted(self.scale.outward(moments.mean + above + r) for r in (-half, half))
            return self.scale.outward(moments.mean + above), ends[0], ends[1]
        weights = self._at(levels) - moments.level_counts / moments.n_runs
        found = self._contrast(weights)
        if found is None:
            return None
        usual, variance = found[0], found[1] + 1 / moments.n_runs
        n_free = len(fit.free_levels)
        if n_free > _MOST_DRAWN:
            half = noise.scheffe_half_width(variance, 1 + n_free)
            low, high = usual - half, usual + half
        else:
            too_good = overestimates(fit, self.choices.places, levels, None, 0.0, noise, np.random.default_rng(_SEED))
            low, high = interval_of_chosen(usual, variance, too_good, noise)
        shown = float(weights @ self._expected)
        ends = sorted(self.scale.outward(moments.mean + end) for end in (min(low, shown), max(high, shown)))
        return self.scale.outward(moments.mean + shown), ends[0], ends[1]

    def gain(self, levels: tuple[int, ...], baseline: tuple[int, ...]) -> Gain:
        """What a setting gains over one that was fixed before, positive where it is better."""
        if levels == baseline:
            return Gain(0.0, 0.0, 0.0, 0.0, 0.0)
        if self.fitted is not None and self.fitted.together is not None:
            return _gain_together(self.fitted.together, levels, baseline).on_scale(self.scale)
        weights = self._at(levels) - self._at(baseline)
        found = None if self.fitted is None else self._contrast(weights)
        if self.fitted is None or self._noise is None or found is None:
            return Gain()
        (usual, variance), shown = found, float(weights @ self._expected)
        half = self._noise.half_width(variance)
        rng = np.random.default_rng(_SEED)
        # never less than if one setting had been fixed, whatever the draws say
        tail = (1 - LEVEL) / 2 * (_TAIL_OF_CHOSEN_ROWS if self.fitted.chosen_rows else 1.0)
        margin = gain_margin(self.fitted.fit, self.choices.places, baseline, self._noise, rng, tail)
        margin = max(margin, half)
        low, high = min(usual - margin, shown), max(usual + margin, shown)
        found_gain = Gain(shown, low, high, usual - half, usual + half, shown=low > 0, keep=low <= 0)
        return found_gain.on_scale(self.scale)

    def least_squares(self, levels: tuple[int, ...], against: tuple[int, ...] | None) -> tuple[float, float] | None:
        """The mean outcome at a setting, or its gain over another, by least squares, and its variance over sigma^2.

        None where the runs do not determine it, or the setting was chosen by another fit.
        """
        if self.fitted is None or self.fitted.together is not None or FREE in levels:
            return None
        moments = self.fitted.fit.moments
        shares = moments.level_counts / moments.n_runs
        found = self._contrast(self._at(levels) - (shares if against is None else self._at(against)))
        if found is None:
            return None
        usual, variance = found
        return (usual, variance) if against is not None else (moments.mean + usual, 1 / moments.n_runs + variance)

    def _at(self, levels: tuple[int, ...]) -> NDArray[np.float64]:
        """A setting as a row of the one-hot design."""
        at = np.zeros(sum(self.choices.sizes))
        for places, level in zip(self.choices.places, levels, strict=True):
            at[places[level]] = 1.0
        return at

    def _contrast(self, weights: NDArray[np.float64]) -> tuple[float, float] | None:
        """w' theta by least squares, and w' V^+ w; None where the runs do not determine it."""
        assert self.fitted is not None  # callers have seen that there is one
        fit = self.fitted.fit
        if not fit.determined or (fit.moments.level_counts[np.abs(weights) > 0] == 0).any():
            return None
        return float(weights @ np.nan_to_num(fit.theta)), max(float(weights @ fit.inverse @ weights), 0.0)

    @cached_property
    def _expected(self) -> NDArray[np.float64]:
        """Effects to be expected of levels that were chosen by their estimates."""
        assert self.fitted is not None  # callers have seen that there is one, and what its noise is
        assert self._noise is not None
        return spike_and_slab(self.fitted.fit.moments, self._noise.sd)


def _gain_together(fit: InteractionFit, levels: tuple[int, ...], baseline: tuple[int, ...]) -> Gain:
    """The gain by a fit with interactions, whose shrinkage allows for most of the luck of the chosen."""
    gain, variance = fit.difference(np.array(levels), np.array(baseline))
    usual, wide = (r * math.sqrt(variance) for r in (_NORMAL, _CHOSEN))
    shown = gain - wide > 0
    return Gain(gain, gain - wide, gain + wide, gain - usual, gain + usual, shown=shown, keep=not shown)
