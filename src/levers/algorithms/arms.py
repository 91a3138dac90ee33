"""Methods that treat every assignment as an arm of its own: successive elimination, and the naive search."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from levers.algorithms.base import CHUNK, Algorithm, Batch, Progress, Verdict
from levers.core.certificates.sample_size import needle_test_runs, successive_radius
from levers.core.codec import serialisable
from levers.core.space import Codes, Space
from levers.core.validation import check_count
from levers.errors import TooManyActionsError

MAX_ACTIONS = 100_000
"""The most assignments that are held as separate actions."""


def check_actions(space: Space, max_actions: int, method: str) -> None:
    """Refuse more assignments than can be held, and say what to do."""
    check_count("max_actions", max_actions)
    if space.n_assignments > max_actions:
        raise TooManyActionsError(
            f"{method} keeps a record for each of the {space.n_assignments:,} assignments and holds at most "
            f"{max_actions:,}; use modl, which works on levels, or fewer factors, or raise max_actions"
        )


def action_codes(space: Space, actions: NDArray[np.int64]) -> Codes:
    """The level positions of numbered assignments.

    >>> action_codes(Space.sized([2, 3]), np.array([0, 1, 5])).tolist()
    [[0, 0], [0, 1], [1, 2]]
    """
    return np.stack(np.unravel_index(actions, space.n_levels), axis=1).astype(np.int16)


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
class SuccessiveElimination(Algorithm):
    """Run every surviving assignment once a round; drop those whose interval lies below the leader's.

    Stops when one is left, or when the intervals are so narrow that the leader is within the tolerance.

    >>> from levers.algorithms.base import Problem
    >>> se = SuccessiveElimination(Problem(Space.sized([2, 3]), 0.5, 0.1, 1.0))
    >>> se.ask(se.start(), np.random.default_rng(0)).n_runs
    6
    """

    max_actions: int = MAX_ACTIONS
    name: ClassVar[str] = "successive-elimination"

    def __post_init__(self) -> None:
        self.check_complete()
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

    def progress(self, state: SuccessiveState) -> Progress:
        """Whether it is the end: single levels neither lead nor go."""
        return Progress(finished=state.finished)

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
            state, alive=state.alive[keep], sums=state.sums[keep], n_rounds=n_rounds, done=0, finished=finished
        )

    def _verdict(self, state: SuccessiveState) -> Verdict:
        best = state.alive[int(np.argmax(state.sums))]
        levels = action_codes(self.space, np.array([best]))[0]
        guarantee = "proven for sub-Gaussian noise, without the additive assumption"
        return self.verdict_on(
            levels, state.n_runs, guarantee, runs_by_stage=(("successive elimination", state.n_runs),)
        )


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
class NaiveSearch(Algorithm):
    """Draw assignments at random without replacement, test each, stop at the first that reaches the target.

    `target` is the outcome worth stopping for, known in advance: the test accepts means above target - eps/2. Its
    default is the tolerance, as in the hard instance, whose mean is 0 everywhere but eps at one setting of the parents.

    >>> from levers.algorithms.base import Problem
    >>> naive = NaiveSearch(Problem(Space.sized([2, 2, 2]), 1.0, 0.1, 1.0))
    >>> naive.ask(naive.start(), np.random.default_rng(0)).n_runs
    36
    """

    target: float | None = None
    max_actions: int = MAX_ACTIONS
    name: ClassVar[str] = "naive-search"

    def __post_init__(self) -> None:
        self.check_complete()
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

    def progress(self, state: NaiveState) -> Progress:
        """Whether it is the end: single levels neither lead nor go."""
        return Progress(finished=state.finished)

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
        levels = action_codes(self.space, np.array([state.best]))[0]
        guarantee = "proven for sub-Gaussian noise when the target is the best mean"
        return self.verdict_on(levels, state.n_runs, guarantee, runs_by_stage=(("naive search", state.n_runs),))
