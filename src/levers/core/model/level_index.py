"""Levels of all factors in a row: where each factor's begin, which pairs belong together, and their contrasts."""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

ActiveLevels: TypeAlias = tuple[tuple[int, ...], ...]
"""The surviving levels of each factor (S_1, ..., S_K)."""
Places = NDArray[np.int64]
_AT_ONCE = 64  # factors done at once: what is gathered for them stays small beside what it is gathered from


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
    """All ordered pairs of levels of one factor, factor by factor, as places in the row.

    >>> [places.tolist() for places in level_pairs((2, 1))]
    [[0, 0, 1, 1, 2], [0, 1, 0, 1, 2]]
    """
    rivals = np.repeat(sizes, sizes)  # for each level, how many its factor has
    these = np.repeat(np.arange(len(rivals)), rivals)
    begins = np.repeat(offsets(sizes)[:-1], sizes)
    those = np.arange(len(these)) + np.repeat(begins - (np.cumsum(rivals) - rivals), rivals)
    these.flags.writeable = those.flags.writeable = False
    return these, those


class Alike(NamedTuple):
    """Factors with the same number of levels: which, a row each of places of levels, contrasts, pairs, and their basis.

    Places of pairs are those in `level_pairs`. The basis is orthonormal times sqrt(m), so that an ideal design's
    information is the identity.
    """

    factors: Places
    levels: Places
    contrasts: Places
    pairs: Places
    basis: NDArray[np.float64]


@lru_cache(maxsize=64)
def alike_factors(sizes: tuple[int, ...]) -> tuple[Alike, ...]:
    """The factors by their numbers of levels: what is done to them can be done to all alike at once.

    >>> [group.levels.tolist() for group in alike_factors((2, 3, 2))]
    [[[0, 1], [5, 6]], [[2, 3, 4]]]
    """
    count = np.asarray(sizes)
    begins, first = offsets(sizes)[:-1], offsets(sizes)[:-1] - np.arange(len(sizes))
    first_pair = np.cumsum(count**2) - count**2
    found = []
    for m in sorted(set(sizes)):
        every = np.flatnonzero(count == m)
        for begin in range(0, len(every), _AT_ONCE):
            which = every[begin : begin + _AT_ONCE]
            levels = begins[which][:, None] + np.arange(m)
            contrasts = first[which][:, None] + np.arange(m - 1)
            pairs = first_pair[which][:, None] + np.arange(m * m)
            found.append(Alike(which, levels, contrasts, pairs, math.sqrt(m) * contrast_basis(m)))
    return tuple(found)


@lru_cache(maxsize=256)
def contrast_basis(m: int) -> NDArray[np.float64]:
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
