"""How many settings of tied factors can be mistaken for the best one though a forbidden combination is between.

Where every change of one factor alone is allowed, a setting that differs in several factors can look best only if each
of its levels looks better than that of the best setting: factor by factor, as if nothing were tied. Where one of those
changes is forbidden, only their sum needs to look better. docs/theory/pooled.md, section 7, has the argument.
"""

from functools import lru_cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from levers.core.space import Codes

MOST_PAIRS = 5_000
"""Pairs of combinations in play that may be swaps, up to which these are counted; of more it would take long."""
Table = tuple[tuple[int, ...], ...]
"""The combinations that are allowed: a level of every factor for each."""


@lru_cache(maxsize=256)
def n_swaps(table: Table, in_play: tuple[int, ...]) -> int | None:
    """The swaps of the setting that has most, among the combinations in play; None where these are too many.

    A setting x is mistaken for the best one, s, by a swap if, for some factor k, x with the level of s there is
    forbidden. Of the factors it differs in, those are swapped together that it takes to come to something allowed;
    settings that swap the same levels count once.

    >>> corner = ((0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (2, 0), (2, 1))
    >>> n_swaps(corner, tuple(range(8))), n_swaps(corner, (0, 1, 3, 4))
    (2, 0)
    """
    rows: Codes = np.array(table, dtype=np.int16)
    allowed = np.zeros(rows.max(axis=0) + 1, dtype=np.bool_)
    allowed[tuple(rows.T)] = True
    here = rows[list(in_play)]
    tied = _tied_changes(here, allowed)
    if int(tied.any(axis=2).sum()) > MOST_PAIRS:
        return None
    return max((len(_swaps(best, here, ties, allowed)) for best, ties in zip(here, tied, strict=True)), default=0)


def _tied_changes(rows: Codes, allowed: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """For each best row, rival and factor: whether the rival with the best row's level of that factor is forbidden."""
    tied = np.zeros((len(rows), *rows.shape), dtype=np.bool_)
    for k in range(rows.shape[1]):
        changed = np.broadcast_to(rows, tied.shape).copy()
        changed[:, :, k] = rows[:, k, None]
        tied[:, :, k] = (rows[:, None, k] != rows[None, :, k]) & ~allowed[tuple(np.moveaxis(changed, 2, 0))]
    return tied


def _swaps(
    best: Codes, rivals: Codes, tied: NDArray[np.bool_], allowed: NDArray[np.bool_]
) -> set[tuple[tuple[int, int], ...]]:
    """The levels, by factor, that rivals swap together against the best setting."""
    found = set()
    for i in np.flatnonzero(tied.any(axis=1)):
        rival, apart = rivals[i], np.flatnonzero(rivals[i] != best)
        swapped = _swapped_together(best, rival, apart, set(np.flatnonzero(tied[i])), allowed)
        found.add(tuple((k, int(rival[k])) for k in swapped))
    return found


def _swapped_together(
    best: Codes, rival: Codes, apart: NDArray[np.int64], tied: set[int], allowed: NDArray[np.bool_]
) -> tuple[int, ...]:
    """The fewest factors, those that cannot be changed alone among them, whose change back is allowed."""
    others = [k for k in apart.tolist() if k not in tied]
    for n_more in range(len(others)):
        for more in combinations(others, n_more):
            factors = tuple(sorted(tied.union(more)))
            changed = rival.copy()
            changed[list(factors)] = best[list(factors)]
            if allowed[tuple(changed)]:
                return factors
    return tuple(apart.tolist())
