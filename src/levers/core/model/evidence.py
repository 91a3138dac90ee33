"""Evidence about pairs of levels that stays valid however often one looks, and what it rules out.

There is a number for each pair of levels of one factor, factor after factor (`core/model/pairs.py`). The argument is in
docs/theory, section 5.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincinv, ndtri, stdtrit

from levers.core.codec import serialisable
from levers.core.model.pairs import PairGroup, Pairs, n_pairs, pair_groups, pair_places, unpadded

Mask: TypeAlias = NDArray[np.bool_]
"""A yes or no for each factor, or for each level, indexed [factor, level]."""
_NOISE_EXPONENT = 0.15
"""The l of the anytime noise bound. Any value is valid; this one is best at a few hundred degrees of freedom."""
_FORECAST_CELLS = 100_000  # pairs of levels times lengths of screening that are forecast in one array operation
_LEAST_INFORMATION = 1e-12  # stands for no information in a forecast, where it is divided by


@serialisable("PairEvidence")
@dataclass(frozen=True, eq=False)
class Evidence:
    """Block estimates D_b of theta_i - theta_j with variances sigma^2 v_b, pooled: W = sum D_b / v_b, I = sum 1 / v_b.

    >>> two = Evidence.none((2,)).add(np.array([0.0, 1.0, -1.0, 0.0]), np.full(4, 0.5))
    >>> two.estimate(0, 0, 1), float(two.information[1])
    (1.0, 2.0)
    """

    sizes: tuple[int, ...]
    weighted: Pairs
    information: Pairs

    @classmethod
    def none(cls, sizes: tuple[int, ...]) -> "Evidence":
        """No evidence yet on factors with so many levels."""
        n = n_pairs(sizes)
        return cls(sizes, np.zeros(n), np.zeros(n))

    def add(self, differences: Pairs, variances: Pairs) -> "Evidence":
        """One more block; infinite variances add nothing."""
        known = np.isfinite(variances) & (variances > 0)
        precision = np.divide(1.0, variances, out=np.zeros_like(variances), where=known)
        weighted = self.weighted + np.where(known, differences, 0.0) * precision
        return Evidence(self.sizes, weighted, self.information + precision)

    @cached_property
    def estimates(self) -> Pairs:
        """W / I, and 0 where nothing is known."""
        return np.divide(self.weighted, self.information, out=np.zeros_like(self.weighted), where=self.information > 0)

    def least(self, active: Mask) -> NDArray[np.float64]:
        """For each factor the least information on two of its active levels; infinite where there are no two.

        >>> Evidence((2,), np.zeros(4), np.array([9.0, 2.0, 3.0, 9.0])).least(np.array([[True, True]])).tolist()
        [2.0]
        """
        found = np.full(len(self.sizes), np.inf)
        for group in pair_groups(self.sizes):
            in_play = active[group.factors, : group.width]
            both = in_play[:, :, None] & in_play[:, None, :] & ~np.eye(group.width, dtype=bool)
            found[group.factors] = np.where(both, group.padded(self.information, 0.0), np.inf).min(axis=(1, 2))
        return found

    def estimate(self, factor: int, level: int, other: int) -> float:
        """By how much a level of a factor is ahead of another."""
        return float(self.estimates[pair_places(self.sizes, factor, level, other)])

    def known(self, factor: int, level: int, other: int) -> float:
        """The information on that."""
        return float(self.information[pair_places(self.sizes, factor, level, other)])


@serialisable("Evidence")
@dataclass(frozen=True, eq=False)
class PaddedEvidence:
    """Evidence as earlier versions wrote it: arrays [factor, i, j], each factor as wide as the largest. For reading.

    >>> old = PaddedEvidence(np.arange(8.0).reshape(2, 2, 2), np.ones((2, 2, 2)))
    >>> old.of((2, 1)).weighted.tolist()
    [0.0, 1.0, 2.0, 3.0, 4.0]
    """

    weighted: NDArray[np.float64]
    information: NDArray[np.float64]

    def of(self, sizes: tuple[int, ...]) -> Evidence:
        """The same for factors with so many levels, without the entries that they leave unused."""
        return Evidence(sizes, unpadded(self.weighted, sizes), unpadded(self.information, sizes))


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


def planned_radius(information: Pairs, noise_sd: float, error: float, dof: float = math.inf) -> Pairs:
    """One-sided radius for a single moment that was fixed in advance: r(I) = sigma t / sqrt(I), valid except with
    probability a, where t is the 1 - a quantile of Student's law; normal with infinitely many degrees of freedom.

    >>> float(planned_radius(np.array([100.0]), 1.0, 0.01).round(3)[0])
    0.233
    """
    quantile = -float(ndtri(error) if math.isinf(dof) else stdtrit(dof, error))
    with np.errstate(divide="ignore"):  # no information
        return np.where(information > 0, quantile * noise_sd / np.sqrt(information), np.inf)


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
    sizes: tuple[int, ...],
    estimates: Pairs,
    radii: tuple[Pairs, Pairs],
    active: Mask,
    parents: Mask,
    closed: Mask,
    known: Knowledge,
) -> Standing:
    """Apply every rule of screening once.

    A level is dropped when another is ahead of it by more than the radius, and its factor is then a parent. With
    max_parents found, all others are closed. A factor without a dropped level whose largest contrast is under
    min_effect is closed. For the open factors, each leader may lose what its rivals' upper bounds say.
    """
    [standing] = _assess(sizes, estimates, (radii[0][None], radii[1][None]), active, parents, closed, known)
    return standing


def _assess(
    sizes: tuple[int, ...],
    estimates: Pairs,
    radii: tuple[Pairs, Pairs],
    active: Mask,
    parents: Mask,
    closed: Mask,
    known: Knowledge,
) -> list[Standing]:
    """The same for several radii at once, which have one more axis, the first."""
    n_times = len(radii[0])
    survivors = np.zeros((n_times, *active.shape), dtype=bool)
    beaten = np.zeros((n_times, len(sizes)), dtype=bool)
    leaders = np.zeros((n_times, len(sizes)), dtype=np.int64)
    loss, widest = np.zeros((n_times, len(sizes))), np.zeros((n_times, len(sizes)))
    for group in pair_groups(sizes):
        at, width = group.factors, group.width
        compared = _compare(group, estimates, radii, active[at, :width], active.shape[1], known.min_effect is not None)
        survivors[:, at, :width], beaten[:, at], leaders[:, at], loss[:, at], widest[:, at] = compared
    found = parents | beaten
    counts = survivors.sum(axis=2)
    is_open = (counts > 1) & ~closed
    spare = None
    if known.max_parents is not None:
        spare = np.maximum(known.max_parents - found.sum(axis=1), 0)
        is_open &= found | (spare > 0)[:, None]
    if known.min_effect is not None:
        is_open &= found | (widest >= known.min_effect)
    loss = np.where(is_open, np.maximum(loss, 0.0), 0.0)
    result = []
    for t in range(n_times):
        if spare is None:
            upper, levels = float(loss[t].sum()), counts[t][is_open[t]].tolist()
        else:
            sure, maybe = is_open[t] & found[t], is_open[t] & ~found[t]
            upper = float(loss[t][sure].sum() + np.sort(loss[t][maybe])[::-1][: spare[t]].sum())
            levels = counts[t][sure].tolist() + np.sort(counts[t][maybe])[::-1][: spare[t]].tolist()
        result.append(Standing(survivors[t], found[t], is_open[t], leaders[t], upper, tuple(sorted(levels))))
    return result


def _compare(
    group: PairGroup, values: Pairs, radii: tuple[Pairs, Pairs], active: Mask, n_summed: int, widths: bool
) -> tuple[Mask, Mask, NDArray[np.int64], NDArray[np.float64], NDArray[np.float64] | float]:
    """For the factors of a group, at each time: surviving levels, whether one was dropped, the leader, what it may lose
    to its rivals, and with `widths` how large the largest contrast may be.

    Leads are sums over `n_summed` levels, those that a factor does not have counting nothing: rounding then is the same
    whatever factors are compared together.
    """
    estimates, radius = group.padded(values, 0.0), group.padded(radii[0], np.inf)
    apart = ~np.eye(group.width, dtype=bool)
    both = active[:, :, None] & active[:, None, :] & apart
    beaten = ((estimates > radius) & both).any(axis=2)
    survivors = active & ~beaten
    both = survivors[:, :, :, None] & survivors[:, :, None, :] & apart
    ahead_of = np.where(both, estimates, 0.0)
    if n_summed > group.width:
        ahead_of = np.pad(ahead_of, ((0, 0), (0, 0), (0, 0), (0, n_summed - group.width)))
    leads = np.where(survivors, ahead_of.sum(axis=3), -np.inf)  # over all survivors in all
    leaders = leads.argmax(axis=2)
    time, row = np.arange(len(radius))[:, None], np.arange(len(active))
    ahead = np.where(survivors, estimates[row, :, leaders] + radius[time, row, :, leaders], 0.0)
    ahead[time, row, leaders] = 0.0
    widest: NDArray[np.float64] | float = 0.0
    if widths:
        widest = np.where(both, estimates + group.padded(radii[1], np.inf), -np.inf).max(axis=(2, 3))
    dropped: Mask = np.asarray((beaten & active).any(axis=2))
    return survivors, dropped, leaders, ahead.max(axis=2), widest


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
        grown = information * np.asarray(growths[begin:end])[:, None]
        begin, end = end, end + batch
        yield _assess(evidence.sizes, shrunk, confidence.radii(grown), now.active, now.parents, ~now.open, known)


def level_mask(active: Sequence[Sequence[int]], most_levels: int) -> Mask:
    """Active levels as an array [factor, level].

    >>> level_mask([(0, 2)], 3).tolist()
    [[True, False, True]]
    """
    mask = np.zeros((len(active), most_levels), dtype=bool)
    factors = np.repeat(np.arange(len(active)), [len(levels) for levels in active])
    mask[factors, [level for levels in active for level in levels]] = True
    return mask
