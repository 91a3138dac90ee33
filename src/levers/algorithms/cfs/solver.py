"""Certified factorial selection (CFS), the default: screen at any time, then select once on fresh runs.

Every run informs every factor. Screening drops levels on evidence that stays valid however often it is looked at. When
more screening would cost more than it saves, one fresh balanced design over the surviving levels settles the rest, and
its size is such that the SUM of what all factors lose exceeds the tolerance with at most the failure probability. The
argument is in docs/theory.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from levers.algorithms.base import CHUNK, Batch, BlockRecord, Verdict, add_runs
from levers.algorithms.cfs.settings import RHO_SHARE, CfsSettings, Prospect, next_block
from levers.algorithms.cfs.state import LOOK, RULES, SCREENING, SELECTION, CfsState
from levers.core.certificates.certificate import certified_levels, scale_needed
from levers.core.certificates.look import Look
from levers.core.designs.build import certified_design, largest_design
from levers.core.designs.design import Design
from levers.core.designs.estimate import BlockEstimate, estimate_block, independent_effects
from levers.core.designs.search import Effort
from levers.core.model.elimination import Elimination
from levers.core.model.evidence import (
    Evidence,
    Standing,
    anytime_noise_bound,
    anytime_radius,
    assess,
    level_mask,
    noise_upper_bound,
)
from levers.core.model.level_index import all_levels
from levers.core.model.moments import LevelSums
from levers.errors import OutcomeMismatchError, StateMismatchError


def look_factors(state: CfsState, n_levels: tuple[int, ...]) -> tuple[tuple[int, bool], ...]:
    """The factors that a look varies: how many levels are in play, and whether those are all."""
    return tuple((len(state.active[k]), len(state.active[k]) == n_levels[k]) for k in state.open_factors)


def after_look(
    state: CfsState,
    look: Look,
    factors: tuple[int, ...],
    levels: tuple[tuple[int, ...], ...],
    effects: tuple[NDArray[np.float64], ...],
    root_n: float,
    n_levels: tuple[int, ...],
) -> CfsState:
    """The state with the look's dismissals and drops, on top of what screening has dropped.

    `factors` and `levels` are what the look varied, `effects` its estimates, with independent errors of standard error
    sqrt(m) / `root_n`. A dismissed factor is closed at its leader.
    """
    active, leaders, closed = list(state.active), list(state.leaders), set(state.closed)
    dropped: list[Elimination] = []
    for k, varied, values in zip(factors, levels, effects, strict=True):
        error = math.sqrt(len(varied)) / root_n
        best = int(np.argmax(values))
        whole = len(varied) == n_levels[k]
        if whole and varied[best] in active[k] and look.dismisses(values, error):
            leaders[k] = varied[best]
            closed.add(k)
            continue
        mean = dict(zip(varied, values.tolist(), strict=True))
        first = max(mean[level] for level in active[k])  # of those in play: what is left must hold what beat the rest
        behind = {level: first - mean[level] for level in active[k]}
        kept = tuple(level for level in active[k] if behind[level] < look.apart * error)
        dropped += [Elimination(k, level, state.n_runs, behind[level]) for level in active[k] if level not in kept]
        active[k] = kept
    return replace(
        state,
        active=tuple(active),
        leaders=tuple(leaders),
        closed=tuple(sorted(closed)),
        eliminations=state.eliminations + tuple(dropped),
    )


Losses = tuple[tuple[float | None, ...], ...]
Intervals = tuple[tuple[tuple[float, float] | None, ...], ...]


def loss_intervals(
    evidence: Evidence,
    leaders: Sequence[int],
    n_levels: Sequence[int],
    noise_sd: float,
    failure_prob: float,
    rho: float | None,
) -> tuple[Losses, Intervals]:
    """What each level loses against the chosen one: estimates, and intervals that all hold at once.

    Both sides of every pair get failure_prob / sum_k M_k (M_k - 1), so any choice of leaders is covered, at any time.

    >>> pairs = np.array([[[0.0, 2.0], [-2.0, 0.0]]])
    >>> evidence = Evidence.none(1, 2).add(pairs, np.full((1, 2, 2), 0.01))
    >>> losses, intervals = loss_intervals(evidence, [0], [2], 1.0, 0.1, 10.0)
    >>> losses, [round(x, 2) for x in intervals[0][1]]
    (((0.0, 2.0),), [1.72, 2.28])
    """
    error = failure_prob / sum(m * (m - 1) for m in n_levels)
    radius = anytime_radius(evidence.information, noise_sd, error, rho or 1.0)
    row = np.arange(len(n_levels))
    known = (evidence.information[row, leaders] > 0).tolist()
    middle = evidence.estimates[row, leaders].tolist()
    half = radius[row, leaders].tolist()
    losses: list[tuple[float | None, ...]] = []
    intervals: list[tuple[tuple[float, float] | None, ...]] = []
    for k, (leader, m) in enumerate(zip(leaders, n_levels, strict=True)):
        known[k][leader], half[k][leader] = True, 0.0
        found = list(zip(known[k][:m], middle[k], half[k], strict=False))
        losses.append(tuple(x if sure else None for sure, x, _ in found))
        intervals.append(tuple((x - r, x + r) if sure else None for sure, x, r in found))
    return tuple(losses), tuple(intervals)


def selection_guarantee(
    selected: bool, bound: str, noise_known: bool, max_parents: int | None, min_effect: float | None
) -> str:
    """The guarantee in one sentence.

    >>> selection_guarantee(True, "proven", True, None, None)
    'proven for additive effects, Gaussian noise of known size'
    """
    noise = "sub-Gaussian noise" if bound == "subgaussian" else "Gaussian noise"
    size = "of known size" if noise_known else "of estimated size"
    facts = []
    if max_parents is not None:
        facts.append(f"at most {max_parents} factors that matter")
    if min_effect is not None:
        facts.append(f"effects of at least {min_effect:g} where they do")
    given = "".join(f", {fact}" for fact in facts)
    sure = "proven" if noise_known or not selected else "checked numerically"
    claim = f"{sure} for additive effects, {noise} {size}{given}"
    if selected and bound == "slippage":
        claim += "; for factors of three levels or more, equal gaps are taken as the worst case (checked numerically)"
    return claim


@dataclass(frozen=True)
class CfsDecisions(CfsSettings):
    """The decisions between blocks; each is a pure function of the settings and the state."""

    def standing(self, state: CfsState) -> Standing:
        """What the evidence says at this point, under what the user knows."""
        parents, closed = np.zeros((2, self.space.n_factors), dtype=bool)
        parents[list(state.parents)] = True
        closed[list(state.closed)] = True
        return assess(
            state.evidence.estimates,
            self.confidence(state).radii(state.evidence.information),
            level_mask(state.active, max(self.space.n_levels)),
            parents,
            closed,
            self.known(state),
        )

    def screen(self, state: CfsState) -> tuple[CfsState, Standing]:
        """Drop what the evidence rules out and write it into the ledger; and the standing, which is the same after."""
        now = self.standing(state)
        wrong = {k for k in state.closed if not now.active[k, state.leaders[k]]}
        if wrong:  # a closed factor whose level is ruled out matters after all: what is left of it is settled again
            state = replace(state, closed=tuple(k for k in state.closed if k not in wrong))
            now = self.standing(state)
        active = tuple(tuple(level for level, stays in enumerate(row) if stays) for row in now.active.tolist())
        dropped = tuple(
            Elimination(k, level, state.n_runs, float(state.evidence.estimates[k, now.leaders[k], level]))
            for k, levels in enumerate(state.active)
            for level in levels
            if level not in active[k]
        )
        screened = replace(
            state,
            active=active,
            leaders=tuple(
                # a closed factor keeps the level at which it was closed
                old if k in state.closed else int(new)
                for k, (old, new) in enumerate(zip(state.leaders, now.leaders, strict=True))
            ),
            parents=tuple(np.flatnonzero(now.parents).tolist()),
            closed=tuple(np.flatnonzero(~now.open).tolist()),
            upper_loss=now.upper_loss,
            eliminations=state.eliminations + dropped,
        )
        return screened, now

    def decide(self, state: CfsState, now: Standing) -> CfsState:
        """Stop, have the look, go on screening, or select; `now` is the state's standing."""
        assert state.upper_loss is not None  # screening has just set it
        assert state.noise_sd is not None  # see confidence
        enough = 0.0 if self.budget is not None else (1 - state.reach) * self.tolerance
        if state.upper_loss <= enough:
            return replace(state, finished=True, certified=self.screened(state))
        sizes = state.open_sizes
        if self.looks_in(state) and not state.looked and state.noise_sd > 0:
            at_stake = state.at_stake(self.max_parents)
            look = self.paying_look(look_factors(state, self.space.n_levels), at_stake, state.noise_sd)
            if look is not None:
                return replace(state, stage=LOOK, look=look, target=look.n_runs)
        following = next_block(sizes, state.n_runs)
        left = None if self.budget is None else self.budget - (state.n_runs - state.n_past)
        if left is not None and left < sum(m - 1 for m in sizes) + 2:
            return replace(state, finished=True, certified=state.upper_loss)
        prospect = self.prospect(state, now, following, left)
        if prospect.selection_pays(self.most_screening(state.noise_sd)):
            if left is not None:
                return replace(state, stage=SELECTION, target=float(left))
            risk, reach = self.selection_risk(state)
            scale = scale_needed(prospect.now.at_stake, risk, self.bound, reach)
            target = (scale * state.noise_sd / self.tolerance) ** 2
            # noise that turned out larger than any design can answer: the verdict then certifies what it reached
            target = min(target, self.most_cells / self.space.n_factors)
            return replace(state, stage=SELECTION, target=target)
        return replace(state, stage=SCREENING, target=float(following))

    def prospect(self, state: CfsState, now: Standing, following: int, left: int | None) -> Prospect:
        """What further screening could bring, the next block being of this size."""
        risk, reach = self.selection_risk(state)
        return Prospect(
            state.evidence,
            now,
            self.known(state),
            self.confidence(state),
            state.n_runs,
            following,
            risk,
            self.bound,
            self.problem.tolerance,
            left,
            reach,
        )

    def screened(self, state: CfsState) -> float:
        """The tolerance that the evidence certifies by itself: what the leaders may lose and what the look may have."""
        assert state.upper_loss is not None  # set by the first block
        return state.upper_loss + (state.reach * self.tolerance if state.reach else 0.0)

    def single(self, state: CfsState) -> bool:
        """Whether only one factor can lose anything, so that factors need not be independent of each other."""
        return self.max_parents is not None and len(state.at_stake(self.max_parents)) == 1


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
