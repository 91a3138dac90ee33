"""Noise that is not as stated, or not the same everywhere: at all runs, at one level, in one block."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from levers.core.model.checks.check import NOISE, SPREAD, Check, Positions, Residual, Runs, noise_p_value
from levers.core.model.checks.quadratic import form_p_value, ratio_p_value

ROUNDED = 1.02
"""A noise that is larger than stated by less is stated as well as people round; the certificate's reserve covers it."""
WIDER = 1.15
"""What the variance of a difference between levels has to be, over the assumed one, for unequal noise to matter."""
_LEAST_RUNS = 3  # of a group
_MOST_WORK = 2e9  # multiplications for the traces of all groups; beyond, an upper bound of them is used


@dataclass(frozen=True)
class _Group:
    """Runs of one level or one block, and the runs of the level that they are compared with."""

    members: Positions
    n_others: int
    factor: int | None = None
    level: int | None = None
    block: int | None = None


def noise(left: Residual, noise_sd: float | None) -> Check | None:
    """The stated noise against all residuals: RSS / sigma^2 is chi-squared on the degrees of freedom.

    Too large a noise is no doubt: it costs runs and nothing else.

    >>> from levers.core.model.checks.additivity import Additive
    >>> left = Residual.of(Additive.of([[0], [0], [1], [1]], [1.0, 2.0, 4.0, 6.0], [2]))
    >>> check = noise(left, 0.5)
    >>> check.statistic, round(check.size, 3), round(check.p_value, 5)
    (10.0, 1.118, 0.00674)
    """
    if noise_sd is None or left.dof < 1:
        return None
    size = math.sqrt(left.square / left.dof)
    p_value = noise_p_value(left.square, left.dof, noise_sd)
    return Check(NOISE, left.square / noise_sd**2, p_value, size, is_harmful=size > ROUNDED * noise_sd)


def spread(runs: Runs, left: Residual, noise_sd: float | None) -> Check | None:
    """The level or block whose residuals are most too large, over all levels and blocks (Bonferroni).

    With e_g the residuals of a group, e_g^T e_g / RSS is a ratio of quadratic forms, and e_g^T e_g / sigma^2 a form if
    there is a stated noise that may be trusted: their laws are matched by moments (`quadratic`). tr(MD) = n_g - tr(H_g)
    and tr((MD)^2) = n_g - 2 tr(H_g) + |Q_g^T Q_g|^2. It matters if a difference with the level has a variance well
    above the assumed one: (v_g / n_g + v_o / n_o) / (s^2 (1 / n_g + 1 / n_o)); where two levels are equally often,
    their mean is what is assumed, and nothing is lost.
    """
    if left.dof < 2 or left.is_exact:
        return None
    groups = list(_groups(runs))
    exact = len(left.values) * left.basis.shape[1] ** 2 * max(runs.n_factors, 1) <= _MOST_WORK
    found: list[tuple[float, Check]] = []
    assumed = left.square / left.dof if noise_sd is None else noise_sd**2
    for group in groups:
        at, n = group.members, len(group.members)
        pull = float(left.leverages[at].sum())
        first = n - pull
        if first < 1:
            continue
        part = left.basis[at]
        again = float(((part.T @ part) ** 2).sum()) if exact else pull
        second = max(n - 2 * pull + again, first**2 / left.dof)
        square = float(left.values[at] @ left.values[at])
        if noise_sd is None:
            statistic = square / left.square
            p_value = ratio_p_value(statistic, first, second, left.dof)
        else:
            statistic = square / noise_sd**2
            p_value = form_p_value(statistic, first, second)
        own, rest = square / first, (left.square - square) / max(left.dof - first, 1.0)
        weights = np.array([1 / n, 1 / group.n_others]) if group.n_others else np.array([1.0, 0.0])
        wider = float(weights @ [own, rest]) / (assumed * float(weights.sum()))
        about = Check(
            SPREAD,
            statistic,
            p_value,
            math.sqrt(own),
            factor=group.factor,
            level=group.level,
            block=group.block,
            is_harmful=wider > WIDER,
        )
        found.append((p_value, about))
    if not found:
        return None
    n_looked = len(found)
    worst = min((pair for pair in found if pair[1].is_harmful), key=_first, default=min(found, key=_first))[1]
    return Check(
        SPREAD,
        worst.statistic,
        min(1.0, n_looked * worst.p_value),
        worst.size,
        factor=worst.factor,
        level=worst.level,
        block=worst.block,
        is_harmful=worst.is_harmful,
    )


def _first(pair: tuple[float, Check]) -> float:
    return pair[0]


def _groups(runs: Runs) -> Iterator[_Group]:
    """Levels with some runs, unless they have all; then blocks."""
    n = runs.n_runs
    for k, m in enumerate(runs.n_levels):
        counts = np.bincount(runs.codes[:, k], minlength=m)
        for level in np.flatnonzero((counts >= _LEAST_RUNS) & (counts < n)).tolist():
            others = int(np.delete(counts, level).max(initial=0))
            yield _Group(np.flatnonzero(runs.codes[:, k] == level), others, factor=k, level=level)
    if runs.constants is not None:
        for block in np.unique(runs.constants).tolist():
            members = np.flatnonzero(runs.constants == block)
            if _LEAST_RUNS <= len(members) < n:
                yield _Group(members, 0, block=block)
