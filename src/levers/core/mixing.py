"""Long designs from whole orthogonal arrays of two kinds, chosen so that few runs are lost to uneven levels.

A collapsed array is orthogonal, but favours some levels: the less, the more symbols it has for a level. Arrays of many
symbols have many runs, so copies of two kinds are put together to come close to the number of runs that is wanted.
"""

from functools import lru_cache
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from levers.core.arrays import (
    ArraySize,
    collapsed_copies,
    collapsed_counts,
    collapsed_levels,
    rao_hamming,
    sizes_of_arrays,
)
from levers.core.design import Design
from levers.core.moments import pair_counts
from levers.core.space import Codes

_MOST_COPIES = 24  # of an array: more, smaller copies add up what each leaves of dependence
_LONGEST = 1.3  # times the runs of an ideal design that a mix may have


class Mix(NamedTuple):
    """How many copies of which arrays, their runs, and how many ideal ones these are worth by their rarest level."""

    n_runs: int
    worth: int
    parts: tuple[tuple[ArraySize, int], ...]


@lru_cache(maxsize=64)
def mixes(sizes: tuple[int, ...], runs_if_ideal: float) -> tuple[Mix, ...]:
    """The mixes whose rarest levels are frequent enough for `runs_if_ideal`, shortest first.

    >>> [(size.order, copies) for size, copies in mixes((2, 3, 4, 5, 6) * 6, 5000.0)[0].parts]
    [(7, 6), (32, 3)]
    """
    most = _LONGEST * runs_if_ideal
    distinct = np.array(sorted(set(sizes)))
    fitting = [size for size in sizes_of_arrays(max(sizes), len(sizes)) if most / _MOST_COPIES <= size.n_runs <= most]
    copies = {size: np.arange(int(most // size.n_runs) + 1) for size in fitting}
    rarest = {size: distinct * _rarest(size, copies[size], distinct) for size in fitting}
    found: dict[Mix, None] = {}
    for one, other in [(size, None) for size in fitting] + list(combinations(fitting, 2)):
        n_runs, least = copies[one][:, None] * one.n_runs, rarest[one][:, None, :]
        if other is not None:
            n_runs, least = n_runs + copies[other] * other.n_runs, least + rarest[other]
        worth = least.min(axis=2)
        for i, j in np.argwhere((worth >= runs_if_ideal) & (n_runs <= most)).tolist():
            parts = tuple((size, n) for size, n in ((one, i), (other, j)) if size is not None and n)
            found[Mix(int(n_runs[i, j]), int(worth[i, j]), parts)] = None
    return tuple(sorted(found, key=lambda mix: mix.n_runs))


def _rarest(size: ArraySize, copies: NDArray[np.int64], levels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Runs at the rarest of so many levels, spare symbols going round; a row for each number of copies."""
    symbols, spare = np.divmod(size.order, levels)
    of_symbols: NDArray[np.int64] = copies[:, None] * symbols + copies[:, None] * spare // levels
    return size.n_runs // size.order * of_symbols


def mixed_design(sizes: tuple[int, ...], mix: Mix, seed: int, more: Codes | None = None) -> Design:
    """The design of a mix, with some more rows if they are given, in random order.

    >>> mix = mixes((3, 4, 2) * 4, 3000.0)[0]
    >>> design = mixed_design((3, 4, 2) * 4, mix, seed=0)
    >>> design.n_runs == mix.n_runs, design.inflation < 1.05
    (True, True)
    """
    rng = np.random.default_rng(seed)
    rows, counts = [], np.zeros((sum(sizes), sum(sizes)), dtype=np.int64)
    for size, copies in mix.parts:
        levels = collapsed_levels(size.order, sizes, copies, rng)
        rows.append(collapsed_copies(rao_hamming(size.order, size.exponent, len(sizes)), levels))
        counts += collapsed_counts(size, sizes, levels)
    if more is not None:
        rows.append(more)
        counts += pair_counts(more, sizes)
    shuffled = rng.permutation(np.concatenate(rows))
    shuffled.flags.writeable = False
    return Design(shuffled, sizes, "orthogonal arrays" if more is None else "nearly orthogonal", counts)
