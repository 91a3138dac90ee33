"""Budgets where levers work together: python benchmarks/together.py [worlds]

Mean true loss of the setting recommended after n runs, in standard deviations of the outcome over all settings, and its
standard error. Worlds are made of main effects, pairs and triples of normal size among some of the levers; "product" is
the exponential of half of that. The noise, unknown to all, is given in the same standard deviations. "before" are the
rules that add up effects whatever the runs say. "covered" is the share of our studies that chose by a fit with
interactions whose interval of the outcome at their setting holds the truth.
"""

import os
import sys
import warnings
from dataclasses import dataclass
from functools import partial
from itertools import product

import numpy as np
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from harness.rivals import BudgetProblem, thompson_sampling, tree_parzen_estimator
from levers.algorithms.base import Batch, Problem
from levers.algorithms.cfs.pooled.solver import Pooled
from levers.algorithms.cfs.settings import BEST, LATEST_RULES, THIN_RULES
from levers.core.merging import Merging
from levers.core.model.level_index import Numbers
from levers.core.space import Codes, Space

BUDGETS = (60, 120)
RIVALS = {"TPE": tree_parzen_estimator, "Thompson": thompson_sampling}


@dataclass(frozen=True)
class Kind:
    """Worlds of levers with so many levels each, of which the first ones matter, alone, in pairs and in triples."""

    name: str
    sizes: tuple[int, ...]
    n_main: int
    n_pairs: int
    n_triples: int
    noise: float
    is_product: bool = False


KINDS = (
    Kind("14 x 2, pairs, little noise", (2,) * 14, 8, 8, 0, 0.02),
    Kind("14 x 2, pairs", (2,) * 14, 8, 8, 0, 0.3),
    Kind("14 x 2, pairs and triples", (2,) * 14, 8, 6, 4, 0.02),
    Kind("14 x 2, product", (2,) * 14, 8, 3, 0, 0.1, True),
    Kind("8 x 3 or 4, pairs", (3, 4) * 4, 5, 4, 0, 0.3),
    Kind("14 x 2, effects add up", (2,) * 14, 8, 0, 0, 0.7),
    Kind("8 x 3 or 4, effects add up", (3, 4) * 4, 5, 0, 0, 0.7),
)


class World:
    """One of them: a mean outcome for every setting, in standard deviations over all of these."""

    def __init__(self, kind: Kind, seed: int) -> None:
        rng = np.random.default_rng([seed, len(kind.sizes), kind.n_pairs, kind.n_triples])
        self.kind, self.terms = kind, []
        levers = rng.choice(len(kind.sizes), size=kind.n_main, replace=False)
        groups = [(k,) for k in levers]
        groups += [tuple(rng.choice(levers, 2, replace=False)) for _ in range(kind.n_pairs)]
        groups += [tuple(rng.choice(levers, 3, replace=False)) for _ in range(kind.n_triples)]
        for group in groups:
            self.terms.append((group, rng.normal(size=tuple(kind.sizes[k] for k in group))))
        self.scale = 1.0
        every = np.array(list(product(*(range(m) for m in kind.sizes))), dtype=np.int16)
        means = self.mean(every)
        self.scale = float(means.std())
        self.best = float(means.max()) / self.scale

    def mean(self, codes: Codes) -> Numbers:
        """The mean outcome of every row."""
        total = np.zeros(len(codes))
        for group, table in self.terms:
            total += table[tuple(codes[:, k] for k in group)]
        return (np.exp(total / 2) if self.kind.is_product else total) / self.scale

    def measured(self, codes: Codes, rng: np.random.Generator) -> Numbers:
        """An outcome of every row."""
        return self.mean(codes) + self.kind.noise * rng.normal(size=len(codes))


def ours(world: World, n_runs: int, rules: int, rng: np.random.Generator) -> tuple[float, bool | None]:
    """The loss, and whether the interval of the outcome holds the truth; None where effects were added up."""
    problem = Problem(Space.sized(world.kind.sizes), None, 0.1, None)
    solver = Pooled(problem, budget=n_runs, aim=BEST, rules=rules)
    state = solver.start()
    while isinstance(step := solver.ask(state, rng), Batch):
        state = solver.tell(state, step, world.measured(step.codes, rng))
    found = np.array(step.assignment.codes, dtype=np.int16)
    truth = float(world.mean(found[None, :])[0])
    fit = state.prevailing
    if fit is None:
        return world.best - truth, None
    above, variance = fit.difference(found)
    variance += fit.weights.noise_variance / len(fit.runs)
    middle = float(fit.runs.outcomes.mean()) + above
    return world.best - truth, abs(truth - middle) <= 2.58 * variance**0.5


def compared(kind: Kind, n_runs: int, seed: int) -> dict[str, float]:
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        world, found = World(kind, seed), {}
        space = Space.sized(kind.sizes)
        for name, rules in (("ours", LATEST_RULES), ("before", THIN_RULES)):
            loss, covered = ours(world, n_runs, rules, np.random.default_rng([seed, n_runs]))
            found[name] = loss
            if name == "ours":
                found["covered"] = np.nan if covered is None else float(covered)
        for name, recommend in RIVALS.items():
            rng = np.random.default_rng([seed, n_runs, 1])
            problem = BudgetProblem(Merging.of(space, ()), None)
            [setting] = recommend(problem, [n_runs], partial(world.measured, rng=rng), rng)
            found[name] = world.best - float(world.mean(setting[None, :])[0])
        return found


def main() -> None:
    n_worlds = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    names = ("ours", "before", *RIVALS)
    print(f"{'worlds':30} {'runs':>4} " + " ".join(f"{name:>15}" for name in names) + "  together  covered")
    for kind, n_runs in product(KINDS, BUDGETS):
        tasks = (delayed(compared)(kind, n_runs, seed) for seed in range(n_worlds))
        found = Parallel(n_jobs=os.cpu_count())(tasks)
        cells = []
        for name in names:
            losses = np.array([one[name] for one in found])
            cells.append(f"{losses.mean():8.3f} +- {losses.std(ddof=1) / n_worlds**0.5:.3f}")
        held = np.array([one["covered"] for one in found])
        held = held[~np.isnan(held)]
        share = f"{held.mean():8.2f}" if len(held) else f"{'-':>8}"
        print(f"{kind.name:30} {n_runs:4} {' '.join(cells)} {len(held) / n_worlds:9.2f} {share}", flush=True)


if __name__ == "__main__":
    main()
