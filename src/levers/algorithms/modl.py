"""MODL, marginal optimal design linear bandit (Algorithm 1 of Malek, Aglietti and Chiappa 2023)."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from levers.algorithms.base import CHUNK, Algorithm, Batch, Outlook, Progress, Verdict, add_runs
from levers.core.certificates.sample_size import SCHEDULES, Schedule, make_schedule, phase_runs
from levers.core.codec import serialisable
from levers.core.designs.random import balanced_rows, block_length, repeated_block
from levers.core.model.elimination import Elimination, Gaps, count_single, eliminate, empirical_gaps, lemma_variance
from levers.core.model.fit import Fit
from levers.core.model.level_index import ActiveLevels, all_levels
from levers.core.model.moments import Moments
from levers.core.validation import check_positive

BOUND_IN_TOLERANCES = 10.0
"""Default outcome_bound in tolerances: the paper's ratio (B = 5, eps = 0.5). Too small a bound only skips phases."""


@serialisable("ModlPhase")
@dataclass(frozen=True, slots=True)
class ModlPhase:
    """One phase that is over: its width gamma, its runs, the levels S it began with, and what it found.

    `leaders` is the best assignment of the phase, `behind[k][i]` the estimate of how far the i-th level of S_k is
    behind its factor's best (None when too little was known), and `dropped` the levels (factor, level) ruled out.
    """

    width: float
    n_runs: int
    active: ActiveLevels
    leaders: tuple[int, ...]
    behind: tuple[tuple[float | None, ...], ...]
    dropped: tuple[tuple[int, int], ...] = ()


@serialisable("ModlState")
@dataclass(frozen=True, eq=False)
class ModlState:
    """Where MODL stands: the phase, the surviving levels, the moments of this phase's runs and its block's seed."""

    phase: int
    active: ActiveLevels
    moments: Moments
    seed: int | None
    leaders: tuple[int, ...]
    parents: tuple[int, ...] = ()
    losses: tuple[tuple[float | None, ...], ...] = ()
    eliminations: tuple[Elimination, ...] = ()
    n_runs: int = 0
    runs_by_stage: tuple[tuple[str, int], ...] = ()
    finished: bool = False
    history: tuple[ModlPhase, ...] = ()


@dataclass(frozen=True)
class Modl(Algorithm):
    """Estimate all effects at once in phases of shrinking width; drop levels whose gap reaches the width.

    A factor with an eliminated level is reported as a parent. The paper's rule asks for two levels that differ by more
    than 2 gamma, which implies an elimination, so the two agree (docs/decisions/0004).

    `max_parents` stops as soon as that many factors have one level left. The paper's theorem leaves out a union bound
    over pairs of actions, so the guarantee is measured here rather than asserted (docs/decisions/0003).

    >>> from levers import Problem, Space
    >>> modl = Modl(Problem(Space.sized([3, 3]), tolerance=0.5, failure_prob=0.1, noise_sd=1.0))
    >>> modl.ask(modl.start(), np.random.default_rng(0)).stage
    'phase 1'
    """

    schedule: str = SCHEDULES[0]
    max_parents: int | None = None
    outcome_bound: float | None = None
    name: ClassVar[str] = "modl"

    def __post_init__(self) -> None:
        self.check_complete()
        if self.outcome_bound is not None:
            check_positive("outcome_bound", self.outcome_bound)
        self.check_max_parents(self.max_parents)
        self.widths  # noqa: B018  an unknown schedule is refused here

    @property
    def widths(self) -> Schedule:
        """The widths of the phases."""
        tolerance = self.tolerance
        bound = self.outcome_bound or BOUND_IN_TOLERANCES * tolerance
        return make_schedule(self.schedule, self.space.n_factors, tolerance, bound)

    def runs_in_phase(self, state: ModlState) -> int:
        """Runs that the current phase needs."""
        plan = self.widths
        n_active = sum(len(levels) for levels in state.active)
        return phase_runs(n_active, plan.widths[state.phase], self.failure_prob, self.noise_sd, plan.n_phases)

    @property
    def most_runs(self) -> int:
        """Runs used when no level is ever eliminated."""
        plan, n_active = self.widths, sum(self.space.n_levels)
        return sum(phase_runs(n_active, w, self.failure_prob, self.noise_sd, plan.n_phases) for w in plan.widths)

    def start(self) -> ModlState:
        """All levels in play, no runs."""
        n_levels = self.space.n_levels
        unknown: tuple[tuple[float | None, ...], ...] = tuple((None,) * m for m in n_levels)
        return ModlState(0, all_levels(n_levels), Moments.empty(n_levels), None, (0,) * len(n_levels), losses=unknown)

    def ask(self, state: ModlState, rng: np.random.Generator) -> Batch | Verdict:
        """The next piece of the phase's balanced design, or the verdict. A long phase repeats one block."""
        if state.finished:
            return self._verdict(state)
        stage = f"phase {state.phase + 1}"
        block = block_length(state.active, CHUNK)
        left = self.runs_in_phase(state) - state.moments.n_runs
        if left < block:
            return Batch(balanced_rows(state.active, left, rng), stage, focus=state.seed)
        seed = int(rng.integers(2**62)) if state.seed is None else state.seed
        return Batch(repeated_block(state.active, block, seed), stage, focus=seed)

    def tell(self, state: ModlState, batch: Batch, outcomes: ArrayLike) -> ModlState:
        """Add the runs to the phase; when it is complete, eliminate."""
        y = self.accept(batch, outcomes)
        left = self.runs_in_phase(state) - state.moments.n_runs
        self.check_due(not state.finished and batch.stage == f"phase {state.phase + 1}" and batch.n_runs <= left)
        moments, n_runs = state.moments.add(batch.codes, y), state.n_runs + batch.n_runs
        stages = add_runs(state.runs_by_stage, batch.stage, batch.n_runs)
        state = replace(state, moments=moments, seed=batch.focus, n_runs=n_runs, runs_by_stage=stages)
        return state if state.moments.n_runs < self.runs_in_phase(state) else self._end_phase(state)

    def phase(self, state: ModlState, rng: np.random.Generator) -> tuple[Batch, int, Batch]:
        """All runs of the current phase at once: a block, how often it is repeated, and what is left over.

        The runs that `ask` would ask for piece by piece, for whoever can answer with sums instead of outcomes.
        """
        stage = f"phase {state.phase + 1}"
        block, n_runs = block_length(state.active, CHUNK), self.runs_in_phase(state)
        seed = int(rng.integers(2**62))
        copies, rest = divmod(n_runs, block)
        rows = repeated_block(state.active, block, seed) if copies else np.zeros((0, len(state.active)), dtype=np.int16)
        return Batch(rows, stage, seed), copies, Batch(balanced_rows(state.active, rest, rng), stage, seed)

    def tell_phase(self, state: ModlState, moments: Moments) -> ModlState:
        """The state after all runs of the current phase, given by their sums."""
        n_runs = self.runs_in_phase(state)
        self.check_due(not state.finished and state.moments.n_runs == 0 and moments.n_runs == n_runs)
        stages = add_runs(state.runs_by_stage, f"phase {state.phase + 1}", n_runs)
        return self._end_phase(replace(state, moments=moments, n_runs=state.n_runs + n_runs, runs_by_stage=stages))

    def history(self, state: ModlState) -> tuple[ModlPhase, ...]:
        """Every phase that is over: S, gamma, estimates and the best assignment of each. `to_json` writes them.

        >>> from levers import Batch, Problem, Space
        >>> modl, rng = Modl(Problem(Space.sized([2, 3]), 0.5, 0.1, 1.0)), np.random.default_rng(0)
        >>> state = modl.start()
        >>> while isinstance(step := modl.ask(state, rng), Batch):
        ...     state = modl.tell(state, step, 2.0 * step.codes[:, 1] + rng.normal(size=step.n_runs))
        >>> [(phase.width, phase.n_runs, phase.leaders[1]) for phase in modl.history(state)][1:3]
        [(4.0, 5, 2), (2.0, 16, 2)]
        """
        return state.history

    def outlook(self, state: ModlState, n_asked: int) -> Outlook:
        """At most what is left when nothing more is eliminated."""
        return Outlook(None, max(self.most_runs - state.n_runs - n_asked, 0))

    def progress(self, state: ModlState) -> Progress:
        """Leaders, from the first phase's end on, and eliminations."""
        known = state.phase > 0 or state.finished
        return Progress(state.leaders if known else (), state.eliminations, finished=state.finished)

    def _end_phase(self, state: ModlState) -> ModlState:
        width = self.widths.widths[state.phase]
        gaps = empirical_gaps(Fit(state.moments), state.active, lemma_variance(state.active, state.moments.n_runs))
        active, dropped = eliminate(gaps, state.active, width, state.n_runs)
        gone = tuple((e.factor, e.level) for e in dropped)
        phase = ModlPhase(width, state.moments.n_runs, state.active, gaps.leaders, gaps.behind, gone)
        enough = self.space.n_factors if self.max_parents is None else self.max_parents
        finished = count_single(active) >= enough or state.phase + 1 == len(self.widths.widths)
        return replace(
            state,
            phase=state.phase if finished else state.phase + 1,
            active=active,
            moments=Moments.empty(self.space.n_levels),
            seed=None,
            leaders=gaps.leaders,
            parents=tuple(sorted({*state.parents, *(e.factor for e in dropped)})),
            losses=_updated_losses(gaps, state),
            eliminations=state.eliminations + dropped,
            finished=finished,
            history=(*state.history, phase),
        )

    def _verdict(self, state: ModlState) -> Verdict:
        return self.verdict_on(
            state.leaders,
            state.n_runs,
            f"the paper's theorem with the {self.schedule} schedule; its proof has gaps, see docs/decisions",
            parents=tuple(self.space.names[k] for k in state.parents),
            effects=state.losses,
            eliminations=state.eliminations,
            runs_by_stage=state.runs_by_stage,
        )


def _updated_losses(gaps: Gaps, state: ModlState) -> tuple[tuple[float | None, ...], ...]:
    """Latest estimate of what each level loses to the best; eliminated levels keep the one they left with."""
    losses = [list(row) for row in state.losses]
    for factor, (levels, behind) in enumerate(zip(state.active, gaps.behind, strict=True)):
        for level, gap in zip(levels, behind, strict=True):
            losses[factor][level] = losses[factor][level] if gap is None else gap
    return tuple(tuple(row) for row in losses)
