"""Whether fresh runs at a chosen setting bear out what was predicted of it.

A setting is chosen because its estimate is the largest, so its estimate is too large on average (the winner's curse).
Fresh runs are not: they were made after the choice. They are compared with the interval in which their mean should lie
though the setting was chosen. The argument and what was counted are in docs/decisions/0043-confirmation.md.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from levers.core.codec import serialisable
from levers.core.model.fit import Fit
from levers.core.model.ordinary import LEVEL, Noise, error_draws
from levers.core.outcome_scale import LINEAR

CONFIRMED, IN_DOUBT, UNDECIDED, MEASURED = "confirmed", "in doubt", "undecided", "measured"
"""What fresh runs answer. `MEASURED`: nothing was predicted, so that there is nothing to compare them with."""
OUTCOME, GAIN = "outcome", "gain"
"""What is compared: the mean outcome at the setting, or what it gains over the baseline."""
SHARE = 1 - LEVEL
"""In how many honest studies fresh runs may ever put a verdict in doubt, however often one confirms."""
FIRST_SHARE = 0.8
"""How much of that the first confirmation has."""
NOTICED = 0.8
"""The probability behind `Confirmation.notices`."""
_ROUNDING = 1e-12
_RULED_OUT = 1e-4
"""Levels that are behind the chosen one with a p-value below this could not have been chosen by luck."""


@serialisable("Estimated")
@dataclass(frozen=True, slots=True)
class Estimated:
    """A number with a 95 % interval, whose ends are None where nothing tells them."""

    value: float
    low: float | None = None
    high: float | None = None


@serialisable("Confirmation")
@dataclass(frozen=True, slots=True)
class Confirmation:
    """What fresh runs say of a verdict. The certificate does not rest on them, and no fit has them.

    `n_runs` fresh runs at the verdict's setting gave `measured`, `n_baseline` at the baseline gave `baseline`, and the
    difference is `gain`, positive where the setting is better: three numbers that no model is needed for, with ordinary
    95 % intervals. `predicted` and `predicted_gain` are what the study had said, with intervals that hold though the
    setting was chosen.

    `compared` says which of the two decides: "gain" where there is a baseline, since what changes everything alike
    cancels in it, else "outcome". By the study's runs it should be between `expected_low` and `expected_high`, which
    fails for honest studies with probability `level`; `p_value` is how likely a number as far off as this is, at most.
    A prediction that is too good by `notices` is found out in 8 of 10 cases.

    `answer` is "confirmed", "in doubt", "undecided" (no fresh runs are complete), or "measured" (nothing was
    predicted). `look` counts the confirmations so far, over which the levels add up to 5 %; `n_awaited` are fresh runs
    that are under way. With the `scale` "log" outcomes are typical ones (medians), and gains and `notices` are shares.
    """

    answer: str
    n_runs: int = 0
    measured: Estimated | None = None
    predicted: Estimated | None = None
    n_baseline: int = 0
    baseline: Estimated | None = None
    gain: Estimated | None = None
    predicted_gain: Estimated | None = None
    compared: str | None = None
    expected_low: float | None = None
    expected_high: float | None = None
    p_value: float | None = None
    level: float | None = None
    notices: float | None = None
    look: int = 0
    n_awaited: int = 0
    scale: str = LINEAR


def level_at(look: int) -> float:
    """The level of the test at the k-th look: 0.8 of the share at the first, 0.2 / (k (k - 1)) of it later.

    Over all looks these add up to the share: sum_{k > 1} 1 / (k (k - 1)) = 1.

    >>> round(level_at(1), 6), round(level_at(2), 6), round(sum(level_at(k) for k in range(1, 10_000)), 4)
    (0.04, 0.005, 0.05)
    """
    return SHARE * (FIRST_SHARE if look == 1 else (1 - FIRST_SHARE) / (look * (look - 1)))


def mean_of(values: ArrayLike) -> Estimated:
    """The mean of fresh runs with its ordinary interval, mean +- t s / sqrt(n) on n - 1 degrees of freedom.

    >>> mean_of([1.0, 2.0, 3.0])
    Estimated(value=2.0, low=-0.48413771175033027, high=4.48413771175033)
    >>> mean_of([1.0])
    Estimated(value=1.0, low=None, high=None)
    """
    y = np.asarray(values, dtype=np.float64)
    mean = float(y.mean())
    if len(y) < 2:
        return Estimated(mean)
    half = _t(len(y) - 1) * float(y.std(ddof=1)) / math.sqrt(len(y))
    return Estimated(mean, mean - half, mean + half)


def difference_of(values: ArrayLike, others: ArrayLike, sign: float = 1.0) -> Estimated:
    """What the mean of some runs gains over that of others, with Welch's interval: no common noise is assumed.

    d +- t sqrt(s1^2/n1 + s2^2/n2), t on (v1 + v2)^2 / (v1^2 / (n1 - 1) + v2^2 / (n2 - 1)) degrees of freedom with
    v = s^2 / n   (Welch, Biometrika 1947). Where smaller outcomes are better the sign is -1.

    >>> found = difference_of([3.0, 4.0, 5.0], [1.0, 2.0, 3.0])
    >>> found.value, round(found.low, 3), round(found.high, 3)
    (2.0, -0.267, 4.267)
    """
    a, b = np.asarray(values, dtype=np.float64), np.asarray(others, dtype=np.float64)
    gain = sign * (float(a.mean()) - float(b.mean()))
    if len(a) < 2 or len(b) < 2:
        return Estimated(gain)
    va, vb = float(a.var(ddof=1)) / len(a), float(b.var(ddof=1)) / len(b)
    if va + vb == 0:
        return Estimated(gain, gain, gain)
    dof = (va + vb) ** 2 / (va**2 / (len(a) - 1) + vb**2 / (len(b) - 1))
    half = _t(dof) * math.sqrt(va + vb)
    return Estimated(gain, gain - half, gain + half)


def _t(dof: float) -> float:
    return float(stdtrit(dof, (1 + LEVEL) / 2))


def pooled_noise(fit: Fit, stated: float | None, groups: Sequence[ArrayLike]) -> Noise | None:
    """The noise as stated, or that of the fit's residuals and of fresh runs around their means, together.

    s^2 = (RSS + sum (y - mean)^2) / (dof + sum (n - 1)): independent of all means. None where neither tells it.

    >>> from levers.core.model.moments import Moments
    >>> fit = Fit(Moments.empty([2]).add([[0], [1], [0], [1]], [0.0, 1.0, 2.0, 3.0]))
    >>> found = pooled_noise(fit, None, [[1.0, 2.0, 3.0]])
    >>> round(found.sd, 6), found.dof
    (1.224745, 4)
    """
    alone = Noise.of(fit, stated)
    if alone is None or alone.dof is None:
        return alone
    fresh = [np.asarray(group, dtype=np.float64) for group in groups if np.size(group)]
    square = alone.sd**2 * alone.dof + sum(float(((y - y.mean()) ** 2).sum()) for y in fresh)
    dof = alone.dof + sum(len(y) - 1 for y in fresh)
    return Noise(math.sqrt(square / dof), dof)


@dataclass(frozen=True, slots=True)
class Expected:
    """Where the mean of fresh runs should lie, and how far off it is; larger outcomes are better.

    `notices` is by how much a prediction is too good that is found out in 8 of 10 cases.
    """

    low: float
    high: float
    p_value: float
    notices: float


def interval_of_chosen(
    predicted: float, variance: float, too_good: NDArray[np.float64], noise: Noise, level: float = SHARE
) -> tuple[float, float]:
    """The interval of what least squares predicts of a chosen setting; `variance` sigma^2 is that of one fixed before.

    The prediction is too good by at most `too_good` (draws, see `overestimates`), and not too bad more often than for a
    fixed setting: choosing the largest only ever moves it up. So at the level a

        low = predicted - q_{1 - a/2}(too_good),   high = predicted + t_{1 - a/2} s sqrt(v)

    >>> chosen = np.random.default_rng(0).standard_normal((4000, 3)).max(axis=1)  # the largest of three alike
    >>> low, high = interval_of_chosen(10.0, 1.0, chosen, Noise(1.0, None))
    >>> round(low, 1), round(high, 1)
    (7.6, 12.0)
    """
    tail = level / 2
    quantile = float(ndtri(1 - tail)) if noise.dof is None else float(stdtrit(noise.dof, 1 - tail))
    above = noise.sd * math.sqrt(variance) * quantile
    # never less than if the setting had been fixed, whatever the draws say
    return predicted - max(float(np.quantile(too_good, 1 - tail)), above), predicted + above


def expected_mean(
    predicted: float, measured: float, variance: float, too_good: NDArray[np.float64], noise: Noise, level: float
) -> Expected:
    """Compare a mean of fresh runs with its prediction by least squares; `variance` is that of their difference.

    For a setting fixed before, measured - predicted has the variance v sigma^2; for one that was chosen it lies in
    `interval_of_chosen`.

    The p-value is twice the smaller of the two tails.

    >>> no_choice = np.sqrt(0.5) * np.random.default_rng(0).standard_normal(4000)
    >>> found = expected_mean(10.0, 9.0, 0.5, no_choice, Noise(1.0, None), 0.05)
    >>> round(found.low, 1), round(found.high, 1), round(found.p_value, 1)
    (8.6, 11.4, 0.2)
    """
    spread, tail = noise.sd * math.sqrt(variance), level / 2
    low, high = interval_of_chosen(predicted, variance, too_good, noise, level)
    below = predicted - low
    z, off = (measured - predicted) / spread, predicted - measured
    fixed = [float(ndtr(side)) if noise.dof is None else float(stdtr(noise.dof, side)) for side in (z, -z)]
    worse = max((1 + int((too_good >= off).sum())) / (1 + len(too_good)), fixed[0])
    worse = min(worse, tail) if off > below else max(worse, tail)  # the interval decides, draws have a last digit
    p_value = min(1.0, 2 * min(worse, fixed[1]))
    return Expected(low, high, p_value, below + float(ndtri(NOTICED)) * spread)


def overestimates(
    fit: Fit,
    places: Sequence[NDArray[np.int64]],
    chosen: Sequence[int],
    against: Sequence[int] | None,
    fresh_variance: float,
    noise: Noise,
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    """By how much predicted less measured may be too large for a setting that was chosen by it: draws of the worst case

        e_fresh + e_0 + sum_k s_kc max_j z_kj,   e_fresh + sum_{k: c != b} (s_kc max_j z_kj - s_kb z_kb)

    for its mean outcome and for its gain over a fixed setting b (`against`). z_kj is the error of level j of factor k,
    counted from the mean of all runs, over its standard deviation s_kj; c is the chosen level, e_0 the error of the
    mean of all runs, and e_fresh that of the fresh runs, of the variance `fresh_variance` sigma^2. The worst case is
    that levels are alike, so that the largest error chooses: over those that could have been chosen, which are c and
    all not behind it beyond doubt (p < 1e-4). A fixed level that could have been chosen was not, so where its error is
    the largest of a draw it changes places with that of c. `places` are as in `gain_margin`.

    >>> from levers.core.model.moments import Moments
    >>> fit = Fit(Moments.empty([2]).add([[0], [1]] * 50, [0.0, 0.1] * 50))
    >>> where, rng = [np.array([[0], [1]])], np.random.default_rng(0)
    >>> errors = overestimates(fit, where, [1], None, 0.1, Noise(1.0, None), rng)
    >>> bool(0.07 < errors.mean() < 0.09)  # the winner's curse: 0.8 standard errors of 0.1
    True
    >>> errors = overestimates(fit, where, [1], [0], 0.1, Noise(1.0, None), rng)
    >>> bool(0.14 < errors.mean() < 0.18)  # the same of the difference, whose standard error is 0.2
    True
    """
    moments = fit.moments
    shares = moments.level_counts / moments.n_runs
    errors, run = error_draws(fit, noise, rng)
    total = math.sqrt(fresh_variance + (1 / moments.n_runs if against is None else 0.0)) * run
    for k, (rows, chosen_level) in enumerate(zip(places, chosen, strict=True)):
        fixed = None if against is None else against[k]
        if fixed == chosen_level:
            continue
        could, parts = plausible(fit, rows, chosen_level, noise), np.unique(rows)
        levels = could if fixed is None or fixed in could else np.append(could, fixed)
        off = errors[:, rows[levels]].sum(axis=2) - (errors[:, parts] @ shares[parts])[:, None]
        spread = off.std(axis=0)
        if (spread <= _ROUNDING * noise.sd).any():
            continue  # a single level was run
        z = off / spread
        at, n_could = int(np.flatnonzero(levels == chosen_level)[0]), len(could)
        total += spread[at] * z[:, :n_could].max(axis=1)
        if fixed is not None:
            of_fixed = int(np.flatnonzero(levels == fixed)[0])
            largest = z[:, :n_could].argmax(axis=1) == of_fixed
            total -= spread[of_fixed] * np.where(largest, z[:, at], z[:, of_fixed])
    return total


def plausible(fit: Fit, rows: NDArray[np.int64], level: int, noise: Noise) -> NDArray[np.int64]:
    """The levels of a factor that could have been chosen in the place of one, which is among them.

    >>> from levers.core.model.moments import Moments
    >>> fit = Fit(Moments.empty([3]).add([[0], [1], [2]] * 50, [0.0, 5.0, 5.1] * 50))
    >>> plausible(fit, np.array([[0], [1], [2]]), 2, Noise(1.0, None)).tolist()
    [1, 2]
    """
    theta, found = fit.theta, [level]
    quantile = -float(ndtri(_RULED_OUT)) if noise.dof is None else -float(stdtrit(noise.dof, _RULED_OUT))
    for j, row in enumerate(rows):
        if j == level or (fit.moments.level_counts[row] == 0).any():
            continue
        at = np.concatenate([rows[level], row])
        weights = np.repeat([1.0, -1.0], rows.shape[1])
        gap, variance = float(weights @ theta[at]), max(float(weights @ fit.inverse[np.ix_(at, at)] @ weights), 0.0)
        if gap <= quantile * noise.sd * math.sqrt(variance):
            found.append(j)
    return np.array(sorted(found))
