"""CFS over subsets and values: which levers to set, to what, and which to leave to nature.

First every lever is set, and the best setting is found as in any pooled study. Then the free levers are left alone, in
all subsets, at that setting of the others, beside runs that set them: which subset is ahead is a choice like that among
the levels of one more lever, on runs of its own. One certificate covers the sum of what both choices can lose. The
argument is in docs/theory/left_alone.md.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from levers.algorithms.base import Algorithm, Batch, Outlook, Problem, Progress, Verdict
from levers.algorithms.cfs import settings
from levers.algorithms.cfs.decisions import cheap_scale
from levers.algorithms.cfs.pooled.certificate import Elsewhere
from levers.algorithms.cfs.pooled.solver import Pooled
from levers.algorithms.cfs.pooled.state import PooledState
from levers.algorithms.cfs.settings import BLOCK, CERTIFY, COMPARING
from levers.algorithms.cfs.subsets.state import SubsetState, SubsetTally, subset_rows, subsets_of
from levers.algorithms.cfs.subsets.verdict import subset_verdict
from levers.core.certificates.certificate import certified_levels, stakes_tolerance
from levers.core.certificates.sums import is_finite, stakes_bound
from levers.core.model.ordinary import Fitted
from levers.core.space import FREE, Codes, Factor, Space, levels_had
from levers.core.validation import check_count
from levers.errors import InvalidSettingError, OutcomeMismatchError

_COMPARISON = "left alone"  # the one lever of the comparison: its levels are the subsets


@dataclass(frozen=True)
class Subsets(Algorithm):
    """Find the best setting of all levers, then whether leaving some of the `free` ones alone is better still.

    `pooled` are the rules of the study in which every lever is set, with the whole failure probability and all runs.

    >>> from levers import Problem, Space
    >>> problem = Problem(Space.sized([2, 3]), tolerance=0.5, failure_prob=0.1, noise_sd=1.0)
    >>> subsets = Subsets(problem, free=(0,), pooled=Pooled(problem))
    >>> subsets.subsets, subsets.ask(subsets.start(), np.random.default_rng(0)).is_global
    (((), (0,)), True)
    """

    name: ClassVar[str] = "cfs"
    absorbs_runs: ClassVar[bool] = True
    certifies_early: ClassVar[bool] = True
    compares_within_blocks: ClassVar[bool] = True
    finishes_early: ClassVar[bool] = True

    free: tuple[int, ...]
    pooled: Pooled

    def __post_init__(self) -> None:
        check_count("the number of free levers", len(self.free), 1, settings.MOST_FREE)
        if len(set(self.free)) < len(self.free):
            raise InvalidSettingError("a free lever is named twice", field="free")
        for k in self.free:
            check_count("the position of a free lever", k, 0, self.space.n_factors - 1)
        tied = [self.space.names[k] for k in self.free if any(self.pooled.parts) and self.pooled.parts[k]]
        if tied:
            raise InvalidSettingError(
                f"{tied[0]!r} is tied to other levers by forbidden combinations, and nature does not know these; "
                "a free lever must not be part of one",
                field="free",
            )
        most = self.pooled.plan.most_runs
        if most is not None and most < 2 + settings.RUNS_A_SUBSET * len(self.subsets):
            raise InvalidSettingError(
                f"comparing {len(self.subsets)} ways to leave levers alone takes "
                f"{settings.RUNS_A_SUBSET * len(self.subsets)} runs and more, beside those that set them all; "
                f"{most} are too few",
                field="budget" if self.pooled.budget is not None else "max_runs",
            )
        _ = self.setting  # which checks the rest

    # The two studies that it is made of

    @cached_property
    def subsets(self) -> tuple[tuple[int, ...], ...]:
        """The sets of levers that may be left alone, the empty one first."""
        return subsets_of(self.free)

    @cached_property
    def _problem(self) -> Problem:
        """The problem of the comparison but for its space: both studies compare levels and bound a noise, each with a
        share of its own, and have the rest in common   (theory, section 2)."""
        extra = settings.POOLED_SHARE + settings.POOLED_NOISE_SHARE
        return replace(self.problem, failure_prob=self.failure_prob / (1 + extra))

    @cached_property
    def _setting_problem(self) -> Problem:
        """The problem of the first study: what its certificate may take is what that of the comparison may."""
        rest = 1 - settings.POOLED_SHARE - settings.RESERVE
        equal = 1.0 if self.problem.noise_sd is None else (rest - settings.POOLED_NOISE_SHARE) / rest
        return replace(self._problem, failure_prob=equal * self._problem.failure_prob)

    @cached_property
    def spread(self) -> float:
        """The standard error of a subset's mean that the first study leaves room for, in tolerances.

        Fitted to the least number of runs of both studies together, but never so large that the comparison alone would
        take most of what both certificates may, also where they are charged for looks.
        """
        levels = certified_levels(self.pooled.choices.n_levels, self.pooled.max_parents)
        risk = self.alone.shares.selection
        scale = cheap_scale(levels, risk, "slippage")
        fitted = settings.SUBSET_SPREAD * min(math.sqrt(math.sqrt(settings.SUBSET_SCALE) / scale), 1.0)
        own = stakes_tolerance([(len(self.subsets), 1.0)], settings.SUBSET_RISK * risk / settings.EVERY_LOOK)
        return min(fitted, 1 / own)

    @cached_property
    def alone(self) -> Pooled:
        """The rules of the first study where it stands alone: it was stopped, or a budget was given."""
        most = self.pooled.plan.most_runs
        given = replace(self.pooled, problem=self._setting_problem)
        if most is None:
            return given
        own = most - max(round(settings.SUBSET_SHARE * most), settings.RUNS_A_SUBSET * len(self.subsets))
        if self.pooled.budget is not None:
            return replace(given, budget=own)
        return replace(given, max_runs=own)

    @cached_property
    def setting(self) -> Pooled:
        """The rules of the first study: every lever is set, and room is left for what the second may lose."""
        if self.problem.tolerance is None:
            return self.alone
        return replace(self.alone, elsewhere=((len(self.subsets), self.spread * self.tolerance),))

    def comparison(self, state: SubsetState) -> Pooled:
        """The rules of the second study: the subsets as levels of one lever, on top of what the first may lose."""
        space = Space([Factor(_COMPARISON, tuple(range(len(self.subsets))))])
        in_play = state.subset.active[0] if state.subset is not None else range(len(self.subsets))
        tolerance = self.problem.tolerance if state.budget is None else None
        if tolerance is not None and state.at_most is not None:
            tolerance -= state.at_most
        return Pooled(
            replace(self._problem, space=space, noise_sd=None, tolerance=tolerance),
            budget=state.budget,
            max_runs=self._runs_left(state) if tolerance is not None else None,
            batch_size=self.pooled.batch_size,
            most_cells=self.pooled.most_cells,
            aim=CERTIFY,
            block_size=self.pooled.block_size,
            elsewhere=self._stakes(state) if state.at_most is None else (),
            unequal=self._unequal(state, in_play),
        )

    def _unequal(self, state: SubsetState, in_play: Sequence[int]) -> float:
        """What standard errors of the comparison are multiplied with, because subsets differ in spread."""
        if state.tally is None:
            return 1.0
        fit = state.setting.fit
        if not fit.determined:
            return state.tally.unequal(in_play)
        effects = {k: np.nan_to_num(fit.theta[self.alone.choices.places[k][:, 0]]) for k in self.free}
        rare = [state.tally.rare_variance(a, self.free, left, effects) for a, left in enumerate(self.subsets)]
        return state.tally.unequal(in_play, np.array(rare))

    def _stakes(self, state: SubsetState) -> Elsewhere:
        """What the first study may lose."""
        if state.setting.noise_sd is None:
            return ((2, math.inf),)  # nothing tells
        return tuple(self.alone.stakes(state.setting, self.alone.evidence(state.setting)))

    def _own_runs(self, state: SubsetState) -> int:
        return state.setting.n_runs - state.setting.n_past

    # Asking and telling

    def start(self) -> SubsetState:
        """All levels in play, no runs."""
        return SubsetState(self.setting.start())

    def block_lengths(self, state: SubsetState, n_runs: int) -> tuple[int, ...]:
        """How long the days of a round are that have constants of their own."""
        if state.comparing and state.subset is not None:
            return self.comparison(state).block_lengths(state.subset, n_runs)
        return self._first(state).block_lengths(state.setting, n_runs)

    def ask(self, state: SubsetState, rng: np.random.Generator) -> Batch | Verdict:
        """The next runs: with every lever set, then with some left alone; or the verdict."""
        if state.finished:
            return self.verdict(state)
        return self.batch(state, int(rng.integers(2**62)) if self._seed(state) is None else self._seed(state) or 0)

    def _seed(self, state: SubsetState) -> int | None:
        return (state.subset if state.comparing and state.subset is not None else state.setting).seed

    def batch(self, state: SubsetState, seed: int) -> Batch:
        """The next runs of the round whose design has this seed."""
        if not state.comparing:
            return self._first(state).batch(state.setting, seed)
        assert state.subset is not None  # opened when the first study ended
        inner = self.comparison(state).batch(state.subset, seed)
        return Batch(subset_rows(self.subsets, state.at)[inner.codes[:, 0]], COMPARING, focus=inner.focus)

    def _first(self, state: SubsetState) -> Pooled:
        return self.alone if state.cut else self.setting

    def tell(self, state: SubsetState, batch: Batch, outcomes: ArrayLike) -> SubsetState:
        """Add runs to the round; when it is complete, decide."""
        return self._told(state, batch, outcomes, Pooled.tell)

    def tell_block(self, state: SubsetState, batch: Batch, outcomes: ArrayLike) -> SubsetState:
        """Like `tell`, for a whole round whose rows were kept when it was designed."""
        return self._told(state, batch, outcomes, Pooled.tell_block)

    def _told(
        self,
        state: SubsetState,
        batch: Batch,
        outcomes: ArrayLike,
        tell: Callable[[Pooled, PooledState, Batch, ArrayLike], PooledState],
    ) -> SubsetState:
        y = self.accept(batch, outcomes)
        self.check_due(not state.finished and (batch.stage == COMPARING) == state.comparing)
        if not state.comparing:
            return self._opened(replace(state, setting=tell(self._first(state), state.setting, batch, y)))
        subsets = self._subsets_in(batch.as_made, state.at)
        self.check_due(bool((subsets >= 0).all()))
        state = self._tallied(state, subsets, y, batch.codes)
        assert state.subset is not None  # see _opened
        rows = Batch(subsets[:, None].astype(np.int16), BLOCK, focus=batch.focus)
        return replace(state, subset=tell(self.comparison(state), state.subset, rows, y))

    def _opened(self, state: SubsetState) -> SubsetState:
        """The state with the comparison begun, where the first study has ended; afresh where its leaders have changed.

        The comparison has room for what the first study leaves of the tolerance. Where that is nothing, because its
        runs were limited, the comparison has a budget: the runs that are left, or as many as were planned for it.
        """
        if not state.comparing:
            return state
        if state.subset is not None and state.at == state.setting.leaders:
            return self._compared_again(state)
        most_levels = max(self.space.n_levels[f] for f in self.free)
        tally = SubsetTally.empty(len(self.subsets), len(self.free), most_levels)
        state = self._with_room(replace(state.without_subsets(), at=state.setting.leaders, tally=tally))
        return replace(state, subset=replace(self.comparison(state).start(), charged=state.setting.charged))

    def _with_room(self, state: SubsetState) -> SubsetState:
        """The state with what the comparison may take of the tolerance, or of the runs."""
        state = replace(state, budget=None, at_most=None)
        if self._leaves_room(self._stakes(state)):
            return state
        ceiling = state.setting.upper_loss
        if ceiling is not None and self._leaves_room((), ceiling):
            return replace(state, at_most=ceiling)
        return replace(state, budget=self._runs_left(state) or self._planned_runs(state))

    def _compared_again(self, state: SubsetState) -> SubsetState:
        """The state after the first study went on to the same leaders: the comparison is decided anew on all its runs,
        charged for looks, because the outcomes have told that it goes on."""
        state = self._with_room(state)
        assert state.subset is not None  # there is one to go on with
        return replace(state, subset=self.comparison(state).resume(replace(state.subset, charged=True)))

    def _leaves_room(self, stakes: Elsewhere, at_most: float = 0.0) -> bool:
        """Whether a comparison as precise as planned would certify the tolerance on top of what the first may lose."""
        if self.problem.tolerance is None or not is_finite(stakes):
            return False
        left = self.tolerance - at_most
        planned = (len(self.subsets), self.spread * self.tolerance)
        return left > 0 and stakes_bound((*stakes, planned), left) <= self.setting.shares.selection

    def _runs_left(self, state: SubsetState) -> int | None:
        """Runs that are left of a budget, or of the most; None where there is no limit."""
        most = self.pooled.plan.most_runs
        return None if most is None else max(most - self._own_runs(state), 2)

    def _planned_runs(self, state: SubsetState) -> int:
        """Runs of a comparison that reaches the standard error which was planned for it."""
        if self.problem.tolerance is None:
            return self._runs_left(state) or 2
        noise_sd = state.setting.noise_sd or settings.USUAL_NOISE * self.tolerance
        return math.ceil(len(self.subsets) * (noise_sd / (self.spread * self.tolerance)) ** 2) + 2

    def _subsets_in(self, made: Codes, at: tuple[int, ...]) -> NDArray[np.int64]:
        """Which subset each row leaves alone; -1 where it is none of these at that setting."""
        asked = np.where(made < 0, FREE, made)
        same = (asked[:, None, :] == subset_rows(self.subsets, at)[None, :, :]).all(axis=2)
        found: NDArray[np.int64] = np.where(same.any(axis=1), same.argmax(axis=1), -1)
        return found

    def _tallied(
        self, state: SubsetState, subsets: NDArray[np.int64], y: NDArray[np.float64], codes: Codes
    ) -> SubsetState:
        assert state.tally is not None  # see _opened
        return replace(state, tally=state.tally.add(subsets, y, codes[:, list(self.free)]))

    def absorb(
        self, state: SubsetState, codes: Codes, outcomes: ArrayLike, stage: str, order: ArrayLike | None = None
    ) -> SubsetState:
        """Add runs that were made, but are not due: those of rounds that leave levers alone count where the setting of
        the others is still the one in question, and all others are evidence for the first study."""
        rows = np.asarray(codes, dtype=np.int16)
        if not (rows < 0).any():
            kept = self._first(state).absorb(state.setting, rows, outcomes, stage, order)
            return self._opened(replace(state, setting=kept))
        return self._with_compared(state, rows, outcomes, order, lambda rules, *told: rules.absorb(*told, stage, order))

    def _with_compared(
        self,
        state: SubsetState,
        rows: Codes,
        outcomes: ArrayLike,
        order: ArrayLike | None,
        take: Callable[[Pooled, PooledState, Codes, NDArray[np.float64]], PooledState],
    ) -> SubsetState:
        """The state with rows of the comparison taken in by `take`; as it was where they are of another setting."""
        if not state.comparing or state.subset is None:
            return state
        subsets, had = self._subsets_in(rows, state.at), levels_had(rows)
        if (subsets < 0).any():
            return state
        if (had < 0).any():
            raise OutcomeMismatchError("some levers were left to nature; say which levels they took")
        y = self.accept(Batch(had, COMPARING), outcomes)
        state = self._tallied(state, subsets, y, had)
        assert state.subset is not None  # see above
        taken = take(self.comparison(state), state.subset, subsets[:, None].astype(np.int16), y)
        return replace(state, subset=taken)

    # Ending and going on

    def finish(
        self, state: SubsetState, codes: Codes, outcomes: ArrayLike, order: ArrayLike | None = None
    ) -> SubsetState:
        """The end, whenever one likes. While every lever is set, the verdict is about settings of all of them."""
        if state.finished:
            return state
        rows = np.asarray(codes, dtype=np.int16).reshape(-1, self.space.n_factors)
        if not state.comparing:
            stopped = self.alone.finish(state.setting, rows, outcomes, order)
            return replace(state.without_subsets(), setting=stopped, cut=True)
        assert state.subset is not None  # see _opened
        if len(rows):
            ended = self._with_compared(
                state, rows, outcomes, order, lambda rules, *told: rules.finish(told[0], told[1], told[2], order)
            )
        else:
            none = np.zeros((0, 1), dtype=np.int16)
            ended = replace(state, subset=self.comparison(state).finish(state.subset, none, []))
        if ended.subset is None or ended.subset.certified is None:  # too few to say anything of leaving alone
            return replace(state, setting=replace(state.setting, stopped=True), cut=True)
        return ended

    def extend(self, state: SubsetState, n_runs: int | None) -> SubsetState:
        """Go on after the end: the comparison, or where the study was stopped before it, the first study."""
        if not state.comparing:
            more = self.alone.extend(state.setting, n_runs)
            return self._opened(replace(state, setting=more, cut=n_runs is not None))
        assert state.subset is not None  # see _opened
        return replace(state, subset=self.comparison(state).extend(state.subset, n_runs))

    def resume(self, state: SubsetState) -> SubsetState:
        """Decide anew on all runs, for what is asked for now; the first study goes on only if it has to."""
        first = self._first(state).resume(state.setting)
        if not first.finished and state.subset is not None and state.at == first.leaders and not state.cut:
            enough = self._compared_again(replace(state, setting=replace(first, finished=True)))
            if enough.finished and self.verdict(enough).within <= (self.problem.tolerance or 0.0):
                return enough
        return self._opened(replace(state, setting=first))

    # What a state says

    def interim(self, state: SubsetState) -> Verdict | None:
        """What could be certified if the study ended now; None before a round."""
        if state.finished:
            return self.verdict(state)
        if state.comparing and state.subset is not None and state.subset.n_runs:
            return self._said(state, self.alone.verdict(state.setting))
        found = self.alone.interim(state.setting)
        return None if found is None else self._said(replace(state, cut=True), found)

    def look_inside(
        self, state: SubsetState, codes: Codes, outcomes: ArrayLike, order: ArrayLike | None = None
    ) -> SubsetState | None:
        """The state that a stop inside the round would end with; None where it says nothing."""
        if state.finished or not len(np.asarray(outcomes)):
            return None
        if not state.comparing:
            seen = self.alone.look_inside(state.setting, codes, outcomes, order)
            return None if seen is None else replace(state.without_subsets(), setting=seen, cut=True)
        ended = self.finish(state, codes, outcomes, order)
        if ended.subset is None or ended.subset.certified is None:
            return None
        return replace(ended, subset=replace(ended.subset, stopped=False))

    def fitted(self, state: SubsetState) -> Fitted | None:
        """The additive fit to the runs in which every lever was set."""
        return self.alone.fitted(state.setting)

    def verdict(self, state: SubsetState) -> Verdict:
        """The verdict of a finished study."""
        return self._said(state, self.alone.verdict(state.setting))

    def _said(self, state: SubsetState, setting: Verdict) -> Verdict:
        comparison = self.comparison(state) if state.comparing else None
        return subset_verdict(self.problem, self.free, self.alone.choices, state, setting, comparison, self.alone)

    def outlook(self, state: SubsetState, n_asked: int) -> Outlook:
        """Runs still to come after the round under way."""
        if state.finished:
            return Outlook(0, 0)
        if state.comparing and state.subset is not None:
            return self.comparison(state).outlook(state.subset, n_asked)
        ahead, most = self._first(state).outlook(state.setting, n_asked), self.pooled.plan.most_runs
        left = math.inf if most is None else max(most - self._own_runs(state) - n_asked, 0)
        if self.pooled.budget is not None and not state.cut:
            return Outlook(int(left), int(left))
        more = 0 if state.cut else self._planned_runs(state)
        worst = None if ahead.worst_case is None else min(ahead.worst_case + math.ceil(settings.SLACK * more), left)
        likely = None if ahead.likely is None else min(ahead.likely + more, left)
        return Outlook(None if likely is None else int(likely), None if worst is None else int(worst))

    def progress(self, state: SubsetState) -> Progress:
        """Leaders, eliminations and the noise that is reckoned with, of the study in which every lever is set."""
        return replace(self.alone.progress(state.setting), finished=state.finished)
