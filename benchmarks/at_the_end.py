"""What intervals at the end of a budget are worth: python benchmarks/at_the_end.py [studies] [aim]

Studies with a budget for the best setting, or with the aim "certify", failure probability 10 %. Intervals of what each
level loses are for the end of the budget, which is fixed in advance. Rows follow outcomes, so it is counted whether all
hold at once: "missed" is the share of studies in which a true loss is outside its interval, "false" that in which a
lever without effect is shown to matter. "shown" is the share of levers with an effect that are shown to matter, and
"before" the same by intervals that hold at any time, which every budget had before. A star marks more than 10 % missed.

Effects are normal, 1 and 3 times the standard error of a difference in a balanced design of as many runs, at 7 of 10
levers; or there are none. Long budgets of few levels are the hardest, because a level that looks far behind by chance
gets few more runs.
"""

import os

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")  # before numpy is loaded

import math
import sys
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from joblib import Parallel, delayed

from levers.algorithms.base import Batch, Problem
from levers.algorithms.cfs.pooled.solver import Pooled
from levers.algorithms.cfs.settings import THIN_RULES
from levers.core.space import Space

MIXED = (3, 4, 2, 3, 2)
KINDS = (
    *((MIXED, 30), (MIXED, 60), (MIXED, 120), ((4,) * 8, 60), ((2,) * 5, 16), ((6, 6), 40)),
    *(((3,), 300), ((3,), 1000), ((3, 2), 1000)),
)
SIZES = (0.0, 1.0, 3.0)


class Found(NamedTuple):
    """What one study shows."""

    missed: bool
    false: bool
    parents: int
    shown: int
    before: int


def study(sizes: tuple[int, ...], n_runs: int, known: bool, size: float, aim: str, seed: int) -> Found:
    """Without fits of interactions, which have no part in this and take most of the time."""
    rng, noise, draw = np.random.default_rng(seed).spawn(3)
    unit = size * math.sqrt(2 * float(np.mean(sizes)) / n_runs)
    effects = [draw.normal(size=m) * unit * (draw.random() < 0.7) for m in sizes]
    problem = Problem(Space.sized(list(sizes)), None, 0.1, 1.0 if known else None)
    solver = Pooled(problem, budget=n_runs, aim=aim, additive=True)
    state = solver.start()
    while isinstance(step := solver.ask(state, rng), Batch):
        means = sum(theta[step.codes[:, k]] for k, theta in enumerate(effects))
        state = solver.tell(state, step, means + noise.normal(size=step.n_runs))
    earlier = replace(solver, rules=THIN_RULES).verdict(state)
    held = [
        span is None or span[0] - 1e-9 <= theta[leader] - theta[j] <= span[1] + 1e-9
        for theta, leader, row in zip(effects, state.leaders, step.intervals, strict=True)
        for j, span in enumerate(row)
    ]
    parents = {name for name, theta in zip(problem.space.names, effects, strict=True) if theta.any()}
    shown, before = set(step.parents or ()), set(earlier.parents or ())
    return Found(not all(held), bool(shown - parents), len(parents), len(shown & parents), len(before & parents))


def main() -> None:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 400
    aim = sys.argv[2] if len(sys.argv) > 2 else "best"
    workers = int(os.environ.get("WORKERS", os.cpu_count() or 1))
    print(
        f"{'levels':>16} {'runs':>5} {'noise':>8} {'effects':>8} {'missed':>7} {'false':>7} {'shown':>6} {'before':>7}"
    )
    for sizes, n_runs in KINDS:
        for known in (True, False):
            for size in SIZES:
                made = Parallel(n_jobs=workers)(
                    delayed(study)(sizes, n_runs, known, size, aim, seed) for seed in range(n)
                )
                missed, false = (sum(part) / n for part in ([f.missed for f in made], [f.false for f in made]))
                parents = max(sum(f.parents for f in made), 1)
                shown, before = (sum(part) / parents for part in ([f.shown for f in made], [f.before for f in made]))
                print(
                    f"{'x'.join(map(str, sizes)):>16} {n_runs:5} {'known' if known else 'unknown':>8} {size:8.0f} "
                    f"{missed:7.1%} {false:7.1%} {shown:6.0%} {before:7.0%} {'*' * (missed > 0.1)}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
