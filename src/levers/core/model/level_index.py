"""The levels of all factors in one row: where each factor's levels begin, the pairs inside factors, their contrasts.

A position is a level's place in that row. Everything here depends on the numbers of levels alone, so it is cached.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

ActiveLevels: TypeAlias = tuple[tuple[int, ...], ...]
"""The surviving levels of each factor (S_1, ..., S_K)."""
Places: TypeAlias = NDArray[np.int64]
"""Positions of levels, contrasts or pairs."""
Numbers: TypeAlias = NDArray[np.float64]
"""Effects, variances, matrices: all that is real."""
_MAX_GROUP = 64  # factors of one group: what is gathered for a group stays small beside the matrix it is gathered from


def all_levels(n_levels: Sequence[int]) -> ActiveLevels:
    """Every level of every factor.

    >>> all_levels([2, 3])
    ((0, 1), (0, 1, 2))
    """
    return tuple(tuple(range(m)) for m in n_levels)


def offsets(sizes: Sequence[int] | Places) -> Places:
    """Where each factor's levels begin, and the number of all levels at the end.

    >>> offsets([2, 3]).tolist()
    [0, 2, 5]
    """
    return _offsets(sizes if isinstance(sizes, tuple) else tuple(int(m) for m in sizes))


@lru_cache(maxsize=256)
def _offsets(sizes: tuple[int, ...]) -> Places:
    ends: Places = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(sizes, out=ends[1:])
    ends.flags.writeable = False
    return ends


@lru_cache(maxsize=64)
def level_pairs(sizes: tuple[int, ...]) -> tuple[Places, Places]:
    """All ordered pairs of levels of one factor, factor by factor, as positions in the row.

    >>> [places.tolist() for places in level_pairs((2, 1))]
    [[0, 0, 1, 1, 2], [0, 1, 0, 1, 2]]
    """
    n_rivals = np.repeat(sizes, sizes)  # for each level, how many levels its factor has
    these = np.repeat(np.arange(len(n_rivals)), n_rivals)
    begins = np.repeat(offsets(sizes)[:-1], sizes)
    those = np.arange(len(these)) + np.repeat(begins - (np.cumsum(n_rivals) - n_rivals), n_rivals)
    these.flags.writeable = those.flags.writeable = False
    return these, those


class SizeGroup(NamedTuple):
    """Factors with the same number of levels m, so that one array operation serves all of them.

    `levels`, `contrasts` and `pairs` have a row of positions for each of them, pairs being counted as in `level_pairs`.
    `basis` is the orthonormal contrast basis times sqrt(m), in which the information matrix of an ideal design is the
    identity.
    """

    levels: Places
    contrasts: Places
    pairs: Places
    basis: Numbers


@lru_cache(maxsize=64)
def size_groups(sizes: tuple[int, ...]) -> tuple[SizeGroup, ...]:
    """The factors grouped by their numbers of levels.

    >>> [group.levels.tolist() for group in size_groups((2, 3, 2))]
    [[[0, 1], [5, 6]], [[2, 3, 4]]]
    """
    count = np.asarray(sizes)
    first_level = offsets(sizes)[:-1]
    first_contrast = first_level - np.arange(len(sizes))
    first_pair = np.cumsum(count**2) - count**2
    groups = []
    for m in sorted(set(sizes)):
        same_size = np.flatnonzero(count == m)
        for begin in range(0, len(same_size), _MAX_GROUP):
            factors = same_size[begin : begin + _MAX_GROUP]
            levels = first_level[factors][:, None] + np.arange(m)
            contrasts = first_contrast[factors][:, None] + np.arange(m - 1)
            pairs = first_pair[factors][:, None] + np.arange(m * m)
            groups.append(SizeGroup(levels, contrasts, pairs, math.sqrt(m) * contrast_basis(m)))
    return tuple(groups)


@lru_cache(maxsize=256)
def contrast_basis(m: int) -> Numbers:
    """An orthonormal basis of the contrasts of m levels, as columns (Helmert).

    >>> contrast_basis(2).round(3).tolist()
    [[0.707], [-0.707]]
    """
    basis = np.zeros((m, m - 1))
    for j in range(1, m):
        basis[:j, j - 1] = 1.0
        basis[j, j - 1] = -j
    basis /= np.sqrt((basis**2).sum(axis=0))
    basis.flags.writeable = False
    return basis
