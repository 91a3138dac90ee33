"""Sufficient statistics of all runs of a study, block by block: each block has a constant of its own.

Levels are compared inside blocks only, so what drifts between blocks does no harm; a block in which levels are equally
often loses nothing by it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from levers.core.codec import serialisable
from levers.core.model.level_index import Numbers, offsets
from levers.core.model.moments import Moments, check_levels, pair_counts
from levers.core.space import Codes

_ROUNDING = 16 * float(np.finfo(np.float64).eps)
"""The relative error that a large constant in the outcomes may leave in each residual."""
_FEW = 40
"""Different outcomes up to which they are remembered, to see in what steps they come."""
_MEASURED = 1000
"""Outcomes of a block that are looked at for the last decimal place that they are given with."""
_DIGITS = 12
"""Significant digits beyond which a decimal place is rounding in a computation, and no resolution."""


@serialisable("OutcomeSteps")
@dataclass(frozen=True)
class OutcomeSteps:
    """In what steps outcomes come: the different ones seen while they are few, and their last decimal place.

    Whoever rounds to a step r adds an error of variance r^2 / 12 that a residual may fail to show, and rare events seen
    once or not at all show hardly any: no noise is taken to be smaller than that.

    >>> few = OutcomeSteps().add(np.array([0.0, 100.0, 0.0]))
    >>> few.resolution, OutcomeSteps().add(np.array([2.0, 2.0])).resolution, few.add(np.arange(0.0, 50.0)).resolution
    (100.0, None, 1.0)
    >>> OutcomeSteps().add(np.random.default_rng(0).normal(size=50)).resolution
    0.0
    """

    values: tuple[float, ...] = ()
    decimals: float | None = None

    def add(self, outcomes: NDArray[np.float64]) -> "OutcomeSteps":
        """The steps with more outcomes seen."""
        if not len(outcomes):
            return self
        decimals = decimal_step(outcomes)
        if self.decimals is not None:
            decimals = min(decimals, self.decimals)
        if self.are_many:
            return OutcomeSteps((), decimals)
        values = sorted({*self.values, *(float(f"{value:.{_DIGITS}g}") for value in np.unique(outcomes[:_MEASURED]))})
        return OutcomeSteps(tuple(values) if len(values) <= _FEW else (), decimals)

    @property
    def are_many(self) -> bool:
        """Whether more different outcomes were seen than are remembered."""
        return self.decimals is not None and not self.values

    @property
    def resolution(self) -> float | None:
        """The finest step; None while all outcomes were the same, so that nothing can be said about their noise."""
        if self.are_many:
            return self.decimals
        steps = np.diff(self.values)
        return float(steps.min()) if steps.size else None


@serialisable("PooledSums")
@dataclass(frozen=True, eq=False)
class PooledSums:
    """A = sum_b (N_b - c_b c_b^T / n_b), the Gram matrix about the means of blocks, with z = sum of centred outcomes.

    `information[a, b]` is A and `sums[a]` is z for the levels of all factors in a row, `square` the sum of squares of
    outcomes about their blocks' means. `steps` says in what steps outcomes come: no noise can be told below them.

    >>> block = Moments.empty([2, 2]).add([[0, 0], [1, 1], [0, 1], [1, 0]], [1.0, 2.0, 6.0, 3.0])
    >>> pooled = PooledSums.empty([2, 2]).add(block).add(block)
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
    largest: float = 0.0
    mean: float = 0.0
    steps: OutcomeSteps = field(default_factory=OutcomeSteps)

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
    def least_noise(self) -> float:
        """The least standard deviation that residuals can show: that of rounding to the outcomes' steps, r / sqrt(12).

        >>> block = Moments.empty([2]).add([[0], [1]], [0.0, 1.0])
        >>> round(PooledSums.empty([2]).add(block, OutcomeSteps().add(np.array([0.0, 1.0]))).least_noise, 4)
        0.2887
        """
        return (self.steps.resolution or 0.0) / math.sqrt(12)

    @property
    def rounding(self) -> float:
        """The sum of squared residuals that a large constant in the outcomes may leave by rounding alone."""
        return self.n_runs * (_ROUNDING * self.largest) ** 2

    def centred(self, at: NDArray[np.int64]) -> Numbers:
        """The Gram matrix of some levels about the means of blocks."""
        return self.information[np.ix_(at, at)]

    def add(self, block: Moments, steps: OutcomeSteps | None = None, own_constant: bool = True) -> "PooledSums":
        """The sums with one more block; `steps` are those of all outcomes, this block's included.

        Without a constant of its own, the block is also compared with the runs before it: for blocks so short that
        a constant would cost much of what they say.

        >>> rows, y = [[0], [1], [1]], [1.0, 2.0, 6.0]
        >>> parts = [Moments.empty([2]).add(rows[i:j], y[i:j]) for i, j in ((0, 1), (1, 3))]
        >>> one, two = (PooledSums.empty([2]).add(parts[0]).add(parts[1], None, own) for own in (False, True))
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
            max(self.largest, abs(block.mean)),
            (n * self.mean + more * block.mean) / (n + more),
            self.steps if steps is None else steps,
        )

    def add_blocks(
        self, codes: Codes, outcomes: Numbers, lengths: Sequence[int], steps: OutcomeSteps | None = None
    ) -> "PooledSums":
        """The sums with several blocks one below the other, of these lengths, each with a constant of its own.

        The same as adding them one by one, up to rounding, for the price of one.

        >>> rows, y = np.array([[0, 0], [1, 1], [0, 1], [1, 0], [1, 1]]), np.array([1.0, 2.0, 6.0, 3.0, 7.0])
        >>> whole = PooledSums.empty([2, 2]).add_blocks(rows, y, (2, 3))
        >>> parts = [Moments.empty([2, 2]).add(rows[i:j], y[i:j]) for i, j in ((0, 2), (2, 5))]
        >>> single = PooledSums.empty([2, 2]).add(parts[0]).add(parts[1])
        >>> bool(np.allclose(whole.information, single.information)), np.allclose(whole.sums, single.sums)
        (True, True)
        """
        check_levels(codes, self.n_levels)
        d, sizes = len(self.sums), np.asarray(lengths)
        block = np.repeat(np.arange(len(sizes)), sizes)
        places = codes + self.offsets[:-1]
        used = np.bincount((places + d * block[:, None]).ravel(), minlength=d * len(sizes)).reshape(len(sizes), d)
        means = np.bincount(block, outcomes) / sizes
        about = outcomes - means[block]
        n, more = self.n_runs, len(outcomes)
        return PooledSums(
            self.n_levels,
            n + more,
            self.n_blocks + len(sizes),
            self.square + float(about @ about),
            self.sums + np.bincount(places.ravel(), np.repeat(about, codes.shape[1]), minlength=d),
            self.counts + used.sum(axis=0),
            self.information + pair_counts(codes, self.n_levels) - used.T @ (used / sizes[:, None]),
            max(self.largest, float(np.abs(means).max())),
            (n * self.mean + float(outcomes.sum())) / (n + more),
            self.steps if steps is None else steps,
        )


def decimal_step(outcomes: NDArray[np.float64]) -> float:
    """Ten to the last decimal place that any outcome has, 1 for whole numbers, 0 where nobody rounded them.

    >>> decimal_step(np.array([0.25, 1.5])), decimal_step(np.array([0.0, 1.0])), decimal_step(np.array([1 / 3]))
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
