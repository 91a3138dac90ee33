"""Random search: settings drawn at random, the best outcome seen wins."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from levers.algorithms.base import CHUNK, Batch, Progress, Verdict
from levers.algorithms.baselines.budgeted import Budgeted
from levers.core.codec import serialisable

STAGE = "random settings"


@serialisable("RandomSettingsState")
@dataclass(frozen=True, eq=False)
class RandomSettingsState:
    """The best outcome seen, and its setting."""

    best: tuple[int, ...] | None = None
    outcome: float = 0.0
    n_runs: int = 0


@dataclass(frozen=True)
class RandomSettings(Budgeted):
    """Random search: run settings drawn at random, and recommend the one with the best single outcome.

    >>> from levers import Problem, Space
    >>> search = RandomSettings(Problem(Space.sized([3, 3]), None, 0.1, None), budget=8)
    >>> search.ask(search.start(), np.random.default_rng(0)).n_runs
    8
    """

    name: ClassVar[str] = "random"

    def start(self) -> RandomSettingsState:
        """Nothing run."""
        return RandomSettingsState()

    def ask(self, state: RandomSettingsState, rng: np.random.Generator) -> Batch | Verdict:
        """All runs at once: none depends on another."""
        left = min(CHUNK, self.budget - state.n_runs)
        if left == 0:
            assert state.best is not None  # a budget has a run
            return self.recommend(state.best, state.n_runs, STAGE)
        codes: NDArray[np.int16] = rng.integers(0, self.space.n_levels, (left, self.space.n_factors)).astype(np.int16)
        return Batch(codes, stage=STAGE, focus=state.n_runs)

    def tell(self, state: RandomSettingsState, batch: Batch, outcomes: ArrayLike) -> RandomSettingsState:
        """Keep the best."""
        y = self.accept(batch, outcomes)
        self.check_due(batch.stage == STAGE and batch.focus == state.n_runs and state.n_runs < self.budget)
        top = int(np.argmax(y))
        state = replace(state, n_runs=state.n_runs + batch.n_runs)
        if state.best is not None and y[top] <= state.outcome:
            return state
        return replace(state, best=tuple(batch.codes[top].tolist()), outcome=float(y[top]))

    def progress(self, state: RandomSettingsState) -> Progress:
        """The best setting seen."""
        return Progress(state.best or (), finished=state.n_runs >= self.budget)
