"""Successive elimination over all assignments (Even-Dar, Mannor and Mansour 2006): a bandit that ignores structure."""

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from levers.algorithms.actions import MAX_ACTIONS, action_codes, check_actions
from levers.algorithms.base import CHUNK, AlgorithmBase, Batch, Verdict
from levers.core.checks import check_count
from levers.core.codec import serialisable
from levers.core.sample_size import successive_radius


@serialisable("SuccessiveState")
@dataclass(frozen=True, eq=False)
class SuccessiveState:
    """The surviving actions, the sum of each one's outcomes, and how far the current round is."""

    alive: NDArray[np.int64]
    sums: NDArray[np.float64]
    n_rounds: int = 0
    done: int = 0
    n_runs: int = 0
    finished: bool = False


@dataclass(frozen=True)
class SuccessiveElimination(AlgorithmBase):
    """Run every surviving assignment once a round; drop those whose interval lies below the leader's.

    Stops when one is left, or when the intervals are so narrow that the leader is within the tolerance.

    >>> from levers.algorithms.base import Problem
    >>> from levers.core.space import Space
    >>> se = SuccessiveElimination(Problem(Space.sized([2, 3]), 0.5, 0.1, 1.0))
    >>> se.ask(se.start(), np.random.default_rng(0)).n_runs
    6
    """

    max_actions: int = MAX_ACTIONS
    name: str = field(init=False, default="successive-elimination")

    def __post_init__(self) -> None:
        self.check_complete()
        check_count("max_actions", self.max_actions)
        check_actions(self.space, self.max_actions, self.name)

    def start(self) -> SuccessiveState:
        """All assignments alive."""
        n = self.space.n_assignments
        return SuccessiveState(np.arange(n), np.zeros(n))

    def ask(self, state: SuccessiveState, rng: np.random.Generator) -> Batch | Verdict:
        """The surviving assignments not yet run this round."""
        if state.finished:
            return self._verdict(state)
        actions = state.alive[state.done : state.done + CHUNK]
        return Batch(action_codes(self.space, actions), stage="successive elimination")

    def tell(self, state: SuccessiveState, batch: Batch, outcomes: ArrayLike) -> SuccessiveState:
        """Add a round's outcomes; at its end, eliminate."""
        y = self.accept(batch, outcomes)
        due = action_codes(self.space, state.alive[state.done : state.done + batch.n_runs])
        self.check_due(not state.finished and due.shape == batch.codes.shape and bool((due == batch.codes).all()))
        sums = state.sums.copy()
        sums[state.done : state.done + batch.n_runs] += y
        state = replace(state, sums=sums, done=state.done + batch.n_runs, n_runs=state.n_runs + batch.n_runs)
        return state if state.done < len(state.alive) else self._end_round(state)

    def _end_round(self, state: SuccessiveState) -> SuccessiveState:
        n_rounds = state.n_rounds + 1
        radius = successive_radius(self.space.n_assignments, n_rounds, self.failure_prob, self.noise_sd)
        means = state.sums / n_rounds
        keep = means > means.max() - 2 * radius
        finished = int(keep.sum()) == 1 or 2 * radius <= self.tolerance
        return replace(
            state,
            alive=state.alive[keep],
            sums=state.sums[keep],
            n_rounds=n_rounds,
            done=0,
            finished=finished,
        )

    def _verdict(self, state: SuccessiveState) -> Verdict:
        best = state.alive[int(np.argmax(state.sums))]
        return Verdict(
            algorithm=self.name,
            assignment=self.space.assignment(action_codes(self.space, np.array([best]))[0]),
            n_runs=state.n_runs,
            tolerance=self.tolerance,
            failure_prob=self.failure_prob,
            guarantee="proven for sub-Gaussian noise, without the additive assumption",
            runs_by_stage=(("successive elimination", state.n_runs),),
        )
