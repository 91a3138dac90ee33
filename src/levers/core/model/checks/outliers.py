"""Runs whose outcomes are far from what all others say: left out one by one, or two or three that hide each other."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import comb

import numpy as np
from scipy.special import chdtrc, fdtrc

from levers.core.model.additivity import f_ratio
from levers.core.model.checks.check import OUTLIER, Check, Positions, Residual, noise_p_value

MOST_OUTLIERS = 10
"""Runs named at most; of more the check says that there are more."""
CONTRADICTED = 0.001
"""The p-value below which a stated noise is not used to judge anything else."""
_MOST_TOGETHER = 3  # runs that may hide each other
_BEGINNINGS = 8  # first runs that sets of two and three are begun with


@dataclass(frozen=True)
class Outliers:
    """Positions of the runs named, each with its check; the residuals without them. `checks` is never empty if there
    was anything to test: where no run is named, it holds the most unusual one."""

    named: tuple[int, ...]
    checks: tuple[Check, ...]
    left: Residual


def outliers(left: Residual, positions: Positions, level: float, noise_sd: float | None = None) -> Outliers:
    """Name the runs that do not belong, at this level over all sets of one, two or three runs.

    Leaving out a set S of i runs takes G off the squares. For a set fixed in advance

        F = [G / i] / [(RSS - G) / (nu - i)]

    is an F on i and nu - i degrees of freedom, for one run the square of its externally studentised residual; with a
    stated noise G / sigma^2 is chi-squared on i. The p-value is multiplied by the number of sets and by 2^i, so that it
    holds for the worst set of all sizes. A stated noise is used only if it holds without the runs that it names: with a
    noise stated too low every run would be an outlier. `positions` are those of the residuals among all runs.

    >>> from levers.core.model.additivity import Additive
    >>> y = np.random.default_rng(0).normal(size=24) + 70
    >>> y[[5, 11]] *= 10
    >>> model = Additive.of([[0], [1]] * 12, y, [2])
    >>> outliers(Residual.of(model), np.arange(24), level=0.001).named
    (5, 11)
    """
    found = _search(left, positions, level / (1 if noise_sd is None else 2), None)
    if noise_sd is not None:
        more = _search(found.left, positions, level / 2, noise_sd)
        named = (*found.named, *more.named)
        holds = noise_p_value(more.left.square, more.left.dof, noise_sd) >= CONTRADICTED
        if more.named and holds:
            found = Outliers(named, (*(c for c in found.checks if found.named), *more.checks), more.left)
        elif not found.named and not more.named and more.checks and holds:
            found = min(found, more, key=lambda o: o.checks[0].p_value if o.checks else 2.0)
        factor = 2.0
    else:
        factor = 1.0
    checks = tuple(
        Check(c.kind, c.statistic, min(1.0, factor * c.p_value), size=c.size, runs=c.runs) for c in found.checks
    )
    return Outliers(found.named, checks, found.left)


def _search(left: Residual, positions: Positions, level: float, noise_sd: float | None) -> Outliers:
    """Name sets of runs while there is one that is unusual at this level."""
    named, checks = list[int](), list[Check]()
    while True:
        best: tuple[float, list[int], Residual, Check] | None = None
        for members, after in _candidates(left):
            i, n = len(members), left.n_runs - len(named)
            if after.dof < (1 if noise_sd is None else 0) or left.is_exact:
                continue
            gain = max(left.square - after.square, 0.0)
            if noise_sd is None:
                statistic = f_ratio(gain, i, after.square, after.dof)
                p_value = float(fdtrc(i, after.dof, statistic))
            else:
                statistic = gain / noise_sd**2
                p_value = float(chdtrc(i, statistic))
            p_value = min(1.0, p_value * comb(n, i) * 2**i)
            which = tuple(int(positions[m]) for m in members)
            check = Check(OUTLIER, statistic, p_value, float(left.shifts(members)[0]), which)
            if best is None or p_value < best[0]:
                best = p_value, members, after, check
            if p_value < level:
                break  # the smallest set that is unusual: nobody else is blamed with it
        if best is None:
            return Outliers(tuple(int(positions[m]) for m in named), tuple(checks), left)
        p_value, members, after, check = best
        if p_value >= level:
            return Outliers(tuple(int(positions[m]) for m in named), tuple(checks) if named else (check,), left)
        named += members
        checks += [
            Check(OUTLIER, check.statistic, p_value, float(shift), (int(positions[m]),))
            for m, shift in zip(members, left.shifts(members), strict=True)
        ]
        left = after
        if len(named) >= MOST_OUTLIERS:
            return Outliers(tuple(int(positions[m]) for m in named), tuple(checks), left)


def _candidates(left: Residual) -> Iterator[tuple[list[int], Residual]]:
    """The run whose leaving out takes most off the squares; then two and three of which the same holds, nearly."""
    firsts = np.argsort(-left.gains, kind="stable")[:_BEGINNINGS].tolist()
    firsts = [run for run in firsts if left.gains[run] > 0]
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
