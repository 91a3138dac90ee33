"""What a number of runs typically achieves: the mean true loss of the setting recommended, over simulated worlds."""

import math
from collections.abc import Iterator, Sequence
from statistics import fmean, stdev
from typing import NamedTuple, TypeAlias

import numpy as np

from levers.algorithms.base import Batch, Problem, run_to_verdict
from levers.algorithms.cfs import settings
from levers.algorithms.cfs.pooled.solver import Pooled
from levers.core.model.level_index import Numbers
from levers.core.space import Space

World: TypeAlias = list[Numbers]
"""The effects of all levels, factor by factor."""

MOST_WORLDS, FEWEST_WORLDS = 40, 4
MOST_WORK = 2000.0
"""Milliseconds that all simulated studies of a plan take together, about, on one core."""
SIMULATED_RULES = settings.TOGETHER_RULES - 1
"""Studies are simulated without what guards against levers that work together and outcomes far out: in worlds whose
effects add up, with normal noise, they lose as much (docs/decisions/0022), and take a third of the time."""
_BLOCK_WORK, _FACTOR_WORK, _LEVELS_WORK = 1.0, 0.25, 0.0003
"""Milliseconds that a block of a study takes, and how many more for each factor and for each pair of levels."""


class TypicalLoss(NamedTuple):
    """The mean true loss of the setting recommended, its standard error, and over how many simulated studies."""

    mean: float
    error: float
    n_worlds: int


def typical_losses(
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
) -> tuple[TypicalLoss | None, ...]:
    """What studies of so many runs that aim for the best setting lose on random additive worlds, for each budget.

    In each world `n_parents` factors matter, drawn anew, and the effects of their levels are uniform with standard
    deviation `effect_sd`. All budgets, the smallest first, see the same worlds; more runs lose no more on average, so
    means that rise are averaged. The number of worlds follows from how long such studies
    take, never from the clock, so that the same question has the same answer; None where too few could be made.

    >>> few, many = typical_losses([3] * 4, [6, 48], noise_sd=1.0, effect_sd=1.0, n_parents=2)
    >>> few.mean > many.mean, few.n_worlds
    (True, 40)
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
            solver = Pooled(problem, max_parents, n_runs, aim=settings.BEST, rules=SIMULATED_RULES)
            losses = [
                true_loss(solver, effects, noise_sd, world)
                for world, effects in enumerate(random_effects(n_levels, n_parents, effect_sd, n_worlds, seed))
            ]
            found.append(TypicalLoss(fmean(losses), stdev(losses) / math.sqrt(n_worlds), n_worlds))
    return falling(found)


def falling(losses: Sequence[TypicalLoss]) -> tuple[TypicalLoss, ...]:
    """Means that do not rise: those that would are replaced by their average (isotonic regression).

    >>> [loss.mean for loss in falling([TypicalLoss(mean, 0.1, 9) for mean in (2.0, 0.5, 1.0)])]
    [2.0, 0.75, 0.75]
    """
    groups: list[list[TypicalLoss]] = []
    for loss in losses:
        groups.append([loss])
        while len(groups) > 1 and _mean(groups[-1]) > _mean(groups[-2]):
            groups[-2:] = [groups[-2] + groups[-1]]
    return tuple(
        loss._replace(mean=_mean(group), error=math.hypot(*(one.error for one in group)) / len(group))
        for group in groups
        for loss in group
    )


def _mean(losses: Sequence[TypicalLoss]) -> float:
    return fmean(loss.mean for loss in losses)


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


def true_loss(solver: Pooled, effects: World, noise_sd: float, seed: int) -> float:
    """How much worse than the best setting is the one that a study recommends.

    >>> problem = Problem(Space.sized([2, 2]), None, 0.1, 0.1)
    >>> true_loss(Pooled(problem, None, 12, aim=settings.BEST), [np.array([0.0, 1.0]), np.zeros(2)], 0.1, seed=0)
    0.0
    """
    rng = np.random.default_rng((seed, 1))

    def outcomes_of(batch: Batch) -> tuple[Batch, Numbers]:
        noise = noise_sd * rng.normal(size=batch.n_runs)
        return batch, sum((theta[batch.codes[:, k]] for k, theta in enumerate(effects)), start=noise)

    chosen = run_to_verdict(solver, outcomes_of, rng).assignment.codes
    return float(sum(theta.max() - theta[level] for theta, level in zip(effects, chosen, strict=True)))
