"""Count broken promises: python benchmarks/guarantee.py [studies] [part of a scenario's name]

2000 studies of each scenario by default, about 90 minutes on 2 cores. A star marks more than was promised, two stars
more by two standard errors of the count.
"""

import math
import os
import sys
import time

import numpy as np
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from harness.coverage import scenarios, selection_failures
from harness.hard_worlds import FAILURE_PROB
from levers.core.certificates.certificate import scale_needed
from levers.core.certificates.limits import slippage_failures
from levers.core.certificates.sums import dp_bound
from levers.core.designs.design import Design


def count(index: int, seeds: range) -> int:
    with threadpool_limits(1):
        scenario = scenarios()[index]
        return sum(scenario.fails(seed) for seed in seeds)


def error_of_share(share: float, n: int) -> float:
    """The standard error of a share that is counted over n studies."""
    return math.sqrt(share * (1 - share) / n)


def skewed_design(n_runs: int, sizes: tuple[int, ...], follow: float, seed: int) -> Design:
    """Each column copies the one before it with probability `follow`: far from orthogonal."""
    rng = np.random.default_rng(seed)
    rows = np.stack([rng.integers(0, m, n_runs) for m in sizes], axis=1).astype(np.int16)
    for k in range(1, len(sizes)):
        same = rng.random(n_runs) < follow
        rows[same, k] = rows[same, k - 1] % sizes[k]
    return Design(rows, sizes, "skewed")


def main() -> None:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    workers = os.cpu_count() or 1
    print(f"{'scenario':58} {'failures':>9} {'share':>7} {'promised':>9} {'seconds':>8}   of {n} studies each")
    worst = 0.0
    wanted = sys.argv[2] if len(sys.argv) > 2 else ""
    for index, scenario in enumerate(scenarios()):
        if wanted not in scenario.name:
            continue
        began = time.perf_counter()
        pieces = [range(begin, min(begin + 50, n)) for begin in range(0, n, 50)]
        failed = sum(Parallel(n_jobs=workers)(delayed(count)(index, piece) for piece in pieces))
        promised = scenario.failure_prob
        worst = max(worst, failed / n / promised)
        seconds = time.perf_counter() - began
        stars = "*" * (failed / n > promised) + "*" * (failed / n > promised + 2 * error_of_share(promised, n))
        print(f"{scenario.name:58} {failed:9} {failed / n:7.2%} {promised:9.2%} {seconds:8.1f} {stars}", flush=True)
    for sizes, n_runs, follow in (((2, 2, 2, 2), 40, 0.6), ((3, 3, 3), 60, 0.5), ((4, 2, 5, 3), 50, 0.4)):
        design = skewed_design(n_runs, sizes, follow, 1)
        many = 10 * n  # the selection alone: quick, and close to what is promised
        failed = selection_failures(design, many, 0)
        worst = max(worst, failed / many / FAILURE_PROB)
        name = f"skewed design {sizes}, inflation {design.inflation:.1f}"
        print(f"{name:58} {failed:9} {failed / many:7.2%} {FAILURE_PROB:9.2%} of {many}", flush=True)
    print(f"largest share of failures, of what was promised: {worst:.2f}")

    print("\nreported bound against the exact failure probability on equal-gap instances (K, m, n)")
    least = math.inf
    for k in (1, 2, 5, 10, 20):
        for m in (2, 3, 4, 6):
            for factor in (0.7, 1.0, 1.3):
                scale = factor * scale_needed((m,) * k, FAILURE_PROB)
                reported, exact = dp_bound([m] * k, scale), float(slippage_failures([m] * k, scale).max())
                least = min(least, reported / exact)
    print(f"least ratio of bound to exact probability over the grid: {least:.6f}")


if __name__ == "__main__":
    main()
