"""What a number of runs typically achieves, over simulated worlds: how much worse than the best the setting recommended
is, and what is certified of it."""

import math
from collections.abc import Iterator, Sequence
from statistics import fmean, median, stdev
from typing import NamedTuple, TypeAlias

import numpy as np

from levers.algorithms.base import Batch, Problem
from levers.algorithms.cfs import settings
from levers.algorithms.cfs.pooled.solver import Pooled
from levers.core.model.level_index import Numbers
from levers.core.space import Space

World: TypeAlias = list[Numbers]
"""The effects of all levels, factor by factor."""

MOST_WORLDS, FEWEST_WORLDS = 40, 4
MOST_WORK = 2000.0
"""Milliseconds that all simulated studies of a plan take together, about, on one core."""
DRAWS = 200
"""How often the outcomes of a simulated study's runs are drawn again."""
_BLOCK_WORK, _FACTOR_WORK, _LEVELS_WORK = 1.0, 0.25, 0.0003
"""Milliseconds that a block of a study takes, and how many more for each factor and for each pair of levels."""


class Typical(NamedTuple):
    """What simulated studies of so many runs end with: the mean true loss of the setting recommended, its standard
    error, over how many studies, and the median tolerance certified; None where half of them certify nothing."""

    loss: float
    error: float
    n_worlds: int
    certified: float | None


def typical_studies(
    n_levels: Sequence[int],
    budgets: Sequence[int],
    *,
    noise_sd: float,
    effect_sd: float,
    n_parents: int,
    noise_known: bool = True,
    max_parents: int | None = None,
    most_work: float = MOST_WORK,
    seed: int = 0,
) -> tuple[Typical | None, ...]:
    """What studies of so many runs that aim for the best setting end with on random additive worlds, for each budget.

    In each world `n_parents` factors matter, drawn anew, and the effects of their levels are uniform with standard
    deviation `effect_sd`. All budgets, the smallest first, see the same worlds; more runs lose no more on average, so
    means that rise are averaged. The number of worlds follows from how long such studies
    take, never from the clock, so that the same question has the same answer; None where too few could be made.
    Studies are simulated without what guards against levers that work together and outcomes far out, which takes two
    thirds of the time and changes nothing in such worlds (`Pooled.additive`, docs/decisions/0022).

    >>> few, many = typical_studies([3] * 4, [6, 48], noise_sd=1.0, effect_sd=1.0, n_parents=2)
    >>> few.loss > many.loss, few.n_worlds, few.certified, many.certified < 2
    (True, 40, None, True)
    """
    work = sum(_study_work(n_levels, n_runs) for n_runs in budgets)
    n_worlds = min(MOST_WORLDS, int(most_work / work))
    if n_worlds < FEWEST_WORLDS or sum(n_levels) > settings.MOST_POOLED_LEVELS:
        return (None,) * len(budgets)
    from threadpoolctl import threadpool_limits

    problem = Problem(Space.sized(list(n_levels)), None, 0.1, noise_sd if noise_known else None)
    found = []
    with threadpool_limits(1):  # the matrices are small: threads would wait for each other
        for n_runs in budgets:
            solver = Pooled(problem, max_parents, n_runs, aim=settings.BEST, additive=True)
            losses, certified = zip(
                *(
                    simulated_study(solver, effects, noise_sd, world)
                    for world, effects in enumerate(random_effects(n_levels, n_parents, effect_sd, n_worlds, seed))
                ),
                strict=True,
            )
            middle = median(certified)
            error = stdev(losses) / math.sqrt(n_worlds)
            found.append(Typical(fmean(losses), error, n_worlds, middle if math.isfinite(middle) else None))
    return falling(found)


def falling(studies: Sequence[Typical]) -> tuple[Typical, ...]:
    """Mean losses that do not rise: those that would are replaced by their average (isotonic regression).

    All see the same worlds, so that the average is hardly surer than each of them.

    >>> [one.loss for one in falling([Typical(loss, 0.1, 9, None) for loss in (2.0, 0.5, 1.0)])]
    [2.0, 0.75, 0.75]
    """
    groups: list[list[Typical]] = []
    for one in studies:
        groups.append([one])
        while len(groups) > 1 and _mean(groups[-1]) > _mean(groups[-2]):
            groups[-2:] = [groups[-2] + groups[-1]]
    return tuple(
        one._replace(loss=_mean(group), error=max(each.error for each in group)) for group in groups for one in group
    )


def _mean(studies: Sequence[Typical]) -> float:
    return fmean(one.loss for one in studies)


def _study_work(n_levels: Sequence[int], n_runs: int) -> float:
    """About the milliseconds of a study: its blocks grow by a share of the runs so far, and have a least length."""
    n_parameters = max(sum(m - 1 for m in n_levels), 2)
    n_blocks = 1.0
    if n_runs > n_parameters:
        by_growth = math.log(n_runs / n_parameters) / math.log1p(settings.BEST_GROWTH)
        n_blocks += min(by_growth, (n_runs - n_parameters) / settings.LEAST_BLOCK)
    return n_blocks * (_BLOCK_WORK + _FACTOR_WORK * len(n_levels) + _LEVELS_WORK * sum(n_levels) ** 2)


def random_effects(
    n_levels: Sequence[int], n_parents: int, effect_sd: float, n_worlds: int, seed: int
) -> Iterator[World]:
    """Effects of all levels, world by world. A uniform effect on -a to a has the standard deviation a / sqrt(3).

    >>> [effects] = random_effects([2, 3], 1, 1.0, 1, seed=0)
    >>> [len(theta) for theta in effects], sum(bool(theta.any()) for theta in effects)
    ([2, 3], 1)
    """
    rng = np.random.default_rng(seed)
    reach = math.sqrt(3) * effect_sd
    for _ in range(n_worlds):
        parents = set(rng.choice(len(n_levels), n_parents, replace=False).tolist())
        yield [rng.uniform(-reach, reach, m) if k in parents else np.zeros(m) for k, m in enumerate(n_levels)]


def simulated_study(solver: Pooled, effects: World, noise_sd: float, seed: int) -> tuple[float, float]:
    """How much worse than the best the setting of a study is, and what it certifies; infinite where that is nothing.

    Whether a study chooses the best level or not is chance: what its rows are expected to lose is much surer. With A
    their information matrix and theta the effects, the sums of outcomes are z ~ N(A theta, sigma^2 A); they are drawn
    again `DRAWS` times, and the levels that the study would choose by them (`posterior`, with its own shrinkage) are
    compared with the best. That rows followed other outcomes than these makes hardly a difference: on 150 worlds each
    of ten kinds the mean was 1.00 to 1.2 times that of the settings themselves, its standard error a third.

    >>> problem = Problem(Space.sized([2, 2]), None, 0.1, 0.1)
    >>> solver = Pooled(problem, None, 12, aim=settings.BEST, additive=True)
    >>> loss, certified = simulated_study(solver, [np.array([0.0, 1.0]), np.zeros(2)], 0.1, seed=0)
    >>> loss, certified < 0.3
    (0.0, True)
    """
    rng, state = np.random.default_rng((seed, 1)), solver.start()
    while isinstance(step := solver.ask(state, rng), Batch):
        noise = noise_sd * rng.normal(size=step.n_runs)
        y = sum((theta[step.codes[:, k]] for k, theta in enumerate(effects)), start=noise)
        state = solver.tell(state, step, y)
    found, information = solver.posterior(state), state.pooled.information
    values, vectors = np.linalg.eigh(information)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    drawn = (information @ np.concatenate(effects))[:, None] + noise_sd * root @ rng.normal(size=(len(root), DRAWS))
    means = found.covariance @ drawn / found.noise_sd**2
    lost, begin = np.zeros(DRAWS), 0
    for theta in effects:
        lost += theta.max() - theta[means[begin : begin + len(theta)].argmax(axis=0)]
        begin += len(theta)
    return float(lost.mean()), math.inf if step.tolerance is None else step.tolerance
