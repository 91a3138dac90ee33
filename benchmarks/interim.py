"""What is certified if a study stops at a look, against one design of as many runs: python benchmarks/interim.py

Studies of the paper's worlds and of the factory line, tolerance as given, failure probability 0.1, noise sd 1. "one
design" is the tolerance that a single balanced design of as many runs certifies with all of the failure probability.
An interim certificate may be read at every look, so it pays for that; dropped levels make up for it. Asked: within 1.3.
"""

import numpy as np

from levers.algorithms.base import Batch, Problem
from levers.algorithms.cfs.solver import Cfs
from levers.core.certificates.certificate import scale_needed
from levers.experiments.compare import Comparison
from levers.worlds.named import factory_line
from levers.worlds.scm import World


def ratios(world: World, tolerance: float, seed: int) -> list[tuple[int, float, float]]:
    """Runs, the interim tolerance, and its ratio to that of one ideal design, at every look of a study."""
    cfs, rng = Cfs(Problem(world.space, tolerance, 0.1, 1.0)), np.random.default_rng(seed)
    scale = scale_needed(tuple(sorted(world.space.n_levels)), 0.1)
    state, found = cfs.start(), []
    while isinstance(step := cfs.ask(state, rng), Batch):
        state = cfs.tell(state, step, world.sample(step.codes, rng).outcomes)
        now = cfs.interim(state)
        if now is not None and not cfs.progress(state).finished:
            found.append((now.n_runs, now.within, now.within * np.sqrt(now.n_runs) / scale))
    return found


def main() -> None:
    kinds = {"factory line": [factory_line()]}
    for n_factors, n_parents in ((10, 1), (10, 5), (10, 10), (30, 1), (30, 10), (30, 30)):
        plan = Comparison(n_factors=n_factors, n_parents=n_parents, algorithms=("cfs",))
        kinds[f"{n_factors} levers, {n_parents} parents"] = [plan.world(i) for i in range(8)]
    print(f"{'worlds':24} {'looks':>6} {'mean ratio':>11} {'largest':>8} {'at runs':>8}   first look: runs, within")
    largest = 0.0
    for name, worlds in kinds.items():
        looks = [found for world in worlds for seed in range(3) for found in ratios(world, 0.5, seed)]
        worst = max(looks, key=lambda look: look[2])
        largest = max(largest, worst[2])
        mean = float(np.mean([look[2] for look in looks]))
        first = looks[0]
        row = f"{name:24} {len(looks):6} {mean:11.2f} {worst[2]:8.2f} {worst[0]:8}"
        print(f"{row}   {first[0]}, {first[1]:.2f}", flush=True)
    print(f"largest ratio {largest:.2f}")


if __name__ == "__main__":
    main()
