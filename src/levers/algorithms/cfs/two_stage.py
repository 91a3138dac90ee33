"""CFS in two stages: screen at any time, then select once on fresh runs.

Every run informs every factor. Screening drops levels on evidence that stays valid however often it is looked at. When
more screening would cost more than it saves, one fresh balanced design over the surviving levels settles the rest, and
its size is such that the SUM of what all factors lose exceeds the tolerance with at most the failure probability. The
argument is in docs/theory.
"""

import math
from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from levers.algorithms.base import (
    CHUNK,
    PAST,
    STOPPED_EARLY,
    Batch,
    BlockRecord,
    Outlook,
    Progress,
    Verdict,
    add_runs,
    only_with_claims,
)
from levers.algorithms.cfs import decisions, settings
from levers.algorithms.cfs.allocation import leaders_of
from levers.algorithms.cfs.decisions import Prospect, Shares
from levers.algorithms.cfs.ledger import entries
from levers.algorithms.cfs.options import CfsOptions
from levers.algorithms.cfs.settings import LOOK, RULES, SCREENING, SELECTION
from levers.algorithms.cfs.state import CfsState, rows_digest
from levers.algorithms.cfs.without_claims import UnclaimedStages
from levers.core.certificates.certificate import certified_levels, check_failure_prob, scale_needed
from levers.core.certificates.look import Look, plan_look, plan_subgaussian_look
from levers.core.designs.build import certified_design, largest_design
from levers.core.designs.design import BlockEstimate, Design, estimate_block, independent_effects
from levers.core.designs.search import Effort
from levers.core.model.choices import Choices
from levers.core.model.evidence import (
    Confidence,
    Evidence,
    Knowledge,
    Standing,
    anytime_noise_bound,
    assess,
    level_mask,
    noise_upper_bound,
)
from levers.core.model.fit import Fit
from levers.core.model.level_index import all_levels, level_pairs
from levers.core.model.moments import LevelSums, Moments, pair_counts
from levers.core.model.pooled import PooledSums
from levers.core.model.posterior import posterior
from levers.core.space import Codes
from levers.core.validation import check_count, check_question
from levers.errors import InvalidSettingError, OutcomeMismatchError, StateMismatchError


@dataclass(frozen=True)
class TwoStage(CfsOptions):
    """Screen levels at any time, then select among the rest on fresh runs with a certificate for the sum of losses.

    `max_parents` and `min_effect` are what the user knows, and save most of the runs when true. With `budget` instead
    of a tolerance, all runs are spent and the smallest tolerance is certified. `noise="subgaussian"` holds for any
    noise with that sub-Gaussian parameter. `batch_size` is the most runs asked for at a time. `tied` are factors whose
    levels are combinations of several levers: effects of these may cancel out in the combinations allowed, so that no
    least effect is sure to show in them, and they are never dismissed. With `max_runs` the last design is no longer
    than what is left of them, and certifies what it reaches.

    >>> from levers import Problem, Space
    >>> cfs = TwoStage(Problem(Space.sized([3, 3]), tolerance=0.5, failure_prob=0.1, noise_sd=1.0), batch_size=8)
    >>> cfs.ask(cfs.start(), np.random.default_rng(0)).n_runs
    8
    """

    tied: tuple[int, ...] = ()
    max_runs: int | None = None

    def __post_init__(self) -> None:
        self.check_options()
        self.check_max_parents(self.max_parents)
        if self.batch_size is not None:
            check_count("batch_size", self.batch_size)
        check_question(self.problem.tolerance, self.budget)
        if self.noise == "subgaussian" and self.problem.noise_sd is None:
            raise InvalidSettingError(
                "sub-Gaussian noise cannot be bounded from the data; give noise_sd", field="noise_sd"
            )
        check_failure_prob(self.failure_prob)
        check_count("most_cells", self.most_cells)
        # of the largest design that may come up, as far as is known before the first run
        most_runs = self.most_screening(self.problem.noise_sd or 0.0) if self.budget is None else float(self.budget)
        if most_runs * self.space.n_factors > self.most_cells:
            raise InvalidSettingError(
                f"this may take {most_runs:.2g} runs, more than a design can hold; raise the tolerance",
                field="tolerance",
            )
        if self.budget is not None:
            check_count("budget", self.budget, decisions.first_block(self.n_levels, self.problem.noise_sd is None))
        if self.max_runs is not None:
            if self.budget is not None:
                raise InvalidSettingError(
                    "a budget says how many runs there are; give max_runs beside a tolerance only", field="max_runs"
                )
            check_count("max_runs", self.max_runs, decisions.first_block(self.n_levels, self.problem.noise_sd is None))

    # What follows from the settings: shares of the error, lengths, looks

    def shares(self, state: CfsState | None = None) -> Shares:
        """How the failure probability is shared out; decided before the first run."""
        if state is None or state.rules > 1:
            return self._shares
        # 0.1.0 knew no look, and dismissed factors in every study with a least effect
        return decisions.error_shares(
            self.failure_prob, self.problem.noise_sd is None, self._one_shot, self.min_effect is not None
        )

    @cached_property
    def _shares(self) -> Shares:
        dismiss = self.min_effect is not None and self.budget is not None
        return decisions.error_shares(
            self.failure_prob, self.problem.noise_sd is None, self._one_shot, dismiss, self.looks
        )

    @property
    def _one_shot(self) -> bool:
        return self.budget is not None and self.first_screening() is None

    @property
    def bound(self) -> str:
        """Which certificate a selection uses."""
        return "subgaussian" if self.noise == "subgaussian" else self.certificate

    def known(self, state: CfsState) -> Knowledge:
        """What screening may use of what the user knows.

        The least effect is the look's, where one is planned, and where none pays, dismissals would cost more than they
        bring. With a budget, screening dismisses factors.
        """
        dismisses = self.shares(state).dismissal > 0 and not self.tied
        return Knowledge(self.max_parents, self.min_effect if dismisses else None)

    def first_screening(self) -> int | None:
        """Runs of the first screening block; None when a budget is too small to screen at all.

        The more the rest of the study will take, the more it pays to know before it is planned.
        """
        wanted = self._wanted_first()
        return wanted if wanted is None or self.max_runs is None else min(wanted, self.max_runs)

    def _wanted_first(self) -> int | None:
        levels, noise_sd = self.n_levels, self.problem.noise_sd
        if self.budget is not None:
            n_runs = decisions.first_block(levels, noise_sd is None, settings.FIRST_SHARE_OF_BUDGET * self.budget)
            too_small = 2 * n_runs > self.budget and noise_sd is not None
            return None if too_small else n_runs
        if noise_sd is not None:
            return decisions.first_block(levels, False, settings.FIRST_SHARE * self._runs_at_once(noise_sd))
        wanted = settings.FIRST_SHARE * self._runs_at_once(settings.USUAL_NOISE * self.tolerance)
        return decisions.first_block(levels, True, max(wanted, settings.TO_MEASURE * sum(m - 1 for m in levels)))

    def _runs_at_once(self, noise_sd: float) -> float:
        """Runs of a single design that would settle everything at once, about; infinite where it overflows."""
        levels = certified_levels(self.n_levels, self.max_parents)
        ratio = decisions.cheap_scale(levels, self.shares().selection, self.bound) * noise_sd / self.tolerance
        return ratio * ratio

    @cached_property
    def looks(self) -> bool:
        """Whether a look is planned: with a least effect, if it is much shorter than a design that settles everything.

        Both lengths grow with the square of the noise, so this can be decided while the noise is not known; whether to
        have it is decided when it is.
        """
        if self.min_effect is None or self.problem.tolerance is None or self.problem.noise_sd == 0:
            return False
        whole = tuple((m, k not in self.tied) for k, m in enumerate(self.n_levels))
        levels = certified_levels(self.n_levels, self.max_parents)
        return self.paying_look(whole, levels, self.problem.noise_sd or self.tolerance) is not None

    def looks_in(self, state: CfsState) -> bool:
        """Whether a look is part of this study."""
        return self.looks and state.rules > 1

    def paying_look(
        self, factors: tuple[tuple[int, bool], ...], at_stake: tuple[int, ...], noise_sd: float
    ) -> Look | None:
        """The look over factors with so many levels in play, and whether those are all; None where it does not pay.

        It must be much shorter than a design that settles all that is at stake. A look's design has more rows than
        parameters however small the noise is.
        """
        assert self.min_effect is not None  # see looks
        most = settings.LARGEST_RATIO
        if not all(1 / most < x / noise_sd < most for x in (self.min_effect, self.tolerance)):
            return None  # numbers that no experiment has
        look = self._look_over(factors, noise_sd)
        single = (decisions.cheap_scale(at_stake, self.failure_prob, self.bound) * noise_sd / self.tolerance) ** 2
        length = max(look.n_runs, settings.LOOK_ROWS * sum(m - 1 for m, _ in factors))
        fits = look.n_runs * self.space.n_factors <= self.most_cells
        return look if fits and length < settings.LOOK_PAYS * single else None

    def _look_over(self, factors: tuple[tuple[int, bool], ...], noise_sd: float) -> Look:
        assert self.min_effect is not None  # see looks
        unknown = self.problem.noise_sd is None
        rest = decisions.error_shares(self.failure_prob, unknown, one_shot=False, look=True).selection
        effect, ordered = self.min_effect / noise_sd, tuple(sorted(factors))
        if self.noise == "subgaussian":
            return plan_subgaussian_look(ordered, effect, rest)
        proven = self.certificate == "proven"
        return plan_look(ordered, effect, self.tolerance / noise_sd, rest, self.max_parents, proven)

    def selection_risk(self, state: CfsState) -> tuple[float, float]:
        """How often the selection may fail, and the share of the tolerance at which its envelope ends."""
        if state.look is None:
            return self.shares(state).selection, 0.0
        return state.look.selection, state.look.reach

    def confidence(self, state: CfsState) -> Confidence:
        """What the radii are made of at this point of the study."""
        assert state.noise_sd is not None  # known from the start, or bounded after the first block
        assert state.rho is not None  # set by the first block
        shares, n_factors = self.shares(state), self.space.n_factors
        dismissal = shares.dismissal / n_factors
        if state.rules == 1 and self.problem.noise_sd is not None:
            dismissal *= 0.1  # 0.1.0 spent the rest at the end of its first block
        planned = state.rho / settings.RHO_SHARE  # what rho is tuned to must not depend on outcomes
        if self.min_effect is not None and self.problem.noise_sd is not None:
            planned = (settings.DISMISSED_AT * self.problem.noise_sd / self.min_effect) ** 2
        return Confidence(
            noise_sd=state.noise_sd,
            pair_error=decisions.pair_error(
                shares.screening, self.n_levels, self.looks_in(state) or (self.max_parents or n_factors) < n_factors
            ),
            pair_rho=state.rho,
            dismissal_error=dismissal,
            dismissal_rho=settings.RHO_SHARE * planned,
        )

    def most_screening(self, noise_sd: float) -> float:
        """Screening for longer than a single design would take cannot be worth it."""
        if self.problem.tolerance is None:
            return math.inf
        return max(self._runs_at_once(noise_sd), float(self.first_screening() or 0))

    # Asking and telling

    def start(self) -> CfsState:
        """All levels in play, no runs."""
        n_levels = self.n_levels
        first = self.first_screening()
        look, noise_sd = None, self.problem.noise_sd
        if self.looks and noise_sd is not None:
            levels = certified_levels(n_levels, self.max_parents)
            look = self.paying_look(tuple((m, k not in self.tied) for k, m in enumerate(n_levels)), levels, noise_sd)
        return CfsState(
            stage=LOOK if look is not None else SELECTION if first is None else SCREENING,
            target=look.n_runs if look is not None else float(first or self.budget or 0),
            active=all_levels(n_levels),
            leaders=(0,) * len(n_levels),
            evidence=Evidence.none(n_levels),
            sums=LevelSums.empty(n_levels),
            noise_sd=noise_sd,
            look=look,
            rules=RULES,
        )

    def design(self, state: CfsState, seed: int) -> Design:
        """The design of the current block, from its seed: always the same one."""
        wanted, left = self._wanted_design(state, seed), self._left(state)
        if self.max_runs is None or left is None or wanted.n_runs <= left:
            return wanted
        return largest_design(state.open_sizes, left, seed)

    def _left(self, state: CfsState) -> int | None:
        """Runs that are left of a budget, or of the most that a study may have; None where there is no limit."""
        most = self.budget if self.budget is not None else self.max_runs
        return None if most is None else most - (state.n_runs - state.sums.n_runs - state.n_past)

    def _wanted_design(self, state: CfsState, seed: int) -> Design:
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
        sums, n_runs = state.sums.add(batch.codes, y), state.n_runs + batch.n_runs
        state = replace(state, seed=batch.focus, digest=design.digest, sums=sums, n_runs=n_runs)
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
        inflation = design.inflation if math.isfinite(design.inflation) else 0.0  # a short block, when it goes on
        block = BlockRecord(state.stage, design.n_runs, seed, design.kind, inflation, design.digest)
        evidence = state.evidence.add(*state.pairs(estimate))
        state = replace(
            state,
            evidence=evidence,
            rho=state.rho or settings.RHO_SHARE * float(np.median(evidence.information[evidence.information > 0])),
            residual_square=state.residual_square + estimate.residual_square,
            residual_dof=state.residual_dof + estimate.residual_dof,
            blocks=(*state.blocks, block),
            sums=LevelSums.empty(self.n_levels),
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
        return decisions.after_look(
            state, state.look, before.open_factors, varied, effects, root_n, self.n_levels, self.tied
        )

    def _fair_effects(
        self, design: Design, estimate: BlockEstimate, noise_sd: float, seed: int, single: bool
    ) -> tuple[NDArray[np.float64], ...]:
        """Estimates whose errors are independent over factors and alike over levels, as certificates need them."""
        if self.noise != "gaussian":
            return estimate.effects
        # a stream of its own, fixed by the block's seed, so that the verdict can be recomputed
        return independent_effects(design, estimate.effects, noise_sd, np.random.default_rng([seed, 1]), single)

    def _bound_noise(self, state: CfsState, at_any_time: bool = False) -> CfsState:
        """When the noise is not known: an upper bound from the first block, and one that holds at any time."""
        if self.problem.noise_sd is not None:
            return state
        half, square, dof = self.shares().noise / 2, state.residual_square, state.residual_dof
        first = state.noise_sd is None and not at_any_time
        if dof < 1 or (at_any_time and not math.isfinite(anytime_noise_bound(square, dof, half))):
            return state  # nothing tells the noise yet
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

    # Deciding between blocks

    def standing(self, state: CfsState) -> Standing:
        """What the evidence says at this point, under what the user knows."""
        parents, closed = np.zeros((2, self.space.n_factors), dtype=bool)
        parents[list(state.parents)] = True
        closed[list(state.closed)] = True
        in_play = level_mask(state.active, max(self.n_levels))
        radii = self.confidence(state).radii(state.evidence.information)
        return assess(self.n_levels, state.evidence.estimates, radii, in_play, parents, closed, self.known(state))

    def screen(self, state: CfsState) -> tuple[CfsState, Standing]:
        """Drop what the evidence rules out and write it into the ledger; and the standing, which is the same after."""
        now = self.standing(state)
        wrong = {k for k in state.closed if not now.active[k, state.leaders[k]]}
        if wrong:  # a closed factor whose level is ruled out matters after all: what is left of it is settled again
            state = replace(state, closed=tuple(k for k in state.closed if k not in wrong))
            now = self.standing(state)
        # a closed factor keeps the level at which it was closed
        leaders = (
            old if k in state.closed else int(new)
            for k, (old, new) in enumerate(zip(state.leaders, now.leaders, strict=True))
        )
        changes = entries(now, state.evidence, state.active, state.eliminations, state.n_runs)
        screened = replace(state, leaders=tuple(leaders), **changes)
        return screened, now

    def decide(self, state: CfsState, now: Standing) -> CfsState:
        """Stop, have the look, go on screening, or select; `now` is the state's standing."""
        assert state.noise_sd is not None  # see confidence
        if state.last:
            return self._ended(state)
        enough = 0.0 if self.budget is not None else (1 - state.reach) * self.tolerance
        if now.upper_loss <= enough:
            return replace(state, finished=True, certified=self.screened(state))
        sizes = state.open_sizes
        if self.looks_in(state) and not state.looked and state.noise_sd > 0:
            at_stake = state.at_stake(self.max_parents)
            look = self.paying_look(decisions.look_factors(state, self.n_levels, self.tied), at_stake, state.noise_sd)
            left = self._left(state)
            if look is not None and (left is None or look.n_runs < left):
                return replace(state, stage=LOOK, look=look, target=look.n_runs)
        following, left = decisions.next_block(sizes, state.n_runs), self._left(state)
        least = sum(m - 1 for m in sizes) + 2
        if left is not None and left < least:
            return self._ended(state)
        prospect = self.prospect(state, now, following, left if self.budget is not None else None)
        last = left is not None and following + least > left
        if last or prospect.selection_pays(self.most_screening(state.noise_sd)):
            if left is not None and self.budget is not None:
                return replace(state, stage=SELECTION, target=float(left))
            risk, reach = self.selection_risk(state)
            scale = scale_needed(now.at_stake, risk, self.bound, reach)
            target = (scale * state.noise_sd / self.tolerance) ** 2
            # noise that turned out larger than any design can answer: the verdict then certifies what it reached
            target = min(target, self.most_cells / self.space.n_factors)
            return replace(state, stage=SELECTION, target=target)
        return replace(state, stage=SCREENING, target=float(following))

    def prospect(self, state: CfsState, now: Standing, following: int, left: int | None) -> Prospect:
        """What further screening could bring, the next block being of this size."""
        tolerance, risk = self.problem.tolerance, self.selection_risk(state)
        return Prospect(
            state, now, self.known(state), self.confidence(state), following, self.bound, tolerance, left, *risk
        )

    def screened(self, state: CfsState) -> float:
        """The tolerance that the evidence certifies by itself: what the leaders may lose and what the look may have."""
        assert state.upper_loss is not None  # set by the first block
        return state.upper_loss + (state.reach * self.tolerance if state.reach else 0.0)

    def single(self, state: CfsState) -> bool:
        """Whether only one factor can lose anything, so that factors need not be independent of each other."""
        return self.max_parents is not None and len(state.at_stake(self.max_parents)) == 1

    def absorb(
        self, state: CfsState, codes: Codes, outcomes: ArrayLike, stage: str, order: ArrayLike | None = None
    ) -> CfsState:
        """Add runs that were not asked for, or asked for on a decision that has since been corrected; decide again.

        The radii hold for any rows that were chosen before their outcomes were seen: the pooled differences stay a
        martingale (docs/theory, section 5). Contrasts that these rows do not determine get no evidence. The runs say
        nothing about the size of the noise here, and never enter a selection, which needs fresh runs.

        >>> from levers import Problem, Space
        >>> cfs = TwoStage(Problem(Space.sized([2, 2]), 0.5, 0.1, 1.0))
        >>> rows = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
        >>> state = cfs.absorb(cfs.start(), rows, [0.0, 1.0, 5.0, 6.0], "past data")
        >>> round(state.evidence.estimate(0, 1, 0), 6), state.blocks[0].stage
        (5.0, 'past data')
        """
        rows = np.asarray(codes, dtype=np.int16)
        y = self.accept(Batch(rows, stage), outcomes)
        state, first = self._with_runs(state, Moments.empty(self.n_levels).add(rows, y), stage, rows), state.rho is None
        selected = state.finished and state.stage == SELECTION
        if selected or (first and stage == PAST):  # what is tuned to the first block waits for it
            return state
        return self._go_on(self._tuned(self._bound_noise(state) if first else state))

    def _go_on(self, state: CfsState) -> CfsState:
        """Screen and decide on the evidence there is; while nothing tells the noise, one more block."""
        state = replace(state, stage=SCREENING, finished=False, certified=None, stopped=False, last=False)
        if state.noise_sd is None:
            return replace(state, target=float(decisions.next_block(state.open_sizes, state.n_runs)))
        return self.decide(*self.screen(state))

    def _with_runs(self, state: CfsState, runs: Moments, stage: str, rows: Codes) -> CfsState:
        """The state with runs added as evidence, as far as their rows determine a contrast.

        Only runs of a first block say something about the size of the noise.
        """
        fit = Fit(runs)
        these, those = level_pairs(self.n_levels)
        theta = np.nan_to_num(fit.theta)
        differences, variances = theta[these] - theta[those], fit.pair_variances(these, those)
        if state.noise_sd is None and stage != PAST and fit.residual_dof > 0:
            square, dof = state.residual_square + fit.residual_square, state.residual_dof + fit.residual_dof
            state = replace(state, residual_square=square, residual_dof=dof)
        return replace(
            state,
            evidence=state.evidence.add(differences, variances),
            n_runs=state.n_runs + runs.n_runs,
            blocks=(*state.blocks, BlockRecord(stage, runs.n_runs, 0, "as run", 0.0, rows_digest(rows))),
        )

    def _tuned(self, state: CfsState) -> CfsState:
        """With the radii tuned to the first block as it was planned, where what was run of it may follow outcomes."""
        planned = float(self.first_screening() or self.budget or 0) / (2 * float(np.median(self.n_levels)))
        return state if state.rho is not None else replace(state, rho=settings.RHO_SHARE * planned)

    # Stopping, and going on after the end

    def finish(self, state: CfsState, codes: Codes, outcomes: ArrayLike, order: ArrayLike | None = None) -> CfsState:
        """The end, whenever one likes: the told runs of the block under way join the evidence, which holds at any time.

        Nothing is selected: a selection is planned in advance.

        >>> from levers import Problem, Space
        >>> cfs = TwoStage(Problem(Space.sized([2, 2]), 0.5, 0.1, 1.0))
        >>> state = cfs.finish(cfs.start(), np.array([[0, 0], [0, 1], [1, 0]]), [0.0, 1.0, 5.0])
        >>> cfs.ask(state, np.random.default_rng(0)).assignment.codes
        (1, 1)
        """
        if state.finished:
            return state
        rows = np.asarray(codes, dtype=np.int16).reshape(-1, self.space.n_factors)
        runs = self._told_so_far(state).add(rows, self.accept(Batch(rows, state.stage), outcomes))
        first, before = state.rho is None, state.sums.n_runs
        stage = SCREENING if state.stage == LOOK else state.stage  # what was run of a look is evidence, but no look
        state = replace(
            state,
            sums=LevelSums.empty(self.n_levels),
            seed=None,
            digest=None,
            n_runs=state.n_runs - before,
            stopped=True,
        )
        if runs.n_runs:
            state = self._with_runs(state, runs, stage, rows)
        state = self._tuned(self._bound_noise(state, at_any_time=True))
        if state.noise_sd is not None:
            state, _ = self.screen(state)
        state = self._ended(state)
        if state.certified is None and first:
            pooled = PooledSums.empty(self.n_levels)
            found = posterior(pooled.add(runs) if runs.n_runs else pooled, self.problem.noise_sd)
            state = replace(state, leaders=leaders_of(Choices(self.n_levels), found))
        return state

    def _told_so_far(self, state: CfsState) -> Moments:
        """What was told of the block under way, with the rows that its design has for it."""
        sums, none = state.sums, Moments.empty(self.n_levels)
        if not sums.n_runs:
            return none
        assert state.seed is not None  # known from the block's first runs on
        begun = replace(state, sums=LevelSums.empty(self.n_levels))
        counts = pair_counts(begun.rows(self.design(state, state.seed), sums.n_runs), self.n_levels)
        return Moments(self.n_levels, sums.n_runs, sums.mean, sums.square, sums.sums, counts)

    def _ended(self, state: CfsState) -> CfsState:
        """The end with what the evidence certifies, or with what a selection did that was made before it went on.

        Both have shares of the failure probability of their own, so the better one may be taken.
        """
        certified = None if state.upper_loss is None else self.screened(state)
        if state.kept is not None and (certified is None or state.kept[1] <= certified):
            leaders, certified = state.kept
            return replace(state, finished=True, certified=certified, leaders=leaders, selected=True)
        return replace(state, finished=True, certified=certified, selected=False)

    def extend(self, state: CfsState, n_runs: int | None) -> CfsState:
        """Go on after the end: with a block of so many runs, after which it ends again; None goes on by the rules.

        A selection is made once. After it, more runs are evidence, and the better of both is certified.
        """
        if not state.finished:
            raise StateMismatchError("the study has not ended; only one that has can be extended")
        if state.selected:
            assert state.certified is not None  # what a selection ends with
            state = replace(state, kept=(state.leaders, state.certified))
        if not state.open_factors:
            state = replace(state, active=all_levels(self.n_levels), eliminations=(), closed=(), parents=())
        if n_runs is None and state.kept is None and state.rho is not None:
            again = self._go_on(state)
            if not again.finished:
                return again
        if n_runs is None:
            n_runs = decisions.next_block(state.open_sizes, state.n_runs)
        check_count("n_runs", n_runs)
        if n_runs * self.space.n_factors > self.most_cells:
            raise InvalidSettingError(f"{n_runs:,} runs are more than a design can hold; take fewer", field="n_runs")
        begun = replace(state, stage=SCREENING, target=float(n_runs), last=True, stopped=False, selected=False)
        return replace(begun, finished=False, certified=None)

    def resume(self, state: CfsState) -> CfsState:
        """Decide anew on all runs, as after a screening block, for what is asked for now."""
        if state.n_runs == 0:
            return state
        state = replace(
            state, active=all_levels(self.n_levels), eliminations=(), closed=(), parents=(), selected=False, kept=None
        )
        noise_sd = self.problem.noise_sd
        if noise_sd is not None:
            state = replace(state, noise_sd=noise_sd)
        return self._go_on(self._tuned(self._bound_noise(state, at_any_time=True)))

    # What a state says

    def interim(self, state: CfsState) -> Verdict | None:
        """What could be certified if the study ended now, from the screening evidence alone; None before a block."""
        if state.upper_loss is None:
            return None
        return self.verdict(replace(state, certified=self.screened(state)) if not state.finished else state)

    def verdict(self, state: CfsState) -> Verdict:
        """The verdict of a finished study."""
        noise_sd = math.inf if state.noise_sd is None else state.noise_sd
        bounded = state.selected or state.looked  # by more than what holds at any time
        effect = self.min_effect if state.looked or self.shares(state).dismissal else None  # if it was relied on
        error = self.failure_prob - self.shares(state).noise
        estimates, intervals = decisions.loss_intervals(
            state.evidence, state.leaders, self.n_levels, noise_sd, error, state.rho
        )
        if not math.isfinite(noise_sd):
            intervals = tuple((None,) * m for m in self.n_levels)
        sure = {k for k, row in enumerate(intervals) if any(pair and (pair[0] > 0 or pair[1] < 0) for pair in row)}
        # a dropped level is sure to be worse only where all pairs were charged for: where max_parents says something
        says_something = self.max_parents is not None and self.max_parents < self.space.n_factors
        named = set(state.parents) if says_something else set()
        stages: tuple[tuple[str, int], ...] = ()
        for block in state.blocks:
            stages = add_runs(stages, block.stage, block.n_runs)
        known = self.problem.noise_sd is not None
        provisos = [decisions.EQUAL_GAPS] if bounded and self.bound == "slippage" else []
        if state.certified is None:
            provisos = [decisions.NOTHING_CERTIFIED]
        if state.stopped:
            provisos.append(STOPPED_EARLY)
        claimed = effect is not None or says_something
        unclaimed = self._without_claims(state) if claimed and state.certified is not None else None
        provisos += only_with_claims(claimed, state.certified, unclaimed)
        return Verdict(
            algorithm=self.name,
            assignment=self.space.assignment(state.leaders),
            n_runs=sum(block.n_runs for block in state.blocks) - state.n_past,
            tolerance=state.certified,
            failure_prob=self.failure_prob,
            guarantee=decisions.selection_guarantee(bounded, self.bound, known, self.max_parents, effect),
            provisos=tuple(provisos),
            parents=tuple(self.space.names[k] for k in sorted(sure | named)),
            effects=estimates,
            eliminations=state.eliminations,
            runs_by_stage=stages,
            intervals=intervals,
            certificate=self.bound if bounded else "anytime",
            noise=f"known, sd {noise_sd:g}" if known else f"estimated, sd at most {noise_sd:.4g}",
            problem=self.problem,
            options=tuple(
                (f.name, getattr(self, f.name))
                for f in fields(self)
                if f.init and f.name != "problem" and (f.name not in ("tied", "max_runs") or getattr(self, f.name))
                # verdicts of before have none of these
            ),
            blocks=state.blocks,
            rules=state.rules,
            tolerance_without_claims=None if unclaimed is None else max(unclaimed, state.certified or 0.0),
        )

    def _without_claims(self, state: CfsState) -> float | None:
        """The tolerance that the same runs certify if the claims may be false; None where there is none."""
        closes = self.max_parents is not None and self.max_parents < self.space.n_factors
        known, single = self.problem.noise_sd is not None, self.single(state)
        stages = UnclaimedStages(
            self.n_levels, self.failure_prob, self.shares(state), self.bound, known, closes, single
        )
        return stages.tolerance(state)

    def outlook(self, state: CfsState, n_asked: int) -> Outlook:
        """Runs still to come after the current block, from what is known at its start.

        Likely: the cheapest plan of the lookahead, effects being as estimated. Worst case: screening up to its limit,
        then a selection among all that is in play now, with what real designs take more than ideal ones. With a noise
        that is not known yet there is no telling before the first block.
        """
        if state.finished or state.stage == SELECTION:
            return Outlook(0, 0)
        if self.budget is not None:
            to_go = max(self.budget - (state.n_runs - state.n_past) - math.ceil(state.target), 0)
            return Outlook(to_go, to_go)
        if state.noise_sd is None:
            return Outlook(None, None)
        found, left = self._unlimited(state, state.noise_sd), self._left(state)
        if left is None:
            return found
        most = max(left - math.ceil(state.target), 0)
        worst = most if found.worst_case is None else min(found.worst_case, most)
        return Outlook(None if found.likely is None else min(found.likely, worst), worst)

    def _unlimited(self, state: CfsState, noise_sd: float) -> Outlook:
        """The same where no most runs are given."""
        block = state.target
        risk, reach = self.selection_risk(state)
        unit = (noise_sd / self.tolerance) ** 2
        selecting = decisions.cheap_scale(state.at_stake(self.max_parents), risk, self.bound, reach) ** 2 * unit
        screening = max(self.most_screening(noise_sd) - state.n_runs - block, 0.0)
        worst_case = math.ceil(screening + decisions.longest_design(state.open_sizes, settings.SLACK * selecting))
        if state.stage == LOOK:  # a look mostly leaves a factor or two
            one_left = decisions.cheap_scale((max(state.open_sizes),), risk, self.bound, reach) ** 2 * unit
            return Outlook(min(math.ceil(one_left), worst_case), worst_case)
        if state.upper_loss is None:
            return Outlook(math.ceil(selecting), worst_case)
        costs = self.prospect(state, self.standing(state), math.ceil(block), None).screening_costs()
        likely = max(math.ceil(min([selecting, *costs]) - block), 0)
        return Outlook(likely, max(worst_case, likely))

    def progress(self, state: CfsState) -> Progress:
        """Leaders, eliminations and the bound on the noise."""
        return Progress(state.leaders, state.eliminations, state.noise_sd, state.finished)
