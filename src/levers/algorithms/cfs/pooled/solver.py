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
from numpy.typing import ArrayLike

from levers.algorithms.base import CHUNK, PAST, Algorithm, Batch, BlockRecord, Outlook, Problem, Progress, Verdict
from levers.algorithms.cfs import decisions, settings
from levers.algorithms.cfs.allocation import leaders_of
from levers.algorithms.cfs.interactions import expected, leaders_together
from levers.algorithms.cfs.ledger import entries
from levers.algorithms.cfs.pooled.certificate import Elsewhere, PooledCertificate, Stakes
from levers.algorithms.cfs.pooled.one_design import certified_by_design
from levers.algorithms.cfs.pooled.plan import PooledPlan
from levers.algorithms.cfs.pooled.rounds import Rounds
from levers.algorithms.cfs.pooled.state import PooledState
from levers.algorithms.cfs.pooled.unclaimed import Unclaimed, unclaimed
from levers.algorithms.cfs.pooled.verdict import SWAPPED, pooled_verdict
from levers.algorithms.cfs.settings import (
    AIMS,
    BEST,
    BLOCK,
    CERTIFY,
    LATEST_RULES,
    LEADER_RULES,
    PARTS_RULES,
    POOLED_RULES,
    PROMISE_RULES,
    STEADY_RULES,
    THIN_RULES,
    TOGETHER_RULES,
)
from levers.algorithms.cfs.state import rows_digest
from levers.core.certificates.certificate import check_failure_prob
from levers.core.certificates.thinning import LEAST_FAILURE_PROB
from levers.core.designs.changes import HardLevers, check_hard
from levers.core.designs.design import Design
from levers.core.model.choices import Choices, Parts
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
from levers.core.model.interaction_fit import Runs, interaction_weights
from levers.core.model.level_index import all_levels
from levers.core.model.moments import Moments
from levers.core.model.ordinary import Fitted
from levers.core.model.pooled import PooledSums
from levers.core.model.posterior import Posterior, posterior
from levers.core.model.winsorising import EXPECTED, winsorised
from levers.core.space import Codes, Space
from levers.core.validation import check_choice, check_count, check_question
from levers.errors import InvalidSettingError, OutcomeMismatchError, StateMismatchError

_LATER_OPTIONS = ("max_runs", "block_size", "baseline", "hard_to_change")
"""Options that verdicts of earlier versions do not name."""
_PART_OPTIONS = ("rules", "elsewhere", "unequal", "additive")
"""Those that follow from the study that these runs are a part of, or from its being simulated."""


@dataclass(frozen=True)
class Pooled(Algorithm):
    """Drop levels at any time, stop when what is in play is certified, and choose the leaders of all runs.

    `parts` says what the levels of factors are made of that forbidden combinations tie together. With `max_runs` a
    study that has not certified its tolerance by then ends with what it has. `block_size` runs are made together, on a
    day or a sheet, which has a constant of its own: rounds are whole days, each balanced as well as it can be. At the
    `baseline`, the setting in place today, a run is made every day; where nothing is better, its level is chosen.
    Levers that are `hard_to_change` are changed as seldom as a day's rows allow: runs of one level stand together.
    `rules` are those of the version that began the study. Where these runs are a part of a study, `elsewhere` are the
    stakes of its other part, and `unequal` is what standard errors are multiplied with where levels differ in spread.
    In a simulated world known to be `additive` nothing guards against levers that work together and outcomes far out.

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
    max_runs: int | None = None
    block_size: int | None = None
    baseline: tuple[int, ...] | None = None
    hard_to_change: HardLevers = ()
    rules: int = LATEST_RULES
    elsewhere: Elsewhere = ()
    unequal: float = 1.0
    additive: bool = False

    def __post_init__(self) -> None:
        self.check_max_parents(self.max_parents)
        check_choice("aim", self.aim, AIMS)
        if self.batch_size is not None:
            check_count("batch_size", self.batch_size)
        check_question(self.problem.tolerance, self.budget)
        if self.budget is not None:
            check_count("budget", self.budget, 2)
        elif self.aim == BEST:
            raise InvalidSettingError("the aim 'best' spends a budget; give one, without a tolerance", field="aim")
        if self.max_runs is not None:
            check_count("max_runs", self.max_runs, 2)
            if self.budget is not None:
                raise InvalidSettingError(
                    "a budget says how many runs there are; give max_runs beside a tolerance only", field="max_runs"
                )
        if self.block_size is not None:
            check_count("block_size", self.block_size)
        if self.baseline is not None:
            _ = self.space.assignment(self.baseline)  # which refuses what is no setting
        check_hard(self.hard_to_change, self.n_levels)
        check_failure_prob(self.failure_prob)
        check_count("most_cells", self.most_cells)
        # of the longest study that may come up, as far as is known before the first run
        longest = float(self.plan.most_runs or self.plan.runs_at_once(self.problem.noise_sd or 0.0))
        if longest * self.space.n_factors > self.most_cells:
            raise InvalidSettingError(
                f"this may take {longest:.2g} runs, more than a design can hold; raise the tolerance", field="tolerance"
            )

    # What follows from the settings

    @cached_property
    def choices(self) -> Choices:
        """What is chosen among, and what it is made of."""
        given = Choices(self.n_levels, self.parts)
        return given.determined if self.rules >= PARTS_RULES else given

    @cached_property
    def plan(self) -> PooledPlan:
        """Shares of the error, and lengths."""
        size = self.block_size
        spares = self.rules != POOLED_RULES  # studies begun before keep to the first round that they had
        runs = self.budget, self.max_runs, self.aim, size, spares, self.rules >= THIN_RULES, self.rules >= PARTS_RULES
        return PooledPlan(self.problem, self.choices, self.max_parents, *runs)

    @cached_property
    def rounds(self) -> Rounds:
        """What rounds are made of."""
        noise_sd, most = self.problem.noise_sd, self.plan.most_runs
        given = self.block_size, self.baseline, self.rules, most, self.hard_to_change
        far = settings.FAR_BEHIND_SHARE * self.failure_prob
        return Rounds(self.choices, noise_sd, self.aim, *given, far if self.rules >= PROMISE_RULES else 0.0)

    @property
    def shares(self) -> decisions.Shares:
        """How the failure probability is shared out."""
        return self.plan.shares

    @property
    def first_block(self) -> int:
        """Runs of the first round."""
        return self.plan.first_round

    @cached_property
    def certificate(self) -> PooledCertificate:
        """What runs certify."""
        share = settings.FAR_BEHIND_SHARE if self.aim == BEST else settings.FAR_BEHIND_IN_ONE
        far_behind = share * self.failure_prob if self._leaves_out_at_end else 0.0
        known = self.problem.noise_sd is not None
        given = self.choices, self.max_parents, self.elsewhere, self.unequal, far_behind, known
        return PooledCertificate(*given, self.rules)

    def _ends_as_planned(self, state: PooledState) -> bool:
        """Whether a state is the end of a budget, which no outcome had a part in, and certifies something."""
        part = self.elsewhere or self.unequal != 1.0
        if self.rules < LEADER_RULES or self.budget is None or state.charged or part:
            return False
        return state.finished and state.certified is not None and state.n_runs - state.n_past >= self.budget

    @property
    def _leaves_out_at_end(self) -> bool:
        """Whether the certificate at the end leaves out levels far behind   (docs/theory/pooled.md, section 6)."""
        if self.elsewhere or self.unequal != 1.0:
            return False
        in_one = self.rules >= PARTS_RULES and self.budget is not None and not self.shares.screening
        in_rounds = self.rules >= PROMISE_RULES and self.budget is not None
        return in_one or in_rounds or (self.rules >= LEADER_RULES and self.aim == BEST)

    def stakes(self, state: PooledState, evidence: Evidence) -> Stakes:
        """What may still be lost: for each factor its levels in play, and the standard error of their pooled means."""
        return self.certificate.stakes(state, evidence)

    @cached_property
    def known(self) -> Knowledge:
        """What dropping levels may use of what the user knows."""
        return Knowledge(self.max_parents, None)

    @property
    def claims(self) -> bool:
        """Whether the number of levers that matter was claimed to be smaller than that of all."""
        return self.max_parents is not None and self.max_parents < self.space.n_factors

    def confidence(self, state: PooledState) -> Confidence:
        """What the radii are made of at this point of the study."""
        # too few residuals to bound it
        noise_bound = math.inf if state.noise_bound is None else self.unequal * state.noise_bound
        assert state.rho is not None  # set by the first block
        error = decisions.pair_error(self.shares.screening or self.failure_prob, self.n_levels, self.claims)
        return Confidence(noise_bound, error, state.rho, 0.0, 0.0)

    # Asking and telling

    def start(self) -> PooledState:
        """All levels in play, no runs."""
        return PooledState(
            target=self.first_block,
            active=all_levels(self.n_levels),
            leaders=self.baseline or (0,) * len(self.n_levels),
            pooled=PooledSums.empty(self.choices.sizes),
            block=Moments.empty(self.choices.sizes),
            noise_bound=self.problem.noise_sd,
            noise_sd=self.problem.noise_sd,
            rules=self.rules,
            runs=Runs.none(len(self.n_levels)) if self.sees_interactions else None,
        )

    @property
    def sees_interactions(self) -> bool:
        """Whether levers that work together are noticed, and the setting chosen by what they do together.

        Where nothing but the setting found counts; not where forbidden combinations tie levers together, and not for
        so many runs or levels that fits with pairs would take long.
        """
        if self.aim != BEST or self.rules < TOGETHER_RULES or self.choices.is_tied or len(self.n_levels) < 2:
            return False
        if self.additive:
            return False
        few = (self.budget or 0) <= settings.INTERACTION_RUNS
        return few and sum(self.n_levels) <= settings.INTERACTION_LEVELS

    def block_lengths(self, state: PooledState, n_runs: int) -> tuple[int, ...]:
        """How long the parts of a round are that have constants of their own, in the order of its rows."""
        return self.rounds.lengths(n_runs)

    def design(self, state: PooledState, seed: int) -> Design:
        """The design of the current round, from its seed: always the same one. Rows are in the order of days."""
        return self.rounds.design(state, self._left(state) or 0, seed)

    def ask(self, state: PooledState, rng: np.random.Generator) -> Batch | Verdict:
        """The next runs of the block under way, or the verdict."""
        if state.finished:
            return self.verdict(state)
        return self.batch(state, int(rng.integers(2**62)) if state.seed is None else state.seed)

    def batch(self, state: PooledState, seed: int) -> Batch:
        """The next runs of the block whose design has this seed."""
        codes = self.rounds.rows(state, self.design(state, seed), self.batch_size or CHUNK)
        return Batch(codes, BLOCK, focus=seed)

    def tell(self, state: PooledState, batch: Batch, outcomes: ArrayLike) -> PooledState:
        """Add runs to the block; when it is complete, decide."""
        y = self.accept(batch, outcomes)
        self.check_due(not state.finished and state.seed in (None, batch.focus))
        if batch.focus is None:
            raise OutcomeMismatchError("a batch of cfs carries its block's seed; tell the one that ask returned")
        design = self.design(state, batch.focus)
        if state.digest not in (None, design.digest):
            raise StateMismatchError("the design cannot be made again as it was: another version began the block")
        due = self.rounds.rows(state, design, batch.n_runs)
        self.check_due(batch.stage == BLOCK and np.array_equal(due, batch.codes))
        lengths = self.rounds.lengths(design.n_runs)
        state = self.rounds.added(replace(state, seed=batch.focus, digest=design.digest), batch.codes, y, lengths)
        if state.n_done < design.n_runs:
            return state
        state = self.rounds.left_in_place(state, batch.codes)
        return self._end_block(state, BlockRecord(BLOCK, design.n_runs, batch.focus, design.kind, 0.0, design.digest))

    def tell_block(self, state: PooledState, batch: Batch, outcomes: ArrayLike) -> PooledState:
        """Like `tell`, for a whole block whose rows were kept when it was designed: they are the design.

        Whatever this version would make of the block's seed, a library that shuffles differently must not end a study.
        """
        y = self.accept(batch, outcomes)
        self.check_due(not state.finished and state.seed is None and batch.stage == BLOCK)
        set_here = batch.codes
        if self.baseline is not None:
            set_here = set_here[(set_here != np.asarray(self.baseline)).any(axis=1)]
        for k, levels in enumerate(state.varied if self.aim == CERTIFY else ()):
            if not np.isin(set_here[:, k], levels).all():
                raise OutcomeMismatchError("these rows are not of the block that is due: they set levels not in play")
        design = self.design(state, batch.focus) if batch.focus is not None else None
        if design is not None and np.array_equal(self.rounds.rows(state, design, design.n_runs), batch.codes):
            kind, digest = design.kind, design.digest
        else:
            kind, digest = "as stored", rows_digest(batch.codes)
        state = self.rounds.added(state, batch.codes, y, self.rounds.lengths(batch.n_runs))
        state = self.rounds.left_in_place(state, batch.codes)
        return self._end_block(state, BlockRecord(BLOCK, batch.n_runs, batch.focus or 0, kind, 0.0, digest))

    def absorb(
        self, state: PooledState, codes: Codes, outcomes: ArrayLike, stage: str, order: ArrayLike | None = None
    ) -> PooledState:
        """Add runs that were not asked for, or asked for on a decision that has since been corrected; decide again.

        They are a block of their own in the pooled fit, as far as their rows determine a contrast. Runs of a round are
        blocks by day; `order` says where in the round they were, if some of it are missing.

        >>> from levers import Problem, Space
        >>> pooled = Pooled(Problem(Space.sized([2, 2]), 0.5, 0.1, 1.0))
        >>> rows = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
        >>> state = pooled.absorb(pooled.start(), rows, [0.0, 1.0, 5.0, 6.0], "past data")
        >>> round(pooled.evidence(state).estimate(0, 1, 0), 6), state.blocks[0].stage
        (5.0, 'past data')
        """
        rows = np.asarray(codes, dtype=np.int16)
        y = self.accept(Batch(rows, stage), outcomes)
        state = replace(state, charged=state.charged or state.stopped)
        if stage == PAST or self.rules == POOLED_RULES:
            steps, block = state.steps.add(y), Moments.empty(self.choices.sizes).add(self.choices.rows(rows), y)
            record = BlockRecord(stage, len(y), 0, "as run", 0.0, rows_digest(rows))
            pooled = state.pooled.add(block, steps)
            runs = None if state.runs is None else state.runs.add(rows, y, pooled.n_blocks - 1)
            state = replace(state, pooled=pooled, steps=steps, blocks=(*state.blocks, record), runs=runs)
        else:
            state = self.rounds.with_part(state, rows, y, stage, order)
        if state.rho is None and stage == PAST:  # what is tuned to the first block waits for it
            return state
        return self._decide(self._reopened(self._tuned(state)))

    def finish(
        self, state: PooledState, codes: Codes, outcomes: ArrayLike, order: ArrayLike | None = None
    ) -> PooledState:
        """The end, whenever one likes: the told runs of the round under way are added, and nothing more is planned.

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
        state = self.rounds.with_part(state, rows, self.accept(Batch(rows, BLOCK), outcomes), BLOCK, order)
        state = replace(state, stopped=True, charged=True)
        if state.n_runs == 0:
            return replace(state, finished=True)
        state, evidence, _ = self._assessed(self._tuned(state))
        ended = self._ended(state, evidence)
        if ended.certified is None and ended.prevailing is None:
            ended = replace(ended, leaders=leaders_of(self.choices, self.posterior(ended), self.baseline))
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
        return self._unthinned(replace(self._reopened(state), target=n_runs, last=True))

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
        target = self.plan.whole(following, None)
        return self._unthinned(replace(self._reopened(state), target=target, last=True))

    def _reopened(self, state: PooledState) -> PooledState:
        return replace(state, finished=False, certified=None, stopped=False, last=False)

    def _all_in_play(self, state: PooledState) -> PooledState:
        return replace(
            state, active=all_levels(self.n_levels), eliminations=(), parents=(), closed=(), upper_loss=None, thinned=()
        )

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

    def _end_block(self, state: PooledState, record: BlockRecord) -> PooledState:
        state = replace(
            state,
            pooled=state.days or state.pooled,
            days=None,
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
        return assess(self.n_levels, evidence.estimates, radii, in_play, parents, closed, self.known)

    def _assessed(self, state: PooledState) -> tuple[PooledState, Evidence, Standing | None]:
        """The state with the noise, the leaders and what is in play by all runs; None while nothing tells the noise."""
        state = self._with_noise(state)
        evidence = self.evidence(state)
        now = self.standing(state, evidence) if state.noise_sd is not None else None
        if self.aim == BEST or now is None:
            return self._with_posterior(state, now), evidence, now
        if not self.shares.screening:  # one design: nothing is dropped, the leaders are those of the fit
            return replace(state, leaders=self._leaders(state, evidence, now)), evidence, now
        changes = entries(now, evidence, state.active, state.eliminations, state.n_runs)
        state = replace(state, leaders=self._leaders(state, evidence, now), **changes)
        return state, evidence, now

    def _leaders(self, state: PooledState, evidence: Evidence, now: Standing) -> tuple[int, ...]:
        """The levels ahead by the fit; that of the setting in place today, where another is ahead by rounding only, or
        where its factor is known not to matter."""
        leaders: list[int] = now.leaders.tolist()
        for k, level in enumerate(self.baseline or ()):
            ahead, known = evidence.estimate(k, leaders[k], level), evidence.known(k, leaders[k], level)
            tied = ahead * math.sqrt(known) <= settings.TIED * (state.noise_sd or 0.0)
            settled = not now.open[k] and not now.parents[k]
            if now.active[k, level] and (tied or settled):
                leaders[k] = level
        return tuple(leaders)

    def _with_posterior(self, state: PooledState, now: Standing | None) -> PooledState:
        """The leaders by the posterior. Nothing is dropped for good, any level may come back: what is in play matters
        for the certificate alone."""
        state = self._with_interactions(state)
        added = self.posterior(state)
        leaders = leaders_of(self.choices, added, self.baseline)
        fit = state.interaction_fit
        if fit is not None:
            others = [leaders, *([] if self.baseline is None else [self.baseline])]
            leaders = leaders_together(fit, expected(fit, added.mean), others)
        if now is None:
            return replace(state, leaders=leaders)
        in_play = tuple(
            tuple(level for level, stays in enumerate(row) if stays or level == leader)
            for row, leader in zip(now.active.tolist(), leaders, strict=True)
        )
        upper = _finite(now.upper_loss) if leaders == tuple(now.leaders.tolist()) else None
        return replace(state, leaders=leaders, active=in_play, upper_loss=upper)

    def _with_interactions(self, state: PooledState) -> PooledState:
        """The state with how likely it is that levers work together, and outcomes drawn in that are far out, where its
        runs are remembered one by one."""
        if state.runs is None:
            return state
        if len(state.runs) > 2 * settings.INTERACTION_RUNS:  # it went on for so long that such a fit takes minutes
            return replace(state, runs=None, together=None, trusted=None)
        noise_sd, least = self.problem.noise_sd, state.pooled.least_noise
        if self.rules < STEADY_RULES:
            return replace(state, together=interaction_weights(state.runs, self.n_levels, noise_sd, least))
        if self.rules >= PROMISE_RULES and not state.runs.differ:  # a fit would make likely whatever rounding left
            return replace(state, together=None, trusted=None)
        beyond = EXPECTED if self.rules >= PROMISE_RULES else 0.0
        trusted, weights = winsorised(state.runs, self.n_levels, noise_sd, least, beyond)
        if self.rules >= PROMISE_RULES and len(trusted) < self.choices.n_parameters:
            # so few runs do not tell pairs from single levels, and even odds would decide (decision 0047)
            return replace(state, together=None, trusted=trusted)
        return replace(state, together=weights, trusted=trusted)

    def _decide(self, state: PooledState) -> PooledState:
        """Drop what the evidence rules out, then stop or plan the next block."""
        state, evidence, now = self._assessed(state)
        if self.aim == BEST:
            return self._decide_for_best(state, evidence)
        if now is None:
            return self._decide_without_noise(state)
        if state.last or not self.shares.screening:
            return self._ended(state, evidence)
        left, plan = self._left(state), self.plan
        following = max(math.ceil(settings.POOLED_GROWTH * state.n_runs), self._open_parameters(state))
        if self.budget is not None:
            assert left is not None  # of the budget
            if left <= 0 or now.upper_loss <= 0:
                return self._ended(state, evidence)
            return replace(state, target=plan.part_of(following, left, settings.NEARLY_ALL))
        if now.upper_loss + self.certificate.lost_elsewhere(self.risk(state)) <= self.tolerance:
            return self._ended(state, evidence)
        thins = self._may_thin and not state.charged and not state.thinned
        certificate, risk = self.certificate, self.risk(state)
        more = certificate.runs_needed(state, evidence, self.tolerance, risk, float(following), thins)
        if state.thinned and more > 0 and not certificate.thins_still(state, evidence, more):
            return self._decide(_varied_again(state))
        if more <= 0:
            ended = self._ended(state, evidence)  # its tolerance may be rounded up beyond the one that was accepted
            return replace(ended, certified=min(ended.certified or 0.0, self.tolerance))
        if (left is not None and left <= 0) or state.n_runs * self.space.n_factors >= self.most_cells:
            return self._ended(state, evidence)
        if math.isinf(more):  # no runs of this part are enough
            return self._ended(state, evidence)
        if self.baseline is not None:
            more *= 1 + 1 / self.rounds.baseline_every  # runs that hardly tell levels in play apart
        is_last = following > settings.NEARLY_ALL * more
        target = math.ceil(settings.SPARE * more) + 1 if is_last else following
        most = max(math.ceil(self.most_cells / self.space.n_factors), settings.LEAST_BLOCK)
        target = plan.whole(min(max(target, settings.LEAST_BLOCK), most), left)
        if thins and is_last and target >= more:
            state = replace(state, thinned=certificate.thinned(state, evidence, float(target)))
        return replace(state, target=target)

    @property
    def _may_thin(self) -> bool:
        """Whether the last round may leave out levels far behind   (docs/theory/pooled.md, section 10)."""
        simple = not self.choices.is_tied and not self.elsewhere and self.unequal == 1.0
        return self.rules >= THIN_RULES and simple and self.failure_prob >= LEAST_FAILURE_PROB

    def _unthinned(self, state: PooledState) -> PooledState:
        """The state with all levels in play again, where so many runs at some of them are not covered."""
        if not state.thinned or self.certificate.thins_still(state, self.evidence(state), float(state.target)):
            return state
        return _varied_again(state)

    def _decide_for_best(self, state: PooledState, evidence: Evidence) -> PooledState:
        """Go on while the budget lasts."""
        left = self._left(state)
        assert left is not None  # a budget is what makes this the aim
        if left <= 0 or state.last:
            return self._ended(state, evidence)
        following = max(math.ceil(settings.BEST_GROWTH * state.n_runs), settings.LEAST_BLOCK)
        return replace(state, target=left if left < 1.5 * following else self.plan.whole(following, left))

    def _decide_without_noise(self, state: PooledState) -> PooledState:
        """While nothing tells the noise: go on for as long as the usual noise would take, then certify nothing."""
        own, most = state.n_runs - state.n_past, self.budget
        if most is None:
            usual = math.ceil(self.plan.runs_at_once(settings.USUAL_NOISE * self.tolerance))
            most = min(self.plan.whole(usual, None), self.max_runs or usual)
        left = most - own
        if left <= 0 or state.last:
            return replace(state, finished=True, certified=None)
        following = max(math.ceil(settings.POOLED_GROWTH * own), settings.LEAST_BLOCK)
        return replace(state, target=self.plan.whole(following, left))

    def _left(self, state: PooledState) -> int | None:
        """Runs that are left of a budget, or of the most that a study may have; None where there is no limit."""
        most = self.plan.most_runs
        return None if most is None else most - (state.n_runs - state.n_past)

    def posterior(self, state: PooledState) -> Posterior:
        """The shrunken estimate of all effects from all runs."""
        return posterior(state.trusted_sums, self.problem.noise_sd, state.pooled.least_noise)

    def _open_parameters(self, state: PooledState) -> int:
        return math.ceil(settings.POOLED_NEXT * self._n_open_parameters(state))

    def _n_open_parameters(self, state: PooledState) -> int:
        return self.choices.n_open_parameters(state.open_factors, state.active)

    def risk(self, state: PooledState) -> float:
        """The share of the failure probability that a certificate has: less where outcomes may have chosen its time."""
        return self.shares.selection / (settings.EVERY_LOOK if state.charged else 1.0)

    def _ended(self, state: PooledState, evidence: Evidence) -> PooledState:
        return replace(state, finished=True, certified=self._certified(state, evidence))

    def _certified(self, state: PooledState, evidence: Evidence) -> float | None:
        """The tolerance certified; none where levers work together, because all certificates rest on added effects."""
        if state.prevailing is not None:
            return None
        return self.certificate.certified(state, evidence, self.risk(state))

    # What a state says

    def interim(self, state: PooledState) -> Verdict | None:
        """What could be certified if the study ended now, whenever one chooses to look; None before a block."""
        if state.rho is None:
            return None
        if state.finished:
            return self.verdict(state)
        looked = replace(state, charged=True)
        return self._verdict(replace(state, certified=self._certified(looked, self.evidence(state))), looked)

    def look_inside(
        self, state: PooledState, codes: Codes, outcomes: ArrayLike, order: ArrayLike | None = None
    ) -> PooledState | None:
        """The state that a stop inside the round would end with; None while these runs certify nothing.

        What is said if one stops now is what one gets: a stop after any run is charged for (`finish`).
        """
        if state.finished or not len(np.asarray(outcomes)):
            return None
        ended = self.finish(state, codes, outcomes, order)
        return replace(ended, stopped=False) if ended.certified is not None else None

    def fitted(self, state: PooledState) -> Fitted | None:
        """All runs of complete blocks, as the leaders were chosen by them."""
        if state.rho is None:
            return None
        fit = state.interaction_fit
        if fit is not None:  # what changing one lever of the setting chosen would add
            added = self.posterior(state).mean
            [steps] = fit.steps(expected(fit, added), np.array([state.leaders], dtype=np.int16))
            return Fitted(state.fit, added, True, state.prevailing, steps)
        shrinks = self.aim == BEST or state.noise_sd is None or (state.stopped and state.certified is None)
        return Fitted(state.fit, self.posterior(state).mean if shrinks else None, chosen_rows=self.aim == BEST)

    def unclaimed(self, state: PooledState) -> Unclaimed:
        """What may be lost without the claim about levers, at a state whose noise is known or estimated."""
        evidence, drops = self.evidence(state), self.shares.screening > 0
        radius = self.confidence(state).radii(evidence.information)[0] if drops else None
        return unclaimed(self.certificate, state, evidence, radius, self.baseline if self.aim == CERTIFY else None)

    def _without_claims(self, state: PooledState, certified: float | None) -> float | None:
        """The tolerance that the same runs certify without the claim; None where none was made."""
        if certified is None or not self.claims:
            return None
        risk = self.risk(state) - self.certificate.spent_at_end(state)
        found = self.unclaimed(state).tolerance(risk, self.elsewhere)
        return None if found is None else max(found, certified)

    def verdict(self, state: PooledState) -> Verdict:
        """The verdict of a finished study."""
        return self._verdict(state, state)

    def _verdict(self, state: PooledState, looked: PooledState) -> Verdict:
        """What a state says; `looked` is the same, charged for looks where its end was not planned."""
        unset = {*_PART_OPTIONS, *(name for name in _LATER_OPTIONS if getattr(self, name) in (None, ()))}
        named = [f.name for f in fields(self) if f.init and f.name != "problem" and f.name not in unset]
        options = tuple((name, getattr(self, name)) for name in named)
        found = pooled_verdict(
            self.problem,
            state,
            self.evidence(state),
            self.max_parents,
            self.shares.noise,
            self.aim == BEST,
            self.block_size,
            options,
            self._ends_as_planned(state),
            self._without_claims(looked, state.certified),
        )
        if found.tolerance is not None and self.certificate.takes_parts:
            found = replace(found, provisos=(*found.provisos, SWAPPED))
        fitted = self.fitted(state)
        if fitted is None or fitted.shrunken is None:
            return found
        # what the leaders lead by, and intervals that hold it
        losses = decisions.shown_losses(self.choices.values(fitted.compared), state.leaders)
        return replace(found, effects=losses, intervals=decisions.widened(found.intervals, losses))

    def outlook(self, state: PooledState, n_asked: int) -> Outlook:
        """Runs still to come after the current block: if estimates are about right, and if nothing more is dropped."""
        if state.finished or state.last:
            return Outlook(0, 0)
        if self.budget is not None:
            left = max((self._left(state) or 0) - state.target, 0)
            return Outlook(left, left)
        if state.noise_sd is None:
            return Outlook(None, None)
        if state.rho is None:
            needed = self.cost_of_ties * self.plan.runs_at_once(state.noise_sd, without_ties=True)
            worst, lost = self._longest(state, needed), settings.PARAMETER_COST * self._n_open_parameters(state)
            return Outlook(min(max(math.ceil(needed + lost) - state.target, 0), worst), worst)
        noise_most = self._noise_at_most(state)
        if not math.isfinite(noise_most):
            return Outlook(None, None)
        evidence = self.evidence(state)
        stakes = self.stakes(state, evidence)
        rough = self.certificate.rough_runs(state, stakes, self.tolerance, self.risk(state))
        needed = self.cost_of_ties * (state.n_runs + rough)
        rough = needed - state.n_runs
        worst = self._longest(state, needed * (noise_most / state.noise_sd) ** 2)
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

    def _noise_at_most(self, state: PooledState) -> float:
        """What the noise turns out as at most, for forecasts; infinite while nothing tells it.

        The bound that levels are dropped by holds at any time, which makes it several times as wide where the terms of
        a study were restated. A forecast is for this moment.
        """
        bound = math.inf if state.noise_bound is None else state.noise_bound
        fit = state.fit
        if self.problem.noise_sd is not None or fit.residual_dof < 1 or state.pooled.steps.resolution is None:
            return bound
        square = max(fit.residual_square, state.pooled.rounding)
        return min(bound, max(noise_upper_bound(square, fit.residual_dof, settings.UNLIKELY), state.pooled.least_noise))

    @cached_property
    def cost_of_ties(self) -> float:
        """How many times the runs forbidden combinations make of those of the same levers without.

        As one design certifies t with them and t' without, it is (t / t')^2.

        >>> from levers import Problem, Space
        >>> allowed = tuple((i, j) for i in range(3) for j in range(3) if (i, j) != (2, 2))
        >>> tied = Pooled(Problem(Space.sized([8, 2]), 0.5, 0.1, 1.0), parts=(allowed, ()))
        >>> 1.0 < tied.cost_of_ties < 1.5, Pooled(tied.problem).cost_of_ties
        (True, 1.0)
        """
        parameters = self.choices.n_parameters
        if not self.choices.is_tied or not self.plan.by_parts or self.max_parents is not None or not parameters:
            return 1.0
        if parameters > settings.MOST_COMPARED_PARAMETERS:
            return settings.TIED_COST
        noise_sd = self.problem.noise_sd or settings.USUAL_NOISE * (self.problem.tolerance or 1.0)
        wanted = self.budget or self.plan.runs_at_once(noise_sd, without_ties=True)
        least, most = (share * parameters for share in settings.RUNS_TO_COMPARE)
        n_runs = math.ceil(max(min(wanted, most, settings.MOST_COMPARED_CELLS / parameters), least))
        spaces = self.space, Space.sized(list(self.choices.sizes_allowed))
        found = []
        for space, parts in zip(spaces, (self.parts, ()), strict=True):
            one = Pooled(Problem(space, None, self.failure_prob, 1.0), budget=n_runs, parts=parts)
            found.append(certified_by_design(one.certificate, one.start(), one.shares.selection, n_runs, 1.0))
        tied, free = found
        return 1.0 if tied is None or free is None else max(tied / free, 1.0) ** 2

    def _longest(self, state: PooledState, needed: float) -> int:
        """Runs after the block under way in the worst case: what designs lose, and short blocks at the end, added."""
        lost = settings.WORST_PARAMETER_COST * self._n_open_parameters(state)
        most = settings.WORST_SHARE * needed + lost + settings.LEAST_BLOCK
        if self.baseline is not None:
            most *= 1 + 1 / self.rounds.baseline_every
        if self.cost_of_ties > 1:  # which is known by one design only
            most *= settings.WORST_SHARE
        worst = max(self.plan.whole(most, None) - state.n_runs - state.target, 0)
        left = self._left(state)
        return worst if left is None else min(worst, max(left - state.target, 0))

    def progress(self, state: PooledState) -> Progress:
        """Leaders, eliminations and the noise that is reckoned with."""
        return Progress(
            state.leaders, state.eliminations, state.noise_sd, state.finished, by_parts=self.choices.is_tied
        )


def _first_rho(evidence: Evidence) -> float:
    """What the mixture of the radii is tuned to: a share of what the first runs say about a pair of levels."""
    determined = evidence.information[evidence.information > 0]
    return settings.RHO_SHARE * (float(np.median(determined)) if determined.size else 1.0)


def _varied_again(state: PooledState) -> PooledState:
    """The state with levels that were left out in the rounds to come."""
    return replace(state, thinned=tuple(replace(one, kept=()) for one in state.thinned))


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None
