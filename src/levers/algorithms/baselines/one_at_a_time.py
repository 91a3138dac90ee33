"""One factor at a time: from a random setting, the levels of one factor after another are compared."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from levers.algorithms.base import Batch, Progress, Verdict
from levers.algorithms.baselines.budgeted import Budgeted
from levers.core.codec import serialisable
from levers.core.space import Codes

STAGE = "one factor at a time"


@serialisable("OneAtATimeState")
@dataclass(frozen=True, eq=False)
class OneAtATimeState:
    """The seed of start and order, the setting so far, and how many factors were compared."""

    seed: int | None = None
    current: tuple[int, ...] = ()
    place: int = 0
    n_runs: int = 0


@dataclass(frozen=True)
class OneAtATime(Budgeted):
    """One factor at a time: compare a factor's levels, the others held; keep the best mean; go to the next factor.

    Start and order are random. Runs are split evenly over the levels still to come, with at least one for each, and a
    comparison that the budget cuts short is made with what is left.

    >>> from levers import Problem, Space
    >>> one = OneAtATime(Problem(Space.sized([3, 3]), None, 0.1, None), budget=12)
    >>> one.ask(one.start(), np.random.default_rng(0)).n_runs
    6
    """

    name: ClassVar[str] = "one-at-a-time"

    def start(self) -> OneAtATimeState:
        """Nothing run: start and order are drawn with the first comparison."""
        return OneAtATimeState()

    def _drawn(self, seed: int) -> tuple[tuple[int, ...], list[int]]:
        """The start and the order that a seed stands for."""
        rng = np.random.default_rng(seed)
        start = tuple(int(code) for code in rng.integers(0, self.space.n_levels))
        return start, [int(k) for k in rng.permutation(self.space.n_factors)]

    def _comparison(self, seed: int, current: tuple[int, ...], place: int, n_runs: int) -> Codes:
        """The runs of the next comparison; none when factors or runs are over."""
        _, order = self._drawn(seed)
        left = self.budget - n_runs
        if place == len(order) or left == 0:
            return np.zeros((0, self.space.n_factors), dtype=np.int16)
        sizes = self.space.n_levels
        m, n_later = sizes[order[place]], sum(sizes[k] for k in order[place + 1 :])
        share = left if not n_later else min(left, max(m, left * m // (m + n_later) // m * m))
        rows = np.tile(np.asarray(current, dtype=np.int16), (share, 1))
        # the level in place comes first, so that it is not given up without having been run
        rows[:, order[place]] = (current[order[place]] + np.arange(share)) % m
        return rows

    def ask(self, state: OneAtATimeState, rng: np.random.Generator) -> Batch | Verdict:
        """The next factor's levels."""
        seed = int(rng.integers(2**62)) if state.seed is None else state.seed
        current = self._drawn(seed)[0] if state.seed is None else state.current
        rows = self._comparison(seed, current, state.place, state.n_runs)
        if not len(rows):
            return self.recommend(current, state.n_runs, STAGE)
        return Batch(rows, stage=STAGE, focus=seed)

    def tell(self, state: OneAtATimeState, batch: Batch, outcomes: ArrayLike) -> OneAtATimeState:
        """Keep the level with the best mean."""
        y = self.accept(batch, outcomes)
        seed = batch.focus
        self.check_due(batch.stage == STAGE and seed is not None and state.seed in (None, seed))
        assert seed is not None  # checked above
        start, order = self._drawn(seed)
        current = start if state.seed is None else state.current
        due = self._comparison(seed, current, state.place, state.n_runs)
        self.check_due(due.shape == batch.codes.shape and bool((due == batch.codes).all()))
        k = order[state.place]
        levels, where = np.unique(batch.codes[:, k], return_inverse=True)
        means = np.bincount(where, weights=y) / np.bincount(where)
        best = int(levels[int(np.argmax(means))])
        now = tuple(best if i == k else code for i, code in enumerate(current))
        return replace(state, seed=seed, current=now, place=state.place + 1, n_runs=state.n_runs + batch.n_runs)

    def progress(self, state: OneAtATimeState) -> Progress:
        """The setting so far."""
        over = state.place == self.space.n_factors or state.n_runs >= self.budget
        return Progress(state.current, finished=over)
