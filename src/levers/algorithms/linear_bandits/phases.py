"""What phased methods share: runs of a phase are planned before its outcomes, arms are dropped at its end.

Because the runs of a phase do not depend on its outcomes, the least-squares estimate of a direction y between two arms
has a sub-Gaussian error of parameter sigma ||y||_{A^-1}, without any price for adaptivity.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from levers.algorithms.arms import action_codes
from levers.algorithms.base import CHUNK, Algorithm, Batch, Progress, Verdict
from levers.algorithms.linear_bandits.features import (
    MAX_ARMS,
    arm_features,
    check_arms,
    information,
    inverted,
    spreads,
)
from levers.core.codec import serialisable
from levers.core.model.level_index import Numbers, Places
from levers.core.validation import check_count


@serialisable("PhaseState")
@dataclass(frozen=True, eq=False)
class PhaseState:
    """The phase (from 1), the arms in play, the runs planned for each arm, and the sums of those made."""

    phase: int
    alive: NDArray[np.int64]
    planned: NDArray[np.int64]
    sums: NDArray[np.float64]
    uncertainty: float | None = None
    done: int = 0
    n_runs: int = 0
    leader: int = 0
    finished: bool = False


@dataclass(frozen=True)
class PhasedElimination(Algorithm):
    """Phases of planned runs over arms, with an elimination at the end of each.

    A method says how a phase is planned (`plan`), and how wide its intervals are (`log_term`).
    """

    stage: ClassVar[str]

    max_actions: int = MAX_ARMS

    def __post_init__(self) -> None:
        self.check_complete()
        check_count("max_actions", self.max_actions)
        check_arms(self.space.n_assignments, self.max_actions, self.name)

    @abstractmethod
    def plan(self, phase: int, alive: Places, uncertainty: float | None) -> tuple[Places, float | None]:
        """Runs for every arm in a phase, and what the next phase's plan has to know of this one."""

    @abstractmethod
    def log_term(self, phase: int) -> float:
        """The logarithm in the radius of a phase: an error beyond sigma ||y|| sqrt(2 log_term) has that probability."""

    @cached_property
    def features(self) -> Numbers:
        """The features of all arms."""
        return arm_features(self.space.n_levels)

    def start(self) -> PhaseState:
        """All arms in play, the first phase planned."""
        n_arms = self.space.n_assignments
        return self._planned(PhaseState(1, np.arange(n_arms), np.zeros(n_arms, np.int64), np.zeros(n_arms)))

    def _planned(self, state: PhaseState) -> PhaseState:
        planned, uncertainty = self.plan(state.phase, state.alive, state.uncertainty)
        return replace(state, planned=planned, sums=np.zeros(len(planned)), uncertainty=uncertainty, done=0)

    def ask(self, state: PhaseState, rng: np.random.Generator) -> Batch | Verdict:
        """The phase's next runs. They are planned without randomness."""
        if state.finished:
            return self._verdict(state)
        return Batch(action_codes(self.space, self._due(state, CHUNK)), stage=self.stage, focus=state.phase)

    def _due(self, state: PhaseState, most: int) -> Places:
        arms = np.repeat(np.arange(len(state.planned)), state.planned)
        return arms[state.done : state.done + most]

    def tell(self, state: PhaseState, batch: Batch, outcomes: ArrayLike) -> PhaseState:
        """Add the outcomes; at the end of the phase drop arms, stop, or plan the next one."""
        y = self.accept(batch, outcomes)
        arms = self._due(state, batch.n_runs)
        same = len(arms) == batch.n_runs and bool((action_codes(self.space, arms) == batch.codes).all())
        self.check_due(not state.finished and batch.focus == state.phase and same)
        sums = state.sums + np.bincount(arms, weights=y, minlength=len(state.sums))
        state = replace(state, sums=sums, done=state.done + batch.n_runs, n_runs=state.n_runs + batch.n_runs)
        return state if state.done < int(state.planned.sum()) else self._end_phase(state)

    def _end_phase(self, state: PhaseState) -> PhaseState:
        alive, leader, finished = self.survivors(state)
        ended = replace(state, alive=alive, leader=leader, finished=finished)
        return ended if finished else self._planned(replace(ended, phase=state.phase + 1))

    def survivors(self, state: PhaseState) -> tuple[Places, int, bool]:
        """The arms in play after a phase, the one that leads, and whether it is the answer.

        Drop x when some x' in play has (x' - x)^T theta > radius; stop when no arm can be better by the tolerance:
        max_x (x - x_hat)^T theta + radius(x - x_hat) <= eps, x_hat being the arm that leads.
        """
        inverse = inverted(information(self.features, state.planned))
        arms = self.features[state.alive]
        means = arms @ (inverse @ (self.features.T @ state.sums))
        scale = self.noise_sd * math.sqrt(2 * self.log_term(state.phase))
        lead = int(np.argmax(means))
        half = arms @ inverse
        own = np.einsum("ij,ij->i", half, arms)
        radii = scale * np.sqrt(np.maximum(own[:, None] + own[None, :] - 2 * half @ arms.T, 0.0))
        beaten = (means[None, :] - means[:, None] > radii).any(axis=1)
        behind = means - means[lead] + scale * np.sqrt(np.maximum(spreads(arms - arms[lead], inverse), 0.0))
        finished = int((~beaten).sum()) == 1 or float(behind.max()) <= self.tolerance * (1 + 1e-9)
        return state.alive[~beaten], int(state.alive[lead]), finished

    def progress(self, state: PhaseState) -> Progress:
        """The assignment that leads, from the first phase's end on."""
        lead = action_codes(self.space, np.array([state.leader]))[0]
        return Progress(tuple(lead.tolist()) if state.phase > 1 or state.finished else (), finished=state.finished)

    def _verdict(self, state: PhaseState) -> Verdict:
        levels = action_codes(self.space, np.array([state.leader]))[0]
        guarantee = "proven for sub-Gaussian noise and an additive outcome"
        return self.verdict_on(levels, state.n_runs, guarantee, runs_by_stage=((self.stage, state.n_runs),))
