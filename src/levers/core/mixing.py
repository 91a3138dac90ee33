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

_MOST_COPIES = 40  # of an array: more, smaller copies add up what each leaves of dependence
_MOST_FOUND = 12  # mixes
_LONGEST = 1.3  # times the runs of an ideal design that a mix may have


class Mix(NamedTuple):
    """How many copies of which arrays, their runs, and how many ideal ones these are worth by their rarest level."""

    n_runs: int
    worth: int
    parts: tuple[tuple[ArraySize, int], ...]


@lru_cache(maxsize=64)
def mixes(sizes: tuple[int, ...], runs_if_ideal: float, most_runs: float | None = None) -> tuple[Mix, ...]:
    """The shortest mixes whose rarest levels are frequent enough for `runs_if_ideal`, shortest first.

    With `most_runs`, those of up to so many runs that are worth most, best first.

    >>> [(size.order, copies) for size, copies in mixes((2, 3, 4, 5, 6) * 6, 5000.0)[0].parts]
    [(29, 5), (31, 1)]
    """
    most = most_runs or _LONGEST * runs_if_ideal
    distinct = np.array(sorted(set(sizes)))
    fitting = _fitting(max(sizes), len(sizes), most)
    copies = [np.arange(int(most // size.n_runs) + 1) for size in fitting]
    frequent = [distinct * _rarest(size, n, distinct) for size, n in zip(fitting, copies, strict=True)]
    table = []  # runs, worth, the two arrays and their copies; the second may be none of an array
    for one, other in [(one, one) for one in range(len(fitting))] + list(combinations(range(len(fitting)), 2)):
        i, j = np.meshgrid(copies[one][1:], copies[other][1:] if other > one else [0], indexing="ij")
        n_runs = i * fitting[one].n_runs + j * fitting[other].n_runs
        worth = (frequent[one][i] + frequent[other][j]).min(axis=2)
        at = (worth >= runs_if_ideal) & (n_runs <= most)
        kinds = np.full((2, int(at.sum())), [[one], [other]])
        table.append(np.stack([n_runs[at], worth[at], *kinds, i[at], j[at]]))
    rows = np.concatenate(table, axis=1) if table else np.zeros((6, 0), dtype=np.int64)
    best = np.argsort(-rows[1] if most_runs else rows[0], kind="stable")[:_MOST_FOUND]
    return tuple(_mix(fitting, *row) for row in rows[:, best].T.tolist())


def _fitting(most_levels: int, n_factors: int, most_runs: float) -> list[ArraySize]:
    """Arrays of which some copies fit: those with two symbols or more for each level, if there are at least two."""
    sizes = [s for s in sizes_of_arrays(most_levels, n_factors) if most_runs / _MOST_COPIES <= s.n_runs <= most_runs]
    many = [size for size in sizes if size.order >= 2 * most_levels]
    return many if len(many) > 1 else sizes


def _mix(arrays: list[ArraySize], n_runs: int, worth: int, one: int, other: int, n_one: int, n_other: int) -> Mix:
    parts = ((arrays[one], n_one), (arrays[other], n_other))
    return Mix(n_runs, worth, tuple((size, copies) for size, copies in parts if copies))


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
