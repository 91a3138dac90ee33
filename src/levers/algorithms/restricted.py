"""MODL on some of the factors: on the true parents (oracle), or on those that a test finds first (parents-first)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from levers.algorithms.base import CHUNK, Algorithm, Batch, Problem, Progress, Verdict, add_runs
from levers.algorithms.modl import Modl, ModlState
from levers.core.certificates.sample_size import SCHEDULES, parent_test_runs
from levers.core.codec import serialisable
from levers.core.model.elimination import Elimination
from levers.core.space import FREE, Codes, Space
from levers.core.validation import check_choice
from levers.errors import InvalidSettingError

OTHERS = ("set", "free")
"""What becomes of the factors that are not searched: held at a level, or left to nature."""


@dataclass(frozen=True)
class Subspace:
    """Some factors of a space, and the level at which each of the others is held; FREE leaves it to nature.

    >>> inner = Subspace(Space.sized([2, 3, 2]), positions=(1,), baseline=(0, 0, 1))
    >>> inner.widen(np.array([[2]], dtype=np.int16)).tolist()
    [[0, 2, 1]]
    """

    space: Space
    positions: tuple[int, ...]
    baseline: tuple[int, ...]

    def problem(self, whole: Problem) -> Problem:
        """The problem on these factors alone."""
        return replace(whole, space=self.space.subspace(self.positions))

    def widen(self, codes: Codes) -> Codes:
        """Rows over these factors as rows over all of them."""
        rows = np.tile(np.asarray(self.baseline, dtype=np.int16), (len(codes), 1))
        rows[:, self.positions] = codes
        return rows

    def widen_batch(self, batch: Batch) -> Batch:
        """An inner batch as it is to be run."""
        return replace(batch, codes=self.widen(batch.codes))

    def narrow_batch(self, batch: Batch) -> Batch:
        """The inner algorithm's view of a batch that was run."""
        return replace(batch, codes=np.ascontiguousarray(batch.codes[:, self.positions]))

    def widen_progress(self, progress: Progress) -> Progress:
        """An inner algorithm's progress among all factors."""
        leaders = progress.leaders and tuple(self.widen(np.array([progress.leaders], dtype=np.int16))[0].tolist())
        return replace(progress, leaders=leaders, eliminations=self._widened(progress.eliminations))

    def _widened(self, eliminations: tuple[Elimination, ...]) -> tuple[Elimination, ...]:
        return tuple(replace(e, factor=self.positions[e.factor]) for e in eliminations)

    def widen_verdict(self, verdict: Verdict) -> Verdict:
        """An inner verdict as a verdict on the whole space."""
        effects: list[tuple[float | None, ...]] = [(None,) * m for m in self.space.n_levels]
        for k, row in zip(self.positions, verdict.effects, strict=True):
            effects[k] = row
        codes = self.widen(np.asarray([verdict.assignment.codes], dtype=np.int16))[0]
        return replace(
            verdict,
            assignment=self.space.assignment(codes),
            effects=tuple(effects),
            eliminations=self._widened(verdict.eliminations),
        )


def baseline_of(space: Space, given: Sequence[int] | None) -> tuple[int, ...]:
    """The fixed intervention x_0: the one given, or every factor's first level."""
    return space.assignment((0,) * space.n_factors if given is None else given).codes


def others_of(space: Space, given: Sequence[int] | None, others: str) -> tuple[int, ...]:
    """Where the factors that are not searched are held: at x_0, or nowhere."""
    fixed = baseline_of(space, given)
    return fixed if others == OTHERS[0] else (FREE,) * space.n_factors


@dataclass(frozen=True)
class Oracle(Algorithm):
    """MODL restricted to the factors named in `parents`; the others stay at their first level.

    With `others="free"` they are left to nature, in the runs and in the answer, as the paper's actions may: whoever
    makes the runs fills in what nature chose (`Batch.observed`). Since the parents are all set, nothing else changes.

    >>> oracle = Oracle(Problem(Space.sized([3, 3]), 0.5, 0.1, 1.0), parents=["X2"])
    >>> set(oracle.ask(oracle.start(), np.random.default_rng(0)).codes[:, 0].tolist())
    {0}
    """

    parents: Sequence[str] = ()
    schedule: str = SCHEDULES[0]
    outcome_bound: float | None = None
    others: str = OTHERS[0]
    name: ClassVar[str] = "oracle"

    def __post_init__(self) -> None:
        self.check_complete()
        check_choice("others", self.others, OTHERS)
        if not self.parents:
            raise InvalidSettingError("the oracle needs the true parents: pass parents=[...] with at least one factor")
        self.modl  # noqa: B018  wrong names and options are refused here

    @property
    def sets_every_lever(self) -> bool:  # type: ignore[override]
        """Not with the others left to nature."""
        return self.others == OTHERS[0]

    @property
    def inside(self) -> Subspace:
        """The part of the space that is searched."""
        positions = tuple(sorted({self.space.position(name) for name in self.parents}))
        return Subspace(self.space, positions, others_of(self.space, None, self.others))

    @property
    def modl(self) -> Modl:
        """The algorithm that searches it."""
        return Modl(self.inside.problem(self.problem), self.schedule, None, self.outcome_bound)

    def start(self) -> ModlState:
        """MODL's own start."""
        return self.modl.start()

    def ask(self, state: ModlState, rng: np.random.Generator) -> Batch | Verdict:
        """MODL's next batch with the other factors held."""
        step = self.modl.ask(state, rng)
        if isinstance(step, Batch):
            return self.inside.widen_batch(step)
        return replace(self.inside.widen_verdict(step), algorithm=self.name, parents=None)

    def tell(self, state: ModlState, batch: Batch, outcomes: ArrayLike) -> ModlState:
        """MODL's own tell."""
        y = self.accept(batch, outcomes)
        return self.modl.tell(state, self.inside.narrow_batch(batch), y)

    def progress(self, state: ModlState) -> Progress:
        """MODL's, among all factors."""
        return self.inside.widen_progress(self.modl.progress(state))


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
class ParentsFirst(Algorithm):
    """One factor moves at a time around a fixed assignment, at (eps/2, delta/2); then MODL with delta/2.

    Factors are tested in random order; with `max_parents` the tests stop once that many are found. If no factor passes,
    MODL runs on all of them.

    With `others="free"` all factors but the one under test, and later all but those found, are left to nature. What a
    test then compares are total effects, those through other factors included; and outcomes vary by more than the noise
    where parents are left free, which neither the tests nor MODL know of, so nothing is promised.

    >>> first = ParentsFirst(Problem(Space.sized([3, 3]), 0.5, 0.1, 1.0))
    >>> first.ask(first.start(), np.random.default_rng(0)).stage
    'testing for parents'
    """

    max_parents: int | None = None
    schedule: str = SCHEDULES[0]
    outcome_bound: float | None = None
    baseline: Sequence[int] | None = None
    others: str = OTHERS[0]
    name: ClassVar[str] = "parents-first"

    def __post_init__(self) -> None:
        self.check_complete()
        check_choice("others", self.others, OTHERS)
        self.check_max_parents(self.max_parents)
        baseline_of(self.space, self.baseline)
        self.search(ParentsFirstState())  # wrong options are refused here

    @property
    def sets_every_lever(self) -> bool:  # type: ignore[override]
        """Not with the others left to nature."""
        return self.others == OTHERS[0]

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
        row = np.array(others_of(self.space, self.baseline, self.others), dtype=np.int16)
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
        tested, found = (*state.tested, factor), (*state.found, factor) if is_parent else state.found
        fresh = ParentsFirstState(tested, found, n_runs=state.n_runs, runs_by_stage=state.runs_by_stage)
        all_tested = len(fresh.tested) == self.space.n_factors
        enough = self.max_parents is not None and len(fresh.found) >= self.max_parents
        return replace(fresh, search=self.search(fresh)[1].start()) if all_tested or enough else fresh

    def search(self, state: ParentsFirstState) -> tuple[Subspace, Modl]:
        """MODL on the factors found, or on all when none was."""
        positions = tuple(sorted(state.found)) or tuple(range(self.space.n_factors))
        inside = Subspace(self.space, positions, others_of(self.space, self.baseline, self.others))
        problem = replace(inside.problem(self.problem), failure_prob=self.failure_prob / 2)
        return inside, Modl(problem, self.schedule, None, self.outcome_bound)

    def _verdict(self, state: ParentsFirstState, inside: Subspace, inner: Verdict) -> Verdict:
        return replace(
            inside.widen_verdict(inner),
            algorithm=self.name,
            n_runs=state.n_runs + inner.n_runs,
            failure_prob=self.failure_prob,
            guarantee="needs every parent to move the outcome by at least the tolerance; then the paper's theorem"
            if self.others == OTHERS[0]
            else "none: outcomes vary with parents that are left to nature",
            parents=tuple(self.space.names[k] for k in sorted(state.found)),
            runs_by_stage=state.runs_by_stage + inner.runs_by_stage,
        )
