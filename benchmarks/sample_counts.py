"""Mean runs on the paper's random worlds: python benchmarks/sample_counts.py (a minute and a half on 2 cores)

Tolerance 0.5, failure probability 0.1, 20 worlds x 5 repeats, seed 0. "target" is what the solver was asked to reach,
"any" what any method needs on these worlds to see that the factors without effect have none (limits.null_bound).
"""

import dataclasses
import os

from harness.hard_worlds import additive_world
from levers.algorithms.base import Problem
from levers.algorithms.cfs.solver import Cfs
from levers.experiments.compare import Comparison, Summary, run_tasks, summarise
from levers.experiments.runner import run_on_world

TARGETS = {(10, 1): (1200, 145), (10, 5): (740, 285), (10, 10): (370, None)}
TARGETS |= {(30, 1): (7000, 225), (30, 10): (4200, 490), (30, 30): (800, None)}


def measure(plan: Comparison) -> Summary:
    [row] = summarise(plan.algorithms, [r for batch in run_tasks(plan, os.cpu_count() or 1) for r in batch])
    return row


def main() -> None:
    print("  K   P  knows P      CFS   target      MODL  ratio necessary      any   failures")
    for (n_factors, n_parents), targets in TARGETS.items():
        for known, target in zip((False, True), targets, strict=True):
            if target is None:
                continue
            plan = Comparison(n_factors=n_factors, n_parents=n_parents, known_parents=known, algorithms=("cfs",))
            row, modl = measure(plan), measure(dataclasses.replace(plan, algorithms=("modl",), n_repeats=1))
            limit = sum(plan.null_bound(plan.world(w)) for w in range(plan.n_worlds)) / plan.n_worlds
            print(
                f"{n_factors:3} {n_parents:3} {known!s:>8} {row.runs_mean:8,.0f} {target:8,} {modl.runs_mean:9,.0f} "
                f"{modl.runs_mean / row.runs_mean:6.1f} {row.over_necessary:9.2f} {limit:8,.0f} "
                f"{row.failures:5} of {row.n}",
                flush=True,
            )
    print("\nwith and without min_effect=0.5, on worlds whose parents satisfy it")
    for n_parents in (1, 10):
        plain = Comparison(n_factors=30, n_parents=n_parents, min_effect=0.5, algorithms=("cfs",), n_repeats=2)
        without, told = measure(plain), measure(dataclasses.replace(plain, known_min_effect=True))
        ratio = without.runs_mean / told.runs_mean
        print(f" 30 {n_parents:3} {without.runs_mean:8,.0f} {told.runs_mean:8,.0f} {ratio:5.1f} times fewer")
    print("\na noise that is not known, over one that is (asked: at most 1.3)")
    for n_factors, n_parents in ((10, 1), (10, 5), (10, 10), (30, 10), (30, 30)):
        given, learned = (mean_runs(n_factors, n_parents, noise_sd) for noise_sd in (1.0, None))
        print(f"{n_factors:3} {n_parents:3} {given:8,.0f} {learned:8,.0f} {learned / given:5.2f}", flush=True)
    given, learned = (flags(noise_sd) for noise_sd in (1.0, None))
    print(f"14 two-level levers, 5 of which matter: {given:,.0f} {learned:,.0f} {learned / given:.2f}")


def mean_runs(n_factors: int, n_parents: int, noise_sd: float | None) -> float:
    """Over 10 worlds x 2 repeats."""
    plan = Comparison(n_factors=n_factors, n_parents=n_parents, algorithms=("cfs",))
    worlds = [plan.world(i) for i in range(10)]
    runs = [
        run_on_world(Cfs(Problem(world.space, 0.5, 0.1, noise_sd)), world, seed).n_runs
        for world in worlds
        for seed in range(2)
    ]
    return sum(runs) / len(runs)


def flags(noise_sd: float | None) -> float:
    """Over 60 studies of compiler flags: on or off, five of them worth 0.8 noise sds."""
    world = additive_world([[0.0, 0.8]] * 5 + [[0.0, 0.0]] * 9)
    runs = [run_on_world(Cfs(Problem(world.space, 0.5, 0.1, noise_sd)), world, seed).n_runs for seed in range(60)]
    return sum(runs) / len(runs)


if __name__ == "__main__":
    main()
