"""What CFS itself costs in computing: python benchmarks/solver_speed.py

Milliseconds per study beyond sampling at K=30: cold (a space never seen) and warm (designs, certificates remembered),
and warm over one plain least-squares fit of 1000 runs and 100 columns that is timed between the studies: machines
differ, and some change their speed from minute to minute. Then two studies of 1000 factors of 5 levels with
max_parents=10, with their peak memory: one in which the first block finds all ten parents, and one in which it misses
one.
"""

import os

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")  # before numpy is loaded

import resource
import statistics
import time

import numpy as np

from harness.hard_worlds import additive_world
from levers.algorithms.base import Batch, Problem
from levers.algorithms.cfs.solver import Cfs
from levers.worlds.random import random_world
from levers.worlds.scm import World, gap


def study(cfs: Cfs, world: World, seed: int) -> tuple[int, float, float]:
    """Runs, seconds of computing without sampling, and the gap."""
    rng, noise, state = np.random.default_rng(seed), np.random.default_rng([seed, 1]), cfs.start()
    spent = 0.0
    while True:
        began = time.perf_counter()
        step = cfs.ask(state, rng)
        spent += time.perf_counter() - began
        if not isinstance(step, Batch):
            return step.n_runs, spent, gap(world, step.assignment.codes)
        outcomes = world.sample(step.codes, noise).outcomes
        began = time.perf_counter()
        state = cfs.tell(state, step, outcomes)
        spent += time.perf_counter() - began


def plain_fit(rng: np.random.Generator) -> float:
    """Milliseconds of a least-squares fit."""
    x, y = rng.normal(size=(1000, 100)), rng.normal(size=1000)
    began = time.perf_counter()
    np.linalg.lstsq(x, y, rcond=None)
    return (time.perf_counter() - began) * 1000


def main() -> None:
    rng = np.random.default_rng(0)
    plain_fit(rng)  # what is loaded when it is first called does not count
    head = f"{'K':>4} {'P':>3} {'known':>6} {'cold ms':>8} {'warm ms':>8} {'in fits':>8}"
    print(head + "   (median over 6 worlds, 4 studies each)")
    means = []
    for n_parents, known in ((1, False), (1, True), (10, False), (10, True), (30, False)):
        cold, warm, fits = [], [], []
        for index in range(6):
            world = random_world(30, n_parents, np.random.default_rng([n_parents, index]), max_in_degree=4)
            cfs = Cfs(Problem(world.space, 0.5, 0.1, 1.0), max_parents=n_parents if known else None)
            times = []
            for seed in range(4):
                fits.append(plain_fit(rng))
                times.append(study(cfs, world, seed)[1] * 1000)
            cold.append(times[0])
            warm += times[1:]
        cold_ms, warm_ms = statistics.median(cold), statistics.median(warm)
        means.append(warm_ms)
        in_fits = warm_ms / statistics.median(fits)
        print(f"{30:4} {n_parents:3} {known!s:>6} {cold_ms:8.0f} {warm_ms:8.0f} {in_fits:8.1f}", flush=True)
    print(f"{'mean over the five':25}{statistics.mean(means):8.0f}")
    for seed in (0, 4):
        rng = np.random.default_rng(seed)
        effects = [(3 * rng.beta(2, 5, size=5)).tolist() if k < 10 else [0.0] * 5 for k in range(1000)]
        world = additive_world(effects)
        began = time.perf_counter()
        runs, spent, lost = study(Cfs(Problem(world.space, 0.5, 0.1, 1.0), max_parents=10), world, seed)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        seconds = time.perf_counter() - began
        print(f"K=1000, 5 levels, max_parents=10: {runs:,} runs, gap {lost:.2f}")
        print(f"{spent:.1f} s of computing, {seconds:.1f} s in all, {peak:.0f} MB", flush=True)


if __name__ == "__main__":
    main()
