"""Which factors stand out from chance among very many, and how much those that do not may disturb.

A factor without effect has a column that was shuffled independently of everything else, so that how far its levels can
be apart follows from shuffling alone, whatever the noise is (docs/theory/sparse.md, section 2).
"""

from functools import lru_cache
from itertools import combinations

import numpy as np

from levers.algorithms.cfs.sparse.state import ParentFit, level_counts
from levers.core.model.level_index import Numbers
from levers.core.model.permutation import subset_sum_limits

MOST_GROUPED = 6
"""With more levels than this, only single levels are compared with the others."""


@lru_cache(maxsize=64)
def level_groups(n_levels: int) -> tuple[tuple[int, ...], ...]:
    """The levels whose residuals are compared with those of all other levels: all groups, if there are few of them.

    >>> level_groups(2), level_groups(4)
    (((0,),), ((0,), (1,), (2,), (3,), (0, 1), (0, 2), (0, 3)))
    """
    if n_levels > MOST_GROUPED:
        return tuple((level,) for level in range(n_levels))
    sizes = range(1, n_levels // 2 + 1)
    groups = [group for size in sizes for group in combinations(range(n_levels), size)]
    return tuple(group for group in groups if 2 * len(group) < n_levels or 0 in group)  # the others are complements


def beyond_chance(fit: ParentFit, sums: Numbers, error: float) -> Numbers:
    """For each factor, how many times what shuffling its column explains some of its levels are from the others.

    `sums` are those of the fit's residuals by level. The result is at most 1 for a factor without effect, each side of
    each comparison except with probability `error`.
    """
    sizes = np.array(fit.n_levels)
    beyond = np.zeros(len(sizes))
    if fit.residual_square > 2 * float(fit.residuals @ fit.residuals):
        return beyond  # nothing but rounding is left
    kinds: dict[tuple[int, ...], list[tuple[int, tuple[int, ...]]]] = {}  # by how often they are used in each block
    for m in sorted(set(fit.n_levels)):
        of_blocks = np.array([level_counts(block.n_runs, m) for block in fit.blocks])
        for group in level_groups(m):
            kinds.setdefault(tuple(of_blocks[:, group].sum(axis=1).tolist()), []).append((m, group))
    low, high = subset_sum_limits(fit.split_residuals, list(kinds), error)
    for alike, least, most in zip(kinds.values(), low, high, strict=True):
        for m, group in alike:
            own = sums[sizes == m][:, group].sum(axis=1)
            beyond[sizes == m] = np.maximum(beyond[sizes == m], np.maximum(own / most, own / least))
    return beyond


def unexplained_variance(residual_square: float, dof: int, own: float) -> float:
    """A bound on the variance of all that disturbs a factor not found: s^2 / (1 - own / dof), s^2 = RSS / dof.

    The residuals e are the rest r plus the factor's own effect a, and given r, a's column is shuffled: <a, r> is at
    least -sqrt(own / n) |a| |r| but for a probability of exp(-own / 2), about, and then |e|^2 >= (1 - own / n) |r|^2
    whatever a is   (docs/theory/sparse.md, section 3).

    >>> unexplained_variance(100.0, 100, 20.0)
    1.25
    """
    return residual_square / max(dof - own, 1.0)
