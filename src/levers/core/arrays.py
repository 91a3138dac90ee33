"""Exact orthogonal arrays of strength 2: every pair of levels of every two factors equally often.

Rao-Hamming construction over the field with s elements: runs are all vectors of length e, columns are the points of
projective space, an entry is their inner product. Two distinct points are linearly independent, so every pair of
entries occurs s^(e-2) times. Factors with fewer than s levels share out the spare ones (collapsing), which keeps the
factors of one copy orthogonal to each other: pair counts stay proportional.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from levers.core.fields import ORDERS, finite_field
from levers.core.layout import level_pairs, offsets
from levers.core.space import Codes


class ArraySize(NamedTuple):
    """The array that fits: s levels, exponent e, s^e runs."""

    order: int
    exponent: int
    n_runs: int


@lru_cache(maxsize=1024)
def smallest_array(most_levels: int, n_factors: int) -> ArraySize | None:
    """The Rao-Hamming array with the fewest runs, or None when a factor has more than 32 levels.

    s^e runs carry (s^e - 1) / (s - 1) columns.

    >>> smallest_array(6, 10), smallest_array(6, 30), smallest_array(2, 12)
    (ArraySize(order=9, exponent=2, n_runs=81), ArraySize(order=7, exponent=3, n_runs=343), ArraySize(order=2, \
exponent=4, n_runs=16))
    """
    found: list[ArraySize] = []
    for order in ORDERS:
        if order >= most_levels:
            exponent = 1
            while (order**exponent - 1) // (order - 1) < n_factors:
                exponent += 1
            found.append(ArraySize(order, exponent, order**exponent))
    return min(found, key=lambda size: size.n_runs, default=None)


@lru_cache(maxsize=8)
def rao_hamming(order: int, exponent: int, n_columns: int) -> Codes:
    """The first columns of the array with order^exponent runs.

    >>> rao_hamming(2, 2, 3).tolist()
    [[0, 0, 0], [1, 0, 1], [0, 1, 1], [1, 1, 0]]
    """
    field = finite_field(order)
    vectors = _vectors(order, exponent)
    points = _projective_points(order, exponent)[:n_columns]
    if len(points) < n_columns:
        raise ValueError(f"{order}^{exponent} runs carry {len(points)} columns, not {n_columns}")
    rows = np.zeros((len(vectors), n_columns), dtype=np.int16)
    for i in range(exponent):
        rows = field.add[rows, field.times[vectors[:, i][:, None], points[:, i][None, :]]]
    rows.flags.writeable = False
    return rows


def collapsed_copies(rows: Codes, order: int, sizes: Sequence[int], n_copies: int, rng: np.random.Generator) -> Codes:
    """Copies of an array with fewer levels in each column; which levels get a spare one rotates from copy to copy.

    So each level of a factor is favoured equally often, up to one copy. Symbols are renamed at random in every copy.

    >>> rows = collapsed_copies(rao_hamming(3, 2, 2), 3, [2, 3], 2, np.random.default_rng(0))
    >>> np.bincount(rows[:, 0]).tolist(), np.bincount(rows[:, 1]).tolist()
    ([9, 9], [6, 6, 6])
    """
    copies = np.empty((n_copies, *rows.shape), dtype=np.int16)
    for k, m in enumerate(sizes):
        spare = order % m or 1  # so many levels are favoured in a copy; the next copy goes on with those after them
        turns = rng.permutation((spare * np.arange(n_copies) + rng.integers(m)) % m)
        levels = (np.arange(order) % m + turns[:, None]) % m  # a row per copy: the level of each symbol
        copies[:, :, k] = rng.permuted(levels, axis=1)[:, rows[:, k]]
    return copies.reshape(-1, rows.shape[1])


def is_orthogonal(counts: NDArray[np.int64], sizes: Sequence[int], n_runs: int) -> bool:
    """Whether all factors are orthogonal: n n_ij = n_i n_j for levels of different factors (proportional counts).

    With equal level counts this is strength 2.

    >>> from levers.core.moments import pair_counts
    >>> rows = rao_hamming(3, 2, 4)
    >>> is_orthogonal(pair_counts(rows, [3] * 4), [3] * 4, 9)
    True
    """
    single = counts.diagonal()
    starts = offsets(sizes)
    # the first factor against all others mostly tells, and costs little
    if (counts[: starts[1], starts[1] :] * n_runs != np.outer(single[: starts[1]], single[starts[1] :])).any():
        return False
    different = counts * n_runs != np.outer(single, single)
    different[level_pairs(tuple(sizes))] = False
    return not different.any()


def _vectors(order: int, exponent: int) -> NDArray[np.int64]:
    numbers = np.arange(order**exponent)
    return np.stack([(numbers // order ** (exponent - 1 - i)) % order for i in range(exponent)], axis=1)


def _projective_points(order: int, exponent: int) -> NDArray[np.int64]:
    """One vector per line through the origin: those whose first non-zero entry is 1."""
    vectors = _vectors(order, exponent)
    nonzero = vectors != 0
    first = np.argmax(nonzero, axis=1)
    leading = vectors[np.arange(len(vectors)), first]
    points: NDArray[np.int64] = vectors[nonzero.any(axis=1) & (leading == 1)]
    return points
