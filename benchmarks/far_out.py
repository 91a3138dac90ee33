"""Budgets where some outcomes are far out: python benchmarks/far_out.py [worlds]

Mean true loss of the setting recommended after n runs, in standard deviations of the outcome over all settings, and its
standard error, in worlds of benchmarks/together.py whose noise has one of three shapes: normal; "spikes", in which 4 %
of the runs are worse by an exponential number with a mean of 8 standard deviations, as times are on a machine that does
other work now and then; and Student's t with 3 degrees of freedom. "before" are the rules that take every outcome as it
was told. Nobody knows the noise.
"""

import os
import sys
import warnings
from functools import partial
from itertools import product

import numpy as np
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits
from together import KINDS, RIVALS, Kind, World, ours

from harness.rivals import BudgetProblem
from levers.algorithms.cfs.settings import STEADY_RULES, TOGETHER_RULES
from levers.core.merging import Merging
from levers.core.model.level_index import Numbers
from levers.core.space import Codes, Space

SHAPES = ("normal", "spikes", "t3")
BUDGETS = (60, 120)
RULES = {"ours": STEADY_RULES, "before": TOGETHER_RULES}
CHOSEN = ("14 x 2, pairs", "8 x 3 or 4, pairs", "14 x 2, effects add up", "8 x 3 or 4, effects add up")


class ShapedWorld(World):
    """A world with noise of a shape."""

    def __init__(self, kind: Kind, seed: int, shape: str) -> None:
        super().__init__(kind, seed)
        self.shape = shape

    def measured(self, codes: Codes, rng: np.random.Generator) -> Numbers:
        """An outcome of every row."""
        n = len(codes)
        noise = rng.standard_t(3, size=n) if self.shape == "t3" else rng.normal(size=n)
        if self.shape == "spikes":
            noise -= np.where(rng.random(n) < 0.04, rng.exponential(8.0, size=n), 0.0)
        return self.mean(codes) + self.kind.noise * noise


def compared(kind: Kind, shape: str, n_runs: int, seed: int) -> dict[str, float]:
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        world = ShapedWorld(kind, seed, shape)
        found = {name: ours(world, n_runs, r, np.random.default_rng([seed, n_runs]))[0] for name, r in RULES.items()}
        problem = BudgetProblem(Merging.of(Space.sized(kind.sizes), ()), None)
        for name, recommend in RIVALS.items():
            rng = np.random.default_rng([seed, n_runs, 1])
            [setting] = recommend(problem, [n_runs], partial(world.measured, rng=rng), rng)
            found[name] = world.best - float(world.mean(setting[None, :])[0])
        return found


def main() -> None:
    n_worlds = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    names = (*RULES, *RIVALS)
    print(f"{'worlds':30} {'noise':8} {'runs':>4} " + " ".join(f"{name:>15}" for name in names))
    kinds = [kind for kind in KINDS if kind.name in CHOSEN]
    for kind, shape, n_runs in product(kinds, SHAPES, BUDGETS):
        tasks = (delayed(compared)(kind, shape, n_runs, seed) for seed in range(n_worlds))
        found = Parallel(n_jobs=os.cpu_count())(tasks)
        cells = []
        for name in names:
            losses = np.array([one[name] for one in found])
            cells.append(f"{losses.mean():8.3f} +- {losses.std(ddof=1) / n_worlds**0.5:.3f}")
        print(f"{kind.name:30} {shape:8} {n_runs:4} {' '.join(cells)}", flush=True)


if __name__ == "__main__":
    main()
