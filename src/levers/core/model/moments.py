"""Sufficient statistics of the additive model: all that any fit needs to know of the runs.

Memory is d^2 numbers for d levels in all, whatever the number of runs. Outcomes are kept about their mean, so a
large constant in the outcome costs no digits.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from levers.core.codec import serialisable
from levers.core.model.level_index import Numbers, offsets
from levers.core.space import Codes
from levers.core.validation import check_outcomes
from levers.errors import InvalidSpaceError

_ROUNDING = 16 * float(np.finfo(np.float64).eps)
"""The relative error that a sum of squares may have, for each parameter that was fitted."""
_ONE_HOT_CELLS = 400_000
"""Cells of the largest one-hot block that is multiplied out: as float32 it has 1.6 MB and stays in the cache."""
_CELLS_AT_ONCE = 25_000
"""Cells whose outcomes are summed by level at once: their positions and weights stay in the cache."""
_EXACT_ROWS = 1 << 23  # rows of the longest one-hot block: float32 counts whole numbers exactly up to 2^24


@dataclass(frozen=True, eq=False)
class _OutcomeSums:
    """What both kinds of statistics have: `sums[a]` is the sum of (y - mean) over the runs with level a, `square` the
    sum of (y - mean)^2 over all runs.
    """

    n_levels: tuple[int, ...]
    n_runs: int
    mean: float
    square: float
    sums: Numbers
    counts: NDArray[np.int64]

    @property
    def level_counts(self) -> NDArray[np.int64]:
        """How often each level was used."""
        return self.counts

    def _pooled(self, other: Self) -> Self:
        """The statistics of both sets of runs together (Chan, Golub and LeVeque 1983, pairwise update of means)."""
        n = self.n_runs + other.n_runs
        shift = other.mean - self.mean
        mean = self.mean + shift * other.n_runs / n
        square = self.square + other.square + shift**2 * self.n_runs * other.n_runs / n
        moved, other_moved = (s.sums + s.level_counts * (s.mean - mean) for s in (self, other))
        return type(self)(self.n_levels, n, mean, square, moved + other_moved, self.counts + other.counts)


@serialisable("LevelSums")
@dataclass(frozen=True, eq=False)
class LevelSums(_OutcomeSums):
    """Outcome sums and numbers of runs by level: all that must be kept while a known design is being run.

    >>> sums = LevelSums.empty([2, 2]).add([[0, 0], [1, 1], [0, 1]], [1.0, 2.0, 6.0])
    >>> sums.n_runs, sums.mean, sums.sums.tolist(), sums.counts.tolist()
    (3, 3.0, [1.0, -1.0, -2.0, 2.0], [2, 1, 1, 2])
    """

    @classmethod
    def empty(cls, n_levels: Sequence[int]) -> "LevelSums":
        """The sums of no runs."""
        d = sum(n_levels)
        return cls(tuple(n_levels), 0, 0.0, 0.0, np.zeros(d), np.zeros(d, dtype=np.int64))

    def add(self, codes: ArrayLike, outcomes: ArrayLike) -> "LevelSums":
        """The sums with more runs added."""
        rows = np.atleast_2d(np.asarray(codes))
        y = check_outcomes(outcomes, len(rows))
        check_levels(rows, self.n_levels)
        if len(rows) == 0:
            return self
        mean = float(y.mean())
        sums, counts = _by_level(rows, y - mean, self.n_levels)
        square = float(((y - mean) ** 2).sum())
        return self._pooled(LevelSums(self.n_levels, len(rows), mean, square, sums, counts))


@serialisable("Moments")
@dataclass(frozen=True, eq=False)
class Moments(_OutcomeSums):
    """Outcome sums by level with pair counts: ``counts[a, b]`` is the number of runs with both levels a and b.

    The counts are the Gram matrix V_n of the one-hot design, the levels of all factors in a row.

    >>> m = Moments.empty([2, 2]).add([[0, 0], [1, 1], [0, 1]], [1.0, 2.0, 6.0])
    >>> m.n_runs, m.mean, m.counts[0].tolist(), m.sums.tolist()
    (3, 3.0, [2, 0, 1, 1], [1.0, -1.0, -2.0, 2.0])
    """

    @classmethod
    def empty(cls, n_levels: Sequence[int]) -> "Moments":
        """The moments of no runs."""
        d = sum(n_levels)
        return cls(tuple(n_levels), 0, 0.0, 0.0, np.zeros(d), np.zeros((d, d), dtype=np.int64))

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """Where each factor's levels begin, and the total number of levels at the end."""
        return offsets(self.n_levels)

    @property
    def level_counts(self) -> NDArray[np.int64]:
        """How often each level was used (the diagonal of the counts)."""
        return self.counts.diagonal()

    @property
    def n_blocks(self) -> int:
        """Constants of the model: one for all runs."""
        return 1

    def centred(self, at: NDArray[np.int64]) -> Numbers:
        """The Gram matrix of some levels about the runs' mean: G - c c^T / n."""
        c = self.level_counts[at].astype(np.float64)
        return np.asarray(self.counts[np.ix_(at, at)] - np.outer(c, c) / self.n_runs)

    def add(self, codes: ArrayLike, outcomes: ArrayLike) -> "Moments":
        """The moments with more runs added.

        The result does not depend on how the runs are cut into chunks, up to rounding in the last digits.
        """
        block = LevelSums.empty(self.n_levels).add(codes, outcomes)
        if block.n_runs == 0:
            return self
        compact = np.ascontiguousarray(np.atleast_2d(np.asarray(codes)), dtype=np.int16)
        counts = _cached_pair_counts(compact.tobytes(), len(compact), self.n_levels)
        return self.merge(Moments(self.n_levels, block.n_runs, block.mean, block.square, block.sums, counts))

    def add_repeated(self, codes: ArrayLike, repeats: int, means: ArrayLike, within: float) -> "Moments":
        """The moments with each row run `repeats` times, from the rows' mean outcomes.

        `within` is the sum of squares of the single outcomes about these means.

        >>> rows, y = [[0, 0], [1, 1]], [[1.0, 3.0], [4.0, 8.0]]
        >>> one = Moments.empty([2, 2]).add(rows + rows, [1.0, 4.0, 3.0, 8.0])
        >>> other = Moments.empty([2, 2]).add_repeated(rows, 2, [2.0, 6.0], within=2.0 + 8.0)
        >>> one.square == other.square, (one.sums == other.sums).all(), (one.counts == other.counts).all()
        (True, np.True_, np.True_)
        """
        if repeats == 0:
            return self
        once = Moments.empty(self.n_levels).add(codes, means)
        square, sums, counts = repeats * once.square + within, repeats * once.sums, repeats * once.counts
        return self.merge(Moments(self.n_levels, repeats * once.n_runs, once.mean, square, sums, counts))

    def merge(self, other: "Moments") -> "Moments":
        """The moments of both sets of runs together."""
        if self.n_levels != other.n_levels:
            raise InvalidSpaceError("moments of different spaces cannot be merged")
        if self.n_runs == 0 or other.n_runs == 0:
            return other if self.n_runs == 0 else self
        return self._pooled(other)


def check_levels(rows: NDArray[np.integer], n_levels: Sequence[int]) -> None:
    """Refuse rows that are not level positions of factors with so many levels.

    >>> check_levels(np.array([[0, 2]]), [2, 2])
    Traceback (most recent call last):
    levers.errors.InvalidSpaceError: a run has a level that its factor does not have, or one left to nature
    """
    if rows.shape[1] != len(n_levels):
        raise InvalidSpaceError(f"runs have {rows.shape[1]} factors, the model has {len(n_levels)}")
    if rows.size and (rows.min() < 0 or (rows >= np.asarray(n_levels)).any()):
        raise InvalidSpaceError("a run has a level that its factor does not have, or one left to nature")


def pair_counts(codes: Codes | NDArray[np.integer], n_levels: Sequence[int]) -> NDArray[np.int64]:
    """How many runs have levels a and b together, for all a and b: V_n = sum_t e(x_t) e(x_t)^T.

    Only the levels after each factor's first are multiplied out (float32 is exact for these counts); the first
    levels' counts follow because each factor has exactly one level in each run.

    >>> pair_counts(np.array([[0, 1], [1, 1]]), [2, 2]).tolist()
    [[1, 0, 0, 1], [0, 1, 0, 1], [0, 0, 0, 0], [1, 1, 0, 2]]
    """
    n = len(codes)
    sizes = np.asarray(n_levels, dtype=np.int64)
    d = int(sizes.sum())
    if n * d <= _ONE_HOT_CELLS // 4:  # so few cells that leaving levels out saves nothing
        whole = np.zeros((n, d), dtype=np.float32)
        whole.ravel()[(codes + (offsets(sizes)[:-1] + d * np.arange(n)[:, None])).ravel()] = 1
        return (whole.T @ whole).astype(np.int64)  # whole numbers already
    p = int((sizes - 1).sum())
    starts = offsets(sizes - 1)[:-1]
    cross = np.zeros((p, p), dtype=np.int64)
    step = max(1, min(_ONE_HOT_CELLS // (p + 1), _EXACT_ROWS))
    for begin in range(0, n, step):
        part = codes[begin : begin + step]
        column = np.where(part == 0, p, part + (starts - 1))  # first levels go to a spare last column
        one_hot = np.zeros((len(part), p + 1), dtype=np.float32)
        one_hot.ravel()[(column + (p + 1) * np.arange(len(part))[:, None]).ravel()] = 1
        cross += np.rint(one_hot.T @ one_hot)[:p, :p].astype(np.int64)
    return _with_first_levels(cross, n, sizes, starts)


def _with_first_levels(
    cross: NDArray[np.int64], n: int, sizes: NDArray[np.int64], starts: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The full table of pair counts from the table that leaves each factor's first level out.

    n(first of k, b) = n(b) - n(k not at its first, b), and likewise for two first levels.
    """
    d, single = int(sizes.sum()), cross.diagonal()
    first = offsets(sizes)[:-1]
    others = np.delete(np.arange(d), first)
    counts = np.empty((d, d), dtype=np.int64)
    counts[np.ix_(others, others)] = cross
    per_factor = np.add.reduceat(cross, starts, axis=0)  # runs with level b in which factor k is not at its first
    counts[np.ix_(first, others)] = single - per_factor
    counts[np.ix_(others, first)] = (single - per_factor).T
    away = np.add.reduceat(single, starts)
    both_away = np.add.reduceat(per_factor, starts, axis=1)
    counts[np.ix_(first, first)] = n - away[:, None] - away[None, :] + both_away
    return counts


@lru_cache(maxsize=2)
def _cached_pair_counts(data: bytes, n_runs: int, n_levels: tuple[int, ...]) -> NDArray[np.int64]:
    """Pair counts of int16 rows, cached: a long design repeats its rows, which need to be counted only once."""
    rows = np.frombuffer(data, dtype=np.int16).reshape(n_runs, len(n_levels))
    counts = pair_counts(rows, n_levels)
    counts.flags.writeable = False
    return counts


def _by_level(rows: NDArray[np.integer], y: Numbers, n_levels: Sequence[int]) -> tuple[Numbers, NDArray[np.int64]]:
    """The sum of y and the number of runs at each level."""
    d, starts = sum(n_levels), offsets(n_levels)[:-1]
    sums, counts = np.zeros(d), np.zeros(d, dtype=np.int64)
    step = max(1, _CELLS_AT_ONCE // len(starts))
    for begin in range(0, len(rows), step):
        part = rows[begin : begin + step]
        places = (part + starts).ravel()
        sums += np.bincount(places, np.repeat(y[begin : begin + step], len(starts)), minlength=d)
        counts += np.bincount(places, minlength=d)
    return sums, counts


def residual_square(total: float, explained: float, rank: int) -> float:
    """total - explained, but never less than the rounding error: too small a noise would be a false promise.

    >>> residual_square(1e20, 1e20, 3) > 1e5
    True
    """
    return max(total - explained, _ROUNDING * rank * total)
