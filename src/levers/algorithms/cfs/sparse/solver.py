"""Very many factors, few of which matter: parents are found one by one, in far fewer runs than there are levels.

All factors not found yet vary in independent random balanced columns. A factor is found when the residuals of the fit
on those found before differ more between its levels than shuffling its column could explain. When `max_parents` are
found, the others are closed, and the parents are settled by all runs together. Until then the certificate counts as
many unknown factors as there may be. The argument is in docs/theory/sparse.md.
"""

import math
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

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
    only_with_claims,
)
from levers.algorithms.cfs import settings
from levers.algorithms.cfs.decisions import NOTHING_CERTIFIED, Intervals, Losses, equal_gaps
from levers.algorithms.cfs.settings import SCREENING, SELECTION
from levers.algorithms.cfs.sparse.certificate import Configuration, runs_to_go
from levers.algorithms.cfs.sparse.finding import beyond_chance, level_groups, unexplained_variance
from levers.algorithms.cfs.sparse.state import (
    ParentFit,
    SparseBlock,
    SparseState,
    block_codes,
    block_rows,
    is_balanced,
    level_counts,
)
from levers.algorithms.cfs.state import rows_digest
from levers.core.certificates.certificate import certified_levels, check_failure_prob, scale_needed, stakes_tolerance
from levers.core.model.elimination import Elimination
from levers.core.model.evidence import anytime_noise_bound, anytime_radius, noise_upper_bound
from levers.core.model.level_index import Numbers
from levers.core.model.pooled import OutcomeSteps
from levers.core.space import Codes
from levers.core.validation import check_count
from levers.errors import InvalidSettingError, OutcomeMismatchError, StateMismatchError

POOLED = Remark(
    "pooled selection",
    "levels are dropped and chosen by all runs together, in random columns whose errors are taken as independent "
    "(checked numerically)",
)
EARLY = Remark("ended early", "this holds if the study ends here for a reason that has nothing to do with its outcomes")
UNKNOWN = Remark(
    "unknown factors",
    "the effects of factors not found yet are taken as part of a Gaussian noise (checked numerically)",
)
DESIGN = "random columns"

# shares of the failure probability
FINDING_SHARE = 0.05  # that a factor without effect is called a parent
DROPPING_SHARE = 0.05  # that the best level of a parent is dropped
NOISE_SHARE = 0.1  # that the noise is larger than its bound, where it is estimated
FIRST_TESTS = 2 / 3  # of the share for finding: the first test after each block; the rest is for those after a find
CLOSED_DROPS = 1 / 2  # of the share for dropping: when all parents are found

# lengths of blocks
FIRST_SHARE = 0.17  # the first block's share of the runs that would settle max_parents factors at once
SHORTEST_FIRST = 60  # and its least runs besides the parameters
GROWTH = 0.25  # a later block has this share of the runs so far
SHORTEST = 50  # and no fewer than these
NEARLY_ALL = 0.65  # if a block of that size has this share of what is to go, it has all of it
SPARE_RUNS = 1.03  # then it has what is to go, and a little for columns that are not quite orthogonal
EVEN_LENGTH = 60  # blocks are a multiple of all numbers of levels, where that is no more than this
FINDING_RUNS = 25  # that a study takes over those that settle as many factors as may matter, if none does, about
WORST_SHARE = 1.6  # times the runs so far and those to go that it takes at most, about, while parents are not found
BLOCK_CELLS = 20_000_000  # runs times factors of the longest block: 40 MB


@dataclass(frozen=True)
class Sparse(Algorithm):
    """At most `max_parents` of very many factors matter: find them in random columns, and settle them.

    `batch_size` is the most runs asked for at a time, `max_runs` the most of the whole study. Runs that are no whole
    block of the study are left out (see `absorb`): the proof that no factor is found by mistake needs columns that were
    shuffled independently of everything else.

    >>> from levers import Problem, Space
    >>> sparse = Sparse(Problem(Space.sized([3] * 100), 0.5, 0.1, 1.0), max_parents=2, batch_size=8)
    >>> sparse.ask(sparse.start(), np.random.default_rng(0)).codes.shape
    (8, 100)
    """

    name: ClassVar[str] = "cfs"
    certifies_early: ClassVar[bool] = True
    compares_within_blocks: ClassVar[bool] = True
    finishes_early: ClassVar[bool] = True

    max_parents: int
    batch_size: int | None = None
    most_cells: int = settings.MOST_CELLS
    max_runs: int | None = None

    def __post_init__(self) -> None:
        self.check_max_parents(self.max_parents)
        if self.batch_size is not None:
            check_count("batch_size", self.batch_size)
        check_count("most_cells", self.most_cells)
        _ = self.tolerance
        check_failure_prob(self.failure_prob)
        if self.max_runs is not None:
            check_count("max_runs", self.max_runs, self.least_first)
        most_runs = self.runs_at_once(self.problem.noise_sd or 0.0)
        if most_runs * self.space.n_factors > self.most_cells:
            raise InvalidSettingError(
                f"this may take {most_runs:.2g} runs, more than a design can hold; raise the tolerance",
                field="tolerance",
            )

    # What follows from the settings: shares of the error, lengths

    @cached_property
    def parent_levels(self) -> tuple[int, ...]:
        """The level counts of as many factors as may matter, the largest."""
        return certified_levels(self.n_levels, self.max_parents)

    @cached_property
    def selection_prob(self) -> float:
        """The share of the failure probability that is left for choosing wrong levels."""
        noise = NOISE_SHARE if self.problem.noise_sd is None else 0.0
        return self.failure_prob * (1 - FINDING_SHARE - DROPPING_SHARE - noise)

    @cached_property
    def n_comparisons(self) -> int:
        """Two sides for each comparison of some levels of a factor with the others."""
        return sum(2 * len(level_groups(m)) for m in self.n_levels)

    def find_error(self, look: int, found_now: int) -> float:
        """The error of one side of one comparison, in a test after block `look` that follows so many finds after it.

        After each find there is one more test, max_parents at most; the first tests share sum 1 / (j (j + 1)) = 1.
        """
        share = FIRST_TESTS / (look * (look + 1)) if not found_now else (1 - FIRST_TESTS) / self.max_parents
        return FINDING_SHARE * self.failure_prob * share / self.n_comparisons

    def drop_error(self, n_found: int) -> float:
        """The error of one comparison of a parent's level with its best one, when so many parents are found.

        Which parents are found depends on the outcomes, so each set of `n_found` parents gets its part. It may be too
        small for a number: then it is zero, and nothing is dropped.
        """
        share = CLOSED_DROPS if n_found == self.max_parents else (1 - CLOSED_DROPS) / self.max_parents
        n_comparisons = sum(m - 1 for m in self.parent_levels)
        return DROPPING_SHARE * self.failure_prob * share / n_comparisons / n_subsets(self.max_parents, n_found)

    def runs_at_once(self, noise_sd: float) -> float:
        """Runs of an ideal design that would settle max_parents factors, if they were known."""
        ratio = scale_needed(self.parent_levels, self.selection_prob) * noise_sd / self.tolerance
        return ratio * ratio

    def runs_of_all(self, noise_sd: float) -> tuple[int, int]:
        """Runs of a whole study if no factor matters, about, and at most; counted on simulated studies.

        Parents that are not found yet disturb the others, so that a study in which some matter may take longer.
        """
        once = max(self.runs_at_once(noise_sd), float(self.first_block))
        return math.ceil(once) + FINDING_RUNS, math.ceil(WORST_SHARE * once) + SHORTEST_FIRST

    @cached_property
    def first_block(self) -> int:
        """Runs of the first block, fixed before any outcome."""
        noise_sd = self.problem.noise_sd or settings.USUAL_NOISE * self.tolerance
        wanted = self.even(max(FIRST_SHARE * self.runs_at_once(noise_sd), self.least_first))
        return wanted if self.max_runs is None else min(wanted, self.max_runs)

    @cached_property
    def least_first(self) -> int:
        """The least runs of the first block: enough to fit all parents and to tell the noise."""
        return sum(m - 1 for m in self.parent_levels) + SHORTEST_FIRST

    @cached_property
    def rho(self) -> float:
        """What the radius of drops is tuned to: a share of the information of the first block on a pair of levels."""
        return settings.RHO_SHARE * self.first_block / (2 * max(self.n_levels))

    def even(self, n_runs: float, closed: bool = False) -> int:
        """A length of a block that all numbers of levels divide, where there is a short one; and not too long.

        When all parents are found, what the fit measures is certified, and equal counts matter no more.
        """
        together = math.lcm(*set(self.n_levels))
        unit = together if together <= EVEN_LENGTH and not closed else 1
        longest = max(min(BLOCK_CELLS, self.most_cells) // self.space.n_factors, self.least_first)
        return min(math.ceil(n_runs / unit), math.ceil(longest / unit)) * unit

    # Asking and telling

    def start(self) -> SparseState:
        """Nothing found, no runs."""
        return SparseState(self.first_block, (0,) * self.space.n_factors, noise_sd=self.problem.noise_sd)

    def block(self, state: SparseState, seed: int) -> SparseBlock:
        """The block under way, or the next one with this seed."""
        closed = len(state.found) >= self.max_parents
        return state.under_way or SparseBlock(seed, state.target, state.found, state.active, closed)

    def ask(self, state: SparseState, rng: np.random.Generator) -> Batch | Verdict:
        """The next runs of the block under way, or the verdict."""
        if state.finished:
            return self.verdict(state)
        return self.batch(state, int(rng.integers(2**62)) if state.under_way is None else state.under_way.seed)

    def batch(self, state: SparseState, seed: int) -> Batch:
        """The next runs of the block with this seed."""
        return self._due(state, self.block(state, seed), self.batch_size or CHUNK)

    def _due(self, state: SparseState, block: SparseBlock, most: int) -> Batch:
        done = len(state.partial)
        codes = block_codes(block, self.n_levels, state.leaders, done, min(done + most, block.n_runs))
        return Batch(codes, SELECTION if block.closed else SCREENING, focus=block.seed)

    def tell(self, state: SparseState, batch: Batch, outcomes: ArrayLike) -> SparseState:
        """Add runs to the block; when it is complete, decide."""
        y = self.accept(batch, outcomes)
        self.check_due(not state.finished)
        if batch.focus is None:
            raise OutcomeMismatchError("a batch of cfs carries its block's seed; tell the one that ask returned")
        block = self.block(state, batch.focus)
        due = self._due(state, block, batch.n_runs)
        same = np.array_equal(due.codes, batch.codes)
        self.check_due(due.stage == batch.stage and due.focus == batch.focus and same)
        return self._take(state, block, y)

    def tell_block(self, state: SparseState, batch: Batch, outcomes: ArrayLike) -> SparseState:
        """Like `tell`, for a whole block whose rows were kept when it was designed; those rows are the design."""
        y = self.accept(batch, outcomes)
        self.check_due(not state.finished and state.under_way is None)
        try:
            return self.tell(state, batch, y)
        except OutcomeMismatchError:
            block = self._as_stored(state, batch)
            self.check_due(batch.stage == (SELECTION if block is not None and block.closed else SCREENING))
            if block is None:
                raise OutcomeMismatchError("these rows are not of the block that is due: it is balanced") from None
            return self._take(state, block, y)

    def _as_stored(self, state: SparseState, batch: Batch) -> SparseBlock | None:
        """The rows of a batch as the block that is due; None where they cannot be that."""
        block = replace(self.block(state, batch.focus or 0), n_runs=batch.n_runs)
        varied = block.varied(self.n_levels)
        still = np.delete(batch.codes == np.array(state.leaders), varied, axis=1).all()
        if not still or not is_balanced(batch.codes[:, varied], block, self.n_levels):
            return None
        return replace(block, rows=batch.codes[:, varied])

    def absorb(
        self, state: SparseState, codes: Codes, outcomes: ArrayLike, stage: str, order: ArrayLike | None = None
    ) -> SparseState:
        """Whole blocks of the study itself, as if they had been asked for now; all other runs are left out.

        A block that another decision came before is left out too, if its columns are not those of random balanced ones.
        """
        batch = Batch(np.asarray(codes, dtype=np.int16), stage)
        y = self.accept(batch, outcomes)
        block = None if stage == PAST or state.under_way is not None else self._as_stored(state, batch)
        return state if block is None else self._take(replace(state, finished=False, stopped=False), block, y)

    def _take(self, state: SparseState, block: SparseBlock, y: Numbers) -> SparseState:
        partial = np.concatenate([state.partial, y])
        if len(partial) < block.n_runs:
            return replace(state, partial=partial, under_way=block)
        state = replace(
            state,
            outcomes=np.concatenate([state.outcomes, partial]),
            partial=np.zeros(0),
            under_way=None,
            blocks=(*state.blocks, block),
            digests=(*state.digests, rows_digest(block_rows(block, self.n_levels))),
        )
        return self._decide(state)

    # Stopping, and going on after the end

    def finish(
        self, state: SparseState, codes: Codes, outcomes: ArrayLike, order: ArrayLike | None = None
    ) -> SparseState:
        """The end with what the complete blocks certify, whenever one likes.

        The runs of the block under way are left out: the proof that no factor is found by mistake needs whole columns.
        Before the first block is complete they choose the levels, by their means, and nothing is certified.
        """
        if state.finished:
            return state
        rows = np.asarray(codes, dtype=np.int16).reshape(-1, self.space.n_factors)
        y = self.accept(Batch(rows, SCREENING), outcomes)
        if not state.blocks:
            if state.under_way is not None:
                done = block_codes(state.under_way, self.n_levels, state.leaders, 0, len(state.partial))
                rows, y = np.concatenate([done, rows]), np.concatenate([state.partial, y])
            state = replace(state, leaders=_mean_leaders(rows, y, self.n_levels))
        return replace(state, partial=np.zeros(0), under_way=None, finished=True, stopped=True, charged=True)

    def extend(self, state: SparseState, n_runs: int | None) -> SparseState:
        """Go on after the end: with a block of about so many runs, after which it ends again; None: by the rules."""
        if not state.finished:
            raise StateMismatchError("the study has not ended; only one that has can be extended")
        state = replace(state, finished=False, stopped=False, last=False, charged=True)
        if not state.blocks:
            return state if n_runs is None else replace(state, target=max(self.even(n_runs), self.least_first))
        if n_runs is None:
            return self._planned(state, self.fit(state), last=False)
        check_count("n_runs", n_runs)
        return replace(state, target=self.even(n_runs, len(state.found) == self.max_parents), last=True)

    def resume(self, state: SparseState) -> SparseState:
        """Stop or go on by what is asked for now: parents found and levels dropped stay as they are."""
        if not state.blocks:
            return state
        again = replace(state, finished=False, stopped=False, last=False, charged=True)
        if self.problem.noise_sd is not None:
            again = replace(again, noise_sd=self.problem.noise_sd)
        fit = self.fit(again)
        return self._planned(self._bound_noise(again, fit), fit, last=False)

    # Deciding between blocks

    def _decide(self, state: SparseState) -> SparseState:
        """Find parents, drop their levels, and stop or go on: all that follows a block."""
        closed = state.blocks[-1].closed
        state, fit, sums = (state, self.fit(state), None) if closed else self._find(state)
        state = replace(state, inflations=(*state.inflations, fit.inflation))
        state = self._bound_noise(state, fit)
        return self._planned(self._lead(self._drop(state, fit), fit, sums), fit, state.last)

    def risk(self, state: SparseState) -> float:
        """The share of the failure probability that a certificate has: less where outcomes may have chosen its time."""
        return self.selection_prob / (settings.EVERY_LOOK if state.charged else 1.0)

    def _planned(self, state: SparseState, fit: ParentFit, last: bool) -> SparseState:
        """Stop, or go on with a block of so many runs."""
        at_stake, spreads = self._at_stake(state, fit)
        to_go = runs_to_go(at_stake, spreads, self.tolerance, self.risk(state))
        length = max(GROWTH * state.n_runs, SHORTEST)
        if length > NEARLY_ALL * to_go:
            length = SPARE_RUNS * to_go + 1
        target = self.even(length, len(state.found) == self.max_parents)
        # noise that turned out larger than any design can answer: the verdict then certifies what was reached
        finished = last or to_go == 0.0 or state.n_runs * self.space.n_factors >= self.most_cells
        if self.max_runs is not None:
            left = self.max_runs - state.n_runs
            target, finished = min(target, left), finished or left <= 0
        return replace(state, at_stake=at_stake, to_go=to_go, target=target, finished=finished)

    def fit(self, state: SparseState) -> ParentFit:
        """Least squares on the parents found."""
        return ParentFit(self.n_levels, state.blocks, state.outcomes, state.found)

    def _find(self, state: SparseState) -> tuple[SparseState, ParentFit, Numbers]:
        """Add the factors that stand out, as long as any does; and the sums of residuals that are left."""
        found_now = 0
        while True:
            fit = self.fit(state)
            sums = fit.level_sums()
            room = state.n_runs / 2 - fit.n_parameters  # a fit with nearly as many parameters as runs says nothing
            most = min(self.max_parents - len(state.found), int(room / max(self.n_levels)))
            if most <= 0:
                return state, fit, sums
            beyond = beyond_chance(fit, sums, self.find_error(len(state.blocks), found_now))
            beyond[list(state.found)] = 0.0
            new = [k for k in np.argsort(-beyond, kind="stable")[:most].tolist() if beyond[k] > 1]
            if not new:
                return state, fit, sums
            levels = tuple(tuple(range(self.n_levels[k])) for k in new)
            state = replace(state, found=(*state.found, *new), active=(*state.active, *levels))
            found_now += len(new)

    def _bound_noise(self, state: SparseState, fit: ParentFit) -> SparseState:
        """The bound on the noise, where it is not known, and on what the parents found leave unexplained."""
        square, n = fit.residual_square, state.n_runs
        noise_sd = state.noise_sd
        if self.problem.noise_sd is None:
            dof = n - len(state.blocks) - sum(m - 1 for m in self.parent_levels)
            half = NOISE_SHARE * self.failure_prob / 2
            first = len(state.blocks) == 1
            bound = noise_upper_bound(square, dof, half) if first else anytime_noise_bound(square, dof, half)
            noise_sd = max(min(bound, noise_sd or math.inf), self._least_noise(state))
        assert noise_sd is not None  # known, or just bounded
        own = 2 * math.log(self.max_parents / (DROPPING_SHARE * self.failure_prob))
        rest = math.sqrt(unexplained_variance(square, n - fit.n_parameters, own))
        closed = len(state.found) == self.max_parents
        return replace(state, noise_sd=noise_sd, spread=noise_sd if closed else max(noise_sd, rest), rest=rest)

    def _least_noise(self, state: SparseState) -> float:
        """What no residual can show a noise to be below: the outcomes' steps; the usual noise if all are the same."""
        step = OutcomeSteps().add(state.outcomes).resolution
        return settings.USUAL_NOISE * self.tolerance if step is None else step / math.sqrt(12)

    def _drop(self, state: SparseState, fit: ParentFit) -> SparseState:
        """Drop levels of parents found that are behind the leader by more than the radius that holds at all times."""
        assert state.spread is not None  # see _decide
        error = self.drop_error(len(state.found))
        active: list[tuple[int, ...]] = []
        dropped: list[Elimination] = []
        for k, levels in zip(state.found, state.active, strict=True):
            effects, variances = fit.effects(k), fit.variances(k)
            best = max(levels, key=lambda level: effects[level])
            information = np.array([1 / max(variances[level, best], 1e-300) for level in levels])
            radius = anytime_radius(information, state.spread, error, self.rho)
            behind = [float(effects[best] - effects[level]) for level in levels]
            out = {level for level, x, r in zip(levels, behind, radius, strict=True) if level != best and x > r}
            dropped += [Elimination(k, i, state.n_runs, x) for i, x in zip(levels, behind, strict=True) if i in out]
            active.append(tuple(level for level in levels if level not in out))
        return replace(state, active=tuple(active), eliminations=state.eliminations + tuple(dropped))

    def _lead(self, state: SparseState, fit: ParentFit, sums: Numbers | None) -> SparseState:
        """The leading levels: of parents by the fit, of all others by their residuals, for as long as these vary."""
        leaders = np.array(state.leaders)
        if sums is not None:
            counts = np.full(sums.shape, np.inf)
            for m in set(self.n_levels):
                own = np.sum([level_counts(block.n_runs, m) for block in state.blocks], axis=0)
                counts[np.array(self.n_levels) == m, :m] = own
            means = np.where(np.isfinite(counts), sums / counts, -np.inf)
            leaders = means.argmax(axis=1)
        for k, levels in zip(state.found, state.active, strict=True):
            effects = fit.effects(k)
            leaders[k] = max(levels, key=lambda level: effects[level])
        return replace(state, leaders=tuple(leaders.tolist()))

    def _at_stake(self, state: SparseState, fit: ParentFit) -> tuple[Configuration, tuple[float, ...]]:
        """Parents found with levels in play, and the most expensive of as many other factors as may matter; and the
        standard deviation of a single run for each of them.

        What disturbs an unknown factor is what was left unexplained in these very runs, not what is expected to be.
        """
        assert state.spread is not None  # see _decide
        assert state.rest is not None
        factors = []
        for k, levels in zip(state.found, state.active, strict=True):
            if len(levels) > 1:
                widest = float(fit.variances(k)[np.ix_(levels, levels)].max())
                factors.append(((len(levels), state.spread * math.sqrt(widest / 2)), state.spread))
        others = sorted((m for k, m in enumerate(self.n_levels) if k not in set(state.found)), reverse=True)
        for m in others[: self.max_parents - len(state.found)]:
            least = min(np.sum([level_counts(block.n_runs, m) for block in state.blocks], axis=0).tolist())
            error = state.rest * math.sqrt(fit.inflation / least)
            factors.append(((m, error), state.rest))
        factors.sort()
        return tuple(pair for pair, _ in factors), tuple(spread for _, spread in factors)

    # What a state says

    def interim(self, state: SparseState) -> Verdict | None:
        """What is certified if the study ends now for a reason that has nothing to do with its outcomes."""
        return self.verdict(state) if state.blocks else None

    def verdict(self, state: SparseState) -> Verdict:
        """The verdict on the complete blocks."""
        certified = stakes_tolerance(state.at_stake, self.risk(state)) if state.blocks else None
        effects, intervals = self._losses(state) if state.blocks else ((), ())
        stages: tuple[tuple[str, int], ...] = ()
        records = []
        for block, text, inflation in zip(state.blocks, state.digests, state.inflations, strict=True):
            stage = SELECTION if block.closed else SCREENING
            stages = add_runs(stages, stage, block.n_runs)
            design = DESIGN if block.rows is None else "as stored"
            records.append(BlockRecord(stage, block.n_runs, block.seed, design, inflation, text))
        known = self.problem.noise_sd is not None
        provisos = [*equal_gaps(self.n_levels), POOLED]
        if len(state.found) < self.max_parents:
            provisos.append(UNKNOWN)
        if certified is None:
            provisos = [NOTHING_CERTIFIED]
        # fewer runs than parameters: what the others may lose is not known without the claim
        provisos += only_with_claims(self.max_parents < self.space.n_factors, certified, None)
        if state.stopped:
            provisos.append(STOPPED_EARLY)
        elif not state.finished:
            provisos.append(EARLY)
        elif state.charged:
            provisos.append(LENGTH_CHOSEN)
        return Verdict(
            algorithm=self.name,
            assignment=self.space.assignment(state.leaders),
            n_runs=state.n_runs,
            tolerance=certified,
            failure_prob=self.failure_prob,
            guarantee=f"checked numerically for additive effects, Gaussian noise of {'known' if known else 'estimated'}"
            f" size, at most {self.max_parents} factors that matter",
            provisos=tuple(provisos),
            parents=tuple(self.space.names[k] for k in sorted(state.found)),
            effects=effects,
            eliminations=state.eliminations,
            runs_by_stage=stages,
            intervals=intervals,
            certificate="slippage",
            noise=_noise(state.noise_sd, known),
            problem=self.problem,
            options=tuple(
                (f.name, getattr(self, f.name))
                for f in fields(self)
                if f.init and f.name != "problem" and (f.name != "max_runs" or self.max_runs)  # of before: none
            ),
            blocks=tuple(records),
            rules=state.rules,
        )

    def _losses(self, state: SparseState) -> tuple[Losses, Intervals]:
        """What each level of the parents found loses, with intervals that hold for all of them at once."""
        assert state.spread is not None  # there is a complete block
        effects: list[tuple[float | None, ...]] = [(None,) * m for m in self.n_levels]
        intervals: list[tuple[tuple[float, float] | None, ...]] = [(None,) * m for m in self.n_levels]
        fit = self.fit(state)
        n_pairs = sum(m * (m - 1) for m in self.parent_levels) * n_subsets(self.max_parents, len(state.found))
        error = (self.selection_prob + DROPPING_SHARE * self.failure_prob) / (n_pairs * (self.max_parents + 1))
        for k in state.found:
            lead, values, variances = state.leaders[k], fit.effects(k), fit.variances(k)
            with np.errstate(divide="ignore"):
                radius = anytime_radius(1 / variances[lead], state.spread, error, self.rho)
            radius[lead] = 0.0
            lost = [float(values[lead] - value) for value in values]
            effects[k] = tuple(lost)
            halves = zip(lost, radius.tolist(), strict=True)
            intervals[k] = tuple((x - r, x + r) if math.isfinite(r) else None for x, r in halves)
        return tuple(effects), tuple(intervals)

    def outlook(self, state: SparseState, n_asked: int) -> Outlook:
        """Runs after the block under way if nothing more is found or dropped, and at most, about."""
        if state.finished:
            return Outlook(0, 0)
        done = state.n_runs + state.target
        if state.to_go is not None:
            left = max(math.ceil(SPARE_RUNS * state.to_go) - state.target, 0)
            worst = 2 * left + SHORTEST
            if len(state.found) < self.max_parents:
                more = math.ceil(WORST_SHARE * (state.n_runs + state.to_go)) + SHORTEST_FIRST - done
                worst = max(worst, more)
        elif self.problem.noise_sd is None:
            return Outlook()
        else:
            left, worst = (max(n - done, 0) for n in self.runs_of_all(self.problem.noise_sd))
        if self.max_runs is not None:
            most = max(self.max_runs - done, 0)
            left, worst = min(left, most), min(worst, most)
        return Outlook(left, worst)

    def progress(self, state: SparseState) -> Progress:
        """Leaders, eliminations and the noise."""
        return Progress(state.leaders, state.eliminations, state.noise_sd, state.finished)


def _noise(noise_sd: float | None, known: bool) -> str:
    if noise_sd is None:
        return "unknown"
    return f"known, sd {noise_sd:g}" if known else f"estimated, sd at most {noise_sd:.4g}"


def _mean_leaders(rows: Codes, y: Numbers, n_levels: tuple[int, ...]) -> tuple[int, ...]:
    """For each factor the level with the largest mean outcome, among those that were run."""
    leaders = []
    for column, m in zip(rows.T, n_levels, strict=True):
        counts, sums = np.bincount(column, minlength=m), np.bincount(column, y, minlength=m)
        leaders.append(int(np.argmax(np.where(counts > 0, sums / np.maximum(counts, 1), -np.inf))))
    return tuple(leaders)


def n_subsets(n: int, size: int) -> float:
    """How many sets of this size there are among n; infinite when there are too many for a number.

    >>> n_subsets(10, 9), n_subsets(5000, 2500)
    (10.0, inf)
    """
    try:
        return float(math.comb(n, size))
    except OverflowError:
        return math.inf
