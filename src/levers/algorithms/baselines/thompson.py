"""Thompson sampling in the additive model, to recommend a setting after a number of runs."""

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from levers.algorithms.base import Batch, Progress, Verdict
from levers.algorithms.baselines.budgeted import Budgeted
from levers.core.codec import serialisable
from levers.core.model.level_index import Numbers, offsets
from levers.core.space import Codes
from levers.core.validation import check_count, check_scale

STAGE = "Thompson sampling"
CONSTANT_SD = 100.0
"""Standard deviation of the constant before the first run, in that of the effects."""
PRIOR_SHAPE, PRIOR_SCALE = 1.0, 1.0
"""The inverse-gamma law of an unknown noise variance before the first run: worth two runs."""


@serialisable("ThompsonState")
@dataclass(frozen=True, eq=False)
class ThompsonState:
    """The information matrix of constant and levels, the sums of outcomes by them, and the sum of their squares."""

    matrix: NDArray[np.float64]
    sums: NDArray[np.float64]
    squares: float = 0.0
    n_runs: int = 0


@dataclass(frozen=True)
class Thompson(Budgeted):
    """Additive Thompson sampling: run the setting that is best in one draw of the effects, given all runs so far.

    Effects are normal with standard deviation `effect_sd` before the first run (that of the noise if not given; 1 where
    neither is known). A noise that is not known has an inverse-gamma variance, and effects are then in its units.
    Recommended is what is best in the mean of the effects given all runs. `batch_size` settings are drawn at a time,
    from the same law: 1 is the textbook's.

    >>> from levers import Problem, Space
    >>> thompson = Thompson(Problem(Space.sized([3, 3]), None, 0.1, 1.0), budget=8)
    >>> thompson.ask(thompson.start(), np.random.default_rng(0)).n_runs
    1
    """

    effect_sd: float | None = None
    batch_size: int = 1
    name: ClassVar[str] = "thompson"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("batch_size", self.batch_size)
        if self.effect_sd is not None:
            check_scale("effect_sd", self.effect_sd)

    def start(self) -> ThompsonState:
        """Nothing run."""
        n_columns = sum(self.space.n_levels) + 1
        return ThompsonState(np.zeros((n_columns, n_columns)), np.zeros(n_columns))

    def ask(self, state: ThompsonState, rng: np.random.Generator) -> Batch | Verdict:
        """The best setting of each draw."""
        root, half = self._posterior(state)
        n_runs = min(self.batch_size, self.budget - state.n_runs)
        if n_runs == 0:
            return self.recommend(self._best(_solved(root.T, half)), state.n_runs, STAGE)
        rows = []
        for _ in range(n_runs):
            sd = 1.0
            if self.problem.noise_sd is None:
                scale = PRIOR_SCALE + max(state.squares - float(half @ half), 0.0) / 2
                sd = math.sqrt(scale / rng.gamma(PRIOR_SHAPE + state.n_runs / 2))
            rows.append(self._best(_solved(root.T, half + sd * rng.normal(size=len(half)))))
        return Batch(np.array(rows, dtype=np.int16), stage=STAGE, focus=state.n_runs)

    def _posterior(self, state: ThompsonState) -> tuple[Numbers, Numbers]:
        """The root L of the posterior precision, and L^-1 of the weighted sums: effects are L^-T (half + sd z)."""
        noise = self.problem.noise_sd or 1.0
        effect = self.effect_sd or noise
        prior = np.full(len(state.sums), effect**-2)
        prior[0] = (CONSTANT_SD * effect) ** -2
        root = np.asarray(np.linalg.cholesky(np.diag(prior) + state.matrix / noise**2), dtype=np.float64)
        return root, _solved(root, state.sums / noise**2)

    def _best(self, effects: Numbers) -> list[int]:
        begins = offsets(self.space.n_levels) + 1  # the constant comes first
        return [int(np.argmax(effects[a:b])) for a, b in pairwise(begins)]

    def tell(self, state: ThompsonState, batch: Batch, outcomes: ArrayLike) -> ThompsonState:
        """Add the runs."""
        y = self.accept(batch, outcomes)
        self.check_due(batch.stage == STAGE and batch.focus == state.n_runs < self.budget)
        columns = one_hot(batch.codes, self.space.n_levels)
        noise = self.problem.noise_sd or 1.0
        return replace(
            state,
            matrix=state.matrix + columns.T @ columns,
            sums=state.sums + columns.T @ y,
            squares=state.squares + float(y @ y) / noise**2,
            n_runs=state.n_runs + batch.n_runs,
        )

    def progress(self, state: ThompsonState) -> Progress:
        """What is best in the mean of the effects."""
        root, half = self._posterior(state)
        return Progress(tuple(self._best(_solved(root.T, half))), finished=state.n_runs >= self.budget)


def _solved(matrix: Numbers, side: Numbers) -> Numbers:
    return np.asarray(np.linalg.solve(matrix, side), dtype=np.float64)


def one_hot(codes: Codes, n_levels: tuple[int, ...]) -> Numbers:
    """A constant, and a column per level of every factor: 1 where a row has it.

    >>> one_hot(np.array([[1, 0]], dtype=np.int16), (2, 2)).tolist()
    [[1.0, 0.0, 1.0, 1.0, 0.0]]
    """
    columns = np.zeros((len(codes), sum(n_levels) + 1))
    columns[:, 0] = 1.0
    np.put_along_axis(columns, codes + offsets(n_levels)[:-1] + 1, 1.0, axis=1)
    return columns
