"""LinGapE, linear gap-based exploration (Xu, Honda and Sugiyama, AISTATS 2018, Algorithm 1)."""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from levers.algorithms.arms import action_codes
from levers.algorithms.base import CHUNK, Algorithm, Batch, Progress, Verdict
from levers.algorithms.linear_bandits.features import MAX_SINGLE_ARMS, arm_features, check_arms, inverted, spreads
from levers.core.codec import serialisable
from levers.core.model.level_index import Numbers, Places
from levers.core.validation import check_count, check_positive

BOUND_IN_TOLERANCES = 20.0
"""Default bound on mean outcomes, in tolerances."""
GROWTH = 0.02
"""Runs of a batch as a share of those made before, at most: so many may be made after the rule would have stopped."""
STAGE = "gap-based exploration"


@serialisable("LinGapEState")
@dataclass(frozen=True, eq=False)
class LinGapEState:
    """The regularised information matrix, the weighted outcomes, and the two arms to be told apart."""

    matrix: NDArray[np.float64]
    weighted: NDArray[np.float64]
    leader: int = 0
    rival: int = 0
    n_runs: int = 0
    finished: bool = False


def self_normalised_radius(matrix: Numbers, prior: float, n_arms: int, failure_prob: float, bias: float) -> float:
    """C_t = sqrt(2 log(|X|^2 det(A_t)^(1/2) det(lambda I)^(-1/2) / delta)) + lambda^(1/2) S, in units of the noise.

    (Xu et al. 2018, equation 6, from Abbasi-Yadkori et al. 2011.) `bias` is lambda^(1/2) S, and holds at all times.

    >>> round(self_normalised_radius(np.eye(2) * 100, prior=1.0, n_arms=4, failure_prob=0.1, bias=1.0), 3)
    5.4
    """
    _, log_det = np.linalg.slogdet(matrix)
    grown = (float(log_det) - len(matrix) * math.log(prior)) / 2
    return math.sqrt(2 * (2 * math.log(n_arms) + grown - math.log(failure_prob))) + bias


@dataclass(frozen=True)
class LinGapE(Algorithm):
    """LinGapE: find the assignment that could most be better than the leader, and run what tells the two apart best.

    i leads in the regularised fit; j maximises (x_j - x_i)^T theta + C_t ||x_j - x_i||_{A^-1}; if that is at most the
    tolerance, i is the answer; else the arm is run that makes ||x_i - x_j||_{A^-1} smallest (the paper's greedy rule).
    Where the paper is followed with a choice: the regulariser lambda = (sigma / S)^2 makes its own term 1, S being
    `mean_bound`, above which no mean outcome may lie (on either side of 0); the guarantee rests on it. The paper runs
    one arm at a time. Here a batch has up to `growth` times the runs before it, chosen one after another by the same
    rule for the same two arms, so at most that share of runs is made in vain. `growth=0` is the paper's.

    >>> from levers import Problem, Space
    >>> gape = LinGapE(Problem(Space.sized([2, 3]), tolerance=0.5, failure_prob=0.1, noise_sd=1.0))
    >>> gape.ask(gape.start(), np.random.default_rng(0)).n_runs
    6
    """

    mean_bound: float | None = None
    growth: float = GROWTH
    max_actions: int = MAX_SINGLE_ARMS
    name: ClassVar[str] = "lingape"

    def __post_init__(self) -> None:
        self.check_complete()
        check_count("max_actions", self.max_actions)
        check_arms(self.space.n_assignments, self.max_actions, self.name)
        if self.mean_bound is not None:
            check_positive("mean_bound", self.mean_bound)
        if self.growth != 0:
            check_positive("growth", self.growth)

    @cached_property
    def features(self) -> Numbers:
        """The features of all arms."""
        return arm_features(self.space.n_levels)

    @property
    def prior(self) -> float:
        """lambda: the regulariser, for outcomes in units of the noise.

        The effects' norm in these features is the root of the mean square of mean outcomes, so at most their bound.
        """
        return (self.noise_sd / (self.mean_bound or BOUND_IN_TOLERANCES * self.tolerance)) ** 2

    def start(self) -> LinGapEState:
        """Nothing but the regulariser."""
        dimension = self.features.shape[1]
        return LinGapEState(self.prior * np.eye(dimension), np.zeros(dimension))

    def ask(self, state: LinGapEState, rng: np.random.Generator) -> Batch | Verdict:
        """Every arm once; then the runs that tell the leader from its rival."""
        if state.finished:
            return self._verdict(state)
        n_arms = len(self.features)
        if state.n_runs < n_arms:
            arms: Places = np.arange(state.n_runs, min(n_arms, state.n_runs + CHUNK))
        else:
            n_runs = min(CHUNK, max(1, int(self.growth * state.n_runs)))
            arms = telling_runs(self.features, state.matrix, state.leader, state.rival, n_runs)
        return Batch(action_codes(self.space, arms), stage=STAGE, focus=state.n_runs)

    def tell(self, state: LinGapEState, batch: Batch, outcomes: ArrayLike) -> LinGapEState:
        """Add the outcomes, and find the next two arms, or stop."""
        y = self.accept(batch, outcomes) / self.noise_sd
        self.check_due(not state.finished and batch.stage == STAGE and batch.focus == state.n_runs)
        rows = self.features[np.ravel_multi_index(tuple(batch.codes.T.astype(np.int64)), self.space.n_levels)]
        state = replace(
            state,
            matrix=state.matrix + rows.T @ rows,
            weighted=state.weighted + rows.T @ y,
            n_runs=state.n_runs + batch.n_runs,
        )
        if state.n_runs < len(self.features):
            return state
        inverse = inverted(state.matrix)
        means = self.features @ (inverse @ state.weighted)
        lead = int(np.argmax(means))
        radius = self_normalised_radius(state.matrix, self.prior, len(means), self.failure_prob, bias=1.0)
        widths = radius * np.sqrt(np.maximum(spreads(self.features - self.features[lead], inverse), 0.0))
        ahead = means - means[lead] + widths
        ahead[lead] = -np.inf
        rival = int(np.argmax(ahead))
        return replace(state, leader=lead, rival=rival, finished=self.noise_sd * float(ahead[rival]) <= self.tolerance)

    def progress(self, state: LinGapEState) -> Progress:
        """The assignment that leads, once every arm was run."""
        lead = action_codes(self.space, np.array([state.leader]))[0]
        known = state.n_runs >= len(self.features)
        return Progress(tuple(lead.tolist()) if known else (), finished=state.finished)

    def _verdict(self, state: LinGapEState) -> Verdict:
        levels = action_codes(self.space, np.array([state.leader]))[0]
        guarantee = "proven for sub-Gaussian noise, an additive outcome, and mean outcomes within mean_bound"
        return self.verdict_on(levels, state.n_runs, guarantee, runs_by_stage=((STAGE, state.n_runs),))


def telling_runs(features: Numbers, matrix: Numbers, leader: int, rival: int, n_runs: int) -> Places:
    """Arms one after another, each the one that makes ||x_i - x_j||_{A^-1} smallest.

    Adding x lowers y^T A^-1 y by (x^T A^-1 y)^2 / (1 + x^T A^-1 x).

    >>> telling_runs(arm_features((2, 2)), np.eye(3), 0, 1, 2).tolist()
    [0, 1]
    """
    inverse, side = inverted(matrix), features[leader] - features[rival]
    to_side, own = features @ (inverse @ side), spreads(features, inverse)
    arms = np.empty(n_runs, dtype=np.int64)
    for run in range(n_runs):
        arm = int(np.argmax(to_side**2 / (1 + own)))
        arms[run] = arm
        step = inverse @ features[arm]
        scale = 1 / (1 + own[arm])
        inverse = inverse - scale * np.outer(step, step)
        to_arms = features @ step
        to_side = to_side - scale * to_side[arm] * to_arms
        own = own - scale * to_arms**2
    return arms
