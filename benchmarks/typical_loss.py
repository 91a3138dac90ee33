"""What a plan simulates against what a study does: python benchmarks/typical_loss.py [worlds]

A plan for a budget simulates studies in worlds whose effects add up, without what guards a study against levers that
work together and against outcomes far out. This runs both on the same worlds, side by side: mean true loss, its
standard error, milliseconds a study, and the mean difference with its standard error. A star marks a difference beyond
three standard errors.
"""

import os

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")  # before numpy is loaded

import math
import sys
import time
from statistics import fmean, stdev

from levers.algorithms.base import Problem
from levers.algorithms.cfs import settings
from levers.algorithms.cfs.pooled.solver import Pooled
from levers.core.space import Space
from levers.experiments.typical_loss import SIMULATED_RULES, random_effects, true_loss

KINDS = (((3, 4, 5, 2, 3, 3, 2), 3, (30, 60, 120, 240)), ((4,) * 10, 5, (60, 120)))


def losses(n_levels: tuple[int, ...], n_parents: int, n_runs: int, known: bool, rules: int, n: int) -> list[float]:
    """The true loss in each of n worlds, with noise and effects of standard deviation 1."""
    problem = Problem(Space.sized(list(n_levels)), None, 0.1, 1.0 if known else None)
    solver = Pooled(problem, None, n_runs, aim=settings.BEST, rules=rules)
    worlds = enumerate(random_effects(n_levels, n_parents, 1.0, n, seed=0))
    return [true_loss(solver, effects, 1.0, index) for index, effects in worlds]


def main() -> None:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    heads = f"{'in plans':>16} {'ms':>5} {'in studies':>16} {'ms':>5} {'less':>16}"
    print(f"{'levers':>6} {'noise':>8} {'runs':>5} {heads}")
    for n_levels, n_parents, budgets in KINDS:
        for known in (True, False):
            for n_runs in budgets:
                line, found = f"{len(n_levels):6} {'known' if known else 'unknown':>8} {n_runs:5}", []
                for rules in (SIMULATED_RULES, settings.STEADY_RULES):
                    began = time.perf_counter()
                    found.append(losses(n_levels, n_parents, n_runs, known, rules, n))
                    spent = (time.perf_counter() - began) / n * 1000
                    line += f" {fmean(found[-1]):7.3f} ± {stdev(found[-1]) / math.sqrt(n):5.3f}  {spent:5.0f}"
                less = [study - simulated for simulated, study in zip(*found, strict=True)]
                error = stdev(less) / math.sqrt(n)
                print(f"{line} {fmean(less):7.3f} ± {error:5.3f} {'*' * (abs(fmean(less)) > 3 * error)}", flush=True)


if __name__ == "__main__":
    main()
