"""The exponential-hardness instance: one setting of the parents is better, and nothing points to it."""

import numpy as np

from levers.algorithms.base import Problem
from levers.algorithms.registry import make_algorithm
from levers.experiments.reproduction.rows import Row
from levers.experiments.reproduction.sweep import WORLDS_AND_REPEATS, Contender, Point, Sweep, Task
from levers.experiments.worlds import run_on_world
from levers.simulation.named import needle_world

NAIVE = Contender("naive search", "naive-search")
MODL = Contender("modl", "modl")
CFS = Contender("cfs", "cfs")
PANEL = "2 levels, every factor a parent"
TOLERANCE, FAILURE_PROB, HEIGHT = 0.5, 0.1, 1.0
_FACTORS = {"smoke": (2, 4), "notebook": (2, 4, 6, 8), "paper": (2, 3, 4, 5, 6, 7, 8, 9, 10)}

SWEEP = Sweep(
    "hardness",
    "Without the additive assumption: a needle in a haystack",
    "parents of the outcome",
    {size: tuple(Point.at(PANEL, k, (NAIVE, MODL, CFS)) for k in ks) for size, ks in _FACTORS.items()},
    "Naive search is the only one that applies here. The others assume an additive outcome, and their gaps show it.",
)


def run_hardness(task: Task, point: Point) -> list[Row]:
    """Every contender on one needle world. The lower bound, 2^K / 2 settings to try, is the limit."""
    n_factors = int(point.x)
    rng = np.random.default_rng(np.random.SeedSequence(task.seed, spawn_key=(n_factors, task.world)))
    world = needle_world((2,) * n_factors, n_factors, HEIGHT, rng)
    problem = Problem(world.space, TOLERANCE, FAILURE_PROB, world.outcome.noise_sd)
    rows = []
    for contender in point.contenders:
        algorithm = make_algorithm(contender.algorithm, problem, **({"target": HEIGHT} if contender == NAIVE else {}))
        for repeat in range(min(WORLDS_AND_REPEATS[task.size][1], 5)):
            seed = np.random.SeedSequence(task.seed, spawn_key=(n_factors, task.world, repeat))
            verdict = run_on_world(algorithm, world, seed)
            limit = 2**n_factors // 2
            rows.append(
                Row.of(task, point, contender, repeat, verdict=verdict, world=world, tolerance=TOLERANCE, limit=limit)
            )
    return rows
