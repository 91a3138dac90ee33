"""Run one task: a pure function of its seed, the same on any machine and any number of workers."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from levers.algorithms.base import Algorithm, Problem, Verdict
from levers.algorithms.registry import make_algorithm
from levers.experiments.compare import judged
from levers.experiments.runner import run_by_phases, run_on_world
from levers.reproduction.results import Row
from levers.reproduction.sweeps import (
    NAIVE,
    NEEDLE_FAILURE_PROB,
    NEEDLE_HEIGHT,
    NEEDLE_TOLERANCE,
    SWEEPS,
    Contender,
    Point,
    Task,
)
from levers.worlds.named import needle_world
from levers.worlds.scm import World

_MOST_NEEDLE_REPEATS = 5  # runs on each needle world, at most: naive search is slow


class _Entry(NamedTuple):
    """One contender, ready to run: `seed_key` and the number of a repeat make the seed of each run."""

    algorithm: Algorithm
    world: World
    run: Callable[[Algorithm, World, np.random.SeedSequence], Verdict]
    tolerance: float
    limit: int
    seed_key: tuple[int, ...]


def run_task(task: Task) -> list[Row]:
    """Every contender on one world of one point. One thread, so that numbers do not depend on the machine's cores."""
    point = SWEEPS[task.sweep].points[task.size][task.point]
    with threadpool_limits(1):
        return [row for contender in point.contenders for row in _rows(task, point, contender)]


def _rows(task: Task, point: Point, contender: Contender) -> Iterator[Row]:
    """Every run of one contender."""
    needle = task.sweep == "hardness"
    n_repeats = contender.n_repeats(task.size, task.world)
    n_repeats = min(n_repeats, _MOST_NEEDLE_REPEATS) if needle else n_repeats
    if n_repeats == 0:
        return
    entry = (_needle_entry if needle else _random_entry)(task, point, contender)
    for repeat in range(n_repeats):
        seed = np.random.SeedSequence(task.seed, spawn_key=(*entry.seed_key, repeat))
        verdict = entry.run(entry.algorithm, entry.world, seed)
        where = (task.sweep, point.panel, point.x, contender.label, task.world, repeat)
        yield Row(*where, *judged(verdict, entry.world, entry.tolerance), entry.limit)


def _random_entry(task: Task, point: Point, contender: Contender) -> _Entry:
    """A contender on a random world of the paper."""
    comparison = point.comparison(contender, task.seed)
    world = comparison.world(task.world)
    algorithm = comparison.algorithm(contender.algorithm, world)
    limit = comparison.necessary_runs(world)
    return _Entry(algorithm, world, run_by_phases, comparison.tolerance, limit, (task.world,))


def _needle_entry(task: Task, point: Point, contender: Contender) -> _Entry:
    """A contender on a needle world. The limit is the lower bound of 2^K / 2 settings to try."""
    n_factors = int(point.x)
    seed_key = (n_factors, task.world)
    rng = np.random.default_rng(np.random.SeedSequence(task.seed, spawn_key=seed_key))
    world = needle_world((2,) * n_factors, n_factors, NEEDLE_HEIGHT, rng)
    problem = Problem(world.space, NEEDLE_TOLERANCE, NEEDLE_FAILURE_PROB, world.outcome.noise_sd)
    options = {"target": NEEDLE_HEIGHT} if contender == NAIVE else {}
    algorithm = make_algorithm(contender.algorithm, problem, **options)
    return _Entry(algorithm, world, run_on_world, NEEDLE_TOLERANCE, 2**n_factors // 2, seed_key)
