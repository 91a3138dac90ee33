"""Certified factorial selection (CFS), the default: what a user sets, and under which rules a study goes on."""

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from levers.algorithms.base import Batch, Outlook, Progress, Remark, Verdict
from levers.algorithms.cfs import settings
from levers.algorithms.cfs.options import CfsOptions
from levers.algorithms.cfs.pooled.solver import Pooled
from levers.algorithms.cfs.pooled.state import PooledState
from levers.algorithms.cfs.settings import (
    AIMS,
    BEST,
    CERTIFY,
    DAY_RULES,
    NOISES,
    POOLED_RULES,
)
from levers.algorithms.cfs.sparse.solver import Sparse
from levers.algorithms.cfs.sparse.state import SparseState
from levers.algorithms.cfs.subsets.solver import Subsets
from levers.algorithms.cfs.subsets.state import SubsetState
from levers.algorithms.cfs.two_stage import TwoStage
from levers.core.certificates.certificate import CERTIFICATES
from levers.core.cost import Cost, study_cost
from levers.core.designs.changes import HardLevers
from levers.core.model.choices import Parts
from levers.core.model.ordinary import Fitted
from levers.core.space import Codes
from levers.core.validation import check_choice
from levers.errors import InvalidSettingError

DAYS_UNKNOWN = Remark(
    "days unknown",
    "blocks of runs made together have no constants of their own in this kind of study: what differs from day to day "
    "counts as noise",
)
"""What a study in two stages, or of very many levers, rests on where a block size was given."""


@dataclass(frozen=True)
class Cfs(CfsOptions):
    """Drop levels on evidence that holds at any time, and choose with a certificate for the sum of losses.

    `max_parents` and `min_effect` are what the user knows, and save most of the runs when true. With `budget` instead
    of a tolerance, all runs are spent: where they serve the setting recommended at the end (`aim="best"`, the default
    with a budget), or the tolerance certified (`aim="certify"`). `noise="subgaussian"` holds for any noise with that
    sub-Gaussian parameter, and `certificate="proven"` is a complete proof. `batch_size` is the most runs asked for at
    a time. `parts` are the levels that a factor's combinations are made of, where some cannot be run. `max_runs` beside
    a tolerance ends a study with what it has by then. `block_size` runs are made together, on a day or a sheet: rounds
    are whole days, and each day is balanced and has a constant of its own. The `baseline`, the setting in place today,
    is run every day and wins ties. Rules that select on fresh runs, or find few parents, do without days and baseline.
    Levers whose positions are in `free` may be left to nature, where that turns out to be better than setting them.
    Inside a day, runs with the same level of a lever that is `hard_to_change` stand together: the hardest first, each
    as its column and the lever's level for each code there.

    >>> from levers import Problem, Space
    >>> cfs = Cfs(Problem(Space.sized([3, 3]), tolerance=0.5, failure_prob=0.1, noise_sd=1.0), batch_size=8)
    >>> cfs.ask(cfs.start(), np.random.default_rng(0)).n_runs
    8
    """

    parts: Parts = ()
    aim: str | None = None
    max_runs: int | None = None
    block_size: int | None = None
    baseline: tuple[int, ...] | None = None
    free: tuple[int, ...] = ()
    hard_to_change: HardLevers = ()

    def __post_init__(self) -> None:
        self.check_options()
        if self.aim is not None:
            check_choice("aim", self.aim, AIMS)
        if self.aim == BEST and self.budget is None:
            raise InvalidSettingError("the aim 'best' spends a budget; give one, without a tolerance", field="aim")
        if self.free and not (self.pools and not self.is_sparse):
            raise InvalidSettingError(
                "levers can be left alone in studies that choose by all their runs: without min_effect, a complete "
                "proof, sub-Gaussian noise, or very many levels",
                field="free",
            )
        if self.hard_to_change and not (self.pools and not self.is_sparse):
            raise InvalidSettingError(
                "levers that are hard to change are known to studies that choose by all their runs: without "
                "min_effect, a complete proof, sub-Gaussian noise, or very many levels; leave out hard_to_change, and "
                "sort each sheet by the lever",
                field="hard_to_change",
            )
        _ = self._new  # which checks the rest

    @classmethod
    def study_options(cls, n_factors: int) -> dict[str, Any]:
        """Whole blocks, of a size that can be stored."""
        most_cells = min(settings.STUDY_CELLS, settings.STUDY_RUNS * n_factors)
        return {"batch_size": settings.WHOLE_BLOCK, "most_cells": most_cells}

    @cached_property
    def cost(self) -> Cost:
        """What a study costs to begin, about. Studies ask for it again with every run that they hand out."""
        sparse = isinstance(self.max_parents, int) and self.is_sparse  # it is asked for before options are checked
        proven = self.certificate == CERTIFICATES[1]
        found = study_cost(self.space.n_levels, sparse=sparse, pooled=self.pools, proven=proven)
        return found if sparse else replace(found, takes_more=self._to_be_sparse())

    def _to_be_sparse(self) -> str:
        """What a study would have to be asked, in words, to look for few parents among very many factors."""
        most = int(settings.SPARSE_SHARE * self.space.n_factors)
        few = isinstance(self.max_parents, int) and self.max_parents <= most
        wanted = [
            *(["a tolerance in place of the budget"] if self.budget is not None else []),
            *([] if few else [f"max_parents of at most {most:,}, a quarter of the levers"]),
        ]
        if self.noise != NOISES[0] or self.certificate != CERTIFICATES[0] or self.min_effect is not None:
            wanted.append("no min_effect, complete proof or noise of any shape")
        if any(self.parts):
            wanted.append("no forbidden combinations")
        return f"with {' and '.join(wanted)}" if most and wanted else ""

    @cached_property
    def two_stage(self) -> TwoStage:
        """The rules that screen first and select on fresh runs."""
        shared = {f.name: getattr(self, f.name) for f in fields(CfsOptions)}
        return TwoStage(**shared, max_runs=self.max_runs, tied=tuple(k for k, parts in enumerate(self.parts) if parts))

    @cached_property
    def pooled(self) -> Pooled:
        """The rules that choose the leaders of all runs."""
        return Pooled(
            self.problem,
            max_parents=self.max_parents,
            budget=self.budget,
            batch_size=self.batch_size,
            most_cells=self.most_cells,
            parts=self.parts,
            aim=self.aim or (BEST if self.budget is not None else CERTIFY),
            max_runs=self.max_runs,
            block_size=self.block_size,
            baseline=self.baseline,
            hard_to_change=self.hard_to_change,
        )

    @cached_property
    def pooled_before(self) -> Pooled:
        """The same of studies that were begun when a day was only a number of runs handed out together."""
        return replace(self.pooled, block_size=None, baseline=None, rules=POOLED_RULES)

    @cached_property
    def pooled_by_days(self) -> Pooled:
        """The same of studies that were begun when the last round had all levels in play."""
        return replace(self.pooled, rules=DAY_RULES)

    @cached_property
    def sparse(self) -> Sparse:
        """The rules that find few parents among very many factors."""
        assert self.max_parents is not None  # see is_sparse
        return Sparse(self.problem, self.max_parents, self.batch_size, self.most_cells, self.max_runs)

    @cached_property
    def subsets(self) -> Subsets:
        """The rules that may leave levers alone."""
        return Subsets(self.problem, self.free, self.pooled_by_days)

    @property
    def is_sparse(self) -> bool:
        """Whether a new study looks for few parents among very many factors, in fewer runs than parameters."""
        n_factors = self.space.n_factors
        few = self.max_parents is not None and self.max_parents <= settings.SPARSE_SHARE * n_factors
        many = sum(self.space.n_levels) - n_factors >= settings.SPARSE_PARAMETERS
        return few and many and self._is_simple and self.budget is None and not any(self.parts)

    @property
    def _is_simple(self) -> bool:
        gaussian = self.noise == NOISES[0] and self.certificate == CERTIFICATES[0]
        return gaussian and (self.min_effect is None or (self.budget is not None and self.aim != CERTIFY))

    @property
    def pools(self) -> bool:
        """Whether a new study chooses by all its runs.

        A complete proof, noise of any shape, and the look that a least effect pays for need fresh runs to select on.
        """
        return self._is_simple and sum(self.space.n_levels) <= settings.MOST_POOLED_LEVELS

    @property
    def _new(self) -> TwoStage | Pooled | Sparse | Subsets:
        """The rules of a new study."""
        if self.free:
            return self.subsets
        return self.sparse if self.is_sparse else self.pooled if self.pools else self.two_stage

    def start(self) -> Any:
        """All levels in play, no runs."""
        return self._new.start()

    def start_like(self, state: Any) -> Any:
        """The same under the rules that a state was begun under, where these settings still mean rules of that kind."""
        rules = self._rules(state)
        return rules.start() if type(rules) is type(self._new) else self.start()

    def batch(self, state: Any, seed: int) -> Batch:
        """The next runs of the block whose design has this seed."""
        return self._rules(state).batch(state, seed)

    def _rules(self, state: Any) -> TwoStage | Pooled | Sparse | Subsets:
        """The rules that a state was begun under: a study keeps to them."""
        if isinstance(state, SubsetState):
            return self.subsets
        if isinstance(state, SparseState):
            return self.sparse
        if isinstance(state, PooledState):
            return self._pooled_by(state.rules)
        return self.two_stage

    def _pooled_by(self, rules: int) -> Pooled:
        if rules == POOLED_RULES:
            return self.pooled_before
        if rules == DAY_RULES:
            return self.pooled_by_days
        return self.pooled if rules == self.pooled.rules else replace(self.pooled, rules=rules)

    def ask(self, state: Any, rng: np.random.Generator) -> Batch | Verdict:
        """The next runs of the block under way, or the verdict."""
        step = self._rules(state).ask(state, rng)
        return self._said(state, step) if isinstance(step, Verdict) else step

    def tell(self, state: Any, batch: Batch, outcomes: ArrayLike) -> Any:
        """Add runs to the block; when it is complete, decide."""
        return self._rules(state).tell(state, batch, outcomes)

    def tell_block(self, state: Any, batch: Batch, outcomes: ArrayLike) -> Any:
        """Like `tell`, for a whole block whose rows were kept when it was designed."""
        return self._rules(state).tell_block(state, batch, outcomes)

    def block_lengths(self, state: Any, n_runs: int) -> tuple[int, ...]:
        """How long the days of a round are that have constants of their own."""
        return self._rules(state).block_lengths(state, n_runs)

    def absorb(self, state: Any, codes: Codes, outcomes: ArrayLike, stage: str, order: ArrayLike | None = None) -> Any:
        """Add runs that were not asked for, or asked for on a decision that has since been corrected; decide again."""
        return self._rules(state).absorb(state, codes, outcomes, stage, order)

    def finish(self, state: Any, codes: Codes, outcomes: ArrayLike, order: ArrayLike | None = None) -> Any:
        """The end, with what is certified now: these runs of the block under way were told."""
        return self._rules(state).finish(state, codes, outcomes, order)

    def extend(self, state: Any, n_runs: int | None) -> Any:
        """Go on after the end: with a block of so many runs, after which it ends again; None goes on by the rules."""
        return self._rules(state).extend(state, n_runs)

    def resume(self, state: Any) -> Any:
        """Decide anew on all runs, for what is asked for now."""
        return self._rules(state).resume(state)

    def interim(self, state: Any) -> Verdict | None:
        """What could be certified if the study ended now; None before a block."""
        found = self._rules(state).interim(state)
        return None if found is None else self._said(state, found)

    def look_inside(self, state: Any, codes: Codes, outcomes: ArrayLike, order: ArrayLike | None = None) -> Any:
        """The state at a look inside a round, of which these runs were told; None where it says nothing."""
        return self._rules(state).look_inside(state, codes, outcomes, order)

    def fitted(self, state: Any) -> Fitted | None:
        """The additive fit by which the leaders were chosen."""
        return self._rules(state).fitted(state)

    def verdict(self, state: Any) -> Verdict:
        """The verdict of a finished study."""
        return self._said(state, self._rules(state).verdict(state))

    def _said(self, state: Any, found: Verdict) -> Verdict:
        """The verdict, which says so where its rules know of no days and run no baseline, though both were given."""
        if self.block_size is None or isinstance(state, PooledState | SubsetState):
            return found
        return replace(found, provisos=(*found.provisos, DAYS_UNKNOWN))

    def outlook(self, state: Any, n_asked: int) -> Outlook:
        """Runs still to come after the current block, from what is known at its start."""
        return self._rules(state).outlook(state, n_asked)

    def progress(self, state: Any) -> Progress:
        """Leaders, eliminations and the noise that is reckoned with."""
        return self._rules(state).progress(state)
