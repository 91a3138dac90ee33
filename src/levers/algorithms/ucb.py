"""Upper confidence bounds over assignments: what causal bandits without a graph come down to when every factor is set.

De Kroon, Mooij and Belgrave (2022) and Bilodeau, Wang and Roy (2022) share information between actions through
variables that separate them from the outcome and that the action leaves open. Here an action sets all of them, so the
separating set is the set of all factors, and both become a bandit over the product of levels (the paper says so in its
Experiments section, and stands in successive elimination for them). They minimise regret by upper confidence bounds;
this is that rule with a stopping rule of its own.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from levers.algorithms.arms import MAX_ACTIONS, action_codes, check_actions
from levers.algorithms.base import CHUNK, Algorithm, Batch, Progress, Verdict
from levers.core.certificates.sample_size import successive_radius
from levers.core.codec import serialisable
from levers.core.model.level_index import Numbers
from levers.core.validation import check_positive

GROWTH = 0.05
"""Runs of a batch as a share of those that its arm had before."""
STAGE = "upper confidence bounds"


_radius = lru_cache(maxsize=100_000)(successive_radius)  # the same numbers of runs come up again and again


@serialisable("UcbState")
@dataclass(frozen=True, eq=False)
class UcbState:
    """Runs and sums of every assignment, and the one with the largest upper bound."""

    counts: NDArray[np.int64]
    sums: NDArray[np.float64]
    n_runs: int = 0
    leader: int = 0
    finished: bool = False


@dataclass(frozen=True)
class Ucb(Algorithm):
    """UCB: run the assignment with the largest upper bound, until that bound is within the tolerance of its lower one.

    The bounds are mean +- alpha_t of successive elimination, which hold for all arms and all times at once. The largest
    upper bound is at least the best mean, so when its arm's interval is no wider than the tolerance that arm is good
    enough. One arm at a time would be the textbook's; here a batch has up to `growth` times the runs that its arm had
    before, so at most that share of runs is made in vain. `growth=0` is the textbook's.

    >>> from levers import Problem, Space
    >>> ucb = Ucb(Problem(Space.sized([2, 3]), tolerance=0.5, failure_prob=0.1, noise_sd=1.0))
    >>> ucb.ask(ucb.start(), np.random.default_rng(0)).n_runs
    6
    """

    growth: float = GROWTH
    max_actions: int = MAX_ACTIONS
    name: ClassVar[str] = "ucb"

    def __post_init__(self) -> None:
        self.check_complete()
        check_actions(self.space, self.max_actions, self.name)
        if self.growth != 0:
            check_positive("growth", self.growth)

    def start(self) -> UcbState:
        """Nothing run."""
        n_arms = self.space.n_assignments
        return UcbState(np.zeros(n_arms, dtype=np.int64), np.zeros(n_arms))

    def ask(self, state: UcbState, rng: np.random.Generator) -> Batch | Verdict:
        """Every assignment once; then the one with the largest upper bound."""
        if state.finished:
            return self._verdict(state)
        if state.n_runs < len(state.counts):
            arms = np.arange(state.n_runs, min(len(state.counts), state.n_runs + CHUNK))
        else:
            arms = np.full(min(CHUNK, max(1, int(self.growth * state.counts[state.leader]))), state.leader)
        return Batch(action_codes(self.space, arms), stage=STAGE, focus=state.n_runs)

    def tell(self, state: UcbState, batch: Batch, outcomes: ArrayLike) -> UcbState:
        """Add the outcomes, and see whether the largest upper bound is close enough."""
        y = self.accept(batch, outcomes)
        self.check_due(not state.finished and batch.stage == STAGE and batch.focus == state.n_runs)
        arms = np.ravel_multi_index(tuple(batch.codes.T.astype(np.int64)), self.space.n_levels)
        n_arms = len(state.counts)
        state = replace(
            state,
            counts=state.counts + np.bincount(arms, minlength=n_arms),
            sums=state.sums + np.bincount(arms, weights=y, minlength=n_arms),
            n_runs=state.n_runs + batch.n_runs,
        )
        if state.n_runs < n_arms:
            return state
        arm = int(np.argmax(self._upper(state)))
        return replace(state, leader=arm, finished=2 * self._radius(int(state.counts[arm])) <= self.tolerance)

    def _radius(self, n_pulls: int) -> float:
        return _radius(self.space.n_assignments, n_pulls, self.failure_prob, self.noise_sd)

    def _upper(self, state: UcbState) -> Numbers:
        pulls, places = np.unique(state.counts, return_inverse=True)
        radii = np.array([self._radius(int(n)) for n in pulls])
        upper: Numbers = state.sums / state.counts + radii[places]
        return upper

    def progress(self, state: UcbState) -> Progress:
        """The assignment with the best mean so far, once every one was run."""
        if state.n_runs < len(state.counts):
            return Progress()
        best = state.leader if state.finished else int(np.argmax(state.sums / state.counts))
        leaders = action_codes(self.space, np.array([best]))[0]
        return Progress(tuple(leaders.tolist()), finished=state.finished)

    def _verdict(self, state: UcbState) -> Verdict:
        levels = action_codes(self.space, np.array([state.leader]))[0]
        guarantee = "proven for sub-Gaussian noise, without the additive assumption"
        return self.verdict_on(levels, state.n_runs, guarantee, runs_by_stage=((STAGE, state.n_runs),))
