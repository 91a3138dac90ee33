"""Parents-first (P1): test each factor for an effect, then MODL on those found (Algorithm 2 and Section 5)."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike

from levers.algorithms.base import CHUNK, AlgorithmBase, Batch, Verdict, add_runs
from levers.algorithms.modl import Modl, ModlState
from levers.algorithms.subspace import Subspace, baseline_of
from levers.core.codec import serialisable
from levers.core.sample_size import parent_test_runs
from levers.core.schedules import SCHEDULES
from levers.core.space import Codes

TESTING = "testing for parents"


@serialisable("ParentsFirstState")
@dataclass(frozen=True, eq=False)
class ParentsFirstState:
    """Where the tests stand: factors done and found, the factor under test, its level, and the interval left."""

    tested: tuple[int, ...] = ()
    found: tuple[int, ...] = ()
    factor: int | None = None
    level: int = 0
    level_runs: int = 0
    level_sum: float = 0.0
    low: float | None = None
    high: float | None = None
    n_runs: int = 0
    runs_by_stage: tuple[tuple[str, int], ...] = ()
    search: ModlState | None = None


@dataclass(frozen=True)
class ParentsFirst(AlgorithmBase):
    """One factor moves at a time around a fixed assignment, at (eps/2, delta/2); then MODL with delta/2.

    Factors are tested in random order; with `max_parents` the tests stop once that many are found. If no factor passes,
    MODL runs on all of them.

    >>> from levers.algorithms.base import Problem
    >>> from levers.core.space import Space
    >>> first = ParentsFirst(Problem(Space.sized([3, 3]), 0.5, 0.1, 1.0))
    >>> first.ask(first.start(), np.random.default_rng(0)).stage
    'testing for parents'
    """

    max_parents: int | None = None
    schedule: str = SCHEDULES[0]
    outcome_bound: float | None = None
    baseline: Sequence[int] | None = None
    name: str = field(init=False, default="parents-first")

    def __post_init__(self) -> None:
        self.check_complete()
        self.check_max_parents(self.max_parents)
        baseline_of(self.space, self.baseline)
        self.search(ParentsFirstState())  # wrong options are refused here

    def level_runs(self, factor: int) -> int:
        """Runs at each level of a factor's test."""
        m = self.space.n_levels[factor]
        return parent_test_runs(self.space.n_factors, m, self.tolerance / 2, self.failure_prob / 2, self.noise_sd)

    def start(self) -> ParentsFirstState:
        """No factor tested."""
        return ParentsFirstState()

    def ask(self, state: ParentsFirstState, rng: np.random.Generator) -> Batch | Verdict:
        """One level of the factor under test, a new factor's first level, or MODL's next batch."""
        if state.search is not None:
            inside, modl = self.search(state)
            step = modl.ask(state.search, rng)
            return inside.widen_batch(step) if isinstance(step, Batch) else self._verdict(state, inside, step)
        factor, row, n_runs = self.next_test(state, rng)
        return Batch(np.tile(row, (min(CHUNK, n_runs), 1)), stage=TESTING, focus=factor)

    def next_test(self, state: ParentsFirstState, rng: np.random.Generator) -> tuple[int, Codes, int]:
        """The factor under test, or a new one; the row that is run, and how many runs it still needs."""
        untested = [k for k in range(self.space.n_factors) if k not in state.tested]
        factor = state.factor if state.factor is not None else int(rng.choice(untested))
        row = np.asarray(baseline_of(self.space, self.baseline), dtype=np.int16)
        row[factor] = state.level
        return factor, row, self.level_runs(factor) - state.level_runs

    def tell(self, state: ParentsFirstState, batch: Batch, outcomes: ArrayLike) -> ParentsFirstState:
        """Narrow the factor's interval, or pass the outcomes on to MODL."""
        y = self.accept(batch, outcomes)
        if state.search is not None:
            inside, modl = self.search(state)
            return replace(state, search=modl.tell(state.search, inside.narrow_batch(batch), y))
        factor = batch.focus
        self.check_due(batch.stage == TESTING and factor is not None and state.factor in (None, factor))
        assert factor is not None  # checked above
        self.check_due(factor not in state.tested and bool((batch.codes[:, factor] == state.level).all()))
        return self.tell_test(state, factor, batch.n_runs, float(y.sum()))

    def tell_test(self, state: ParentsFirstState, factor: int, n_runs: int, total: float) -> ParentsFirstState:
        """More runs of the row under test, given by the sum of their outcomes."""
        state = replace(
            state,
            factor=factor,
            level_runs=state.level_runs + n_runs,
            level_sum=state.level_sum + total,
            n_runs=state.n_runs + n_runs,
            runs_by_stage=add_runs(state.runs_by_stage, TESTING, n_runs),
        )
        return state if state.level_runs < self.level_runs(factor) else self._end_level(state, factor)

    def _end_level(self, state: ParentsFirstState, factor: int) -> ParentsFirstState:
        """C_k <- C_k intersected with (mean - eps/2, mean + eps/2), eps being the test's own, half the tolerance."""
        mean, half = state.level_sum / state.level_runs, self.tolerance / 4
        low = mean - half if state.low is None else max(state.low, mean - half)
        high = mean + half if state.high is None else min(state.high, mean + half)
        is_parent = low >= high
        if not is_parent and state.level + 1 < self.space.n_levels[factor]:
            return replace(state, level=state.level + 1, level_runs=0, level_sum=0.0, low=low, high=high)
        fresh = ParentsFirstState(
            tested=(*state.tested, factor),
            found=(*state.found, factor) if is_parent else state.found,
            n_runs=state.n_runs,
            runs_by_stage=state.runs_by_stage,
        )
        all_tested = len(fresh.tested) == self.space.n_factors
        enough = self.max_parents is not None and len(fresh.found) >= self.max_parents
        return replace(fresh, search=self.search(fresh)[1].start()) if all_tested or enough else fresh

    def search(self, state: ParentsFirstState) -> tuple[Subspace, Modl]:
        """MODL on the factors found, or on all when none was."""
        positions = tuple(sorted(state.found)) or tuple(range(self.space.n_factors))
        inside = Subspace(self.space, positions, baseline_of(self.space, self.baseline))
        problem = inside.problem(self.problem, self.failure_prob / 2)
        return inside, Modl(problem, self.schedule, None, self.outcome_bound)

    def _verdict(self, state: ParentsFirstState, inside: Subspace, inner: Verdict) -> Verdict:
        return replace(
            inside.widen_verdict(inner),
            algorithm=self.name,
            n_runs=state.n_runs + inner.n_runs,
            failure_prob=self.failure_prob,
            guarantee="needs every parent to move the outcome by at least the tolerance; then the paper's theorem",
            parents=tuple(self.space.names[k] for k in sorted(state.found)),
            runs_by_stage=state.runs_by_stage + inner.runs_by_stage,
        )
