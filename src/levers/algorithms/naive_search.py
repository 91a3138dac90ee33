"""The search that matches the exponential lower bound (Section 2.2): try assignments blindly until one is good."""

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike

from levers.algorithms.actions import MAX_ACTIONS, action_codes, check_actions
from levers.algorithms.base import CHUNK, AlgorithmBase, Batch, Verdict
from levers.core.checks import check_count
from levers.core.codec import serialisable
from levers.core.sample_size import needle_test_runs


@serialisable("NaiveState")
@dataclass(frozen=True, eq=False)
class NaiveState:
    """Assignments tried, the one on trial with its runs so far, and the best mean seen."""

    tried: tuple[int, ...] = ()
    action: int | None = None
    action_runs: int = 0
    action_sum: float = 0.0
    best: int = 0
    best_mean: float | None = None
    n_runs: int = 0
    finished: bool = False


@dataclass(frozen=True)
class NaiveSearch(AlgorithmBase):
    """Draw assignments at random without replacement, test each, stop at the first that reaches the target.

    `target` is the outcome worth stopping for, known in advance: the test accepts means above target - eps/2. Its
    default is the tolerance, as in the hard instance, whose mean is 0 everywhere but eps at one setting of the parents.

    >>> from levers.algorithms.base import Problem
    >>> from levers.core.space import Space
    >>> naive = NaiveSearch(Problem(Space.sized([2, 2, 2]), 1.0, 0.1, 1.0))
    >>> naive.ask(naive.start(), np.random.default_rng(0)).n_runs
    36
    """

    target: float | None = None
    max_actions: int = MAX_ACTIONS
    name: str = field(init=False, default="naive-search")

    def __post_init__(self) -> None:
        self.check_complete()
        check_count("max_actions", self.max_actions)
        check_actions(self.space, self.max_actions, self.name)

    @property
    def test_runs(self) -> int:
        """Runs for each assignment on trial."""
        return needle_test_runs(self.space.n_levels, self.tolerance, self.failure_prob, self.noise_sd)

    def start(self) -> NaiveState:
        """Nothing tried."""
        return NaiveState()

    def ask(self, state: NaiveState, rng: np.random.Generator) -> Batch | Verdict:
        """More runs of the assignment on trial, or of one drawn among those not tried."""
        if state.finished:
            return self._verdict(state)
        action = state.action if state.action is not None else self._draw(state, rng)
        n_runs = min(CHUNK, self.test_runs - state.action_runs)
        codes = np.repeat(action_codes(self.space, np.array([action])), n_runs, axis=0)
        return Batch(codes, stage="naive search", focus=action)

    def tell(self, state: NaiveState, batch: Batch, outcomes: ArrayLike) -> NaiveState:
        """Add the outcomes; when the test is complete, accept or move on."""
        y = self.accept(batch, outcomes)
        action = batch.focus
        self.check_due(action is not None and action not in state.tried and state.action in (None, action))
        assert action is not None  # checked above
        state = replace(
            state,
            action=action,
            action_runs=state.action_runs + batch.n_runs,
            action_sum=state.action_sum + float(y.sum()),
            n_runs=state.n_runs + batch.n_runs,
        )
        if state.action_runs < self.test_runs:
            return state
        mean = state.action_sum / state.action_runs
        better = state.best_mean is None or mean > state.best_mean
        target = self.tolerance if self.target is None else self.target
        return NaiveState(
            tried=(*state.tried, action),
            best=action if better else state.best,
            best_mean=mean if better else state.best_mean,
            n_runs=state.n_runs,
            finished=mean >= target - self.tolerance / 2 or len(state.tried) + 1 == self.space.n_assignments,
        )

    def _draw(self, state: NaiveState, rng: np.random.Generator) -> int:
        """A uniform draw among the assignments not tried, by the rank of the draw."""
        action = int(rng.integers(self.space.n_assignments - len(state.tried)))
        for known in sorted(state.tried):
            if known <= action:
                action += 1
        return action

    def _verdict(self, state: NaiveState) -> Verdict:
        return Verdict(
            algorithm=self.name,
            assignment=self.space.assignment(action_codes(self.space, np.array([state.best]))[0]),
            n_runs=state.n_runs,
            tolerance=self.tolerance,
            failure_prob=self.failure_prob,
            guarantee="proven for sub-Gaussian noise when the target is the best mean",
            runs_by_stage=(("naive search", state.n_runs),),
        )
