"""Rows to run: every level in play equally often, and every factor balanced against every other."""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from levers.core.space import Codes

ActiveLevels: TypeAlias = tuple[tuple[int, ...], ...]
"""The surviving levels of each factor (S_1, ..., S_K)."""


def all_levels(n_levels: Sequence[int]) -> ActiveLevels:
    """Every level of every factor.

    >>> all_levels([2, 3])
    ((0, 1), (0, 1, 2))
    """
    return tuple(tuple(range(m)) for m in n_levels)


def balanced_rows(active: ActiveLevels, first: int, n_runs: int, rng: np.random.Generator) -> Codes:
    """Runs `first` to `first + n_runs` of a design that is balanced in every factor.

    Run t of factor k takes level t mod |S_k| before the runs of this piece are shuffled, for each factor on its own. So
    a design may be made piece by piece and level counts still differ by at most one over all of it. The independent
    shuffles are what balances factors against each other, in expectation: equal counts alone do not (two identical
    columns have them, and their contrasts cannot be told apart; docs/decisions/0002).

    >>> rows = balanced_rows(((0, 1), (0, 2, 3)), 0, 6, np.random.default_rng(0))
    >>> np.bincount(rows[:, 1]).tolist()
    [2, 0, 2, 2]
    """
    turn = np.arange(first, first + n_runs)
    columns = np.stack([np.asarray(levels, dtype=np.int16)[turn % len(levels)] for levels in active])
    return np.ascontiguousarray(rng.permuted(columns, axis=1, out=columns).T)
