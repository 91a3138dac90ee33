"""Runs whose outcomes are far from what all others say: left out one by one, or two or three that hide each other."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import comb, log

import numpy as np
from scipy.special import chdtrc, fdtrc

from levers.core.model.checks.additivity import f_ratio
from levers.core.model.checks.check import OUTLIER, Check, Positions, Residual, noise_p_value
from levers.core.model.level_index import Numbers
from levers.core.model.pooled import OutcomeSteps

MOST_OUTLIERS = 10
"""Runs named at most; more are a matter of the noise's shape."""
CONTRADICTED = 0.001
"""The p-value below which a stated noise is not used to judge anything else."""
_MOST_TOGETHER = 3  # runs that may hide each other
_BEGINNINGS = 8  # first runs that sets of two and three are begun with
_CONFUSED = 4.0  # variances by which leaving out another run may be worse before the two are told apart


@dataclass(frozen=True)
class Outliers:
    """Positions of the runs named, the checks, and the residuals without these runs.

    Each run named has a check of its own. Where none is, one check has the set that is least unlikely to be wrong.
    """

    named: tuple[int, ...]
    checks: tuple[Check, ...]
    left: Residual


@dataclass(frozen=True)
class _Set:
    """Runs that are left out together, what is left without them, and how unusual they are."""

    members: list[int]
    after: Residual
    statistic: float
    p_value: float


def outliers(
    left: Residual, outcomes: Numbers, positions: Positions, level: float, noise_sd: float | None = None
) -> Outliers:
    """Name the runs that do not belong, at this level over all sets of one, two or three runs.

    Leaving out a set S of i runs takes G off the squares. For a set fixed in advance

        F = [G / i] / [(RSS - G) / (nu - i)]

    is an F on i and nu - i degrees of freedom, for one run the square of its externally studentised residual; with a
    stated noise G / sigma^2 is chi-squared on i. The p-value is multiplied by the number of sets and by 2^i, so that it
    holds for the worst set of all sizes, and by 2 where both statistics are used. What only the stated noise finds
    counts if that noise holds without the runs named, and explains the residuals better than a larger noise would.
    `outcomes` and `positions` are those of the residuals' runs; the run further from the middle is named if two of one
    setting differ, and nothing else tells which is wrong.

    Rounded outcomes may be fitted exactly when a few are left out: what is then left, RSS - G, is taken to be no less
    than what rounding to their steps r leaves, r^2 / 12 for each degree of freedom.

    >>> from levers.core.model.checks.additivity import Additive
    >>> y = np.random.default_rng(0).normal(size=24) + 70
    >>> y[[5, 11]] *= 10
    >>> model = Additive.of([[0], [1]] * 12, y, [2])
    >>> outliers(Residual.of(model), y, np.arange(24), level=0.001).named
    (5, 11)
    """
    away = np.abs(outcomes - np.median(outcomes)) if len(outcomes) else outcomes
    rounding = (OutcomeSteps().add(outcomes).resolution or 0.0) ** 2 / 12
    if noise_sd is None:
        return _search(left, away, positions, level, None, rounding)
    found = _search(left, away, positions, level / 2, None, rounding)
    more = _search(found.left, away, positions, level / 2, noise_sd, rounding)
    if _is_better(found.left, more, noise_sd):
        kept = found.checks if found.named else ()
        found = Outliers((*found.named, *more.named), (*kept, *more.checks), more.left)
    checks = tuple(replace(check, p_value=min(1.0, 2 * check.p_value)) for check in found.checks)
    return Outliers(found.named, checks, found.left)


def _is_better(left: Residual, found: Outliers, noise_sd: float) -> bool:
    """Whether outliers explain residuals better than a larger noise does, by likelihoods that pay for what they fit.

    Outliers: -RSS' / (2 sigma^2), less the log of the number of sets and of each shift in sds. A larger noise, s^2 =
    RSS / nu: -(nu / 2) (log(s^2 / sigma^2) + 1), less log(nu) / 2.
    """
    if not found.named or noise_p_value(found.left.square, found.left.dof, noise_sd) < CONTRADICTED:
        return False
    shifts = sum(log(1 + abs(check.size or 0.0) / noise_sd) for check in found.checks)
    n_sets = comb(left.n_runs, len(found.named))
    outlying = -found.left.square / (2 * noise_sd**2) - log(n_sets) - shifts
    ratio = max(left.square / (left.dof * noise_sd**2), 1.0)
    return outlying > -left.dof / 2 * (log(ratio) + 1) - log(left.dof) / 2


def _search(
    left: Residual, away: Numbers, positions: Positions, level: float, noise_sd: float | None, rounding: float
) -> Outliers:
    """Name sets of runs while there is one that is unusual at this level."""
    named, checks = list[int](), list[Check]()
    while len(named) < MOST_OUTLIERS and not left.is_exact:
        found = _most_unusual(left, left.n_runs - len(named), level, noise_sd, rounding)
        if found is None:
            break
        members = found.members
        if len(members) == 1:
            members = [_furthest(left, found, away, noise_sd)]
            found = replace(found, after=left.without(members[0]))
        shifts, places = left.shifts(members), [int(positions[run]) for run in members]
        if found.p_value >= level:
            if not named:
                checks.append(Check(OUTLIER, found.statistic, found.p_value, float(shifts[0]), tuple(places)))
            break
        named += members
        checks += [
            Check(OUTLIER, found.statistic, found.p_value, float(shift), (place,))
            for shift, place in zip(shifts, places, strict=True)
        ]
        left = found.after
    return Outliers(tuple(int(positions[run]) for run in named), tuple(checks), left)


def _most_unusual(left: Residual, n: int, level: float, noise_sd: float | None, rounding: float) -> _Set | None:
    """The smallest set that is unusual at this level, so that nobody else is blamed with it; or the least likely."""
    best: _Set | None = None
    for members, after in _candidates(left):
        i, gain = len(members), max(left.square - after.square, 0.0)
        if after.dof < (1 if noise_sd is None else 0):
            break
        if noise_sd is None:
            statistic = f_ratio(gain, i, max(after.square, after.dof * rounding), after.dof)
            p_value = float(fdtrc(i, after.dof, statistic))
        else:
            statistic = gain / noise_sd**2
            p_value = float(chdtrc(i, statistic))
        found = _Set(members, after, statistic, min(1.0, p_value * comb(n, i) * 2**i))
        if best is None or found.p_value < best.p_value:
            best = found
        if found.p_value < level:
            break
    return best


def _furthest(left: Residual, found: _Set, away: Numbers, noise_sd: float | None) -> int:
    """Of the runs that may as well be left out as the one found, that with the outcome furthest from the middle."""
    variance = noise_sd**2 if noise_sd is not None else found.after.square / max(found.after.dof, 1)
    gains = left.gains
    alike = np.flatnonzero((gains > 0) & (gains >= gains[found.members[0]] - _CONFUSED * variance))
    alike = alike[np.argsort(-gains[alike], kind="stable")]
    return int(alike[np.argmax(away[alike])])


def _candidates(left: Residual) -> Iterator[tuple[list[int], Residual]]:
    """The run whose leaving out takes most off the squares; then two and three of which the same holds, nearly."""
    firsts = [run for run in np.argsort(-left.gains, kind="stable")[:_BEGINNINGS].tolist() if left.gains[run] > 0]
    sets = [([run], left.without(run)) for run in firsts]
    if sets:
        yield sets[0]
    for _ in range(1, _MOST_TOGETHER):
        sets = [([*members, run], after.without(run)) for members, after in sets if (run := _worst(after)) is not None]
        if sets:
            yield min(sets, key=lambda each: each[1].square)


def _worst(left: Residual) -> int | None:
    run = int(np.argmax(left.gains))
    return run if left.gains[run] > 0 else None
