"""Other methods that recommend a setting after a number of runs: what the solver is compared with.

Each takes a problem, the numbers of runs after which it is asked, a function that makes runs, and a generator, and
returns one setting per number of runs. All of them set and recommend allowed settings only.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular

from levers.core.designs.build import largest_design
from levers.core.merging import Merging
from levers.core.model.level_index import Numbers, offsets
from levers.core.space import Codes, Space

WIDE_PRIOR_SD = 100.0
"""Standard deviation of the constant before the first run: far beyond the outcomes of the worlds compared on."""
PRIOR_SHAPE, PRIOR_SCALE = 1.0, 1.0
"""The inverse-gamma law of an unknown noise variance before the first run: worth two runs."""
MOST_REFUSALS = 1000
"""How often in a row a sampler may suggest a forbidden setting before a random allowed one is run in its place."""

Measure: TypeAlias = Callable[[Codes], Numbers]
"""Makes one run per row and returns the outcomes."""


@dataclass(frozen=True, eq=False)
class BudgetProblem:
    """Factors, their allowed settings, and the standard deviation of the noise, None when it is not known.

    >>> space = Space.sized([2, 2])
    >>> problem = BudgetProblem(Merging.of(space, ((("X1", 2), ("X2", 2)),)), 1.0)
    >>> problem.best(np.array([0.0, 3.0, 0.0, 1.0])).tolist()
    [1, 0]
    """

    merging: Merging
    noise_sd: float | None

    @property
    def space(self) -> Space:
        """The factors as they are set."""
        return self.merging.outer

    def allows(self, codes: Codes) -> bool:
        """Whether this setting of all factors is not forbidden."""
        return bool((self.merging.contract(codes[None, :]) >= 0).all())

    def random_setting(self, rng: np.random.Generator) -> Codes:
        """A random allowed setting."""
        inner = rng.integers(0, self.merging.inner.n_levels)
        rows = self.merging.expand(inner[None, :])
        return rows.reshape(-1)

    def best(self, effects: Numbers) -> Codes:
        """The allowed setting with the largest sum of effects, which are given for all levels in one row."""
        row = np.empty(self.space.n_factors, dtype=np.int16)
        alone, places = self._alone
        row[alone] = np.append(effects, -np.inf)[places].argmax(axis=1)
        for group, table, at in self._tied:
            row[group] = table[effects[at].sum(axis=1).argmax()]
        return row

    @cached_property
    def _alone(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Factors that no forbidden combination names, and the places of their levels, filled up with -1."""
        sizes, begins = self.space.n_levels, offsets(self.space.n_levels)
        alone = np.array([group[0] for group in self.merging.groups if len(group) == 1], dtype=np.int64)
        places = np.full((len(alone), max(sizes)), -1, dtype=np.int64)
        for row, k in zip(places, alone, strict=True):
            row[: sizes[k]] = np.arange(begins[k], begins[k + 1])
        return alone, places

    @cached_property
    def _tied(self) -> list[tuple[list[int], Codes, NDArray[np.int64]]]:
        """Factors that forbidden combinations tie together: their allowed combinations, and the places of these."""
        begins = offsets(self.space.n_levels)
        groups = zip(self.merging.groups, self.merging.tables, strict=True)
        return [(list(group), table, table + begins[list(group)]) for group, table in groups if len(group) > 1]


Recommend: TypeAlias = Callable[[BudgetProblem, Sequence[int], Measure, np.random.Generator], list[Codes]]
"""A setting for each of the numbers of runs, which are given in increasing order."""


@dataclass(frozen=True)
class Rival:
    """A method by its name. One that is `anytime` makes the same runs whatever their number will be."""

    name: str
    recommend: Recommend
    anytime: bool = False
    uses_noise: bool = False
    most_runs: int | None = None


def least_squares(
    problem: BudgetProblem, budgets: Sequence[int], measure: Measure, rng: np.random.Generator
) -> list[Codes]:
    """One nearly orthogonal design of all the runs, and the allowed setting that is best in the additive fit.

    Where forbidden combinations tie factors together, the design is one of the merged factors, and the fit is one of
    the factors themselves. Of all fits that explain fewer runs than parameters the one of least norm is taken.
    """
    recommended = []
    for n_runs in budgets:
        design = largest_design(problem.merging.inner.n_levels, n_runs, int(rng.integers(2**31)))
        rows = problem.merging.expand(design.rows)
        columns = _one_hot(rows, problem.space)
        outcomes = measure(rows)
        effects = np.linalg.lstsq(columns - columns.mean(axis=0), outcomes - outcomes.mean(), rcond=1e-9)[0]
        recommended.append(problem.best(effects))
    return recommended


def thompson_sampling(
    problem: BudgetProblem, budgets: Sequence[int], measure: Measure, rng: np.random.Generator
) -> list[Codes]:
    """Every run is at the allowed setting that is best in one draw of the effects given all runs before it.

    Effects are standard normal before the first run, in units of the noise where that is not known and has an
    inverse-gamma variance. Recommended is what is best in the mean of the effects given all runs.
    """
    begins = offsets(problem.space.n_levels)[:-1] + 1  # the constant comes first
    n_columns = sum(problem.space.n_levels) + 1
    noise_variance = 1.0 if problem.noise_sd is None else problem.noise_sd**2
    precision = np.eye(n_columns)
    precision[0, 0] = WIDE_PRIOR_SD**-2
    weighted, squares, recommended = np.zeros(n_columns), 0.0, []
    for n_runs in range(budgets[-1] + 1):
        factor = cholesky(precision, lower=True, check_finite=False)
        half = solve_triangular(factor, weighted, lower=True, check_finite=False)
        if n_runs in budgets:
            mean = solve_triangular(factor, half, lower=True, trans=1, check_finite=False)
            recommended.append(problem.best(mean[1:]))
        if n_runs == budgets[-1]:
            break
        sd = 1.0
        if problem.noise_sd is None:
            scale = PRIOR_SCALE + max(squares - float(half @ half), 0.0) / 2
            sd = np.sqrt(scale / rng.gamma(PRIOR_SHAPE + n_runs / 2))
        half = half + sd * rng.normal(size=n_columns)
        draw = solve_triangular(factor, half, lower=True, trans=1, check_finite=False)
        row = problem.best(draw[1:])
        outcome = float(measure(row[None, :])[0])
        at = np.concatenate([[0], begins + row])
        precision[np.ix_(at, at)] += 1 / noise_variance
        weighted[at] += outcome / noise_variance
        squares += outcome**2 / noise_variance
    return recommended


def tree_parzen_estimator(
    problem: BudgetProblem, budgets: Sequence[int], measure: Measure, rng: np.random.Generator
) -> list[Codes]:
    """Optuna's default sampler over categorical parameters; recommended is the setting of the best outcome seen.

    A forbidden suggestion is told to be pruned, which costs no run, and the sampler is asked again.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    choices: dict[str, optuna.distributions.BaseDistribution] = {
        name: optuna.distributions.CategoricalDistribution(range(m))
        for name, m in zip(problem.space.names, problem.space.n_levels, strict=True)
    }
    sampler = optuna.samplers.TPESampler(seed=int(rng.integers(2**31)))
    study = optuna.create_study(direction="maximize", sampler=sampler)
    recommended = []
    for n_runs in range(1, budgets[-1] + 1):
        for _ in range(MOST_REFUSALS):
            trial = study.ask(choices)
            row = np.array([trial.params[name] for name in choices], dtype=np.int16)
            if problem.allows(row):
                break
            study.tell(trial, state=optuna.trial.TrialState.PRUNED)
        else:
            row = problem.random_setting(rng)
            fixed = {name: int(code) for name, code in zip(choices, row, strict=True)}
            study.enqueue_trial(fixed)
            trial = study.ask(choices)
        study.tell(trial, float(measure(row[None, :])[0]))
        if n_runs in budgets:
            recommended.append(np.array([study.best_params[name] for name in choices], dtype=np.int16))
    return recommended


def one_factor_at_a_time(
    problem: BudgetProblem, budgets: Sequence[int], measure: Measure, rng: np.random.Generator
) -> list[Codes]:
    """From a random setting, the levels of one factor after another are compared, and the best mean is kept.

    Runs are split evenly over the levels that are still to come, with at least one for each, until there are none left.
    """
    return [_one_factor_search(problem, n_runs, measure, rng) for n_runs in budgets]


def _one_factor_search(problem: BudgetProblem, n_runs: int, measure: Measure, rng: np.random.Generator) -> Codes:
    current, left = problem.random_setting(rng), n_runs
    order = rng.permutation(problem.space.n_factors)
    for place, k in enumerate(order):
        rows = np.tile(current, (problem.space.n_levels[k], 1))
        rows[:, k] = np.arange(len(rows))
        rows = rows[(problem.merging.contract(rows) >= 0).all(axis=1)]
        rows = rows[np.argsort(np.where(rows[:, k] == current[k], -1.0, rng.random(len(rows))))]  # where it is, first
        n_later = sum(problem.space.n_levels[later] for later in order[place + 1 :])
        share = left if not n_later else left * len(rows) // (len(rows) + n_later)
        share = min(left, max(len(rows), share // len(rows) * len(rows) if n_later else share))
        if share < 2:
            break
        level = np.arange(share) % len(rows)
        totals = np.bincount(level, weights=measure(rows[level]))
        current = rows[int(np.argmax(totals / np.bincount(level)))]
        left -= share
    return current


def _one_hot(rows: Codes, space: Space) -> Numbers:
    """A column per level of every factor: 1 where a row has it."""
    columns = np.zeros((len(rows), sum(space.n_levels)))
    np.put_along_axis(columns, rows + offsets(space.n_levels)[:-1], 1.0, axis=1)
    return columns


RIVALS = (
    Rival("least squares", least_squares),
    Rival("Thompson", thompson_sampling, anytime=True, uses_noise=True),
    Rival("one at a time", one_factor_at_a_time),
    Rival("TPE", tree_parzen_estimator, anytime=True, most_runs=250),
)
"""All of them."""
