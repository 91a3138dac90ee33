"""Run one task: a pure function of its seed, the same on any machine and any number of workers."""

import numpy as np
from threadpoolctl import threadpool_limits

from levers.experiments.reproduction.catalogue import SWEEPS
from levers.experiments.reproduction.hardness import run_hardness
from levers.experiments.reproduction.rows import Row
from levers.experiments.reproduction.sweep import Contender, Point, Task
from levers.experiments.worlds import run_by_phases


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
