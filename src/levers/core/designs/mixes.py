"""Copies of orthogonal arrays of one or two kinds, chosen so that few runs are lost to uneven levels.

A collapsed array is orthogonal, but favours some levels: the less, the more symbols it has for a level. Arrays of many
symbols have many runs, so copies of two kinds are put together to come close to the number of runs that is wanted.
"""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from levers.core.designs.arrays import ArraySize, collapsed_copies, collapsed_counts, collapsed_levels, sizes_of_arrays
from levers.core.designs.design import Design
from levers.core.model.moments import pair_counts
from levers.core.space import Codes

_MOST_COPIES = 40  # the most copies of an array: put together, many small copies leave factors dependent on each other
_MOST_MIXES = 12  # the most mixes that are returned
_LONGEST = 1.3  # the most runs of a mix, over the runs that are wanted
_UNEVEN = 3.0  # the cost of a run too many at a level, where a run too many or too few in all costs 1
_WORST_START = 0.7  # a start for a search that costs a larger share of its runs is hardly better than random columns


class Mix(NamedTuple):
    """How many copies of which arrays, their runs, and the ideal runs that these are worth, by the rarest level."""

    n_runs: int
    worth: int
    parts: tuple[tuple[ArraySize, int], ...]


class _Table(NamedTuple):
    """All mixes of some arrays, shortest first: runs, worth, and the share of runs that are too many at their level.

    `kinds` are the two arrays of each mix by their positions in `arrays`, `copies` how many of each; the second may
    have none.
    """

    arrays: tuple[ArraySize, ...]
    n_runs: NDArray[np.int64]
    worth: NDArray[np.int64]
    uneven: NDArray[np.float64]
    kinds: NDArray[np.int64]
    copies: NDArray[np.int64]

    def mix(self, i: int) -> Mix:
        """The mix at one position."""
        kinds, copies = self.kinds[:, i].tolist(), self.copies[:, i].tolist()
        parts = tuple((self.arrays[kind], n) for kind, n in zip(kinds, copies, strict=True) if n)
        return Mix(int(self.n_runs[i]), int(self.worth[i]), parts)


def mixes(sizes: tuple[int, ...], runs_if_ideal: float, most_runs: float | None = None) -> tuple[Mix, ...]:
    """The shortest mixes whose rarest levels are frequent enough for `runs_if_ideal`, shortest first.

    With `most_runs`, those of up to so many runs that are worth most, best first.

    >>> [(size.order, copies) for size, copies in mixes((2, 3, 4, 5, 6) * 6, 5000.0)[0].parts]
    [(29, 5), (31, 1)]
    """
    most = most_runs or _LONGEST * runs_if_ideal
    table = _table_for(sizes, most, many_symbols=True)
    at = np.flatnonzero((table.worth >= runs_if_ideal) & (table.n_runs <= most))
    if most_runs:
        at = at[np.argsort(-table.worth[at], kind="stable")]
    return tuple(table.mix(i) for i in at[:_MOST_MIXES].tolist())


def mix_to_start_from(sizes: tuple[int, ...], n_runs: int) -> Mix | None:
    """The mix that comes closest to `n_runs` even runs; None where none comes close.

    >>> mix_to_start_from((2, 3, 4, 4, 2, 3) * 2, 700).n_runs
    704
    """
    table = _table_for(sizes, _LONGEST * n_runs, many_symbols=False)
    if not len(table.n_runs):
        return None
    missed = np.abs(table.n_runs - n_runs) / np.maximum(table.n_runs, n_runs) + _UNEVEN * table.uneven
    best = int(missed.argmin())
    return table.mix(best) if missed[best] <= _WORST_START else None


def mixed_rows(sizes: tuple[int, ...], mix: Mix, rng: np.random.Generator) -> Codes:
    """The rows of a mix, array by array.

    >>> mixed_rows((3, 4, 2), mixes((3, 4, 2), 50.0)[0], np.random.default_rng(0)).shape
    (64, 3)
    """
    return np.concatenate([collapsed_copies(size, levels) for size, levels in _levels(sizes, mix, rng)])


def mixed_design(sizes: tuple[int, ...], mix: Mix, seed: int, more: Codes | None = None) -> Design:
    """The design of a mix, with some more rows if they are given, in random order.

    >>> mix = mixes((3, 4, 2) * 4, 3000.0)[0]
    >>> design = mixed_design((3, 4, 2) * 4, mix, seed=0)
    >>> design.n_runs == mix.n_runs, design.inflation < 1.05
    (True, True)
    """
    rng = np.random.default_rng(seed)
    parts = _levels(sizes, mix, rng)
    rows = [collapsed_copies(size, levels) for size, levels in parts]
    counts: NDArray[np.int64] = np.sum([collapsed_counts(size, sizes, levels) for size, levels in parts], axis=0)
    if more is not None:
        rows.append(more)
        counts += pair_counts(more, sizes)
    shuffled = rng.permutation(np.concatenate(rows))
    shuffled.flags.writeable = False
    return Design(shuffled, sizes, "orthogonal arrays" if more is None else "nearly orthogonal", counts)


def _table_for(sizes: tuple[int, ...], most_runs: float, many_symbols: bool) -> _Table:
    """A table that has all mixes of up to so many runs; the same one serves many lengths and sizes."""
    longest = 2.0 ** math.ceil(math.log2(max(most_runs, 1.0)))
    return _table(_fitting(max(sizes), len(sizes), most_runs, many_symbols), tuple(sorted(set(sizes))), longest)


def _fitting(most_levels: int, n_factors: int, most_runs: float, many_symbols: bool) -> tuple[ArraySize, ...]:
    """Arrays of which some copies fit; with `many_symbols` those with two symbols or more a level, if there are two.

    Copies of arrays with fewer symbols leave factors dependent on each other when they are put together.
    """
    sizes = sizes_of_arrays(most_levels, n_factors)
    fitting = tuple(size for size in sizes if most_runs / _MOST_COPIES <= size.n_runs <= most_runs)
    many = tuple(size for size in fitting if size.order >= 2 * most_levels)
    return many if many_symbols and len(many) > 1 else fitting


@lru_cache(maxsize=64)
def _table(arrays: tuple[ArraySize, ...], distinct: tuple[int, ...], most_runs: float) -> _Table:
    """All mixes of up to so many runs for factors with these numbers of levels."""
    levels, of_copy = np.array(distinct), np.array([size.n_runs for size in arrays], dtype=np.int64)
    most = (most_runs // of_copy).astype(np.int64)
    # numbers of copies of one kind, none first; then all pairs of these for two kinds
    kind = np.concatenate([[0], np.repeat(np.arange(len(arrays)), most)])
    copies = np.concatenate([[0], *(np.arange(1, n + 1) for n in most.tolist())]).astype(np.int64)
    length = copies * np.append(of_copy, 0)[kind]
    two = (length[:, None] + length <= most_runs) & (copies[:, None] > 0) & ((kind[:, None] < kind) | (copies == 0))
    one, other = np.nonzero(two)
    by_length = np.argsort(length[one] + length[other], kind="stable")
    one, other = one[by_length], other[by_length]
    rarest, excess = _level_counts(arrays, kind, copies, levels)
    n_runs = length[one] + length[other]
    worth = (rarest[one] + rarest[other]).min(axis=1)
    uneven = (excess[one] + excess[other]) / n_runs
    return _Table(arrays, n_runs, worth, uneven, kind[np.stack([one, other])], copies[np.stack([one, other])])


def _level_counts(
    arrays: tuple[ArraySize, ...], kind: NDArray[np.int64], copies: NDArray[np.int64], levels: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """For each number of copies: runs at the rarest level times the number of levels, and the mean excess of others.

    Spare symbols go round from copy to copy, so levels differ by one symbol at most.
    """
    order = np.array([size.order for size in arrays] or [1])[kind][:, None]
    once = np.array([size.n_runs // size.order for size in arrays] or [0])[kind][:, None]
    symbols, favoured = np.divmod(copies[:, None] * order, levels)
    return levels * once * symbols, (once * favoured * (1 - favoured / levels)).mean(axis=1)


def _levels(sizes: tuple[int, ...], mix: Mix, rng: np.random.Generator) -> list[tuple[ArraySize, Codes]]:
    """The arrays, and which levels stand for their symbols."""
    return [(size, collapsed_levels(size.order, sizes, copies, rng)) for size, copies in mix.parts]
