"""A study at one place in its log, with everything that follows from it: worked out when first asked for, then kept."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from levers.algorithms.base import Verdict
from levers.charts.svg import clipped
from levers.core.outcome_scale import AS_TOLD, OutcomeScale
from levers.studies.analysis import diagnostics, views
from levers.studies.analysis.estimates import Estimates
from levers.studies.events import Numbers
from levers.studies.state import CONFIRMATION, CONFIRMING, SET_ASIDE, StudyState, TrialState

MAX_TITLE = 60
MOST_POINTS = 400
"""The most residuals that are drawn."""

T = TypeVar("T")


def kept(make: Callable[[Any], T]) -> cached_property[T]:
    """A property of a view that is worked out once, see `StudyView.keep`."""
    found = property(lambda view: view.keep(make.__name__, partial(make, view)), doc=make.__doc__)
    return cast("cached_property[T]", found)  # for type checkers, which know no property of a T


@dataclass(frozen=True, eq=False)
class Outcomes:
    """Outcomes as they came: trial, block and value of each, and whether it was set aside.

    `starts` says where a block begins; its last entry is where the last one ends.
    """

    trials: Numbers
    blocks: NDArray[np.int32]
    values: NDArray[np.float64]
    aside: NDArray[np.bool_]
    starts: list[int]
    scale: OutcomeScale = AS_TOLD

    @classmethod
    def of(cls, state: StudyState) -> "Outcomes":
        """Sorted by block first, since blocks follow each other even where clocks of several machines do not agree."""
        table = state.trials
        fresh = [i for i, block in enumerate(state.blocks) if block.role in (CONFIRMING, CONFIRMATION)]
        done = np.flatnonzero(table.state[: table.n_trials] == TrialState.COMPLETE)
        done = done[~np.isin(table.block[done], fresh)]  # which have a picture of their own
        done = done[np.lexsort((done, table.told_at[done], table.block[done]))]
        blocks = table.block[done]
        flat = np.concatenate([np.zeros(0), *[block.values for block in state.blocks]])
        begins = np.cumsum([0, *[block.n_runs for block in state.blocks]])
        aside = np.isin(blocks, [i for i, block in enumerate(state.blocks) if block.role == SET_ASIDE])
        starts = [0, *(np.flatnonzero(np.diff(blocks)) + 1).tolist(), len(done)]
        values, scale = flat[begins[blocks] + table.row[done]], state.spec.outcome_scale
        return cls(done, blocks, values, aside, starts if len(done) else [0], scale)

    @property
    def spans(self) -> list[tuple[int, int]]:
        """First and past-last outcome of each block."""
        return list(pairwise(self.starts))

    @property
    def means(self) -> list[float]:
        """The mean of each block; on a log scale the geometric one."""
        additive = self.scale.additive(self.values)
        return [self.scale.told(float(additive[begin:end].mean())) for begin, end in self.spans]


class StudyView:
    """A study as it is now. It does not follow the study: make another one when the study has changed.

    Several threads may use one view: nothing in it is worked out twice.

    >>> import levers
    >>> study = levers.create_study("oven", {"heat": ["low", "high"]}, tolerance=1.0, noise_sd=1.0, seed=1)
    >>> view = StudyView("oven", study.state)
    >>> view.lead, view.n_runs, view.effects is view.effects
    ('leading', 0, True)
    """

    def __init__(self, name: str, state: StudyState) -> None:
        self.name = name
        self.title = clipped(name, MAX_TITLE)
        self.state = state
        self.seq = state.seq
        self.is_finished = state.open_block is None
        self.lead = "chosen" if self.is_finished else "leading"  # what the levels that are ahead are called
        self._lock = threading.RLock()
        self._made: dict[str, Any] = {}

    def keep(self, what: str, make: Callable[[], T]) -> T:
        """Something that follows from the state, a chart for example: made once, others wait for it."""
        with self._lock:
            if what not in self._made:
                self._made[what] = make()
            found: T = self._made[what]
            return found

    @kept
    def n_runs(self) -> int:
        """Outcomes that count, with the imported runs that are in use."""
        return self.state.n_complete + self._imported(self.state.n_past_used)

    @kept
    def _estimates(self) -> Estimates:
        return Estimates.of(self.state)

    @kept
    def status(self) -> views.Status:
        """Where the study stands."""
        return views.status(self.name, self.state)

    @property
    def in_doubt(self) -> bool:
        """Whether outcomes contradict what a certificate would rest on."""
        return bool(self.status.doubts)

    @kept
    def effects(self) -> views.Effects:
        """Every level."""
        return views.effects(self.state, self._estimates)

    @kept
    def part_effects(self) -> views.Effects:
        """Every level of levers that are tied together, each lever by itself."""
        return views.part_effects(self.state, self._estimates)

    @kept
    def best(self) -> views.Best | None:
        """The setting that the estimates favour."""
        return views.best(self.state, self._estimates)

    @kept
    def verdict(self) -> Verdict | None:
        """The verdict; None before the end."""
        return views.verdict(self.state)

    @kept
    def outcomes(self) -> Outcomes:
        """Every outcome in the order of telling."""
        return Outcomes.of(self.state)

    @kept
    def steps(self) -> list[tuple[int, float]]:
        """Runs, and how far from the best the leading setting can be: after each block, or only at the end."""
        solver, state = self.state.spec.solver, self.state
        if not solver.certifies_early:
            found_at_end = None if self.verdict is None else self.verdict.tolerance  # on the outcome's scale
            return [] if found_at_end is None else [(self.n_runs, found_at_end)]
        found = [(solver.interim(known), used) for known, used in zip(state.known, state.past_used, strict=True)]
        # a verdict counts the study's own runs; levels are ruled out, and the end is counted, with the imported ones
        return [
            (v.n_runs + self._imported(used), state.spec.outcome_scale.loss(v.tolerance))
            for v, used in found
            if v is not None and v.tolerance is not None
        ]

    @kept
    def residuals(self) -> diagnostics.Residuals:
        """What the fit leaves over, as few enough points to draw."""
        return diagnostics.residuals(self.state, most=MOST_POINTS)

    @kept
    def additivity(self) -> diagnostics.Additivity:
        """Whether levers seem to interact, once outcomes are left out that do not belong: they would look like it."""
        return diagnostics.additivity(self.state, {trial for doubt in self.status.doubts for trial in doubt.trials})

    @kept
    def evidence(self) -> list[views.FactorEvidence]:
        """How strong the evidence is for each factor."""
        return views.evidence(self.state, self._estimates)

    @kept
    def shown_to_matter(self) -> tuple[str, ...]:
        """The levers that are shown to matter, as a verdict names them."""
        return views.shown_to_matter(self.state)

    def _imported(self, used: int) -> int:
        return sum([len(past.values) for past in self.state.past[:used]])
