"""What a plan simulates against what a study does: python benchmarks/typical_loss.py [worlds]

A plan for a budget simulates studies in worlds whose effects add up, without what guards a study against levers that
work together and against outcomes far out, and says what their rows are expected to lose. Studies, with these guards,
are run on the same worlds: mean true loss of their settings and the median tolerance certified beside the plan's, with
standard errors, and milliseconds a study. A star marks means that differ by more than three standard errors.
"""

import os

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")  # before numpy is loaded

import math
import sys
import time
from statistics import fmean, median, stdev

import numpy as np

from levers.algorithms.base import Batch, Problem, run_to_verdict
from levers.algorithms.cfs import settings
from levers.algorithms.cfs.pooled.solver import Pooled
from levers.core.model.level_index import Numbers
from levers.core.space import Space
from levers.experiments.typical_loss import World, random_effects, simulated_study

KINDS = (((3, 4, 5, 2, 3, 3, 2), 3, (30, 60, 120, 240)), ((4,) * 10, 5, (60, 120, 240)))


def study(solver: Pooled, effects: World, noise_sd: float, seed: int) -> tuple[float, float]:
    """The true loss of the setting that a study recommends, and what it certifies; infinite where that is nothing."""
    rng = np.random.default_rng((seed, 1))

    def outcomes_of(batch: Batch) -> tuple[Batch, Numbers]:
        noise = noise_sd * rng.normal(size=batch.n_runs)
        return batch, sum((theta[batch.codes[:, k]] for k, theta in enumerate(effects)), start=noise)

    verdict = run_to_verdict(solver, outcomes_of, rng)
    lost = sum(theta.max() - theta[level] for theta, level in zip(effects, verdict.assignment.codes, strict=True))
    return float(lost), math.inf if verdict.tolerance is None else verdict.tolerance


def main() -> None:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    heads = f"{'in plans':>16} {'certified':>9} {'ms':>5} {'in studies':>16} {'certified':>9} {'ms':>5}"
    print(f"{'levers':>6} {'noise':>8} {'runs':>5} {heads}")
    for n_levels, n_parents, budgets in KINDS:
        for known in (True, False):
            problem = Problem(Space.sized(list(n_levels)), None, 0.1, 1.0 if known else None)
            for n_runs in budgets:
                line, means = f"{len(n_levels):6} {'known' if known else 'unknown':>8} {n_runs:5}", []
                for simulate, additive in ((simulated_study, True), (study, False)):
                    solver = Pooled(problem, None, n_runs, aim=settings.BEST, additive=additive)
                    began, worlds = time.perf_counter(), random_effects(n_levels, n_parents, 1.0, n, seed=0)
                    found = [simulate(solver, effects, 1.0, index) for index, effects in enumerate(worlds)]
                    spent = (time.perf_counter() - began) / n * 1000
                    losses, certified = zip(*found, strict=True)
                    means.append((fmean(losses), stdev(losses) / math.sqrt(n)))
                    line += f" {means[-1][0]:7.3f} ± {means[-1][1]:5.3f}  {median(certified):9.2f} {spent:5.0f}"
                (plan, plan_error), (real, real_error) = means
                far = abs(plan - real) > 3 * math.hypot(plan_error, real_error)
                print(f"{line} {'*' * far}", flush=True)


if __name__ == "__main__":
    main()
