"""A fractional factorial with analysis of variance: the textbook of design of experiments."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from levers.algorithms.base import Batch, Progress, Verdict
from levers.algorithms.baselines.budgeted import Budgeted
from levers.core.codec import serialisable
from levers.core.designs.build import largest_design
from levers.core.model.fit import Fit
from levers.core.model.moments import Moments
from levers.core.model.ordinary import Noise, factor_test
from levers.core.space import Codes
from levers.core.validation import check_probability

STAGE = "fractional factorial"
SIGNIFICANT = 0.05
"""The p-value below which a factor counts."""


@serialisable("FractionalFactorialState")
@dataclass(frozen=True, eq=False)
class FractionalFactorialState:
    """The sums of the design's runs."""

    moments: Moments
    finished: bool = False


@dataclass(frozen=True)
class FractionalFactorial(Budgeted):
    """A fractional factorial: one nearly orthogonal design of all runs, and the best level of each significant factor.

    A factor counts when its F test (partial, with the noise of the residuals, or chi-squared where the noise is known)
    has a p-value below `significance`; the others stay at their first level. Where runs are too few for any test, every
    factor gets the level that is best in the fit of least norm.

    >>> from levers import Problem, Space
    >>> design = FractionalFactorial(Problem(Space.sized([3, 3, 3]), None, 0.1, None), budget=12)
    >>> design.ask(design.start(), np.random.default_rng(0)).n_runs
    12
    """

    significance: float = SIGNIFICANT
    name: ClassVar[str] = "fractional-factorial"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_probability("significance", self.significance)

    def start(self) -> FractionalFactorialState:
        """Nothing run."""
        return FractionalFactorialState(Moments.empty(self.space.n_levels))

    def _rows(self, seed: int) -> Codes:
        return largest_design(self.space.n_levels, self.budget, seed).rows

    def ask(self, state: FractionalFactorialState, rng: np.random.Generator) -> Batch | Verdict:
        """The whole design."""
        if state.finished:
            return self.recommend(self._levels(state), state.moments.n_runs, STAGE)
        seed = int(rng.integers(2**31))
        return Batch(self._rows(seed), stage=STAGE, focus=seed)

    def tell(self, state: FractionalFactorialState, batch: Batch, outcomes: ArrayLike) -> FractionalFactorialState:
        """Add the runs of the design."""
        y = self.accept(batch, outcomes)
        self.check_due(not state.finished and batch.stage == STAGE)
        return replace(state, moments=state.moments.add(batch.codes, y), finished=True)

    def _levels(self, state: FractionalFactorialState) -> list[int]:
        fit = Fit(state.moments)
        noise = Noise.of(fit, self.problem.noise_sd)
        levels = []
        for k, m in enumerate(self.space.n_levels):
            places = np.arange(fit.moments.offsets[k], fit.moments.offsets[k] + m)
            test = None if noise is None else factor_test(fit, places, noise)
            counts = test is None or test.p_value < self.significance
            levels.append(int(np.nanargmax(fit.level_effects(k))) if counts else 0)
        return levels

    def progress(self, state: FractionalFactorialState) -> Progress:
        """Whether the design is done, and what it says."""
        return Progress(tuple(self._levels(state)) if state.finished else (), finished=state.finished)
