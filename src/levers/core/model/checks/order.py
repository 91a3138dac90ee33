"""Outcomes that depend on when a run was made: drift, days, and neighbours that are alike."""

import math

import numpy as np
from scipy.special import chdtrc, fdtrc

from levers.core.model.checks.additivity import LEAST_DOF, f_ratio
from levers.core.model.checks.check import DRIFT, SERIAL, Check, Positions, Residual, Runs
from levers.core.model.checks.quadratic import ratio_p_value
from levers.core.model.level_index import Numbers

SHARE_THAT_MATTERS = 0.03
"""The share of the residuals' variance that time must explain to matter: the noise is larger by half of it."""
CORRELATION_THAT_MATTERS = 0.1
"""The correlation of one run with the next from which neighbours matter."""
LINE, WAVES, DAYS = "line", "waves", "days"
_MOST_DAYS = 200
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
        q, square = left.explained(columns)
        rest = left.dof - q
        if q == 0 or rest < (LEAST_DOF if noise_sd is None else 0):
            continue
        after = max(left.square - square, 0.0)
        if noise_sd is None:
            statistic = f_ratio(square, q, after, rest)
            p_value = float(fdtrc(q, rest, statistic))
        else:
            statistic = square / noise_sd**2
            p_value = float(chdtrc(q, statistic))
        share = 1 - (after / rest) / (left.square / left.dof) if rest else 1.0
        found.append((p_value, statistic, share))
    if not found:
        return None
    p_value, statistic, share = min(found)
    adjusted = min(1.0, len(found) * p_value)
    return Check(DRIFT, statistic, adjusted, share, is_harmful=share > SHARE_THAT_MATTERS)


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
