"""Certified factorial selection (CFS), the default: screen at any time, then select once on fresh runs.

Every run informs every factor. Screening drops levels on evidence that stays valid however often it is looked at. When
more screening would cost more than it saves, one fresh balanced design over the surviving levels settles the rest, and
its size is such that the SUM of what all factors lose exceeds the tolerance with at most the failure probability. The
argument is in docs/theory.
"""

import math
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from levers.algorithms.base import CHUNK, Batch, BlockRecord, Verdict, add_runs
from levers.algorithms.cfs_decisions import CfsDecisions
from levers.algorithms.cfs_look import after_look
from levers.algorithms.cfs_settings import RHO_SHARE
from levers.algorithms.cfs_state import LOOK, RULES, SCREENING, SELECTION, CfsState
from levers.algorithms.cfs_verdict import loss_intervals, selection_guarantee
from levers.core.blocks import BlockEstimate, estimate_block, independent_effects
from levers.core.certificate import certified_levels, scale_needed
from levers.core.design import Design
from levers.core.layout import all_levels
from levers.core.lengths import certified_design, largest_design
from levers.core.moments import LevelSums
from levers.core.screening import (
    Evidence,
    anytime_noise_bound,
    noise_upper_bound,
)
from levers.core.searching import Effort
from levers.errors import OutcomeMismatchError, StateMismatchError


@dataclass(frozen=True)
class Cfs(CfsDecisions):
    """Screen levels at any time, then select among the rest on fresh runs with a certificate for the sum of losses.

    `max_parents` and `min_effect` are what the user knows, and save most of the runs when true. With `budget` instead
    of a tolerance, all runs are spent and the smallest tolerance is certified. `noise="subgaussian"` holds for any
    noise with that sub-Gaussian parameter. `batch_size` is the most runs asked for at a time.

    >>> from levers.algorithms.base import Problem
    >>> from levers.core.space import Space
    >>> cfs = Cfs(Problem(Space.sized([3, 3]), tolerance=0.5, failure_prob=0.1, noise_sd=1.0), batch_size=8)
    >>> cfs.ask(cfs.start(), np.random.default_rng(0)).n_runs
    8
    """

    def start(self) -> CfsState:
        """All levels in play, no runs."""
        n_levels = self.space.n_levels
        first = self.first_screening()
        look, noise_sd = None, self.problem.noise_sd
        if self.looks and noise_sd is not None:
            levels = certified_levels(n_levels, self.max_parents)
            look = self.paying_look(tuple((m, True) for m in n_levels), levels, noise_sd)
        return CfsState(
            stage=LOOK if look is not None else SELECTION if first is None else SCREENING,
            target=look.n_runs if look is not None else float(first or self.budget or 0),
            active=all_levels(n_levels),
            leaders=(0,) * len(n_levels),
            evidence=Evidence.none(len(n_levels), max(n_levels)),
            sums=LevelSums.empty(n_levels),
            noise_sd=noise_sd,
            look=look,
            rules=RULES,
        )

    def design(self, state: CfsState, seed: int) -> Design:
        """The design of the current block, from its seed: always the same one."""
        sizes = state.open_sizes
        if state.stage == SCREENING or self.budget is not None:
            screening: Effort = "quick" if state.blocks else "thorough"
            effort = screening if state.stage == SCREENING else "usual"
            return largest_design(sizes, int(state.target), seed, effort)
        if state.stage == LOOK:
            assert state.look is not None  # set when the look was planned
            coupling = state.look.coupling
            return certified_design(sizes, state.target, seed, single=True, most_coupling=coupling, effort="thorough")
        return certified_design(sizes, state.target, seed, self.single(state))

    def ask(self, state: CfsState, rng: np.random.Generator) -> Batch | Verdict:
        """The next runs of the block under way, or the verdict."""
        if state.finished:
            return self.verdict(state)
        return self.batch(state, int(rng.integers(2**62)) if state.seed is None else state.seed)

    def batch(self, state: CfsState, seed: int) -> Batch:
        """The next runs of the block whose design has this seed."""
        codes = state.rows(self.design(state, seed), self.batch_size or CHUNK)
        return Batch(codes, state.stage, focus=seed)

    def tell(self, state: CfsState, batch: Batch, outcomes: ArrayLike) -> CfsState:
        """Add runs to the block; when it is complete, decide."""
        y = self.accept(batch, outcomes)
        return self._take(state, batch, y, self._due_design(state, batch))

    def tell_block(self, state: CfsState, batch: Batch, outcomes: ArrayLike) -> CfsState:
        """Like `tell`, for a whole block whose rows were kept when it was designed.

        The rows that were kept are the design, whatever this version would make of the block's seed: a library that
        shuffles differently must not end a study.
        """
        y = self.accept(batch, outcomes)
        self.check_due(not state.finished and state.seed is None and batch.stage == state.stage)
        try:
            design = self._due_design(state, batch)
        except OutcomeMismatchError:
            design = state.design_of(batch.codes)
        return self._take(state, batch, y, design)

    def _take(self, state: CfsState, batch: Batch, y: NDArray[np.float64], design: Design) -> CfsState:
        assert batch.focus is not None  # part of every batch that is due
        state = replace(
            state,
            seed=batch.focus,
            digest=design.digest,
            sums=state.sums.add(batch.codes, y),
            n_runs=state.n_runs + batch.n_runs,
        )
        return state if state.sums.n_runs < design.n_runs else self._end_block(state, design, batch.focus)

    def _due_design(self, state: CfsState, batch: Batch) -> Design:
        """The design that this batch continues; anything but the runs that are due is refused."""
        self.check_due(not state.finished and state.seed in (None, batch.focus))
        if batch.focus is None:
            raise OutcomeMismatchError("a batch of cfs carries its block's seed; tell the one that ask returned")
        design = self.design(state, batch.focus)
        if state.digest not in (None, design.digest):
            raise StateMismatchError("the design cannot be made again as it was: another version began the block")
        due = state.rows(design, batch.n_runs)
        same = due is batch.codes or np.array_equal(due, batch.codes)
        self.check_due(batch.stage == state.stage and same)
        return design

    def _end_block(self, state: CfsState, design: Design, seed: int) -> CfsState:
        estimate = estimate_block(design, state.block_sums(design))
        if state.stage == LOOK and not self._carries_look(state, design):
            state = replace(state, stage=SCREENING)  # rows of some other origin are evidence, but no look
        block = BlockRecord(state.stage, design.n_runs, seed, design.kind, design.inflation, design.digest)
        evidence = state.evidence.add(*state.pairs(estimate))
        state = replace(
            state,
            evidence=evidence,
            rho=state.rho or RHO_SHARE * float(np.median(evidence.information[evidence.information > 0])),
            residual_square=state.residual_square + estimate.residual_square,
            residual_dof=state.residual_dof + estimate.residual_dof,
            blocks=(*state.blocks, block),
            sums=LevelSums.empty(self.space.n_levels),
            seed=None,
            digest=None,
        )
        if state.stage == SELECTION:
            return self._select(state, design, estimate, seed)
        screened, now = self.screen(self._bound_noise(state))
        if state.stage == LOOK:
            screened, now = self.screen(self._look(state, screened, design, estimate, seed))
        return self.decide(screened, now)

    def _carries_look(self, state: CfsState, design: Design) -> bool:
        """Whether a design is what the look was planned for."""
        assert state.look is not None  # set when the look was planned
        worth = design.n_runs / design.single_inflation
        return worth >= state.look.n_runs * (1 - 1e-9) and design.coupling <= state.look.coupling * (1 + 1e-9)

    def _look(self, before: CfsState, state: CfsState, design: Design, estimate: BlockEstimate, seed: int) -> CfsState:
        """Dismiss and drop by the look's rules. The noise is what it was taken for when the look was planned."""
        assert state.look is not None  # set when the look was planned
        assert before.noise_sd is not None  # see confidence
        effects = self._fair_effects(design, estimate, before.noise_sd, seed, single=True)
        root_n = math.sqrt(design.n_runs / design.single_inflation) / before.noise_sd
        varied = tuple(before.active[k] for k in before.open_factors)
        return after_look(state, state.look, before.open_factors, varied, effects, root_n, self.space.n_levels)

    def _fair_effects(
        self, design: Design, estimate: BlockEstimate, noise_sd: float, seed: int, single: bool
    ) -> tuple[NDArray[np.float64], ...]:
        """Estimates whose errors are independent over factors and alike over levels, as certificates need them."""
        if self.noise != "gaussian":
            return estimate.effects
        # a stream of its own, fixed by the block's seed, so that the verdict can be recomputed
        return independent_effects(design, estimate.effects, noise_sd, np.random.default_rng([seed, 1]), single)

    def _bound_noise(self, state: CfsState) -> CfsState:
        """When the noise is not known: an upper bound from the first block, and one that holds at any time."""
        if self.problem.noise_sd is not None:
            return state
        half, square, dof = self.shares().noise / 2, state.residual_square, state.residual_dof
        first = state.noise_sd is None
        bound = noise_upper_bound(square, dof, half) if first else anytime_noise_bound(square, dof, half)
        return replace(state, noise_sd=bound if state.noise_sd is None else min(bound, state.noise_sd))

    def _select(self, state: CfsState, design: Design, estimate: BlockEstimate, seed: int) -> CfsState:
        """The best level of each open factor on fresh runs, and the tolerance that this certifies."""
        assert state.noise_sd is not None  # see confidence
        effects = self._fair_effects(design, estimate, state.noise_sd, seed, self.single(state))
        leaders = list(state.leaders)
        for k, values in zip(state.open_factors, effects, strict=True):
            leaders[k] = state.active[k][int(np.argmax(values))]
        risk, reach = self.selection_risk(state)
        scale = scale_needed(state.at_stake(self.max_parents), risk, self.bound, reach)
        reached = scale * state.noise_sd * math.sqrt(design.charge(self.single(state)) / design.n_runs)
        if reach:
            reached = max(reached, self.tolerance)  # what the look lost was counted for no less than this
        if state.upper_loss is not None and reached >= self.screened(state):
            # known from the design alone, before any outcome: the screening's certificate is the better one
            return replace(state, certified=self.screened(state), finished=True)
        return replace(state, leaders=tuple(leaders), certified=reached, finished=True, selected=True)

    def interim(self, state: CfsState) -> Verdict | None:
        """What could be certified if the study ended now, from the screening evidence alone; None before a block.

        >>> from levers.algorithms.base import Problem
        >>> from levers.core.space import Space
        >>> cfs = Cfs(Problem(Space.sized([3, 3]), 0.5, 0.1, 1.0))
        >>> cfs.interim(cfs.start()) is None
        True
        """
        if state.upper_loss is None:
            return None
        return self.verdict(replace(state, certified=self.screened(state)) if not state.finished else state)

    def verdict(self, state: CfsState) -> Verdict:
        """The verdict of a finished study."""
        assert state.certified is not None  # set by whatever finished the study
        assert state.noise_sd is not None  # see confidence
        bounded = state.selected or state.looked  # by more than what holds at any time
        effect = self.min_effect if state.looked or self.shares(state).dismissal else None  # if it was relied on
        estimates, intervals = loss_intervals(
            state.evidence,
            state.leaders,
            self.space.n_levels,
            state.noise_sd,
            self.failure_prob - self.shares(state).noise,
            state.rho,
        )
        sure = {k for k, row in enumerate(intervals) if any(pair and (pair[0] > 0 or pair[1] < 0) for pair in row)}
        # without max_parents a dropped level is only sure not to be better, not to be worse
        named = set(state.parents) if self.max_parents is not None else set()
        stages: tuple[tuple[str, int], ...] = ()
        for block in state.blocks:
            stages = add_runs(stages, block.stage, block.n_runs)
        known = self.problem.noise_sd is not None
        return Verdict(
            algorithm=self.name,
            assignment=self.space.assignment(state.leaders),
            n_runs=sum(block.n_runs for block in state.blocks) - state.n_past,
            tolerance=state.certified,
            failure_prob=self.failure_prob,
            guarantee=selection_guarantee(bounded, self.bound, known, self.max_parents, effect),
            parents=tuple(self.space.names[k] for k in sorted(sure | named)),
            effects=estimates,
            eliminations=state.eliminations,
            runs_by_stage=stages,
            intervals=intervals,
            certificate=self.bound if bounded else "anytime",
            noise=f"known, sd {state.noise_sd:g}" if known else f"estimated, sd at most {state.noise_sd:.4g}",
            problem=self.problem,
            options=tuple((f.name, getattr(self, f.name)) for f in fields(self) if f.init and f.name != "problem"),
            blocks=state.blocks,
            rules=state.rules,
        )
