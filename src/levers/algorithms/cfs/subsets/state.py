"""Where a study stands that may leave levers alone, and what its runs that did so say."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from levers.algorithms.cfs.pooled.state import PooledState
from levers.core.codec import serialisable
from levers.core.model.level_index import Numbers
from levers.core.space import FREE, Codes

_RARELY = 3  # times below which nature has hardly shown a level


def subsets_of(free: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """All sets of levers that may be left alone, the empty one first.

    >>> subsets_of((3, 5))
    ((), (3,), (5,), (3, 5))
    """
    return tuple(subset for size in range(len(free) + 1) for subset in combinations(free, size))


def subset_rows(subsets: Sequence[Sequence[int]], setting: Sequence[int]) -> Codes:
    """The setting with each subset left alone, one a row.

    >>> subset_rows(((), (1,)), (2, 0)).tolist()
    [[2, 0], [2, -1]]
    """
    rows = np.tile(np.asarray(setting, dtype=np.int16), (len(subsets), 1))
    for row, subset in zip(rows, subsets, strict=True):
        row[list(subset)] = FREE
    return rows


@serialisable("SubsetTally")
@dataclass(frozen=True, eq=False)
class SubsetTally:
    """What runs with each subset left alone gave: how many, sums, squares, and how often nature took each level.

    `taken[a, f, i]` counts runs of subset a in which free lever f took level i.

    >>> levels = np.array([[0], [2], [1]])
    >>> tally = SubsetTally.empty(2, 1, 3).add(np.array([0, 1, 1]), np.array([1.0, 2.0, 4.0]), levels)
    >>> tally.runs.tolist(), tally.variances.tolist(), tally.shares(1)[0].tolist()
    ([1, 2], [nan, 2.0], [0.0, 0.5, 0.5])
    """

    runs: NDArray[np.int64]
    sums: Numbers
    squares: Numbers
    taken: NDArray[np.int64]

    @classmethod
    def empty(cls, n_subsets: int, n_free: int, most_levels: int) -> "SubsetTally":
        """No runs."""
        none = np.zeros(n_subsets)
        return cls(none.astype(np.int64), none, none, np.zeros((n_subsets, n_free, most_levels), dtype=np.int64))

    def add(self, subsets: NDArray[np.int64], y: Numbers, levels: NDArray[Any]) -> "SubsetTally":
        """With more runs: the subset of each, its outcome, and the levels that the free levers had."""
        n, taken = len(self.runs), self.taken.copy()
        for subset, row in zip(subsets.tolist(), levels.tolist(), strict=True):
            for f, level in enumerate(row):
                taken[subset, f, level] += 1
        return SubsetTally(
            self.runs + np.bincount(subsets, minlength=n),
            self.sums + np.bincount(subsets, y, minlength=n),
            self.squares + np.bincount(subsets, y * y, minlength=n),
            taken,
        )

    @property
    def variances(self) -> Numbers:
        """The variance of the outcomes of each subset; nan with fewer than two."""
        with np.errstate(divide="ignore", invalid="ignore"):
            spread = np.maximum(self.squares - self.sums**2 / self.runs, 0.0) / (self.runs - 1)
        return np.where(self.runs > 1, spread, np.nan)

    def shares(self, subset: int) -> Numbers:
        """How often nature took each level of each free lever in runs of a subset, as shares."""
        shares: Numbers = self.taken[subset] / max(int(self.runs[subset]), 1)
        return shares

    def rare_variance(
        self, subset: int, free: Sequence[int], left: Sequence[int], effects: Mapping[int, Numbers]
    ) -> float:
        """What levels that nature takes rarely may add to the variance of a subset's outcomes without being seen yet.

        A level taken fewer than three times counts as if it had been taken once more, with its effect by the runs in
        which the lever was set: Var(f_s(T)) under those shares less that under the shares seen, summed over the levers
        that are left alone.

        >>> tally = SubsetTally.empty(2, 1, 2).add(np.ones(9, dtype=np.int64), np.zeros(9), np.zeros((9, 1), np.int64))
        >>> round(tally.rare_variance(1, (4,), (4,), {4: np.array([0.0, -10.0])}), 6)  # 100 * 0.1 * 0.9
        9.0
        """
        more = 0.0
        for f, k in enumerate(free):
            if k in left and self.runs[subset]:
                seen = self.taken[subset, f, : len(effects[k])]
                more += max(_variance(effects[k], seen + (seen < _RARELY)) - _variance(effects[k], seen), 0.0)
        return more

    def unequal(self, in_play: Sequence[int], more: Numbers | None = None) -> float:
        """By how much the spread of a difference is larger than if all subsets varied alike as seen, at most.

        max over pairs in play of sqrt((v_a + v_b) / 2 v), v being the mean variance of all runs, and v_a that of a
        subset with what may be `more` of it than was seen.

        >>> one = SubsetTally(np.full(3, 11), np.zeros(3), np.array([10.0, 10.0, 40.0]), np.zeros((3, 1, 2), np.int64))
        >>> round(one.unequal((0, 1, 2)) ** 2, 3)
        1.25
        """
        seen = self.variances
        if len(in_play) < 2 or np.isnan(seen[list(in_play)]).any():
            return 1.0
        known = ~np.isnan(seen)
        mean = float((seen[known] * (self.runs[known] - 1)).sum() / (self.runs[known] - 1).sum())
        largest = np.sort((seen if more is None else seen + more)[list(in_play)])[-2:].mean()
        return max(1.0, float(np.sqrt(largest / mean))) if mean > 0 else 1.0


@serialisable("SubsetState")
@dataclass(frozen=True, eq=False)
class SubsetState:
    """Where a study stands that may leave levers alone.

    `setting` is the study in which every lever is set, and `subset` the one that compares what to leave alone at its
    leaders, `at`. Where the evidence on every pair of levels is what bounds the loss of the first, that is `at_most`.
    With `cut` the study ends with the first of them: somebody stopped it there.
    """

    setting: PooledState
    subset: PooledState | None = None
    at: tuple[int, ...] = ()
    tally: SubsetTally | None = None
    budget: int | None = None
    at_most: float | None = None
    cut: bool = False

    @property
    def comparing(self) -> bool:
        """Whether the runs asked for compare what to leave alone."""
        return self.setting.finished and not self.cut

    @property
    def finished(self) -> bool:
        """Whether nothing is asked any more."""
        if self.comparing:
            return self.subset is not None and self.subset.finished
        return self.setting.finished

    @property
    def leader(self) -> int:
        """The subset that is ahead; 0, which leaves nothing alone, while none was compared."""
        held = self.comparing and self.subset is not None and self.subset.n_runs > 0
        return self.subset.leaders[0] if held and self.subset is not None else 0

    def without_subsets(self) -> "SubsetState":
        """The state with nothing compared yet."""
        return replace(self, subset=None, at=(), tally=None, budget=None, at_most=None)


def _variance(values: Numbers, weights: NDArray[np.int64]) -> float:
    shares = weights / weights.sum()
    return float(shares @ values**2 - (shares @ values) ** 2)
