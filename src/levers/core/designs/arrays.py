"""Exact orthogonal arrays of strength 2: every pair of levels of every two factors equally often.

Rao-Hamming construction over the field with s elements: runs are all vectors of length e, columns are the points of
projective space, an entry is their inner product. Two distinct points are linearly independent, so every pair of
entries occurs s^(e-2) times. Factors with fewer than s levels share out the spare ones (collapsing), which keeps the
factors of one copy orthogonal to each other: pair counts stay proportional.
"""

from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from levers.core.model.level_index import level_pairs, offsets
from levers.core.model.moments import pair_counts
from levers.core.space import Codes

ORDERS = (2, 3, 4, 5, 7, 8, 9, 11, 13, 16, 17, 19, 23, 25, 27, 29, 31, 32)
"""Orders for which a field is made, ascending: all prime powers up to 32."""
_POLYNOMIALS: dict[int, tuple[int, tuple[int, ...]]] = {
    # order: (characteristic, coefficients of x^e = ..., lowest first), from an irreducible polynomial of degree e
    4: (2, (1, 1)),
    8: (2, (1, 1, 0)),
    9: (3, (2, 0)),
    16: (2, (1, 1, 0, 0)),
    25: (5, (3, 0)),
    27: (3, (2, 1, 0)),
    32: (2, (1, 0, 1, 0, 0)),
}
"""Irreducible polynomials, for the orders that are powers of a prime."""
_MOST_KEPT = 200_000
"""Cells of the largest array that is made with all its columns, to be cached for any number of them."""
_CELLS_AT_ONCE = 500_000  # cells that are collapsed at once
_MOST_CHECKED = 450  # levels of the largest array whose pairs of levels are all counted when it is made


class Field(NamedTuple):
    """Addition and multiplication tables of the field with `order` elements, numbered from 0."""

    order: int
    add: NDArray[np.int16]
    times: NDArray[np.int16]


class ArraySize(NamedTuple):
    """The array that fits: s levels, exponent e, s^e runs."""

    order: int
    exponent: int
    n_runs: int


@lru_cache(maxsize=32)
def finite_field(order: int) -> Field:
    """The field of the given order.

    >>> field = finite_field(4)
    >>> int(field.add[2, 3]), int(field.times[2, 3])
    (1, 1)
    """
    if order not in ORDERS:
        raise ValueError(f"no finite field of order {order} is made here; orders are {ORDERS}")
    numbers = np.arange(order)
    prime, rule = _POLYNOMIALS.get(order, (order, (0,)))  # with a prime order, numbers are their own only digit
    degree = len(rule)
    digits = np.stack([(numbers // prime**i) % prime for i in range(degree)], axis=1)
    weights = prime ** np.arange(degree)
    add = ((digits[:, None, :] + digits[None, :, :]) % prime) @ weights
    product = np.zeros((order, order, 2 * degree - 1), dtype=np.int64)
    for i in range(degree):
        for j in range(degree):
            product[:, :, i + j] += np.outer(digits[:, i], digits[:, j])
    for power in range(2 * degree - 2, degree - 1, -1):  # x^power = x^(power - degree) * rule
        for i, coefficient in enumerate(rule):
            product[:, :, power - degree + i] += coefficient * product[:, :, power]
    times = (product[:, :, :degree] % prime) @ weights
    return Field(order, add.astype(np.int16), times.astype(np.int16))


@lru_cache(maxsize=1024)
def smallest_array(most_levels: int, n_factors: int) -> ArraySize | None:
    """The Rao-Hamming array with the fewest runs, or None when a factor has more than 32 levels.

    s^e runs carry (s^e - 1) / (s - 1) columns.

    >>> smallest_array(6, 10), smallest_array(6, 30)
    (ArraySize(order=9, exponent=2, n_runs=81), ArraySize(order=7, exponent=3, n_runs=343))
    """
    return min(sizes_of_arrays(most_levels, n_factors), key=lambda size: size.n_runs, default=None)


@lru_cache(maxsize=1024)
def sizes_of_arrays(most_levels: int, n_factors: int) -> tuple[ArraySize, ...]:
    """The arrays that fit, one for each order. The more symbols stand for a level, the more evenly levels are used.

    >>> [size.n_runs for size in sizes_of_arrays(16, 12)]
    [256, 289, 361, 529, 625, 729, 841, 961, 1024]
    """
    sizes = []
    for order in ORDERS[bisect_left(ORDERS, most_levels) :]:
        exponent = 1
        while (order**exponent - 1) // (order - 1) < n_factors:
            exponent += 1
        sizes.append(ArraySize(order, exponent, order**exponent))
    return tuple(sizes)


def exact_array(sizes: Sequence[int]) -> ArraySize | None:
    """The array that needs no collapsing: all factors have the same number of levels, and a field has it too.

    >>> exact_array((4,) * 30), exact_array((3, 4)), exact_array((6, 6))
    (ArraySize(order=4, exponent=4, n_runs=256), None, None)
    """
    if len(set(sizes)) > 1:
        return None
    return next((size for size in sizes_of_arrays(sizes[0], len(sizes)) if size.order == sizes[0]), None)


@lru_cache(maxsize=32)
def rao_hamming(order: int, exponent: int, n_columns: int) -> Codes:
    """The first columns of the array with order^exponent runs.

    >>> rao_hamming(2, 2, 3).tolist()
    [[0, 0, 0], [1, 0, 1], [0, 1, 1], [1, 1, 0]]
    """
    n_points = (order**exponent - 1) // (order - 1)
    if n_points < n_columns:
        raise ValueError(f"{order}^{exponent} runs carry {n_points} columns, not {n_columns}")
    if n_columns < n_points and order**exponent * n_points <= _MOST_KEPT:
        return rao_hamming(order, exponent, n_points)[:, :n_columns]  # cached once for any number of columns
    field = finite_field(order)
    numbers = np.arange(order**exponent)
    vectors = np.stack([(numbers // order ** (exponent - 1 - i)) % order for i in range(exponent)], axis=1)
    leading = vectors[numbers, np.argmax(vectors != 0, axis=1)]
    points = vectors[leading == 1][:n_columns]  # one vector per line through the origin: the first entry not 0 is 1
    rows = np.zeros((len(vectors), n_columns), dtype=np.int16)
    for i in range(exponent):
        rows = field.add[rows, field.times[vectors[:, i][:, None], points[:, i][None, :]]]
    rows.flags.writeable = False
    levels = [order] * n_columns
    if order * n_columns <= _MOST_CHECKED and not is_orthogonal(pair_counts(rows, levels), levels, len(rows)):
        # certificates rest on this, so it is counted, not assumed
        raise RuntimeError(f"the array of {order}^{exponent} runs is not orthogonal")
    return rows


def collapsed_levels(order: int, sizes: Sequence[int], n_copies: int, rng: np.random.Generator) -> Codes:
    """Which level each symbol of an array stands for: for each factor, a row for each copy.

    Which levels get a spare symbol rotates from copy to copy, so each level of a factor is favoured equally often, up
    to one copy. Symbols are renamed at random in every copy.

    >>> collapsed_levels(3, [2], 2, np.random.default_rng(0))[0].sum(axis=1).tolist()
    [2, 1]
    """
    count = np.asarray(sizes)[:, None]
    spare = np.where(order % count, order % count, 1)  # levels with one symbol more; the next copy goes on after them
    turns = rng.permuted(spare * np.arange(n_copies) + rng.integers(count), axis=1)
    symbols = rng.permuted(np.broadcast_to(np.arange(order), (len(sizes), n_copies, order)), axis=2)
    levels: Codes = ((symbols + turns[:, :, None]) % count[:, :, None]).astype(np.int16)
    return levels


def collapsed_copies(size: ArraySize, levels: Codes) -> Codes:
    """Copies of an array, one for each row that `levels` has for a factor, with levels in place of symbols.

    >>> rows = collapsed_copies(ArraySize(3, 2, 9), collapsed_levels(3, [2, 3], 2, np.random.default_rng(0)))
    >>> np.bincount(rows[:, 0]).tolist(), np.bincount(rows[:, 1]).tolist()
    ([9, 9], [6, 6, 6])
    """
    n_factors, n_copies, order = levels.shape
    rows = rao_hamming(size.order, size.exponent, n_factors)
    columns = np.empty((n_factors, n_copies, len(rows)), dtype=np.int16)
    at_once = max(_CELLS_AT_ONCE // max(n_copies * len(rows), 1), 1)
    for begin in range(0, n_factors, at_once):
        some = levels[begin : begin + at_once]
        at = rows.T[begin : begin + at_once, None, :] + order * np.arange(some.size // order).reshape(-1, n_copies, 1)
        some.ravel().take(at, out=columns[begin : begin + at_once])
    return columns.reshape(n_factors, -1).T


def collapsed_counts(size: ArraySize, sizes: Sequence[int], levels: Codes) -> NDArray[np.int64]:
    """The pair counts of those copies, without the rows: in a copy all pairs of symbols occur equally often.

    >>> size, levels = ArraySize(3, 2, 9), collapsed_levels(3, [2, 3], 2, np.random.default_rng(0))
    >>> (collapsed_counts(size, [2, 3], levels) == pair_counts(collapsed_copies(size, levels), [2, 3])).all()
    np.True_
    """
    starts = offsets(sizes)
    d, n_copies = int(starts[-1]), levels.shape[1]
    places = levels + starts[:-1, None, None] + d * np.arange(n_copies)[:, None]
    n_symbols = np.bincount(places.ravel(), minlength=d * n_copies).reshape(n_copies, d)
    quick = n_symbols.astype(np.float64)  # whole numbers far below 2^53: products are exact, and faster than integers
    once = size.n_runs // size.order
    counts = (once // size.order) * (quick.T @ quick)
    counts[level_pairs(tuple(sizes))] = 0
    np.fill_diagonal(counts, once * quick.sum(axis=0))
    return counts.astype(np.int64)


def is_orthogonal(counts: NDArray[np.int64], sizes: Sequence[int], n_runs: int) -> bool:
    """Whether all factors are orthogonal: n n_ij = n_i n_j for levels of different factors (proportional counts).

    >>> is_orthogonal(pair_counts(rao_hamming(3, 2, 4), [3] * 4), [3] * 4, 9)
    True
    """
    single = counts.diagonal()
    starts = offsets(sizes)
    # the first factor against all others mostly decides it, and costs little
    if (counts[: starts[1], starts[1] :] * n_runs != np.outer(single[: starts[1]], single[starts[1] :])).any():
        return False
    different = counts * n_runs != np.outer(single, single)
    different[level_pairs(tuple(sizes))] = False
    return not different.any()
