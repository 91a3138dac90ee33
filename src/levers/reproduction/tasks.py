"""Run one task: a pure function of its seed, the same on any machine and any number of workers."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from levers.algorithms.base import Algorithm, Problem, Verdict
from levers.algorithms.registry import make_algorithm
from levers.experiments.runner import run_by_phases, run_on_world
from levers.reproduction.results import Row
from levers.reproduction.sweeps import (
    NAIVE,
    NEEDLE_FAILURE_PROB,
    NEEDLE_HEIGHT,
    NEEDLE_TOLERANCE,
    SWEEPS,
    WORLDS_AND_REPEATS,
    Contender,
    Point,
    Task,
)
from levers.worlds.named import needle_world
from levers.worlds.scm import World, gap, true_parents

_MOST_NEEDLE_REPEATS = 5
"""Runs on each needle world, at most: naive search is slow."""


class _Entry(NamedTuple):
    """One contender, ready to run: `seed_key` and the number of a repeat make the seed of each run."""

    algorithm: Algorithm
    world: World
    run: Callable[[Algorithm, World, np.random.SeedSequence], Verdict]
    tolerance: float
    limit: int
    n_repeats: int
    seed_key: tuple[int, ...]


def run_task(task: Task) -> list[Row]:
    """Every contender on one world of one point. One thread, so that numbers do not depend on the machine's cores."""
    point = SWEEPS[task.sweep].points[task.size][task.point]
    make = _needle_entry if task.sweep == "hardness" else _random_entry
    with threadpool_limits(1):
        return [row for contender in point.contenders for row in _rows(task, point, contender, make)]


def _rows(
    task: Task, point: Point, contender: Contender, make: Callable[[Task, Point, Contender], _Entry | None]
) -> Iterator[Row]:
    entry = make(task, point, contender)
    for repeat in range(entry.n_repeats if entry is not None else 0):
        assert entry is not None  # as there are repeats
        seed = np.random.SeedSequence(task.seed, spawn_key=(*entry.seed_key, repeat))
        verdict = entry.run(entry.algorithm, entry.world, seed)
        loss = gap(entry.world, verdict.assignment.codes)
        yield Row(
            experiment=task.sweep,
            panel=point.panel,
            x=point.x,
            contender=contender.label,
            world=task.world,
            repeat=repeat,
            n_runs=verdict.n_runs,
            gap=loss,
            failed=loss > entry.tolerance,
            parents_exact=None if verdict.parents is None else set(verdict.parents) == set(true_parents(entry.world)),
            limit=entry.limit,
        )


def _random_entry(task: Task, point: Point, contender: Contender) -> _Entry | None:
    """A contender on a random world; None when it does not run on this one."""
    n_repeats = contender.n_repeats(task.size, task.world)
    if n_repeats == 0:
        return None
    comparison = point.comparison(contender, task.seed)
    world = comparison.world(task.world)
    return _Entry(
        comparison.algorithm(contender.algorithm, world),
        world,
        run_by_phases,
        comparison.tolerance,
        comparison.necessary_runs(world),
        n_repeats,
        (task.world,),
    )


def _needle_entry(task: Task, point: Point, contender: Contender) -> _Entry:
    """A contender on a needle world. The limit is the lower bound of 2^K / 2 settings to try."""
    n_factors = int(point.x)
    seed_key = (n_factors, task.world)
    rng = np.random.default_rng(np.random.SeedSequence(task.seed, spawn_key=seed_key))
    world = needle_world((2,) * n_factors, n_factors, NEEDLE_HEIGHT, rng)
    problem = Problem(world.space, NEEDLE_TOLERANCE, NEEDLE_FAILURE_PROB, world.outcome.noise_sd)
    options = {"target": NEEDLE_HEIGHT} if contender == NAIVE else {}
    n_repeats = min(WORLDS_AND_REPEATS[task.size][1], _MOST_NEEDLE_REPEATS)
    algorithm = make_algorithm(contender.algorithm, problem, **options)
    return _Entry(algorithm, world, run_on_world, NEEDLE_TOLERANCE, 2**n_factors // 2, n_repeats, seed_key)
