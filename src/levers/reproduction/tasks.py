"""Run one task: a pure function of its seed, the same on any machine and any number of workers."""

import numpy as np
from threadpoolctl import threadpool_limits

from levers.algorithms.base import Problem
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


def run_task(task: Task) -> list[Row]:
    """Every contender on one world of one point, as often as its size says."""
    point = SWEEPS[task.sweep].points[task.size][task.point]
    with threadpool_limits(1):
        if task.sweep == "hardness":
            return run_hardness(task, point)
        return [row for contender in point.contenders for row in _run(task, point, contender)]


def _run(task: Task, point: Point, contender: Contender) -> list[Row]:
    n_repeats = contender.n_repeats(task.size, task.world)
    if n_repeats == 0:
        return []
    comparison = point.comparison(contender, task.seed)
    world = comparison.world(task.world)
    algorithm = comparison.algorithm(contender.algorithm, world)
    limit = comparison.necessary_runs(world)
    rows = []
    for repeat in range(n_repeats):
        verdict = run_by_phases(algorithm, world, np.random.SeedSequence(task.seed, spawn_key=(task.world, repeat)))
        rows.append(
            Row.of(
                task,
                point,
                contender,
                repeat,
                verdict=verdict,
                world=world,
                tolerance=comparison.tolerance,
                limit=limit,
            )
        )
    return rows


def run_hardness(task: Task, point: Point) -> list[Row]:
    """Every contender on one needle world. The lower bound, 2^K / 2 settings to try, is the limit."""
    n_factors = int(point.x)
    rng = np.random.default_rng(np.random.SeedSequence(task.seed, spawn_key=(n_factors, task.world)))
    world = needle_world((2,) * n_factors, n_factors, NEEDLE_HEIGHT, rng)
    problem = Problem(world.space, NEEDLE_TOLERANCE, NEEDLE_FAILURE_PROB, world.outcome.noise_sd)
    rows = []
    for contender in point.contenders:
        algorithm = make_algorithm(
            contender.algorithm, problem, **({"target": NEEDLE_HEIGHT} if contender == NAIVE else {})
        )
        for repeat in range(min(WORLDS_AND_REPEATS[task.size][1], 5)):
            seed = np.random.SeedSequence(task.seed, spawn_key=(n_factors, task.world, repeat))
            verdict = run_on_world(algorithm, world, seed)
            limit = 2**n_factors // 2
            rows.append(
                Row.of(
                    task,
                    point,
                    contender,
                    repeat,
                    verdict=verdict,
                    world=world,
                    tolerance=NEEDLE_TOLERANCE,
                    limit=limit,
                )
            )
    return rows
