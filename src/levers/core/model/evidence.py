"""Evidence about pairs of levels that stays valid however often one looks, and what it rules out.

Factors with fewer levels than the largest one leave entries of the arrays unused. The argument is in docs/theory,
section 5.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincinv

from levers.core.codec import serialisable

Pairs: TypeAlias = NDArray[np.float64]
"""A number for each pair of levels of a factor, indexed [factor, i, j]."""
Mask: TypeAlias = NDArray[np.bool_]
"""A yes or no for each factor, or for each level, indexed [factor, level]."""
_NOISE_EXPONENT = 0.15
"""The l of the anytime noise bound. Any value is valid; this one is best at a few hundred degrees of freedom."""
_FORECAST_CELLS = 100_000  # pairs of levels times lengths of screening that are forecast in one array operation
_LEAST_INFORMATION = 1e-12  # stands for no information in a forecast, where it is divided by


@serialisable("Evidence")
@dataclass(frozen=True, eq=False)
class Evidence:
    """Block estimates D_b of theta_i - theta_j with variances sigma^2 v_b, pooled: W = sum D_b / v_b, I = sum 1 / v_b.

    >>> two = Evidence.none(1, 2).add(np.array([[[0.0, 1.0], [-1.0, 0.0]]]), np.full((1, 2, 2), 0.5))
    >>> float(two.estimates[0, 0, 1]), float(two.information[0, 0, 1])
    (1.0, 2.0)
    """

    weighted: Pairs
    information: Pairs

    @classmethod
    def none(cls, n_factors: int, most_levels: int) -> "Evidence":
        """No evidence yet."""
        shape = (n_factors, most_levels, most_levels)
        return cls(np.zeros(shape), np.zeros(shape))

    def add(self, differences: Pairs, variances: Pairs) -> "Evidence":
        """One more block; infinite variances add nothing."""
        known = np.isfinite(variances) & (variances > 0)
        precision = np.divide(1.0, variances, out=np.zeros_like(variances), where=known)
        return Evidence(self.weighted + np.where(known, differences, 0.0) * precision, self.information + precision)

    @cached_property
    def estimates(self) -> Pairs:
        """W / I, and 0 where nothing is known."""
        return np.divide(self.weighted, self.information, out=np.zeros_like(self.weighted), where=self.information > 0)


@dataclass(frozen=True)
class Knowledge:
    """What the user may know: at most `max_parents` parents; every parent's effects range over `min_effect` or more."""

    max_parents: int | None = None
    min_effect: float | None = None


@dataclass(frozen=True)
class Confidence:
    """What the radii are made of: a bound on the noise, and for each kind of claim its error and its mixture's rho.

    `pair_*` is for a level being ahead of another, `dismissal_*` for the one pair of a parent's levels that differ by
    `min_effect`: one claim a factor, not one a pair, so its radius is smaller.
    """

    noise_sd: float
    pair_error: float
    pair_rho: float
    dismissal_error: float
    dismissal_rho: float

    def radii(self, information: Pairs) -> tuple[Pairs, Pairs]:
        """The radius of comparisons, and the radius of dismissals."""
        compare = anytime_radius(information, self.noise_sd, self.pair_error, self.pair_rho)
        if self.dismissal_error == 0:
            return compare, compare
        return compare, anytime_radius(information, self.noise_sd, self.dismissal_error, self.dismissal_rho)


@dataclass(frozen=True, eq=False)
class Standing:
    """What the evidence says: surviving levels, parents found, open factors, and how much is at stake.

    `upper_loss` bounds what the leading levels lose in all; `at_stake` are the level counts of the open factors that a
    selection must certify.
    """

    active: Mask
    parents: Mask
    open: Mask
    leaders: NDArray[np.int64]
    upper_loss: float
    at_stake: tuple[int, ...]


def anytime_radius(information: Pairs, noise_sd: float, error: float, rho: float) -> Pairs:
    """One-sided radius that holds at all times at once, by a normal mixture over the drift.

    r(I) = sigma sqrt(2 (I + rho) log(1/2 + sqrt((I + rho)/rho) / (2 a))) / I, valid except with probability a.

    >>> float(anytime_radius(np.array([100.0]), 1.0, 0.01, 10.0).round(3)[0])
    0.335
    """
    total = information + rho
    with np.errstate(divide="ignore", invalid="ignore"):  # no information, or no noise at all
        root = np.sqrt(2 * total * np.log(0.5 + np.sqrt(total / rho) / (2 * error)))
        return np.where(information > 0, noise_sd * root / information, np.inf)


def noise_upper_bound(residual_square: float, dof: int, error: float) -> float:
    """sigma_bar with P(sigma > sigma_bar) <= error: sigma_bar^2 = RSS / chi2_{dof, error}.

    >>> round(noise_upper_bound(100.0, 100, 0.05), 3)
    1.133
    """
    return math.sqrt(residual_square / float(2 * gammaincinv(dof / 2, error)))


def anytime_noise_bound(residual_square: float, dof: int, error: float) -> float:
    """sigma_bar that holds after every block at once, however block sizes were chosen; infinite while dof is too small.

    exp(-l RSS/sigma^2) (1 + 2 l)^(dof/2) is a martingale for predictable dof, so by Ville's inequality
    sigma^2 <= l RSS / (dof/2 log(1 + 2 l) - log(1/error)) for all times, for any l fixed in advance.

    >>> 1.0 < anytime_noise_bound(400.0, 400, 0.005) < 1.2
    True
    """
    room = dof / 2 * math.log1p(2 * _NOISE_EXPONENT) - math.log(1 / error)
    return math.sqrt(_NOISE_EXPONENT * residual_square / room) if room > 0 else math.inf


def assess(
    estimates: Pairs, radii: tuple[Pairs, Pairs], active: Mask, parents: Mask, closed: Mask, known: Knowledge
) -> Standing:
    """Apply every rule of screening once.

    A level is dropped when another is ahead of it by more than the radius, and its factor is then a parent. With
    max_parents found, all others are closed. A factor without a dropped level whose largest contrast is under
    min_effect is closed. For the open factors, each leader may lose what its rivals' upper bounds say.
    """
    [standing] = _assess(estimates, (radii[0][None], radii[1][None]), active, parents, closed, known)
    return standing


def _assess(
    estimates: Pairs, radii: tuple[Pairs, Pairs], active: Mask, parents: Mask, closed: Mask, known: Knowledge
) -> list[Standing]:
    """The same for several radii at once, which have one more axis, the first."""
    radius, dismissal = radii
    apart = ~np.eye(active.shape[1], dtype=bool)
    both = active[:, :, None] & active[:, None, :] & apart
    beaten = ((estimates > radius) & both).any(axis=2)
    survivors = active & ~beaten
    found = parents | (beaten & active).any(axis=2)
    both = survivors[:, :, :, None] & survivors[:, :, None, :] & apart
    counts = survivors.sum(axis=2)
    is_open = (counts > 1) & ~closed
    spare = None
    if known.max_parents is not None:
        spare = np.maximum(known.max_parents - found.sum(axis=1), 0)
        is_open &= found | (spare > 0)[:, None]
    if known.min_effect is not None:
        widest = np.where(both, estimates + dismissal, -np.inf).max(axis=(2, 3))
        is_open &= found | (widest >= known.min_effect)
    leads = np.where(survivors, np.where(both, estimates, 0.0).sum(axis=3), -np.inf)  # over all survivors in all
    leaders = leads.argmax(axis=2)
    time, row = np.arange(len(radius))[:, None], np.arange(len(active))
    ahead = np.where(survivors, estimates[row, :, leaders] + radius[time, row, :, leaders], 0.0)
    ahead[time, row, leaders] = 0.0
    loss = np.where(is_open, np.maximum(ahead.max(axis=2), 0.0), 0.0)
    result = []
    for t in range(len(radius)):
        if spare is None:
            upper, levels = float(loss[t].sum()), counts[t][is_open[t]].tolist()
        else:
            sure, maybe = is_open[t] & found[t], is_open[t] & ~found[t]
            upper = float(loss[t][sure].sum() + np.sort(loss[t][maybe])[::-1][: spare[t]].sum())
            levels = counts[t][sure].tolist() + np.sort(counts[t][maybe])[::-1][: spare[t]].tolist()
        result.append(Standing(survivors[t], found[t], is_open[t], leaders[t], upper, tuple(sorted(levels))))
    return result


def forecasts(
    evidence: Evidence, growths: Sequence[float], confidence: Confidence, now: Standing, known: Knowledge
) -> Iterator[list[Standing]]:
    """What the standing will be when the information has grown by each factor, if the estimates are about right.

    Estimates are shrunk by one standard error in the square, d^2 -> d^2 - sigma^2 / I, because the largest of many
    estimates are mostly noise. This only guides how long to screen; no guarantee rests on it. They come in
    batches, worked out as they are asked for: the first alone, because mostly no other one is asked for after it.
    """
    information = np.maximum(evidence.information, _LEAST_INFORMATION)
    estimates = evidence.estimates
    shrunk = np.sign(estimates) * np.sqrt(np.maximum(estimates**2 - confidence.noise_sd**2 / information, 0.0))
    batch = max(1, _FORECAST_CELLS // information.size)
    begin, end = 0, 1
    while begin < len(growths):
        grown = information * np.asarray(growths[begin:end])[:, None, None, None]
        begin, end = end, end + batch
        yield _assess(shrunk, confidence.radii(grown), now.active, now.parents, ~now.open, known)


def level_mask(active: Sequence[Sequence[int]], most_levels: int) -> Mask:
    """Active levels as an array [factor, level].

    >>> level_mask([(0, 2)], 3).tolist()
    [[True, False, True]]
    """
    mask = np.zeros((len(active), most_levels), dtype=bool)
    factors = np.repeat(np.arange(len(active)), [len(levels) for levels in active])
    mask[factors, [level for levels in active for level in levels]] = True
    return mask
