"""Sufficient statistics of all runs of a study, block by block: each block has a constant of its own.

Levels are compared inside blocks only, so what drifts between blocks does no harm; a block in which levels are equally
often loses nothing by it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from levers.core.codec import serialisable
from levers.core.model.level_index import Numbers, offsets
from levers.core.model.moments import Moments

_ROUNDING = 16 * float(np.finfo(np.float64).eps)
"""The relative error that a large constant in the outcomes may leave in each residual."""
_MEASURED = 1000
"""Outcomes of a block that are looked at for the last decimal place that they are given with."""
_DIGITS = 12
"""Significant digits beyond which a decimal place is rounding in a computation, and no resolution."""


@serialisable("PooledSums")
@dataclass(frozen=True, eq=False)
class PooledSums:
    """A = sum_b (N_b - c_b c_b^T / n_b), the Gram matrix about the means of blocks, with z = sum of centred outcomes.

    `information[a, b]` is A and `sums[a]` is z for the levels of all factors in a row, `square` the sum of squares of
    outcomes about their blocks' means. `resolution` is the finest step between outcomes (0 if they look continuous):
    no noise can be told below it. It is None before the first run.

    >>> block = Moments.empty([2, 2]).add([[0, 0], [1, 1], [0, 1], [1, 0]], [1.0, 2.0, 6.0, 3.0])
    >>> pooled = PooledSums.empty([2, 2]).add(block, 1.0).add(block, 1.0)
    >>> pooled.n_runs, pooled.n_blocks, pooled.sums.tolist(), pooled.information[0].tolist()
    (8, 2, [2.0, -2.0, -4.0, 4.0], [2.0, -2.0, 0.0, 0.0])
    """

    n_levels: tuple[int, ...]
    n_runs: int
    n_blocks: int
    square: float
    sums: Numbers
    counts: NDArray[np.int64]
    information: Numbers
    resolution: float | None = None
    largest: float = 0.0
    mean: float = 0.0

    @classmethod
    def empty(cls, n_levels: Sequence[int]) -> "PooledSums":
        """The sums of no runs."""
        d = sum(n_levels)
        return cls(tuple(n_levels), 0, 0, 0.0, np.zeros(d), np.zeros(d, dtype=np.int64), np.zeros((d, d)))

    @property
    def offsets(self) -> NDArray[np.int64]:
        """Where each factor's levels begin, and the total number of levels at the end."""
        return offsets(self.n_levels)

    @property
    def level_counts(self) -> NDArray[np.int64]:
        """How often each level was used."""
        return self.counts

    @property
    def rounding(self) -> float:
        """The sum of squared residuals that a large constant in the outcomes may leave by rounding alone."""
        return self.n_runs * (_ROUNDING * self.largest) ** 2

    def centred(self, at: NDArray[np.int64]) -> Numbers:
        """The Gram matrix of some levels about the means of blocks."""
        return self.information[np.ix_(at, at)]

    def add(self, block: Moments, resolution: float | None, own_constant: bool = True) -> "PooledSums":
        """The sums with one more block, whose outcomes are given to a resolution.

        Without a constant of its own, the block is also compared with the runs before it: for blocks so short that
        a constant would cost much of what they say.

        >>> rows, y = [[0], [1], [1]], [1.0, 2.0, 6.0]
        >>> parts = [Moments.empty([2]).add(rows[i:j], y[i:j]) for i, j in ((0, 1), (1, 3))]
        >>> one, two = (PooledSums.empty([2]).add(parts[0], 1.0).add(parts[1], 1.0, own) for own in (False, True))
        >>> one.sums.tolist(), one.square, one.n_blocks, two.sums.tolist(), two.n_blocks
        ([-2.0, 2.0], 14.0, 1, [0.0, 0.0], 2)
        """
        every = np.arange(len(self.sums))
        n, more = self.n_runs, block.n_runs
        square, sums, information = block.square, block.sums, block.centred(every)
        apart = own_constant or n == 0
        if not apart:
            weight = n * more / (n + more)
            shift = block.mean - self.mean
            moved = block.level_counts / more - self.counts / n
            square = square + weight * shift**2
            sums = sums + weight * shift * moved
            information = information + weight * np.outer(moved, moved)
        return PooledSums(
            self.n_levels,
            n + more,
            self.n_blocks + apart,
            self.square + square,
            self.sums + sums,
            self.counts + block.level_counts,
            self.information + information,
            finer(self.resolution, resolution),
            max(self.largest, abs(block.mean)),
            (n * self.mean + more * block.mean) / (n + more),
        )


def finer(one: float | None, other: float | None) -> float | None:
    """The finer of two resolutions; None is that of no outcomes.

    >>> finer(None, 0.1), finer(1.0, 0.1)
    (0.1, 0.1)
    """
    known = [step for step in (one, other) if step is not None]
    return min(known) if known else None


def resolution_of(outcomes: NDArray[np.float64]) -> float:
    """The step in which outcomes are given: ten to the last decimal place that any of them has, 1 for whole numbers.

    0 where they have so many digits that nobody rounded them. Whoever rounds to a step r adds an error of variance
    r^2 / 12 that a residual may fail to show, so no noise is taken to be smaller than that.

    >>> resolution_of(np.array([0.25, 1.5])), resolution_of(np.array([0.0, 1.0])), resolution_of(np.array([1 / 3]))
    (0.01, 1.0, 0.0)
    """
    finest = 0
    for value in outcomes[:_MEASURED].tolist():
        digits = Decimal(repr(value)).normalize()
        exponent = digits.as_tuple().exponent
        if not isinstance(exponent, int) or len(digits.as_tuple().digits) > _DIGITS:
            return 0.0
        finest = min(finest, exponent)
    return float(10.0**finest)
