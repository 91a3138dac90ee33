"""What unions of marginal sets save, and cost: python benchmarks/marginal_unions.py [worlds]

MODL keeps a product of levels after each phase (a marginal set). The exact set of assignments whose estimated gap is
below the width is smaller. First table: how much smaller, at the ends of the phases of MODL's own path. Second table:
runs, failures and seconds of studies that keep a union of at most u marginal sets; u = 1 is MODL with the same designs
and numbers of runs as the others, "exact" has as many as it takes. All on random worlds of the paper, noise sd 1,
tolerance 0.5, failure probability 0.1; the last column is the ratio of runs to u = 1, and its standard
error over worlds.
"""

import argparse
import time

import numpy as np

from levers.algorithms.base import Batch, Problem
from levers.algorithms.linear_bandits.unions import MarginalUnions, cover
from levers.experiments.compare import Comparison
from levers.worlds.scm import World, gap

KINDS = ((3, 3, (3, 3)), (3, 1, (3, 3)), (4, 4, (3, 3)), (4, 2, (3, 3)), (3, 3, (4, 4)))
"""Factors, parents and levels of the worlds."""
UNIONS = (1, 2, 3, None)
TOLERANCE, FAILURE_PROB, BOUND = 0.5, 0.1, 5.0


def study(world: World, unions: int | None, seed: int) -> tuple[int, float, float, list[float]]:
    """Runs, gap and seconds of a study, and the sizes of the smallest marginal set by those of the exact one."""
    problem = Problem(world.space, TOLERANCE, FAILURE_PROB, world.outcome.noise_sd)
    method = MarginalUnions(problem, unions=unions, outcome_bound=BOUND)
    noise, rng = np.random.default_rng([seed, 0]), np.random.default_rng([seed, 1])
    began, state, ratios = time.perf_counter(), method.start(), list[float]()
    while isinstance(step := method.ask(state, rng), Batch):
        outcomes = world.outcome.sample(step.codes, noise)
        before, state = state, method.tell(state, step, outcomes)
        if unions == 1 and (state.phase > before.phase or state.finished):
            arms = np.ravel_multi_index(tuple(step.codes.T.astype(np.int64)), world.space.n_levels)
            sums = before.sums + np.bincount(arms, weights=outcomes, minlength=len(before.sums))
            told = type(before)(before.phase, before.alive, before.planned, sums)
            gaps, _, width = method.gaps(told)
            box, exact = (int(cover(gaps, width, n).sum()) for n in (1, None))
            if 1 < box < len(before.sums):  # where something was dropped, and something is left to choose from
                ratios.append(box / exact)
    seconds = time.perf_counter() - began
    return step.n_runs, gap(world, step.assignment.codes), seconds, ratios


def main() -> None:
    parser = argparse.ArgumentParser(description="What unions of marginal sets save in runs and cost in time.")
    parser.add_argument("worlds", nargs="?", type=int, default=30)
    n_worlds = parser.parse_args().worlds
    print(f"{n_worlds} worlds each; sizes of the smallest marginal set by those of the exact surviving set")
    print("  K   P levels  phases   mean   largest   share above 1")
    kept = {}
    for n_factors, n_parents, levels in KINDS:
        plan = Comparison(n_factors, n_parents, levels, outcome_bound=BOUND, make_worlds=False)
        worlds = [plan.world(index) for index in range(n_worlds)]
        found = {u: [study(world, u, seed) for seed, world in enumerate(worlds)] for u in UNIONS}
        kept[n_factors, n_parents, levels] = found
        ratios = np.array([ratio for one in found[1] for ratio in one[3]])
        print(
            f"{n_factors:3} {n_parents:3}    {levels[0]}-{levels[1]} {len(ratios):7} {ratios.mean():6.2f} "
            f"{ratios.max():9.2f} {(ratios > 1).mean():15.2f}",
            flush=True,
        )
    print("\n  K   P levels  unions     runs  failures  seconds   runs to u = 1")
    for (n_factors, n_parents, levels), found in kept.items():
        alone = np.array([one[0] for one in found[1]], dtype=np.float64)
        for u, studies in found.items():
            seconds = np.mean([one[2] for one in studies])
            runs = np.array([one[0] for one in studies], dtype=np.float64)
            failures = sum(one[1] > TOLERANCE for one in studies)
            error = np.std(runs - runs.sum() / alone.sum() * alone, ddof=1) / np.sqrt(n_worlds) / alone.mean()
            print(
                f"{n_factors:3} {n_parents:3}    {levels[0]}-{levels[1]} {u or 'exact':>7} {runs.mean():8.0f} "
                f"{failures:9} {seconds:8.2f} {runs.sum() / alone.sum():9.3f} +- {error:.3f}"
            )


if __name__ == "__main__":
    main()
