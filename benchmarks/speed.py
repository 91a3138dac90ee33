"""How fast MODL is, run by run on sampled rows: python benchmarks/speed.py

Ratios are against the released code of the paper, measured on one core of another machine of its kind: 8.6 to 10.6 s at
K=30, P=10, and 132 s with 11.6 GB at K=300 (there with a faster sampler than its own). One thread is used here.
"""

import os

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")  # before numpy is loaded

import resource
import statistics
import time

import numpy as np

from levers.algorithms.base import Problem
from levers.algorithms.modl import Modl
from levers.experiments.runner import run_on_world
from levers.worlds.random import random_world

RELEASED = {(30, 10): (8.6, 10.6), (300, 10): (132.0, 132.0)}


def measure(n_factors: int, n_parents: int, repeats: int) -> tuple[int, float]:
    runs, seconds = 0, []
    for seed in range(repeats):
        world = random_world(n_factors, n_parents, np.random.default_rng(seed), max_in_degree=4)
        began = time.perf_counter()
        runs = run_on_world(Modl(Problem(world.space, 0.5, 0.1, 1.0)), world, seed).n_runs
        seconds.append(time.perf_counter() - began)
    return runs, statistics.median(seconds)


def main() -> None:
    print(f"{'K':>4} {'P':>3} {'runs':>9} {'seconds':>8} {'released':>12} {'times faster':>14} {'peak MB':>8}")
    for (n_factors, n_parents), (low, high) in RELEASED.items():
        runs, seconds = measure(n_factors, n_parents, 7 if n_factors < 100 else 2)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        ratio = f"{low / seconds:.0f} to {high / seconds:.0f}"
        released = f"{low} to {high}" if low != high else f"{low}"
        print(f"{n_factors:4} {n_parents:3} {runs:9,} {seconds:8.3f} {released:>12} {ratio:>14} {peak:8.0f}")


if __name__ == "__main__":
    main()
