"""Outcomes that depend on when a run was made: drift, days, neighbours that are alike, and set-ups of a lever."""

import math
from typing import NamedTuple

import numpy as np
from scipy.special import chdtrc, fdtrc

from levers.core.model.checks.additivity import LEAST_DOF, f_ratio
from levers.core.model.checks.check import DRIFT, SERIAL, SETUP, Check, Positions, Residual, Runs
from levers.core.model.checks.quadratic import ratio_p_value
from levers.core.model.checks.spread import WIDER
from levers.core.model.level_index import Numbers
from levers.core.space import Codes

SHARE_THAT_MATTERS = 0.03
"""The share of the residuals' variance that time must explain to matter: the noise is larger by half of it."""
CORRELATION_THAT_MATTERS = 0.1
"""The correlation of one run with the next from which neighbours matter."""
LINE, WAVES, DAYS = "line", "waves", "days"
_MOST_DAYS = 200
_MOST_STRETCHES = 200  # that are tested, those of the first blocks
_LEAST_ORDERED = 8  # runs that have a place in time


def drift(runs: Runs, left: Residual, noise_sd: float | None) -> Check | None:
    """A line in time, slow waves besides, or constants of known days: the F test of the larger model, the worst one.

    F = [S / q] / [(RSS - S) / (nu - q)] for the squares S that the columns explain, S / sigma^2 chi-squared on q with a
    stated noise. Time runs from 0 to 1 over the runs that have a place in time. Columns are taken inside blocks that
    have constants of their own, because these are in the fit. `size` is the share of variance explained, adjusted for
    the number of columns.

    >>> from levers.core.model.checks.additivity import Additive
    >>> rows, time = np.array([[0], [1]] * 20), np.arange(40)
    >>> y = np.random.default_rng(1).normal(size=40) + 0.1 * time
    >>> check = drift(Runs(rows.astype(np.int16), y, (2,)), Residual.of(Additive.of(rows, y, [2])), None)
    >>> check.p_value < 1e-4, check.is_harmful
    (True, True)
    """
    ordered = np.ones(runs.n_runs, dtype=bool) if runs.ordered is None else runs.ordered
    if ordered.sum() < _LEAST_ORDERED or left.is_exact:
        return None
    found = []
    for columns in _columns(ordered, runs.days):
        nested = _nested(left, columns, noise_sd)
        if nested is not None:
            share = 1 - nested.variance / (left.square / left.dof) if nested.variance is not None else 1.0
            found.append((nested.p_value, nested.statistic, share))
    if not found:
        return None
    p_value, statistic, share = min(found)
    adjusted = min(1.0, len(found) * p_value)
    return Check(DRIFT, statistic, adjusted, share, is_harmful=share > SHARE_THAT_MATTERS)


class _Nested(NamedTuple):
    """The test of a larger model: squares `square` on q degrees of freedom, and the variance that it leaves."""

    p_value: float
    statistic: float
    square: float
    q: int
    variance: float | None


def _nested(left: Residual, columns: Numbers, noise_sd: float | None) -> _Nested | None:
    """The F test of columns beside the model, or the chi-squared test with a stated noise; None if it says nothing."""
    q, square = left.explained(columns)
    rest = left.dof - q
    if q == 0 or rest < (LEAST_DOF if noise_sd is None else 0):
        return None
    after = max(left.square - square, 0.0)
    variance = after / rest if rest else None
    if noise_sd is None:
        statistic = f_ratio(square, q, after, rest)
        return _Nested(float(fdtrc(q, rest, statistic)), statistic, square, q, variance)
    statistic = square / noise_sd**2
    return _Nested(float(chdtrc(q, statistic)), statistic, square, q, variance)


def _columns(ordered: np.ndarray[tuple[int], np.dtype[np.bool_]], days: Positions | None) -> list[Numbers]:
    """A line; the line with a whole and two half waves; indicators of days."""
    time = np.zeros(len(ordered))
    time[ordered] = np.linspace(0.0, 1.0, int(ordered.sum()))
    line = np.where(ordered, time - 0.5, 0.0)[:, None]
    turns = [math.pi * k * time for k in (2, 4)]
    waves = [np.where(ordered, wave(turn), 0.0) for turn in turns for wave in (np.cos, np.sin)]
    found = [line, np.column_stack([line, *waves])]
    if days is not None:
        names, which = np.unique(days, return_inverse=True)
        if 1 < len(names) <= _MOST_DAYS:
            found.append(np.eye(len(names))[which.ravel()])
    return found


def setup(runs: Runs, left: Residual, noise_sd: float | None) -> Check | None:
    """Whether setting a lever that is hard to change has an error of its own, which all runs of a stretch share.

    A stretch is the runs of one block that have the same levels of the lever and of all harder ones: they are made in a
    row, with the lever set once. Constants Z of stretches are tested beside levels and blocks, and for a lever after
    the hardest beside the stretches of the harder ones and their combinations of levels, so that levers that interact
    are no set-up error: F = [S / q] / [(RSS - S) / (nu - q)], or S / sigma^2 with a stated noise, as for drift. With a
    set-up error of variance tau^2

        E S = q sigma^2 + tau^2 |M Z|^2,

    from which `size` estimates tau. It matters where the variance of a difference between levels, 1 + n tau^2 / sigma^2
    times what it is taken for with n runs a stretch, is larger by `spread.WIDER`. `factor` is the position among the
    levers that are hard to change of the one with the smallest p-value, which is multiplied by how many were tested.

    >>> from levers.core.model.checks.additivity import Additive
    >>> rows, day = np.repeat([[0], [1]] * 10, 4, axis=0).astype(np.int16), np.repeat(range(10), 8)
    >>> y = np.random.default_rng(1).normal(size=80) + np.repeat(np.random.default_rng(2).normal(size=20), 4)
    >>> runs = Runs(rows, y, (2,), constants=day, hard=rows)
    >>> check = setup(runs, Residual.of(runs.model()), None)
    >>> check.p_value < 0.01, check.factor, 0.5 < check.size < 2
    (True, 0, True)
    """
    if runs.hard is None or left.is_exact:
        return None
    ordered = np.ones(runs.n_runs, dtype=bool) if runs.ordered is None else runs.ordered
    blocks = np.zeros(runs.n_runs, dtype=np.int64) if runs.constants is None else runs.constants
    found = []
    for lever in range(runs.hard.shape[1]):
        levels = runs.hard[:, : lever + 1]
        stretches = _indicators(np.column_stack([blocks, levels]), ordered)[:, :_MOST_STRETCHES]
        if lever:  # of the hardest the model has the levels
            combinations = _indicators(levels, np.ones(runs.n_runs, dtype=bool))
            if combinations.shape[1] > _MOST_STRETCHES:
                break
            left = left.besides(combinations)
        nested = _nested(left, stretches, noise_sd)
        if nested is not None:
            variance = noise_sd**2 if noise_sd is not None else nested.variance or 0.0
            spread = float((left.swept(stretches) ** 2).sum())
            between = max(nested.square - nested.q * variance, 0.0) / spread
            counts = stretches.sum(axis=0)
            together = float((counts**2).sum() / counts.sum())
            harms = variance + together * between > WIDER * variance
            found.append((nested.p_value, lever, nested.statistic, math.sqrt(between), harms))
        left = left.besides(stretches)
    if not found:
        return None
    p_value, lever, statistic, size, harms = min(found)
    return Check(SETUP, statistic, min(1.0, len(found) * p_value), size, factor=lever, is_harmful=harms)


def _indicators(keys: Codes | Positions, used: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Numbers:
    """A column for each different key among the rows that are used."""
    names, which = np.unique(keys[used], axis=0, return_inverse=True)
    found = np.zeros((len(keys), len(names)))
    found[np.flatnonzero(used), which.ravel()] = 1.0
    return found


def serial(runs: Runs, left: Residual) -> Check | None:
    """Whether neighbours in time are alike: r = e^T C e / e^T e with C the mean of one step forth and one back.

    r is about 1 - DW / 2 with DW the statistic of Durbin and Watson (1950), whose Beta law on [-1, 1] is used, with the
    exact mean and variance for these rows: tr(MC) = -tr(Q^T C Q), tr((MC)^2) = tr(C^2) - 2 |C Q|^2 + |Q^T C Q|^2.
    Neighbours are runs told one after the other in one block. One side only: runs that differ more than they should are
    no harm.

    >>> from levers.core.model.checks.additivity import Additive
    >>> rows, day = np.array([[0], [1]] * 24), np.repeat(np.random.default_rng(1).normal(size=6), 8)
    >>> y = np.random.default_rng(2).normal(size=48) + 2 * day
    >>> check = serial(Runs(rows.astype(np.int16), y, (2,)), Residual.of(Additive.of(rows, y, [2])))
    >>> check.size > 0.5, check.p_value < 1e-5
    (True, True)
    """
    ordered = np.ones(runs.n_runs, dtype=bool) if runs.ordered is None else runs.ordered
    joined = ordered[1:] & ordered[:-1]
    if runs.constants is not None:
        joined &= runs.constants[1:] == runs.constants[:-1]
    if joined.sum() < _LEAST_ORDERED or left.dof < LEAST_DOF or left.is_exact:
        return None
    weight = np.where(joined, 0.5, 0.0)

    def moved(columns: Numbers) -> Numbers:
        """C times the columns."""
        result = np.zeros_like(columns)
        result[:-1] += weight[:, None] * columns[1:]
        result[1:] += weight[:, None] * columns[:-1]
        return result

    basis, e = left.basis, left.values[:, None]
    near = moved(basis)
    small = basis.T @ near
    first = -float(np.trace(small))
    own = 2 * float((weight**2).sum())  # tr(C^2)
    second = own - 2 * float((near**2).sum()) + float((small**2).sum())
    size = float((e * moved(e)).sum()) / left.square
    p_value = ratio_p_value(size, first, second, left.dof, -1.0, 1.0)
    return Check(SERIAL, size, p_value, size, is_harmful=size > CORRELATION_THAT_MATTERS)
