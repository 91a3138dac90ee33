"""CFS on all runs: blocks extend one pooled fit, levels are dropped at any time, and the answer is the pooled leader.

After each block all runs so far are fitted together. Whether to stop, and how long the next block is, depends on the
outcomes only through which levels were dropped, and on the residuals where the noise is not known: then the pooled
estimates of the levels still in play are as good as fresh ones, and no run is wasted. The argument is in
docs/theory/pooled.md.
"""

import math
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from levers.algorithms.base import (
    CHUNK,
    LENGTH_CHOSEN,
    PAST,
    STOPPED_EARLY,
    Algorithm,
    Batch,
    BlockRecord,
    Outlook,
    Progress,
    Remark,
    Verdict,
    add_runs,
)
from levers.algorithms.cfs import decisions, settings
from levers.algorithms.cfs.allocation import leaders_of
from levers.algorithms.cfs.pooled_blocks import allocated_block, tied_block
from levers.algorithms.cfs.pooled_state import PooledState
from levers.algorithms.cfs.settings import AIMS, BEST, BLOCK, CERTIFY
from levers.algorithms.cfs.state import rows_digest
from levers.core.certificates.certificate import certified_levels, check_failure_prob, stakes_tolerance
from levers.core.certificates.sums import stakes_bound
from levers.core.designs.build import extending_design, largest_design
from levers.core.designs.design import Design
from levers.core.model.choices import Choices, Parts
from levers.core.model.elimination import Elimination
from levers.core.model.evidence import (
    Confidence,
    Evidence,
    Knowledge,
    Standing,
    anytime_noise_bound,
    assess,
    forecasts,
    level_mask,
    noise_upper_bound,
)
from levers.core.model.level_index import all_levels, offsets
from levers.core.model.moments import Moments
from levers.core.model.ordinary import Fitted
from levers.core.model.pooled import PooledSums
from levers.core.model.posterior import Posterior, posterior
from levers.core.space import Codes
from levers.core.validation import check_choice, check_count
from levers.errors import InvalidSettingError, OutcomeMismatchError, StateMismatchError

NEARLY_INDEPENDENT = Remark(
    "nearly independent",
    "levers are counted as independent, each with the precision that was measured for it (checked numerically)",
)
"""What a certificate on designs that are not exactly orthogonal rests on besides what is proven."""


CHOSEN_ROWS = Remark(
    "chosen rows", "later runs were chosen by earlier outcomes, which the certificate leaves out (checked numerically)"
)
"""What a certificate rests on when runs served the recommendation, and not the certificate."""
NO_NOISE_SEEN = Remark(
    "nothing certified", "every outcome was the same, so that nothing tells the noise, and nothing can be certified"
)
"""The same where one outcome came again and again, and the noise is not known."""


@dataclass(frozen=True)
class Pooled(Algorithm):
    """Drop levels at any time, stop when what is in play is certified, and choose the leaders of all runs.

    `parts` says what the levels of factors are made of that forbidden combinations tie together.

    >>> from levers import Problem, Space
    >>> pooled = Pooled(Problem(Space.sized([3, 3]), tolerance=0.5, failure_prob=0.1, noise_sd=1.0), batch_size=8)
    >>> pooled.ask(pooled.start(), np.random.default_rng(0)).n_runs
    8
    """

    name: ClassVar[str] = "cfs"
    absorbs_runs: ClassVar[bool] = True
    certifies_early: ClassVar[bool] = True
    compares_within_blocks: ClassVar[bool] = True
    finishes_early: ClassVar[bool] = True

    max_parents: int | None = None
    budget: int | None = None
    batch_size: int | None = None
    most_cells: int = settings.MOST_CELLS
    parts: Parts = ()
    aim: str = CERTIFY

    def __post_init__(self) -> None:
        self.check_max_parents(self.max_parents)
        check_choice("aim", self.aim, AIMS)
        if self.batch_size is not None:
            check_count("batch_size", self.batch_size)
        if (self.budget is None) == (self.problem.tolerance is None):
            raise InvalidSettingError("give either a tolerance or a budget of runs, and not both", field="budget")
        if self.budget is not None:
            check_count("budget", self.budget, 2)
        elif self.aim == BEST:
            raise InvalidSettingError("the aim 'best' spends a budget; give one, without a tolerance", field="aim")
        check_failure_prob(self.failure_prob)
        check_count("most_cells", self.most_cells)
        # of the longest study that may come up, as far as is known before the first run
        longest = float(self.budget or self._runs_at_once(self.problem.noise_sd or 0.0))
        if longest * self.space.n_factors > self.most_cells:
            raise InvalidSettingError(
                f"this may take {longest:.2g} runs, more than a design can hold; raise the tolerance", field="tolerance"
            )

    # What follows from the settings

    @cached_property
    def n_levels(self) -> tuple[int, ...]:
        """How many levels each factor has."""
        return self.problem.space.n_levels

    @cached_property
    def choices(self) -> Choices:
        """What is chosen among, and what it is made of."""
        return Choices(self.n_levels, self.parts)

    @cached_property
    def shares(self) -> decisions.Shares:
        """How the failure probability is shared out: dropping levels, bounding the noise they are dropped by, the rest.

        Where all runs are one design no level is dropped, and nothing is spent on it.
        """
        delta = self.failure_prob
        if self.aim == CERTIFY and self.budget is not None and self.first_block == self.budget:
            return decisions.Shares(0.0, 0.0, 0.0, (1 - settings.RESERVE) * delta)
        screening, reserve = settings.POOLED_SHARE * delta, settings.RESERVE * delta
        noise = settings.POOLED_NOISE_SHARE * delta if self.problem.noise_sd is None else 0.0
        return decisions.Shares(screening, 0.0, noise, delta - screening - noise - reserve)

    @cached_property
    def first_block(self) -> int:
        """Runs of the first block. With a budget of few runs per parameter it is all of them."""
        unknown = self.problem.noise_sd is None
        sizes = self.choices.sizes
        if self.budget is not None:
            if self.aim == BEST:
                return min(max(math.ceil(settings.FIRST_TO_BEST * self.choices.n_parameters), 2), self.budget)
            if self.budget < settings.RUNS_TO_ELIMINATE * self.choices.n_parameters:
                return self.budget
            wanted = settings.FIRST_SHARE_OF_BUDGET * self.budget
            return min(decisions.first_block(sizes, unknown, wanted), self.budget)
        noise_sd = self.problem.noise_sd or settings.USUAL_NOISE * self.tolerance
        wanted = settings.FIRST_SHARE * self._runs_at_once(noise_sd)
        if unknown:
            wanted = max(wanted, settings.TO_MEASURE * self.choices.n_parameters)
        return decisions.first_block(sizes, unknown, wanted)

    def _runs_at_once(self, noise_sd: float) -> float:
        """Runs of a single design that would settle everything at once, about."""
        levels = certified_levels(self.n_levels, self.max_parents)
        selection = (1 - settings.POOLED_SHARE) * self.failure_prob
        return (decisions.cheap_scale(levels, selection, "slippage") * noise_sd / self.tolerance) ** 2

    @cached_property
    def known(self) -> Knowledge:
        """What dropping levels may use of what the user knows."""
        return Knowledge(self.max_parents, None)

    def confidence(self, state: PooledState) -> Confidence:
        """What the radii are made of at this point of the study."""
        noise_bound = math.inf if state.noise_bound is None else state.noise_bound  # too few residuals to bound it
        assert state.rho is not None  # set by the first block
        every_pair = self.max_parents is not None and self.max_parents < self.space.n_factors
        error = decisions.pair_error(self.shares.screening or self.failure_prob, self.n_levels, every_pair)
        return Confidence(noise_bound, error, state.rho, 0.0, 0.0)

    # Asking and telling

    def start(self) -> PooledState:
        """All levels in play, no runs."""
        return PooledState(
            target=self.first_block,
            active=all_levels(self.n_levels),
            leaders=(0,) * len(self.n_levels),
            pooled=PooledSums.empty(self.choices.sizes),
            block=Moments.empty(self.choices.sizes),
            noise_bound=self.problem.noise_sd,
            noise_sd=self.problem.noise_sd,
        )

    def design(self, state: PooledState, seed: int) -> Design:
        """The design of the current block, from its seed: always the same one."""
        if self.aim == BEST and state.rho is not None:
            assert self.budget is not None  # what makes this the aim
            left = max(self.budget - (state.n_runs - state.n_past), state.target)
            return allocated_block(self.choices, state, self.problem.noise_sd, left, seed)
        if self.choices.is_tied:
            return tied_block(self.choices, state, seed)
        if state.blocks:
            return extending_design(state.open_sizes, state.target, seed, self.n_levels, state.open_factors)
        return largest_design(state.open_sizes, state.target, seed, "thorough")

    def ask(self, state: PooledState, rng: np.random.Generator) -> Batch | Verdict:
        """The next runs of the block under way, or the verdict."""
        if state.finished:
            return self.verdict(state)
        return self.batch(state, int(rng.integers(2**62)) if state.seed is None else state.seed)

    def batch(self, state: PooledState, seed: int) -> Batch:
        """The next runs of the block whose design has this seed."""
        codes = self._rows(state, self.design(state, seed), self.batch_size or CHUNK)
        return Batch(codes, BLOCK, focus=seed)

    def _rows(self, state: PooledState, design: Design, most: int) -> Codes:
        """The design's next rows as level positions of all factors; settled factors stay at their leading level."""
        due = design.rows[state.block.n_runs : state.block.n_runs + most]
        if design.sizes == self.n_levels:  # no level is out of play, or the rows are of all factors already
            return due
        in_play = np.array([level for k in state.open_factors for level in state.active[k]], dtype=np.int16)
        codes: Codes = np.tile(np.asarray(state.leaders, dtype=np.int16), (len(due), 1))
        codes[:, state.open_factors] = in_play.take(due + offsets(design.sizes)[:-1])
        return codes

    def tell(self, state: PooledState, batch: Batch, outcomes: ArrayLike) -> PooledState:
        """Add runs to the block; when it is complete, decide."""
        y = self.accept(batch, outcomes)
        self.check_due(not state.finished and state.seed in (None, batch.focus))
        if batch.focus is None:
            raise OutcomeMismatchError("a batch of cfs carries its block's seed; tell the one that ask returned")
        design = self.design(state, batch.focus)
        if state.digest not in (None, design.digest):
            raise StateMismatchError("the design cannot be made again as it was: another version began the block")
        due = self._rows(state, design, batch.n_runs)
        self.check_due(batch.stage == BLOCK and np.array_equal(due, batch.codes))
        block = state.block.add(self.choices.rows(batch.codes), y)
        state = replace(state, seed=batch.focus, digest=design.digest, block=block, steps=state.steps.add(y))
        if block.n_runs < design.n_runs:
            return state
        return self._end_block(state, BlockRecord(BLOCK, block.n_runs, batch.focus, design.kind, 0.0, design.digest))

    def tell_block(self, state: PooledState, batch: Batch, outcomes: ArrayLike) -> PooledState:
        """Like `tell`, for a whole block whose rows were kept when it was designed: they are the design.

        Whatever this version would make of the block's seed, a library that shuffles differently must not end a study.
        """
        y = self.accept(batch, outcomes)
        self.check_due(not state.finished and state.seed is None and batch.stage == BLOCK)
        for k, levels in enumerate(state.active if self.aim == CERTIFY else ()):
            allowed = levels if k in state.open_factors else (state.leaders[k],)
            if not np.isin(batch.codes[:, k], allowed).all():
                raise OutcomeMismatchError("these rows are not of the block that is due: they set levels not in play")
        design = self.design(state, batch.focus) if batch.focus is not None else None
        if design is not None and np.array_equal(self._rows(state, design, design.n_runs), batch.codes):
            kind, digest = design.kind, design.digest
        else:
            kind, digest = "as stored", rows_digest(batch.codes)
        block = state.block.add(self.choices.rows(batch.codes), y)
        state = replace(state, block=block, steps=state.steps.add(y))
        return self._end_block(state, BlockRecord(BLOCK, block.n_runs, batch.focus or 0, kind, 0.0, digest))

    def absorb(self, state: PooledState, codes: Codes, outcomes: ArrayLike, stage: str) -> PooledState:
        """Add runs that were not asked for, or asked for on a decision that has since been corrected; decide again.

        They are a block of their own in the pooled fit, as far as their rows determine a contrast.

        >>> from levers import Problem, Space
        >>> pooled = Pooled(Problem(Space.sized([2, 2]), 0.5, 0.1, 1.0))
        >>> rows = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
        >>> state = pooled.absorb(pooled.start(), rows, [0.0, 1.0, 5.0, 6.0], "past data")
        >>> float(pooled.evidence(state).estimates[0, 1, 0].round(6)), state.blocks[0].stage
        (5.0, 'past data')
        """
        rows = np.asarray(codes, dtype=np.int16)
        y = self.accept(Batch(rows, stage), outcomes)
        block = Moments.empty(self.choices.sizes).add(self.choices.rows(rows), y)
        steps = state.steps.add(y)
        record = BlockRecord(stage, len(y), 0, "as run", 0.0, rows_digest(rows))
        state = replace(
            state,
            pooled=state.pooled.add(block, steps),
            steps=steps,
            blocks=(*state.blocks, record),
            charged=state.charged or state.stopped,
        )
        if state.rho is None and stage == PAST:  # what is tuned to the first block waits for it
            return state
        return self._decide(self._reopened(self._tuned(state)))

    def finish(self, state: PooledState, codes: Codes, outcomes: ArrayLike) -> PooledState:
        """The end, whenever one likes: the told runs of the block under way are added, and nothing more is planned.

        When to stop may depend on all that was seen, so what is certified is charged for that   (theory/pooled.md,
        section 5). Where the runs do not determine every difference, the leaders are those of the shrunken fit.

        >>> from levers import Problem, Space
        >>> pooled = Pooled(Problem(Space.sized([2, 2]), tolerance=0.5, failure_prob=0.1, noise_sd=1.0))
        >>> rows = np.array([[0, 0], [0, 1], [1, 0]])
        >>> state = pooled.finish(pooled.start(), rows, [0.0, 1.0, 5.0])
        >>> verdict = pooled.ask(state, np.random.default_rng(0))
        >>> verdict.assignment.codes, verdict.provisos[-1].kind
        ((1, 1), 'stopped early')
        """
        if state.finished:
            return state
        rows = np.asarray(codes, dtype=np.int16).reshape(-1, self.space.n_factors)
        state = self._with_part(state, rows, self.accept(Batch(rows, BLOCK), outcomes))
        state = replace(state, stopped=True, charged=True)
        if state.n_runs == 0:
            return replace(state, finished=True)
        state, evidence, _ = self._assessed(self._tuned(state))
        ended = self._ended(state, evidence)
        if ended.certified is None:
            ended = replace(ended, leaders=leaders_of(self.choices, self.posterior(ended)))
        return ended

    def extend(self, state: PooledState, n_runs: int | None) -> PooledState:
        """Go on after the end: with a block of so many runs, after which it ends again; None goes on by the rules.

        Levels in play are varied, all of them where none is left in play. That the study went on may depend on what
        was seen, so from here on it is charged for looks.

        >>> from levers import Problem, Space
        >>> pooled = Pooled(Problem(Space.sized([2, 2]), tolerance=0.5, failure_prob=0.1, noise_sd=1.0))
        >>> ended = pooled.finish(pooled.start(), np.array([[0, 0], [0, 1], [1, 0]]), [0.0, 1.0, 5.0])
        >>> pooled.ask(pooled.extend(ended, 6), np.random.default_rng(0)).n_runs
        6
        """
        if not state.finished:
            raise StateMismatchError("the study has not ended; only one that has can be extended")
        state = replace(state, charged=True)
        if not state.open_factors:
            state = self._all_in_play(state)
        if n_runs is None:
            return self._planned_on(state)
        check_count("n_runs", n_runs)
        if n_runs * self.space.n_factors > self.most_cells:
            raise InvalidSettingError(f"{n_runs:,} runs are more than a design can hold; take fewer", field="n_runs")
        return replace(self._reopened(state), target=n_runs, last=True)

    def resume(self, state: PooledState) -> PooledState:
        """Decide anew on all runs, as after a block: for what is asked for now, and charged for looks.

        What was dropped comes back first, because another noise or goal may have dropped it.
        """
        if state.n_runs == 0:
            return state
        noise_sd = self.problem.noise_sd
        state = self._all_in_play(replace(state, noise_bound=noise_sd, noise_sd=noise_sd, charged=True))
        return self._decide(self._reopened(self._tuned(state)))

    def _planned_on(self, state: PooledState) -> PooledState:
        """The next block by the rules of a study that has ended; where they ask for none, one of the usual length."""
        again = self._decide(self._reopened(state)) if state.n_runs else self._reopened(state)
        if not again.finished:
            return again
        following = max(math.ceil(self._growth * state.n_runs), self._open_parameters(state), settings.LEAST_BLOCK)
        return replace(self._reopened(state), target=following, last=True)

    def _reopened(self, state: PooledState) -> PooledState:
        return replace(state, finished=False, certified=None, stopped=False, last=False)

    def _all_in_play(self, state: PooledState) -> PooledState:
        return replace(state, active=all_levels(self.n_levels), eliminations=(), parents=(), closed=(), upper_loss=None)

    @property
    def _growth(self) -> float:
        """The share of the runs so far that a later block has at least."""
        return settings.POOLED_GROWTH if self.aim == CERTIFY else settings.BEST_GROWTH

    def _tuned(self, state: PooledState) -> PooledState:
        """With the radii tuned to the first block as it was planned, where what was run of it may follow outcomes.

        n runs of m levels say n / (2 m) about a pair.
        """
        if state.rho is not None:
            return state
        return replace(state, rho=settings.RHO_SHARE * self.first_block / (2 * float(np.median(self.choices.sizes))))

    def _with_part(self, state: PooledState, rows: Codes, y: NDArray[np.float64]) -> PooledState:
        """The state with some runs of the block under way added to all others, and no block under way."""
        steps = state.steps.add(y)
        block = state.block.add(self.choices.rows(rows), y)
        emptied = replace(state, steps=steps, block=Moments.empty(self.choices.sizes), seed=None, digest=None)
        if block.n_runs == 0:
            return emptied
        record = BlockRecord(BLOCK, block.n_runs, 0, "as run", 0.0, rows_digest(rows))
        pooled = state.pooled.add(block, steps, own_constant=self.aim == CERTIFY)
        return replace(emptied, pooled=pooled, blocks=(*state.blocks, record))

    def _end_block(self, state: PooledState, record: BlockRecord) -> PooledState:
        state = replace(
            state,
            pooled=state.pooled.add(state.block, state.steps, own_constant=self.aim == CERTIFY),
            block=Moments.empty(self.choices.sizes),
            blocks=(*state.blocks, record),
            seed=None,
            digest=None,
        )
        if state.rho is None:
            state = replace(state, rho=_first_rho(self.evidence(state)))
        return self._decide(state)

    # Deciding between blocks

    def evidence(self, state: PooledState) -> Evidence:
        """What all runs say about the differences between the levels of each factor."""
        return self.choices.evidence(state.fit)

    def _with_noise(self, state: PooledState) -> PooledState:
        """The state with what the residuals say about a noise that is not known   (theory/pooled.md, section 4).

        The bound that levels are dropped by is that of the first block, or one that holds at any time. Lengths and
        certificates use the estimate, times a margin that shrinks with its degrees of freedom.
        """
        if self.problem.noise_sd is not None:
            return state
        fit, least = state.fit, state.pooled.least_noise
        dof = fit.residual_dof
        if dof < 1 or state.pooled.steps.resolution is None:
            return state  # as many parameters as runs, or one outcome again and again: nothing tells the noise
        square = max(fit.residual_square, state.pooled.rounding)
        half = (self.shares.noise or settings.POOLED_NOISE_SHARE * self.failure_prob) / 2
        bound = anytime_noise_bound(square, dof, half)
        if state.noise_bound is not None:
            bound = min(bound, state.noise_bound)
        elif not state.charged:  # at the end of the first block, and not whenever one liked
            bound = min(bound, noise_upper_bound(square, dof, half))
        margin = max(settings.NOISE_MARGIN, 2 * math.log(1 / self.failure_prob) - 2)
        estimate = math.sqrt(square / dof * math.exp(margin / dof))
        return replace(state, noise_bound=_finite(max(bound, least)), noise_sd=max(estimate, least))

    def standing(self, state: PooledState, evidence: Evidence) -> Standing:
        """What the evidence says at this point, under what the user knows."""
        parents, closed = np.zeros((2, self.space.n_factors), dtype=bool)
        parents[list(state.parents)] = True
        closed[list(state.closed)] = True
        active = state.active if self.aim == CERTIFY else all_levels(self.n_levels)
        in_play = level_mask(active, max(self.n_levels))
        radii = self.confidence(state).radii(evidence.information)
        return assess(evidence.estimates, radii, in_play, parents, closed, self.known)

    def _assessed(self, state: PooledState) -> tuple[PooledState, Evidence, Standing | None]:
        """The state with the noise, the leaders and what is in play by all runs; None while nothing tells the noise."""
        state = self._with_noise(state)
        evidence = self.evidence(state)
        now = self.standing(state, evidence) if state.noise_sd is not None else None
        if self.aim == BEST or now is None:
            return self._with_posterior(state, now), evidence, now
        if not self.shares.screening:  # one design: nothing is dropped, the leaders are those of the fit
            return replace(state, leaders=tuple(now.leaders.tolist())), evidence, now
        active = tuple(tuple(level for level, stays in enumerate(row) if stays) for row in now.active.tolist())
        dropped = tuple(
            Elimination(k, level, state.n_runs, float(evidence.estimates[k, now.leaders[k], level]))
            for k, levels in enumerate(state.active)
            for level in levels
            if level not in active[k]
        )
        state = replace(
            state,
            active=active,
            leaders=tuple(now.leaders.tolist()),
            parents=tuple(np.flatnonzero(now.parents).tolist()),
            closed=tuple(np.flatnonzero(~now.open).tolist()),
            upper_loss=_finite(now.upper_loss),
            eliminations=state.eliminations + dropped,
        )
        return state, evidence, now

    def _with_posterior(self, state: PooledState, now: Standing | None) -> PooledState:
        """The leaders by the posterior. Nothing is dropped for good, any level may come back: what is in play matters
        for the certificate alone."""
        leaders = leaders_of(self.choices, self.posterior(state))
        if now is None:
            return replace(state, leaders=leaders)
        in_play = tuple(
            tuple(level for level, stays in enumerate(row) if stays or level == leader)
            for row, leader in zip(now.active.tolist(), leaders, strict=True)
        )
        upper = _finite(now.upper_loss) if leaders == tuple(now.leaders.tolist()) else None
        return replace(state, leaders=leaders, active=in_play, upper_loss=upper)

    def _decide(self, state: PooledState) -> PooledState:
        """Drop what the evidence rules out, then stop or plan the next block."""
        state, evidence, now = self._assessed(state)
        if self.aim == BEST:
            return self._decide_for_best(state, evidence)
        if now is None:
            return self._decide_without_noise(state)
        if state.last or not self.shares.screening:
            return self._ended(state, evidence)
        if self.budget is not None:
            left = self.budget - (state.n_runs - state.n_past)
            if left <= 0 or now.upper_loss <= 0:
                return self._ended(state, evidence)
            following = max(math.ceil(settings.POOLED_GROWTH * state.n_runs), self._open_parameters(state))
            return replace(state, target=left if following > settings.NEARLY_ALL * left else following)
        if now.upper_loss <= self.tolerance:
            return self._ended(state, evidence)
        more = self._runs_needed(state, evidence)
        if more <= 0:
            ended = self._ended(state, evidence)  # its tolerance may be rounded up beyond the one that was accepted
            return replace(ended, certified=min(ended.certified or 0.0, self.tolerance))
        if state.n_runs * self.space.n_factors >= self.most_cells:
            return self._ended(state, evidence)
        following = max(math.ceil(settings.POOLED_GROWTH * state.n_runs), self._open_parameters(state))
        target = math.ceil(settings.SPARE * more) + 1 if following > settings.NEARLY_ALL * more else following
        most = max(math.ceil(self.most_cells / self.space.n_factors), settings.LEAST_BLOCK)
        return replace(state, target=min(max(target, settings.LEAST_BLOCK), most))

    def _decide_for_best(self, state: PooledState, evidence: Evidence) -> PooledState:
        """Go on while the budget lasts."""
        assert self.budget is not None  # what makes this the aim
        left = self.budget - (state.n_runs - state.n_past)
        if left <= 0 or state.last:
            return self._ended(state, evidence)
        following = max(math.ceil(settings.BEST_GROWTH * state.n_runs), settings.LEAST_BLOCK)
        return replace(state, target=left if left < 1.5 * following else following)

    def _decide_without_noise(self, state: PooledState) -> PooledState:
        """While nothing tells the noise: go on for as long as the usual noise would take, then certify nothing."""
        own = state.n_runs - state.n_past
        most = self.budget if self.budget is not None else self._runs_at_once(settings.USUAL_NOISE * self.tolerance)
        left = math.ceil(most) - own
        if left <= 0 or state.last:
            return replace(state, finished=True, certified=None)
        following = max(math.ceil(settings.POOLED_GROWTH * own), settings.LEAST_BLOCK)
        return replace(state, target=min(following, left))

    def posterior(self, state: PooledState) -> Posterior:
        """The shrunken estimate of all effects from all runs."""
        return posterior(state.pooled, self.problem.noise_sd, state.pooled.least_noise)

    def _open_parameters(self, state: PooledState) -> int:
        return math.ceil(settings.POOLED_NEXT * self.choices.n_open_parameters(state.open_factors, state.active))

    def risk(self, state: PooledState) -> float:
        """The share of the failure probability that a certificate has: less where outcomes may have chosen its time."""
        return self.shares.selection / (settings.EVERY_LOOK if state.charged else 1.0)

    def _ended(self, state: PooledState, evidence: Evidence) -> PooledState:
        return replace(state, finished=True, certified=self._certified(state, evidence, self.risk(state)))

    def stakes(self, state: PooledState, evidence: Evidence, more: float = 0.0) -> list[tuple[int, float]]:
        """What may still be lost: for each factor its levels in play, and the standard error of their pooled means.

        The standard error is that of the least precise difference between two of them, over sqrt(2). `more` runs,
        divided equally among the levels in play, add their information. With `max_parents` only as many factors count
        as can matter: those found, and of the others the most levels with the largest standard errors.
        """
        assert state.noise_sd is not None  # known from the start, or estimated after the first block
        in_play = level_mask(state.active, max(self.n_levels))
        pairs = in_play[:, :, None] & in_play[:, None, :] & ~np.eye(in_play.shape[1], dtype=bool)
        least = np.where(pairs, evidence.information, np.inf).min(axis=(1, 2))
        open_parameters = self.choices.n_open_parameters(state.open_factors, state.active)
        lost = 1.0 + 0.5 * open_parameters / (state.n_runs + more + 1)
        wider = self._wider(state) if state.n_runs + more < settings.CLOSELY_COUPLED * open_parameters else 1.0
        found: list[tuple[int, float]] = []
        others: list[tuple[int, float]] = []
        for k, m in zip(state.open_factors, state.open_sizes, strict=True):
            known = float(least[k]) + more / (2 * m * lost)
            error = wider * state.noise_sd / math.sqrt(2 * known) if known > 0 else math.inf
            (found if k in state.parents else others).append((m, error))
        if self.max_parents is None:
            return found + others
        spare = max(self.max_parents - len(state.parents), 0)
        most = sorted((m for m, _ in others), reverse=True)[:spare]
        widest = sorted((error for _, error in others), reverse=True)[:spare]
        return found + list(zip(most, widest, strict=True))

    def _wider(self, state: PooledState) -> float:
        """What standard errors are multiplied with where so few runs couple factors closely   (docs/theory/pooled.md).

        1 + 0.1 (p - 1) for a coupling p above 3; below, factors are independent enough.
        """
        coupling = self.choices.coupling(state.fit, state.open_factors)
        return 1.0 if coupling <= settings.LOOSE_COUPLING else 1.0 + settings.COUPLING_COST * (coupling - 1.0)

    def _runs_needed(self, state: PooledState, evidence: Evidence) -> float:
        """Runs still needed if nothing more is dropped: 0 when what is in play is certified now.

        A rough count comes first, from the usual scale of a certificate; the certificate itself is computed only when
        that says that the end is near.
        """
        stakes = self.stakes(state, evidence)
        rough = self._rough_runs(state, stakes)
        following = max(settings.POOLED_GROWTH * state.n_runs, float(self._open_parameters(state)))
        if not all(math.isfinite(error) for _, error in stakes) or rough > 2 * following:
            return max(rough, 2 * following)
        risk = self.risk(state)
        if stakes_bound(stakes, self.tolerance) <= risk:
            return 0.0
        return self._secant(state, evidence, max(rough, 0.02 * state.n_runs), risk)

    def _secant(self, state: PooledState, evidence: Evidence, guess: float, risk: float) -> float:
        """The least number of runs whose certificate was computed and accepted, nearly."""

        def excess(more: float) -> float:
            return math.log(max(stakes_bound(self.stakes(state, evidence, more), self.tolerance), 1e-300) / risk)

        low, low_excess = 0.0, excess(0.0)
        high, high_excess = guess, excess(guess)
        while high_excess > 0:
            slope = max((low_excess - high_excess) / (high - low), 1e-12)
            low, low_excess = high, high_excess
            high = min(max(high + 1.1 * high_excess / slope, 1.05 * high), 4 * high + settings.LEAST_BLOCK)
            high_excess = excess(high)
        for _ in range(6):
            if high_excess > -settings.CLOSE_ENOUGH or high - low <= 1:
                break
            middle = low + (high - low) * min(max(low_excess / (low_excess - high_excess), 0.1), 0.9)
            middle += 0.002 * (state.n_runs + middle)
            if middle >= high:
                break
            found = excess(middle)
            if found <= 0:
                high, high_excess = middle, found
            else:
                low, low_excess = middle, found
        return high

    def _rough_runs(self, state: PooledState, stakes: list[tuple[int, float]]) -> float:
        """The same roughly: runs of an ideal design by the usual scale, less what the stakes are worth on average."""
        assert state.noise_sd is not None  # see stakes
        levels = tuple(sorted(m for m, _ in stakes))
        needed = (decisions.cheap_scale(levels, self.risk(state), "slippage") * state.noise_sd / self.tolerance) ** 2
        worth = sum(m * (state.noise_sd / error) ** 2 for m, error in stakes) / len(stakes)
        return needed - worth

    def _certified(self, state: PooledState, evidence: Evidence, failure_prob: float) -> float | None:
        """The tolerance that all runs certify now: by the stakes, or by what the leaders can lose at most."""
        if state.noise_sd is None:
            return None
        stakes = self.stakes(state, evidence)
        upper = math.inf if state.upper_loss is None else state.upper_loss
        if all(math.isfinite(error) for _, error in stakes):
            upper = min(upper, stakes_tolerance(stakes, failure_prob))
        return upper if math.isfinite(upper) else None

    # What a state says

    def interim(self, state: PooledState) -> Verdict | None:
        """What could be certified if the study ended now, whenever one chooses to look; None before a block."""
        if state.rho is None:
            return None
        if state.finished:
            return self.verdict(state)
        evidence = self.evidence(state)
        return self.verdict(
            replace(state, certified=self._certified(state, evidence, self.risk(replace(state, charged=True))))
        )

    def look_inside(self, state: PooledState, codes: Codes, outcomes: ArrayLike) -> PooledState | None:
        """The state inside a long block, at looks planned in advance; nothing is dropped there.

        They are as far apart as blocks are: at 1.35, 1.35^2, ... times the runs at the last one, in the first block at
        half of it. The first runs of the block that were told are used, in the order of the design.
        """
        rows, y = np.asarray(codes, dtype=np.int16), np.asarray(outcomes, dtype=np.float64)
        n_runs = self._look_inside(state, len(y))
        if n_runs == 0 or state.finished:
            return None
        state = self._with_part(state, rows[:n_runs], y[:n_runs])
        evidence = self.evidence(state)
        if state.rho is None:
            state = replace(state, rho=_first_rho(evidence))
        state = self._with_noise(state)
        if state.noise_bound is None:
            return None
        now = self.standing(state, evidence)
        leaders = (
            tuple(now.leaders.tolist()) if self.aim == CERTIFY else leaders_of(self.choices, self.posterior(state))
        )
        upper = _finite(now.upper_loss) if leaders == tuple(now.leaders.tolist()) else None
        return replace(state, leaders=leaders, upper_loss=upper)

    def fitted(self, state: PooledState) -> Fitted | None:
        """All runs of complete blocks, as the leaders were chosen by them."""
        if state.rho is None:
            return None
        shrinks = self.aim == BEST or state.noise_bound is None
        return Fitted(state.fit, self.posterior(state).mean if shrinks else None)

    def _look_inside(self, state: PooledState, n_told: int) -> int:
        """Runs of the block under way at the last planned look that was reached; 0 before the first."""
        if state.rho is None:
            half = state.target // 2
            return half if n_told >= half > self.choices.n_parameters else 0
        reached, look = 0, state.n_runs * (1 + settings.POOLED_GROWTH)
        while look - state.n_runs <= min(n_told, state.target - 1):
            reached = math.floor(look - state.n_runs)
            look *= 1 + settings.POOLED_GROWTH
        return reached

    def verdict(self, state: PooledState) -> Verdict:
        """The verdict of a finished study."""
        error = self.failure_prob - self.shares.noise
        noise_bound = math.inf if state.noise_bound is None else state.noise_bound
        estimates, intervals = decisions.loss_intervals(
            self.evidence(state), state.leaders, self.n_levels, noise_bound, error, state.rho
        )
        if not math.isfinite(noise_bound):
            intervals = tuple((None,) * m for m in self.n_levels)
        sure = {k for k, row in enumerate(intervals) if any(pair and (pair[0] > 0 or pair[1] < 0) for pair in row)}
        fitted = self.fitted(state)
        if fitted is not None and fitted.shrunken is not None:  # what the leaders lead by, and what holds it
            estimates = decisions.shown_losses(self.choices.values(fitted.effects), state.leaders)
            intervals = decisions.widened(intervals, estimates)
        # a dropped level is sure to be worse only where all pairs were charged for: where max_parents says something
        says_something = self.max_parents is not None and self.max_parents < self.space.n_factors
        named = set(state.parents) if says_something else set()
        stages: tuple[tuple[str, int], ...] = ()
        for block in state.blocks:
            stages = add_runs(stages, block.stage, block.n_runs)
        known = self.problem.noise_sd is not None
        provisos = (
            [decisions.EQUAL_GAPS_OF_FOUR, NEARLY_INDEPENDENT]
            if state.certified is not None
            else [self._why_nothing(state)]
        )
        if self.aim == BEST and state.certified is not None and len(state.blocks) > 1:
            provisos.append(CHOSEN_ROWS)
        if state.stopped:
            provisos.append(STOPPED_EARLY)
        elif state.charged and state.certified is not None:
            provisos.append(LENGTH_CHOSEN)
        return Verdict(
            algorithm=self.name,
            assignment=self.space.assignment(state.leaders),
            n_runs=sum(block.n_runs for block in state.blocks) - state.n_past,
            tolerance=state.certified,
            failure_prob=self.failure_prob,
            guarantee=decisions.pooled_guarantee(known, self.max_parents),
            provisos=tuple(provisos),
            parents=tuple(self.space.names[k] for k in sorted(sure | named)),
            effects=estimates,
            eliminations=state.eliminations,
            runs_by_stage=stages,
            intervals=intervals,
            certificate="slippage",
            noise=f"known, sd {state.noise_sd:g}" if known else _estimated(state.noise_sd),
            problem=self.problem,
            options=tuple((f.name, getattr(self, f.name)) for f in fields(self) if f.init and f.name != "problem"),
            blocks=state.blocks,
            rules=state.rules,
        )

    def _why_nothing(self, state: PooledState) -> Remark:
        unseen = self.problem.noise_sd is None and state.pooled.steps.resolution is None
        return NO_NOISE_SEEN if unseen else decisions.NOTHING_CERTIFIED

    def outlook(self, state: PooledState, n_asked: int) -> Outlook:
        """Runs still to come after the current block: if estimates are about right, and if nothing more is dropped."""
        if state.finished:
            return Outlook(0, 0)
        if self.budget is not None:
            left = max(self.budget - (state.n_runs - state.n_past) - state.target, 0)
            return Outlook(left, left)
        if state.noise_sd is None:
            return Outlook(None, None)
        if state.rho is None:
            needed = self._runs_at_once(state.noise_sd)
            worst = self._longest(state, needed)
            return Outlook(min(max(math.ceil(needed) - state.target, 0), worst), worst)
        if state.noise_bound is None:
            return Outlook(None, None)
        evidence = self.evidence(state)
        rough = self._rough_runs(state, self.stakes(state, evidence))
        needed = state.n_runs + rough
        worst = self._longest(state, needed * (state.noise_bound / state.noise_sd) ** 2)
        now = self.standing(state, evidence)
        growths = [growth for growth in settings.GROWTHS if state.n_runs * (growth - 1) < max(rough, 1.0)]
        for batch in forecasts(evidence, growths, self.confidence(state), now, self.known):
            for growth, then in zip(growths[: len(batch)], batch, strict=True):
                needed = (
                    decisions.cheap_scale(then.at_stake, self.risk(state), "slippage") * state.noise_sd / self.tolerance
                )
                if then.upper_loss <= self.tolerance or needed**2 <= growth * state.n_runs:
                    return Outlook(min(max(math.ceil(state.n_runs * (growth - 1)) - state.target, 0), worst), worst)
            growths = growths[len(batch) :]
        return Outlook(min(max(math.ceil(rough) - state.target, 0), worst), worst)

    def _longest(self, state: PooledState, needed: float) -> int:
        """Runs after the block under way in the worst case: what designs lose, and short blocks at the end, added."""
        lost = 0.5 * self.choices.n_open_parameters(state.open_factors, state.active)
        most = settings.SLACK * (needed + lost) + 2 * settings.LEAST_BLOCK
        return max(math.ceil(most) - state.n_runs - state.target, 0)

    def progress(self, state: PooledState) -> Progress:
        """Leaders, eliminations and the noise that is reckoned with."""
        return Progress(
            state.leaders, state.eliminations, state.noise_sd, state.finished, by_parts=self.choices.is_tied
        )


def _first_rho(evidence: Evidence) -> float:
    """What the mixture of the radii is tuned to: a share of what the first runs say about a pair of levels."""
    determined = evidence.information[evidence.information > 0]
    return settings.RHO_SHARE * (float(np.median(determined)) if determined.size else 1.0)


def _estimated(noise_sd: float | None) -> str:
    return "unknown" if noise_sd is None else f"estimated, sd about {noise_sd:.4g}"


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None
